//! What the owner grants to clients: codes, access tokens and refresh tokens.
//!
//! One consent is one row. Its handle is in every credential that comes of it, and the row knows the handle's hash only.
//!
//! Refresh tokens rotate: each use makes the next generation. An answer may be lost, and several processes may hold the same
//! token, so its use is idempotent: the predecessor of a token that was never used gives the same token again, and so
//! does an older one for a while after its successor's first use. After that, a replay means that somebody has a copy: the
//! whole grant ends, and the owner is told.
//!
//! Invariants: the row is asked at every request, so what was ended stops at once; a code is exchanged once, and a second
//! try ends what came of the first.

use super::{Hub, notices};
use crate::domain::limits::{CODE_MS, GRANTS_MAX, REFRESH_GRACE_MS, REPLAY_TOLD_MS, SIGN_IN_KEPT_MS};
use crate::domain::scope::{Scope, Scopes};
use crate::domain::secret::{equal, sha256_base64url};
use crate::domain::token::{self, Handle};
use crate::store::clients::{self, ClientRow};
use crate::store::database::DatabaseError;
use crate::store::executors;
use crate::store::grants::{self, GrantRow, Revocation};

/// Replays that the owner is told of at a time.
const REPLAYS_TOLD_MAX: usize = 5;

/// What the owner consents to.
#[derive(Clone, Debug)]
pub struct Consent<'c> {
    /// To which client.
    pub client: &'c ClientRow,
    /// Where the code goes.
    pub redirect_uri: &'c str,
    /// SHA-256 of the verifier, in base64url.
    pub code_challenge: &'c str,
    /// What it may do.
    pub scopes: Scopes,
    /// As which executor; given exactly if the scopes name `tasks:execute`.
    pub executor: Option<&'c str>,
    /// From which address the owner says so.
    pub address: &'c str,
}

/// Why nothing was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsentRejected {
    /// No scope is left.
    NoScope,
    /// `tasks:execute` without an executor, or with one that is not there.
    NoExecutor,
    /// There are as many grants as there may be.
    TooMany,
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for ConsentRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// What a client gets.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    /// The access token.
    pub access: String,
    /// How long it lives, in seconds.
    pub expires_in: i64,
    /// The refresh token.
    pub refresh: String,
    /// What they are good for.
    pub scopes: Scopes,
}

/// Why a client got no tokens. The wire says `invalid_grant` for all but the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenRejected {
    /// Not a credential of this hub.
    Junk,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
    /// It was issued to another client.
    OtherClient,
    /// The code was sent to another address.
    OtherRedirect,
    /// The verifier does not fit the challenge.
    WrongVerifier,
    /// It was used before; the grant has ended.
    Replayed,
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for TokenRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// A client's exchange of its code.
#[derive(Clone, Copy)]
pub struct Exchange<'e> {
    /// The code.
    pub code: &'e str,
    /// The client that brings it.
    pub client_id: &'e str,
    /// Where it says that the code was sent to; OAuth 2.1 does without.
    pub redirect_uri: Option<&'e str>,
    /// The verifier.
    pub verifier: &'e str,
}

/// A client with a valid access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The grant.
    pub grant_id: String,
    /// The client.
    pub client_id: String,
    /// What it may do.
    pub scopes: Scopes,
    /// As which executor, if that is still there.
    pub executor: Option<String>,
}

/// The owner consents. Returns the code. That it is the owner was checked before.
pub fn consent(hub: &Hub<'_>, input: &Consent<'_>) -> Result<String, ConsentRejected> {
    if input.scopes.is_empty() {
        return Err(ConsentRejected::NoScope);
    }
    let handle = Handle::new(hub.random());
    hub.command(|_| {
        let executor = input.executor.map(|name| executors::by_name(hub.db, name)).transpose()?.flatten();
        if executor.is_some() != input.scopes.names(Scope::TasksExecute) {
            return Err(ConsentRejected::NoExecutor);
        }
        if grants::count(hub.db, GRANTS_MAX)? >= GRANTS_MAX {
            grants::delete_old(hub.db, hub.now)?;
            if grants::count(hub.db, GRANTS_MAX)? >= GRANTS_MAX {
                return Err(ConsentRejected::TooMany);
            }
        }
        grants::insert(hub.db, &row(hub, input, &handle))?;
        clients::used(hub.db, &input.client.id, hub.now)?;
        Ok(token::code(&hub.settings.hub_secret, &handle))
    })
}

fn row(hub: &Hub<'_>, input: &Consent<'_>, handle: &Handle) -> GrantRow {
    GrantRow {
        id: handle.grant_id(),
        client_id: input.client.id.clone(),
        client_name: input.client.name.clone(),
        scopes: input.scopes,
        executor: input.executor.map(str::to_owned),
        redirect_uri: input.redirect_uri.to_owned(),
        code_challenge: input.code_challenge.to_owned(),
        approved_from: input.address.to_owned(),
        created_at: hub.now,
        code_expires_at: hub.now + CODE_MS,
        exchanged_at: None,
        generation: 0,
        rotated_at: None,
        expires_at: hub.now + CODE_MS,
        revoked: None,
    }
}

/// A client exchanges its code for tokens.
pub fn exchange(hub: &Hub<'_>, input: &Exchange<'_>) -> Result<Tokens, TokenRejected> {
    let handle = token::read_code(&hub.settings.hub_secret, input.code).ok_or(TokenRejected::Junk)?;
    hub.command(|effects| {
        let grant = grants::by_id(hub.db, &handle.grant_id())?.ok_or(TokenRejected::Expired)?;
        if grant.exchanged_at.is_some() {
            grants::revoke(hub.db, &grant.id, hub.now, Revocation::CodeReplayed)?;
            if grant.revoked.is_none() {
                notices::tell(hub, effects, &notices::replayed(grant_name(&grant)))?;
            }
            return Ok(Err(TokenRejected::Replayed));
        }
        let refused = if grant.revoked.is_some() {
            Some(TokenRejected::Revoked)
        } else if hub.now >= grant.code_expires_at {
            Some(TokenRejected::Expired)
        } else if grant.client_id != input.client_id {
            Some(TokenRejected::OtherClient)
        } else if input.redirect_uri.is_some_and(|given| given != grant.redirect_uri) {
            Some(TokenRejected::OtherRedirect)
        } else if !equal(&sha256_base64url(input.verifier), &grant.code_challenge) {
            Some(TokenRejected::WrongVerifier)
        } else {
            None
        };
        match refused {
            Some(refused) => Err(refused),
            None => next_generation(hub, &grant, &handle).map(Ok),
        }
    })?
}

/// A client uses its refresh token.
pub fn refresh(hub: &Hub<'_>, client_id: &str, text: &str) -> Result<Tokens, TokenRejected> {
    let (handle, used) = token::read_refresh(&hub.settings.hub_secret, text).ok_or(TokenRejected::Junk)?;
    hub.command(|effects| {
        let grant = grants::by_id(hub.db, &handle.grant_id())?.ok_or(TokenRejected::Expired)?;
        if grant.client_id != client_id {
            return Err(TokenRejected::OtherClient);
        }
        if grant.revoked.is_some() {
            return Err(TokenRejected::Revoked);
        }
        if hub.now >= grant.expires_at {
            return Err(TokenRejected::Expired);
        }
        // How many generations have been made of it since.
        let since = grant.generation.checked_sub(used).ok_or(TokenRejected::Junk)?;
        let is_graceful = grant.rotated_at.is_some_and(|at| hub.now <= at + REFRESH_GRACE_MS);
        match since {
            0 => next_generation(hub, &grant, &handle).map(Ok),
            1 => Ok(Ok(tokens(hub, &grant, &handle, used + 1))),
            2 if is_graceful => Ok(Ok(tokens(hub, &grant, &handle, used + 1))),
            _ => {
                grants::revoke(hub.db, &grant.id, hub.now, Revocation::RefreshReplayed)?;
                notices::tell(hub, effects, &notices::replayed(grant_name(&grant)))?;
                Ok(Err(TokenRejected::Replayed))
            }
        }
    })?
}

/// What the client calls itself.
fn grant_name(grant: &GrantRow) -> &str {
    grant.client_name.as_deref().unwrap_or(&grant.client_id)
}

fn next_generation(hub: &Hub<'_>, grant: &GrantRow, handle: &Handle) -> Result<Tokens, TokenRejected> {
    let expires_at = hub.now + hub.settings.refresh_token_ms;
    if !grants::rotate(hub.db, &grant.id, grant.generation, hub.now, expires_at)? {
        return Err(TokenRejected::Revoked);
    }
    Ok(tokens(hub, grant, handle, grant.generation + 1))
}

fn tokens(hub: &Hub<'_>, grant: &GrantRow, handle: &Handle, generation: u32) -> Tokens {
    let secret = &hub.settings.hub_secret;
    let expires_in = hub.settings.access_token_ms.min(hub.settings.refresh_token_ms) / 1000;
    let expires_at = hub.now / 1000 + expires_in;
    Tokens {
        access: token::access(secret, &token::resource(&hub.origin), handle, expires_at),
        expires_in,
        refresh: token::refresh(secret, handle, generation),
        scopes: grant.scopes,
    }
}

/// Whom an access token belongs to, if it is valid now.
pub fn granted(hub: &Hub<'_>, text: &str) -> Result<Option<Granted>, DatabaseError> {
    let audience = token::resource(&hub.origin);
    let Ok(handle) = token::read_access(&hub.settings.hub_secret, &audience, text, hub.now) else { return Ok(None) };
    let Some(grant) = grants::by_id(hub.db, &handle.grant_id())?.filter(|grant| is_alive(grant, hub.now)) else {
        return Ok(None);
    };
    let executor = grant.executor.map(|name| executors::by_name(hub.db, &name)).transpose()?.flatten();
    Ok(Some(Granted {
        grant_id: grant.id,
        client_id: grant.client_id,
        scopes: grant.scopes,
        // A later executor of the same name is another one.
        executor: executor.filter(|executor| executor.created_at <= grant.created_at).map(|executor| executor.name),
    }))
}

/// A client gives a token back: its whole grant ends. `false`: the token is another client's. What is not a token, or is no
/// more, counts as given back (RFC 7009).
pub fn give_back(hub: &Hub<'_>, client_id: Option<&str>, text: &str) -> Result<bool, DatabaseError> {
    let secret = &hub.settings.hub_secret;
    let audience = token::resource(&hub.origin);
    let handle = token::read_refresh(secret, text)
        .map(|(handle, _)| handle)
        .or_else(|| token::read_access(secret, &audience, text, hub.now).ok());
    let Some(handle) = handle else { return Ok(true) };
    hub.command(|_| {
        let Some(grant) = grants::by_id(hub.db, &handle.grant_id())? else { return Ok(true) };
        if client_id.is_some_and(|id| id != grant.client_id) {
            return Ok(false);
        }
        grants::revoke(hub.db, &grant.id, hub.now, Revocation::Client)?;
        Ok(true)
    })
}

/// All grants that are alive or ended lately.
pub fn list_grants(hub: &Hub<'_>) -> Result<Vec<GrantRow>, DatabaseError> {
    grants::all(hub.db, GRANTS_MAX)
}

/// Whether a grant is alive: exchanged, not revoked, not expired.
pub fn is_alive(grant: &GrantRow, now: i64) -> bool {
    grant.revoked.is_none() && grant.generation > 0 && now < grant.expires_at
}

/// The owner ends a grant. `false`: there is none of this id that is not ended.
pub fn revoke_grant(hub: &Hub<'_>, id: &str) -> Result<bool, DatabaseError> {
    hub.command(|_| grants::revoke(hub.db, id, hub.now, Revocation::Owner))
}

/// The owner ends every grant. Returns how many.
pub fn revoke_all_grants(hub: &Hub<'_>) -> Result<usize, DatabaseError> {
    hub.command(|_| end_all(hub))
}

pub(super) fn end_all(hub: &Hub<'_>) -> Result<usize, DatabaseError> {
    grants::revoke_all(hub.db, hub.now)
}

/// Grants that ended lately because somebody used a copy of a credential; the owner should know.
pub fn replayed_grants(hub: &Hub<'_>) -> Result<Vec<GrantRow>, DatabaseError> {
    grants::replayed(hub.db, hub.now - REPLAY_TOLD_MS, REPLAYS_TOLD_MAX)
}

/// Forgets grants, clients and tries whose time is over.
pub fn purge_sign_in(hub: &Hub<'_>) -> Result<(), DatabaseError> {
    hub.command(|_| {
        grants::delete_old(hub.db, hub.now - SIGN_IN_KEPT_MS)?;
        clients::delete_unused(hub.db, hub.now - SIGN_IN_KEPT_MS)?;
        super::throttle::purge(hub)
    })
}
