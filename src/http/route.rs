//! Paths and methods, once, for the front and the object alike.

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `GET /healthz`
    Health,
    /// `GET /.well-known/oauth-protected-resource` and `…/mcp`
    ResourceMetadata,
    /// `POST /mcp`
    Mcp,
    /// `POST /executor/…`
    Executor(ExecutorCall),
    /// `GET /api/executors`
    ListExecutors,
    /// `POST /api/executors`
    CreateExecutor,
    /// `DELETE /api/executors/{name}`
    DeleteExecutor(String),
    /// `POST /api/executors/{name}/keys`
    RotateKey(String),
    /// `GET /api/tasks/{id}`
    GetTask(String),
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
    /// `ping`
    Ping,
}

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Whoever asks.
    Anyone,
    /// An executor with its key.
    Executor,
    /// The owner, or a client that acts for them.
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
                "GET",
            ) => Ok(Self::ResourceMetadata),
            ([".well-known", "oauth-protected-resource"] | [".well-known", "oauth-protected-resource", "mcp"], _) => {
                Err(NoRoute::MethodNotAllowed("GET"))
            }
            (["mcp"], "POST") => Ok(Self::Mcp),
            (["mcp"], _) => Err(NoRoute::MethodNotAllowed("POST")),
            (["executor", call], method) => {
                let call = ExecutorCall::parse(call).ok_or(NoRoute::NotFound)?;
                if method == "POST" { Ok(Self::Executor(call)) } else { Err(NoRoute::MethodNotAllowed("POST")) }
            }
            (["api", "executors"], "GET") => Ok(Self::ListExecutors),
            (["api", "executors"], "POST") => Ok(Self::CreateExecutor),
            (["api", "executors"], _) => Err(NoRoute::MethodNotAllowed("GET, POST")),
            (["api", "executors", name], "DELETE") => Ok(Self::DeleteExecutor((*name).to_owned())),
            (["api", "executors", _], _) => Err(NoRoute::MethodNotAllowed("DELETE")),
            (["api", "executors", name, "keys"], "POST") => Ok(Self::RotateKey((*name).to_owned())),
            (["api", "executors", _, "keys"], _) => Err(NoRoute::MethodNotAllowed("POST")),
            (["api", "tasks", id], "GET") => Ok(Self::GetTask((*id).to_owned())),
            (["api", "tasks", _], _) => Err(NoRoute::MethodNotAllowed("GET")),
            _ => Err(NoRoute::NotFound),
        }
    }

    /// Who may use it.
    pub fn access(&self) -> Access {
        match self {
            Self::Health | Self::ResourceMetadata => Access::Anyone,
            Self::Executor(_) => Access::Executor,
            Self::Mcp
            | Self::ListExecutors
            | Self::CreateExecutor
            | Self::DeleteExecutor(_)
            | Self::RotateKey(_)
            | Self::GetTask(_) => Access::Owner,
        }
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
            "ping" => Some(Self::Ping),
            _ => None,
        }
    }
}
