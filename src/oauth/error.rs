//! Errors as OAuth spells them (RFC 6749 §4.1.2.1 and §5.2, RFC 7591 §3.2.2, RFC 8707 §2).

use serde_json::json;

use crate::http::message::Response;
use crate::http::problem::storage_failed;
use crate::store::database::DatabaseError;

/// The code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Something is missing, there twice, or cannot be read.
    InvalidRequest,
    /// The client is unknown or did not prove itself.
    InvalidClient,
    /// The code or token is not valid (any more), or not this client's.
    InvalidGrant,
    /// Another grant type than the two.
    UnsupportedGrantType,
    /// Another response type than `code`.
    UnsupportedResponseType,
    /// No scope is left.
    InvalidScope,
    /// Another resource than this hub's.
    InvalidTarget,
    /// The owner said no.
    AccessDenied,
    /// The owner must be asked, and the client forbids it.
    InteractionRequired,
    /// A redirect address that may not be used.
    InvalidRedirectUri,
    /// Something else in a registration.
    InvalidClientMetadata,
    /// Too many tries, or as many grants as there may be.
    TemporarilyUnavailable,
    /// The database failed.
    ServerError,
}

impl Code {
    /// The code on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::InvalidScope => "invalid_scope",
            Self::InvalidTarget => "invalid_target",
            Self::AccessDenied => "access_denied",
            Self::InteractionRequired => "interaction_required",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
            Self::TemporarilyUnavailable => "temporarily_unavailable",
            Self::ServerError => "server_error",
        }
    }

    fn status(self) -> u16 {
        match self {
            Self::InvalidClient => 401,
            Self::TemporarilyUnavailable => 429,
            Self::ServerError => 500,
            Self::InvalidRequest
            | Self::InvalidGrant
            | Self::UnsupportedGrantType
            | Self::UnsupportedResponseType
            | Self::InvalidScope
            | Self::InvalidTarget
            | Self::AccessDenied
            | Self::InteractionRequired
            | Self::InvalidRedirectUri
            | Self::InvalidClientMetadata => 400,
        }
    }
}

/// An error with a sentence for whoever mends the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthError {
    /// Its code.
    pub code: Code,
    /// What is wrong and what to do.
    pub detail: String,
    /// When to try again, in seconds.
    pub retry_after_seconds: Option<u32>,
    /// Whether the client used HTTP Basic, which then has to be named (RFC 6749 §5.2).
    pub by_basic: bool,
}

impl OAuthError {
    /// An error that the same request would meet again.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), retry_after_seconds: None, by_basic: false }
    }

    /// Too many tries.
    pub fn limited(retry_after_seconds: u32) -> Self {
        let detail = format!("Too many tries from here; try again in {retry_after_seconds} seconds.");
        Self { retry_after_seconds: Some(retry_after_seconds), ..Self::new(Code::TemporarilyUnavailable, detail) }
    }

    /// The database failed.
    pub fn storage(error: &DatabaseError) -> Self {
        let problem = storage_failed(error.failure());
        let again = problem.retry_after_seconds;
        Self { retry_after_seconds: again, ..Self::new(Code::ServerError, problem.detail) }
    }

    /// The sentence in the characters that RFC 6749 permits.
    pub fn description(&self) -> String {
        let plain = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
        self.detail.chars().map(plain).map(|c| if matches!(c, '"' | '\\') { '\'' } else { c }).collect()
    }

    /// The response of the endpoints that clients call themselves.
    pub fn response(&self) -> Response {
        let body = json!({ "error": self.code.name(), "error_description": self.description() });
        let mut response = Response::json(self.code.status(), &body).with("pragma", "no-cache");
        if let Some(seconds) = self.retry_after_seconds {
            response = response.with("retry-after", seconds.to_string());
        }
        if self.by_basic {
            response = response.with("www-authenticate", "Basic realm=\"taskhub\"");
        }
        response
    }
}
