//! OAuth clients: those that register, and those that are known by a document.
//!
//! A client that was never approved is forgotten after a while, and only so many of them are kept; one that was approved
//! stays, because clients replay their id for as long as they live.

use super::Hub;
use crate::domain::limits::{CLIENT_DOCUMENT_FRESH_MS, CLIENTS_READ_MAX, SIGN_IN_KEPT_MS, UNUSED_CLIENTS_MAX};
use crate::domain::token;
use crate::store::clients::{self, AuthMethod, ClientKind, ClientRow};
use crate::store::database::DatabaseError;
use crate::store::grants;

/// What a client says of itself, already checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientMetadata {
    /// What it calls itself.
    pub name: Option<String>,
    /// Its home page.
    pub uri: Option<String>,
    /// Where the owner may be sent back to; at least one.
    pub redirect_uris: Vec<String>,
    /// How it proves itself.
    pub auth_method: AuthMethod,
}

/// A client as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownClient {
    /// The client.
    pub row: ClientRow,
    /// Whether its document should be read anew.
    pub is_stale: bool,
}

/// Takes a registration in.
pub fn register_client(hub: &Hub<'_>, metadata: &ClientMetadata) -> Result<ClientRow, DatabaseError> {
    let id = token::client_id(metadata.name.as_deref(), hub.random());
    let client = row(hub, &id, ClientKind::Registered, metadata);
    hub.command(|_| clients::upsert(hub.db, &client, UNUSED_CLIENTS_MAX))?;
    Ok(client)
}

/// Keeps what the document at this address says.
pub fn keep_document(hub: &Hub<'_>, address: &str, metadata: &ClientMetadata) -> Result<ClientRow, DatabaseError> {
    let client = row(hub, address, ClientKind::Document, metadata);
    hub.command(|_| clients::upsert(hub.db, &client, UNUSED_CLIENTS_MAX))?;
    Ok(client)
}

fn row(hub: &Hub<'_>, id: &str, kind: ClientKind, metadata: &ClientMetadata) -> ClientRow {
    ClientRow {
        id: id.to_owned(),
        kind,
        name: metadata.name.clone(),
        uri: metadata.uri.clone(),
        redirect_uris: metadata.redirect_uris.clone(),
        auth_method: metadata.auth_method,
        created_at: hub.now,
        fetched_at: (kind == ClientKind::Document).then_some(hub.now),
        used_at: None,
    }
}

/// The client of this id, if it is known. One that was never approved is not known any more after its time.
pub fn find_client(hub: &Hub<'_>, id: &str) -> Result<Option<KnownClient>, DatabaseError> {
    let found = clients::by_id(hub.db, id)?;
    let alive = |client: &ClientRow| client.used_at.is_some() || hub.now < client.created_at + SIGN_IN_KEPT_MS;
    Ok(found.filter(alive).map(|row| {
        let is_stale = row.fetched_at.is_some_and(|at| hub.now >= at + CLIENT_DOCUMENT_FRESH_MS);
        KnownClient { row, is_stale }
    }))
}

/// All clients by id.
pub fn list_clients(hub: &Hub<'_>) -> Result<Vec<ClientRow>, DatabaseError> {
    clients::all(hub.db, CLIENTS_READ_MAX)
}

/// Forgets a client and ends all that it was granted. Returns how many grants that ended, or `None` if there is no such
/// client and never was.
pub fn delete_client(hub: &Hub<'_>, id: &str) -> Result<Option<usize>, DatabaseError> {
    hub.command(|_| {
        let was_there = clients::delete(hub.db, id)?;
        let ended = grants::revoke_of_client(hub.db, id, hub.now)?;
        Ok((was_there || ended > 0).then_some(ended))
    })
}
