//! The OAuth 2.1 authorization server for one owner (design §6), on the same object as the resource that it guards.
//!
//! Reading order: `metadata` (what clients find first), `client` (who asks: registered, or known by a document), `redirect`
//! and `resource` (where to, and for what), `authorize` with `consent` and `page` (the owner decides), `token` and `revoke`.
//!
//! Invariants: PKCE with S256 always; a browser is sent only to an address that the client is known by; nothing is granted
//! without the owner's passphrase; every answer to a client is JSON. It refuses to know SQL, and how credentials are made and
//! kept: `hub::grants` does.
//!
//! | clause | what | held by the test |
//! |---|---|---|

mod authorize;
mod client;
mod consent;
mod error;
mod form;
mod metadata;
mod page;
pub mod redirect;
mod register;
pub mod resource;
mod token;

use crate::http::message::{Outcome, Request};
use crate::http::problem::not_found;
use crate::http::route::Route;
use crate::hub::Hub;

/// Answers one request of a client or of the browser that it sent here.
pub fn handle(hub: &Hub<'_>, request: &Request, route: &Route) -> Outcome {
    Outcome::Reply(match route {
        Route::Authorize => return consent::handle(hub, request),
        Route::ResourceMetadata => metadata::of_resource(hub.origin()),
        Route::ServerMetadata => metadata::of_server(hub.origin()),
        Route::Token => token::handle(hub, request),
        Route::Register => register::handle(hub, request),
        Route::Revoke => token::revoke(hub, request),
        _ => not_found().response(),
    })
}
