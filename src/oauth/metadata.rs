//! What clients read first: RFC 9728 about the resource, RFC 8414 about this server.
//!
//! The issuer is the origin and has no path, so that clients of 2025-03-26, which know neither document's path suffix nor the
//! resource's document, find everything at the root.

use serde_json::json;

use crate::domain::scope::{Scope, Scopes};
use crate::domain::token;
use crate::http::message::Response;
use crate::store::clients::AuthMethod;

/// About the resource. It names the scopes that a client needs for ordinary use; a client that asks for all of them must not
/// end up with the owner's powers.
pub fn of_resource(origin: &str) -> Response {
    let usual: Vec<&str> = Scopes::USUAL.iter().map(Scope::name).collect();
    let metadata = json!({
        "resource": token::resource(origin),
        "resource_name": "taskhub",
        "authorization_servers": [origin],
        "scopes_supported": usual,
        "bearer_methods_supported": ["header"],
    });
    Response::json(200, &metadata)
}

/// About this server.
pub fn of_server(origin: &str) -> Response {
    let scopes: Vec<&str> = Scope::ALL.iter().map(|scope| scope.name()).chain(["offline_access"]).collect();
    let methods = AuthMethod::ALL.map(AuthMethod::name);
    let metadata = json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": format!("{origin}/register"),
        "revocation_endpoint": format!("{origin}/revoke"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
        "scopes_supported": scopes,
        "authorization_response_iss_parameter_supported": true,
        "client_id_metadata_document_supported": true,
    });
    Response::json(200, &metadata)
}
