//! Which resource a client means (RFC 8707). This server guards one, and clients spell it in several ways.

use url::Url;

use super::error::{Code, OAuthError};
use super::form::Form;

/// Checks that every resource of a request is this hub's MCP endpoint. None at all means it too.
pub fn check(form: &Form, origin: &str) -> Result<(), OAuthError> {
    let foreign = form.all("resource").find(|text| !text.is_empty() && !is_ours(text, origin));
    match foreign {
        None => Ok(()),
        Some(_) => {
            let detail = format!("The parameter resource names something else than this hub: it must be {origin}/mcp.");
            Err(OAuthError::new(Code::InvalidTarget, detail))
        }
    }
}

/// Whether a text means this hub's MCP endpoint: the origin or `/mcp`, with and without a slash at the end, in any case.
pub fn is_ours(text: &str, origin: &str) -> bool {
    let (Ok(url), Ok(hub)) = (Url::parse(text), Url::parse(origin)) else { return false };
    url.origin() == hub.origin()
        && matches!(url.path(), "" | "/" | "/mcp" | "/mcp/")
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none()
}
