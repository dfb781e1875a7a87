//! Paths and methods, once, for the front and the object alike.

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `GET /healthz`
    Health,
    /// `GET /.well-known/oauth-protected-resource` and `…/mcp`
    ResourceMetadata,
    /// `GET /.well-known/oauth-authorization-server`, with and without `/mcp`
    ServerMetadata,
    /// `GET` and `POST /authorize`
    Authorize,
    /// `POST /token`
    Token,
    /// `POST /register`
    Register,
    /// `POST /revoke`
    Revoke,
    /// `GET` and `POST /act/{token}`
    Act(String),
    /// `POST /mcp`
    Mcp,
    /// `POST /executor/…`
    Executor(ExecutorCall),
    /// `PUT /executor/attachment`, an upload
    Attach,
    /// `GET /executor/attachment`
    AttemptFiles,
    /// `GET /files/{id}/{name}`
    Download(String),
    /// `PUT /files/{id}`, an upload
    Upload(String),
    /// `POST /executor/enroll`
    Enroll,
    /// `GET /kit/{file}`
    Kit(KitFile),
    /// `GET /executor/listen`, a WebSocket
    Listen,
    /// `GET /api/events`, a WebSocket
    Events,
    /// `GET /api/executors`
    ListExecutors,
    /// `POST /api/executors`
    CreateExecutor,
    /// `PATCH /api/executors/{name}`
    ChangeExecutor(String),
    /// `DELETE /api/executors/{name}`
    DeleteExecutor(String),
    /// `GET /api/executors/{name}/keys`
    ListKeys(String),
    /// `POST /api/executors/{name}/enroll`
    EnrollExecutor(String),
    /// `POST /api/executors/{name}/keys`
    RotateKey(String),
    /// `DELETE /api/executors/{name}/keys/{id}`
    RevokeKey(String, String),
    /// `GET /api/tasks/{id}`
    GetTask(String),
    /// `POST /api/tasks/{id}/approve`
    ApproveTask(String),
    /// `POST /api/tasks/{id}/deny`
    DenyTask(String),
    /// `GET /api/clients`
    ListClients,
    /// `DELETE /api/clients/{id}`, the id percent-encoded
    DeleteClient(String),
    /// `GET /api/grants`
    ListGrants,
    /// `DELETE /api/grants`
    RevokeGrants,
    /// `DELETE /api/grants/{id}`
    RevokeGrant(String),
    /// `GET /api/outbox`
    ListOutbox,
    /// `POST /api/outbox/{id}/retry`
    RetryMessage(String),
    /// `DELETE /api/outbox/{id}`
    DiscardMessage(String),
    /// `GET /api/callbacks/secret`
    CallbackSecret,
    /// `PUT /api/passphrase`
    ChangePassphrase,
    /// `POST /api/notify/test`
    TestNotice,
}

/// The calls of the executor API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorCall {
    /// `claim`
    Claim,
    /// `heartbeat`
    Heartbeat,
    /// `result`
    Result,
    /// `defer`
    Defer,
    /// `release`
    Release,
    /// `action`
    Action,
    /// `ping`
    Ping,
}

/// What a machine downloads to become an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KitFile {
    /// `install.sh`
    Installer,
    /// `relay.py`
    Relay,
    /// `SKILL.md`
    Skill,
    /// `SHA256SUMS`
    Sums,
}

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Whoever asks.
    Anyone,
    /// Whoever has a signed link of a notice.
    Link,
    /// Whoever has a signed link to the file.
    FileLink,
    /// Whoever has an enrolment code.
    Code,
    /// An executor with its key.
    Executor,
    /// The owner, or a client with any scope; what is called says which it needs.
    Client,
    /// The owner, or a client with `hub:admin`.
    Owner,
}

/// Why a request has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// There is nothing at this path.
    NotFound,
    /// There is, with these methods.
    MethodNotAllowed(&'static str),
}

impl Route {
    /// The route of a method and a path.
    pub fn of(method: &str, path: &str) -> Result<Self, NoRoute> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (segments.as_slice(), method) {
            (["healthz"], "GET" | "HEAD") => Ok(Self::Health),
            (["healthz"], _) => Err(NoRoute::MethodNotAllowed("GET")),
            (
                [".well-known", "oauth-protected-resource"] | [".well-known", "oauth-protected-resource", "mcp"],
                method,
            ) => only("GET", method, Self::ResourceMetadata),
            (
                [".well-known", "oauth-authorization-server"] | [".well-known", "oauth-authorization-server", "mcp"],
                method,
            ) => only("GET", method, Self::ServerMetadata),
            (["authorize"], "GET" | "HEAD" | "POST") => Ok(Self::Authorize),
            (["authorize"], _) => Err(NoRoute::MethodNotAllowed("GET, POST")),
            (["token"], method) => only("POST", method, Self::Token),
            (["register"], method) => only("POST", method, Self::Register),
            (["revoke"], method) => only("POST", method, Self::Revoke),
            (["act", token], "GET" | "HEAD" | "POST") => Ok(Self::Act((*token).to_owned())),
            (["act", _], _) => Err(NoRoute::MethodNotAllowed("GET, POST")),
            (["mcp"], "POST") => Ok(Self::Mcp),
            (["mcp"], _) => Err(NoRoute::MethodNotAllowed("POST")),
            (["executor", "attachment"], "GET") => Ok(Self::AttemptFiles),
            (["executor", "attachment"], "PUT") => Ok(Self::Attach),
            (["executor", "attachment"], _) => Err(NoRoute::MethodNotAllowed("GET, PUT")),
            (["files", id] | ["files", id, _], "GET" | "HEAD") => Ok(Self::Download((*id).to_owned())),
            (["files", id], "PUT") => Ok(Self::Upload((*id).to_owned())),
            (["files", _], _) => Err(NoRoute::MethodNotAllowed("GET, PUT")),
            (["files", _, _], _) => Err(NoRoute::MethodNotAllowed("GET")),
            (["kit", name], "GET" | "HEAD") => KitFile::parse(name).map(Self::Kit).ok_or(NoRoute::NotFound),
            (["kit", _], _) => Err(NoRoute::MethodNotAllowed("GET")),
            (["executor", "enroll"], method) => only("POST", method, Self::Enroll),
            (["executor", "listen"], method) => only("GET", method, Self::Listen),
            (["executor", call], method) => {
                let call = ExecutorCall::parse(call).ok_or(NoRoute::NotFound)?;
                if method == "POST" { Ok(Self::Executor(call)) } else { Err(NoRoute::MethodNotAllowed("POST")) }
            }
            (["api", rest @ ..], method) => Self::of_owner(method, rest),
            _ => Err(NoRoute::NotFound),
        }
    }

    /// The route of a method and a path below `/api`.
    fn of_owner(method: &str, segments: &[&str]) -> Result<Self, NoRoute> {
        match (segments, method) {
            (["executors"], "GET") => Ok(Self::ListExecutors),
            (["executors"], "POST") => Ok(Self::CreateExecutor),
            (["executors"], _) => Err(NoRoute::MethodNotAllowed("GET, POST")),
            (["executors", name], "DELETE") => Ok(Self::DeleteExecutor((*name).to_owned())),
            (["executors", name], "PATCH") => Ok(Self::ChangeExecutor((*name).to_owned())),
            (["executors", _], _) => Err(NoRoute::MethodNotAllowed("PATCH, DELETE")),
            (["executors", name, "enroll"], method) => only("POST", method, Self::EnrollExecutor((*name).to_owned())),
            (["executors", name, "keys"], "GET") => Ok(Self::ListKeys((*name).to_owned())),
            (["executors", name, "keys"], "POST") => Ok(Self::RotateKey((*name).to_owned())),
            (["executors", _, "keys"], _) => Err(NoRoute::MethodNotAllowed("GET, POST")),
            (["executors", name, "keys", id], method) => {
                only("DELETE", method, Self::RevokeKey((*name).to_owned(), (*id).to_owned()))
            }
            (["tasks", id], method) => only("GET", method, Self::GetTask((*id).to_owned())),
            (["tasks", id, "approve"], method) => only("POST", method, Self::ApproveTask((*id).to_owned())),
            (["tasks", id, "deny"], method) => only("POST", method, Self::DenyTask((*id).to_owned())),
            (["events"], method) => only("GET", method, Self::Events),
            (["clients"], method) => only("GET", method, Self::ListClients),
            (["clients", id], method) => only("DELETE", method, Self::DeleteClient(decoded(id))),
            (["grants"], "GET") => Ok(Self::ListGrants),
            (["grants"], "DELETE") => Ok(Self::RevokeGrants),
            (["grants"], _) => Err(NoRoute::MethodNotAllowed("GET, DELETE")),
            (["grants", id], method) => only("DELETE", method, Self::RevokeGrant((*id).to_owned())),
            (["outbox"], method) => only("GET", method, Self::ListOutbox),
            (["outbox", id], method) => only("DELETE", method, Self::DiscardMessage(decoded(id))),
            (["outbox", id, "retry"], method) => only("POST", method, Self::RetryMessage(decoded(id))),
            (["callbacks", "secret"], method) => only("GET", method, Self::CallbackSecret),
            (["passphrase"], method) => only("PUT", method, Self::ChangePassphrase),
            (["notify", "test"], method) => only("POST", method, Self::TestNotice),
            _ => Err(NoRoute::NotFound),
        }
    }

    /// Whether its body comes in pieces, because it may be longer than what fits into memory.
    pub fn is_upload(&self) -> bool {
        matches!(self, Self::Attach | Self::Upload(_))
    }

    /// Who may use it.
    pub fn access(&self) -> Access {
        match self {
            Self::Health
            | Self::ResourceMetadata
            | Self::ServerMetadata
            | Self::Authorize
            | Self::Token
            | Self::Register
            | Self::Kit(_)
            | Self::Revoke => Access::Anyone,
            Self::Act(_) => Access::Link,
            Self::Download(_) | Self::Upload(_) => Access::FileLink,
            Self::Enroll => Access::Code,
            Self::Executor(_) | Self::Attach | Self::AttemptFiles | Self::Listen => Access::Executor,
            Self::Mcp => Access::Client,
            Self::Events
            | Self::ListExecutors
            | Self::CreateExecutor
            | Self::ChangeExecutor(_)
            | Self::DeleteExecutor(_)
            | Self::ListKeys(_)
            | Self::EnrollExecutor(_)
            | Self::RotateKey(_)
            | Self::RevokeKey(..)
            | Self::GetTask(_)
            | Self::ApproveTask(_)
            | Self::DenyTask(_)
            | Self::ListClients
            | Self::DeleteClient(_)
            | Self::ListGrants
            | Self::RevokeGrants
            | Self::RevokeGrant(_)
            | Self::ListOutbox
            | Self::RetryMessage(_)
            | Self::DiscardMessage(_)
            | Self::CallbackSecret
            | Self::ChangePassphrase
            | Self::TestNotice => Access::Owner,
        }
    }
}

/// The route, if the method is the only one that its path has.
fn only(allowed: &'static str, method: &str, route: Route) -> Result<Route, NoRoute> {
    if method == allowed { Ok(route) } else { Err(NoRoute::MethodNotAllowed(allowed)) }
}

/// A path segment without its percent-encoding. The ids of clients are addresses.
fn decoded(segment: &str) -> String {
    // `+` means itself in a path, so it is kept from being read as in a form.
    let query = segment.replace('+', "%2B");
    url::form_urlencoded::parse(format!("id={query}").as_bytes())
        .next()
        .map_or_else(String::new, |(_, id)| id.into_owned())
}

impl KitFile {
    /// Every file.
    pub const ALL: [Self; 4] = [Self::Installer, Self::Relay, Self::Skill, Self::Sums];

    /// Its name in the address.
    pub fn name(self) -> &'static str {
        match self {
            Self::Installer => "install.sh",
            Self::Relay => "relay.py",
            Self::Skill => "SKILL.md",
            Self::Sums => "SHA256SUMS",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|file| file.name() == name)
    }
}

impl ExecutorCall {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "claim" => Some(Self::Claim),
            "heartbeat" => Some(Self::Heartbeat),
            "result" => Some(Self::Result),
            "defer" => Some(Self::Defer),
            "release" => Some(Self::Release),
            "action" => Some(Self::Action),
            "ping" => Some(Self::Ping),
            _ => None,
        }
    }
}
