//! The OAuth 2.1 authorization server for one owner (design §6), on the same object as the resource that it guards.
//!
//! Reading order: `metadata` (what clients find first), `client` (who asks: registered, or known by a document), `redirect`
//! and `resource` (where to, and for what), `authorize` with `consent` and `page` (the owner decides), `token` and `revoke`.
//!
//! Invariants: PKCE with S256 always; a browser is sent only to an address that the client is known by; nothing is granted
//! without the owner's passphrase; every answer to a client is JSON. It refuses to know SQL, and how credentials are made and
//! kept: `hub::grants` does.
//!
//! Tests stand under `tests/suite/`; `docs/oauth.md` has a table of what real clients need.
//!
//! | clause | what | held by the test |
//! |---|---|---|
//! | RFC 6749 §3.1 | a parameter that comes twice is an error; an empty one is left out | `oauth/authorize.rs::what_means_nothing_or_is_empty_is_ignored` |
//! | RFC 6749 §2.3 | a client proves itself in one way | `oauth/authentication.rs::two_proofs_at_once_are_refused` |
//! | RFC 6749 §2.3.1 | HTTP Basic, form-encoded inside | `oauth/authentication.rs::the_header_is_form_encoded_inside` |
//! | RFC 6749 §4.1.2 | a code twice: refused, and what came of it ends | `oauth/codes.rs::a_code_that_is_used_again_ends_what_came_of_it` |
//! | RFC 6749 §4.1.2.1 | an unknown client or redirect: a page, no redirect | `oauth/authorize.rs::what_is_wrong_before_the_redirect_address_is_known_is_told_on_a_page` |
//! | RFC 6749 §4.1.2.1 | other errors by redirect, with the state | `oauth/authorize.rs::what_is_wrong_after_that_is_told_to_the_client` |
//! | RFC 6749 §5.1 | tokens, their time and scope; no cache | `oauth/codes.rs::a_code_brings_tokens` |
//! | RFC 6749 §5.2 | 401 names the scheme that was used | `oauth/authentication.rs::an_unknown_client_is_told_to_register_anew` |
//! | RFC 6749 §6 | a refresh keeps to the scopes of the grant | `oauth/refresh.rs::a_refresh_neither_adds_nor_fails_on_scopes` |
//! | RFC 6749 §10.12 | the consent is tied to the browser that was shown it | `oauth/consent.rs::a_forged_form_grants_nothing` |
//! | RFC 6749 §10.13 | no framing | `oauth/consent.rs::the_page_cannot_be_framed_scripted_or_kept` |
//! | RFC 9700 §2.1 | redirect addresses compared to the letter | `oauth/redirects.rs::on_loopback_the_port_and_the_name_do_not_count` |
//! | RFC 6749 §3.2 | forms only, parameters never in the address | `oauth/codes.rs::a_code_in_the_address_does_not_count` |
//! | RFC 6749 §4.1.3 | the code's client, redirect and verifier | `oauth/codes.rs::a_wrong_exchange_does_not_use_the_code_up` |
//! | RFC 9700 §2.2.2, §4.14 | refresh tokens of public clients rotate | `oauth/refresh.rs::rotation_follows_its_rules` |
//! | RFC 9700 §4.4 | mix-up: the issuer tells | `oauth/codes.rs::a_mix_up_shows_by_the_issuer` |
//! | RFC 9700 §4.8 | no PKCE downgrade | `oauth/authorize.rs::there_is_no_way_around_pkce` |
//! | RFC 9700 §4.11 | no redirect to an address that is not the client's | `oauth/redirects.rs::there_is_no_open_redirect` |
//! | RFC 9700 §4.12 | 303 after the form | `oauth/consent.rs::the_browser_leaves_the_page_by_303` |
//! | RFC 7636 §4.3, §4.4.1 | a challenge always, S256 only | `oauth/authorize.rs::there_is_no_way_around_pkce` |
//! | RFC 7636 §4.6 | the verifier fits | `oauth/codes.rs::an_injected_code_brings_nothing` |
//! | RFC 8707 §2 | every `resource` is this one, or `invalid_target` | `oauth/resources.rs::another_resource_is_refused_at_every_step` |
//! | RFC 8707 §2.2 | tokens are for one audience | `oauth/bearer.rs::a_token_for_another_audience_is_refused_at_the_edge` |
//! | RFC 9207 §2 | `iss` with codes and with errors | `oauth/authorize.rs::state_and_issuer_come_back_with_a_code_and_with_a_refusal` |
//! | RFC 9207 §3 | advertised, and equal to the metadata's issuer | `oauth/codes.rs::a_mix_up_shows_by_the_issuer` |
//! | RFC 8414 §2, §3 | the server's metadata | `oauth/metadata.rs::the_servers_metadata_are_complete` |
//! | RFC 9728 §2, §3 | the resource's metadata, at both addresses | `oauth/metadata.rs::the_resource_names_itself_and_its_server` |
//! | RFC 9728 §5.1 | a challenge says where they are | `oauth/bearer.rs::who_sends_no_token_is_told_where_to_begin` |
//! | RFC 7591 §2 | defaults; what cannot be met is refused | `oauth/registration.rs::metadata_that_cannot_be_met_are_refused` |
//! | RFC 7591 §3.2.1 | all that was registered comes back, a secret with its expiry | `oauth/registration.rs::a_client_that_names_no_method_gets_a_secret` |
//! | RFC 7591 §5 | registrations are limited | `oauth/registration.rs::registrations_are_limited_by_address_and_in_total` |
//! | RFC 7009 §2.1 | either token ends the grant; only its client's | `oauth/revocation.rs::a_client_gives_back_either_token` |
//! | RFC 7009 §2.2 | what is no token counts as given back | `oauth/revocation.rs::what_is_no_token_counts_as_given_back` |
//! | RFC 8252 §7.3 | the port on loopback does not count | `oauth/redirects.rs::the_browser_goes_to_the_port_that_was_asked_for` |
//! | RFC 6750 §2 | a bearer comes in its header only | `oauth/bearer.rs::a_token_in_the_address_is_no_token` |
//! | RFC 6750 §3 | no error where no token was sent; `invalid_token` else | `oauth/bearer.rs::junk_is_refused_at_the_edge` |
//! | RFC 6750 §3.1 | `insufficient_scope` with all that is needed | `oauth/bearer.rs::the_list_shows_what_may_be_called_and_a_call_of_the_rest_is_forbidden` |
//! | CIMD-01 §3 | the id is an https address in its normal form | `oauth/documents.rs::an_id_that_is_no_proper_address_is_refused_unread` |
//! | CIMD-01 §4.1 | the document names its own address | `oauth/documents.rs::a_document_must_name_its_own_address_to_the_letter` |
//! | CIMD-01 §4.1 | no secrets in it | `oauth/documents.rs::a_document_that_cannot_be_believed_is_told_on_a_page` |
//! | CIMD-01 §4.3, §4.4 | kept for a while; errors are not | `oauth/documents.rs::a_document_is_taken_for_a_day_and_then_read_again` |
//! | CIMD-01 §6.5 | no special-use addresses | `oauth/documents.rs::no_spelling_of_a_private_address_is_read` |
//! | CIMD-01 §6.6 | bounded in bytes and time | `oauth/documents.rs::reading_is_bounded_in_bytes_and_time` |

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
        _ => not_found(&request.path).response(),
    })
}
