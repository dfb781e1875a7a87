//! Parameters, as a query or a form brings them.

use url::form_urlencoded;

use super::error::{Code, OAuthError};
use crate::http::message::Request;

/// Parameters in order.
pub struct Form(Vec<(String, String)>);

impl Form {
    /// The parameters of a query.
    pub fn of_query(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The parameters of a body of `application/x-www-form-urlencoded`.
    pub fn of_body(request: &Request) -> Result<Self, OAuthError> {
        let content_type = request.header("content-type").unwrap_or_default();
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            let detail = "Send the parameters as a form: Content-Type: application/x-www-form-urlencoded.";
            return Err(OAuthError::new(Code::InvalidRequest, detail));
        }
        Ok(Self(form_urlencoded::parse(&request.body).into_owned().collect()))
    }

    /// The one value of a parameter. An empty one counts as left out; one that comes twice is an error (RFC 6749 §3.1).
    pub fn one(&self, name: &str) -> Result<Option<&str>, OAuthError> {
        let mut values = self.all(name);
        let first = values.next();
        if values.next().is_some() {
            let detail = format!("The parameter {name} is there more than once.");
            return Err(OAuthError::new(Code::InvalidRequest, detail));
        }
        Ok(first.filter(|value| !value.is_empty()))
    }

    /// The one value of a parameter that must be there.
    pub fn needed(&self, name: &str) -> Result<&str, OAuthError> {
        let missing = || OAuthError::new(Code::InvalidRequest, format!("The parameter {name} is missing."));
        self.one(name)?.ok_or_else(missing)
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}
