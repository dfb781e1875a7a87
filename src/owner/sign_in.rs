//! Clients, grants and the passphrase: `/api/clients`, `/api/grants`, `/api/passphrase`.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::domain::scope::Scope;
use crate::http::auth;
use crate::http::body;
use crate::http::message::{Request, Response};
use crate::http::problem::{Problem, bad_request, storage_failed};
use crate::hub::{self, Hub, PassphraseRejected, SignIn};
use crate::store::clients::ClientRow;
use crate::store::grants::GrantRow;

/// Body of `PUT /api/passphrase`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PassphraseBody {
    current: Option<String>,
    new: String,
    #[serde(default)]
    sign_out: bool,
}

pub(super) fn clients(hub: &Hub<'_>) -> Result<Response, Problem> {
    let clients = hub::list_clients(hub).map_err(|error| storage_failed(error.failure()))?;
    let clients: Vec<Json> = clients.iter().map(client).collect();
    Ok(Response::json(200, &json!({ "clients": clients })))
}

fn client(client: &ClientRow) -> Json {
    json!({
        "id": client.id,
        "kind": client.kind.name(),
        "name": client.name,
        "uri": client.uri,
        "redirect_uris": client.redirect_uris,
        "auth_method": client.auth_method.name(),
        "created_at": client.created_at,
        "approved_at": client.used_at,
    })
}

pub(super) fn delete_client(hub: &Hub<'_>, id: &str) -> Result<Response, Problem> {
    match hub::delete_client(hub, id).map_err(|error| storage_failed(error.failure()))? {
        Some(revoked) => Ok(Response::json(200, &json!({ "deleted": true, "id": id, "grants_revoked": revoked }))),
        None => {
            let detail = "There is no client of this id. GET /api/clients lists them; an id that is an address must be \
                          percent-encoded.";
            Err(Problem::new(404, "client_not_found", "Client not found", detail))
        }
    }
}

pub(super) fn grants(hub: &Hub<'_>) -> Result<Response, Problem> {
    let grants = hub::list_grants(hub).map_err(|error| storage_failed(error.failure()))?;
    let grants: Vec<Json> = grants.iter().map(|row| grant(row, hub.now())).collect();
    Ok(Response::json(200, &json!({ "grants": grants })))
}

fn grant(grant: &GrantRow, now: i64) -> Json {
    let scopes: Vec<&str> = grant.scopes.iter().map(Scope::name).collect();
    json!({
        "id": grant.id,
        "client_id": grant.client_id,
        "client_name": grant.client_name,
        "scopes": scopes,
        "executor": grant.executor,
        "approved_from": grant.approved_from,
        "created_at": grant.created_at,
        "last_refreshed_at": grant.rotated_at,
        "expires_at": grant.expires_at,
        "active": hub::is_alive(grant, now),
        "revoked_at": grant.revoked.map(|(at, _)| at),
        "revoked_because": grant.revoked.map(|(_, why)| why.name()),
    })
}

pub(super) fn revoke_grants(hub: &Hub<'_>) -> Result<Response, Problem> {
    let revoked = hub::revoke_all_grants(hub).map_err(|error| storage_failed(error.failure()))?;
    Ok(Response::json(200, &json!({ "grants_revoked": revoked })))
}

pub(super) fn revoke_grant(hub: &Hub<'_>, id: &str) -> Result<Response, Problem> {
    if hub::revoke_grant(hub, id).map_err(|error| storage_failed(error.failure()))? {
        return Ok(Response::json(200, &json!({ "revoked": true, "id": id })));
    }
    let detail = "There is no active grant of this id. GET /api/grants lists them.";
    Err(Problem::new(404, "grant_not_found", "Grant not found", detail))
}

/// Whoever has the `OWNER_TOKEN` need not know the passphrase; a client with `hub:admin` must send it, so that a stolen
/// access token cannot take the hub over.
pub(super) fn change_passphrase(hub: &Hub<'_>, request: &Request) -> Result<Response, Problem> {
    let body: PassphraseBody = body::typed(&body::json(request)?)?;
    let by_owner_token = auth::bearer(request).is_some_and(|token| auth::is_owner_token(token, hub.settings()));
    if !by_owner_token {
        let current = body.current.ok_or_else(|| bad_request("Send the present passphrase as current."))?;
        match hub::sign_in(hub, &current, &request.client_address()).map_err(|error| storage_failed(error.failure()))? {
            SignIn::Right => {}
            SignIn::Wrong { left } => {
                let detail = format!("current is not the present passphrase; {left} tries are left for now.");
                return Err(Problem::new(403, "wrong_passphrase", "Wrong passphrase", detail));
            }
            SignIn::Limited { retry_after_seconds } => {
                let detail = "There were too many wrong passphrases; try again later, or with the OWNER_TOKEN.";
                let problem = Problem::new(429, "too_many_tries", "Too many tries", detail);
                return Err(problem.retry_after(retry_after_seconds));
            }
            SignIn::NotSet => {
                let detail = "This hub has no passphrase yet; set the first one with the OWNER_TOKEN.";
                return Err(Problem::new(403, "wrong_passphrase", "Wrong passphrase", detail));
            }
        }
    }
    match hub::change_passphrase(hub, &body.new, body.sign_out) {
        Ok(revoked) => Ok(Response::json(200, &json!({ "changed": true, "grants_revoked": revoked }))),
        Err(PassphraseRejected::Invalid(why)) => Err(bad_request(format!("The new passphrase {why}."))),
        Err(PassphraseRejected::Database(error)) => Err(storage_failed(error.failure())),
    }
}
