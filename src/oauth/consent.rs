//! `/authorize` as the owner meets it: the page, and what the owner answers.
//!
//! The form is sent to the very address under which the page was shown, so the request is read and checked anew. Against
//! forged forms it carries a MAC of that address and of a random cookie. Nothing is kept in between.

use super::authorize::{self, Asked, NotAsked, Trouble};
use super::client::UnknownClient;
use super::error::{Code, OAuthError};
use super::form::Form;
use super::page::{self, Entered, Notice};
use crate::domain::limits::CONSENT_PAGE_MS;
use crate::domain::scope::{Scope, Scopes};
use crate::domain::secret::{equal, short_mac};
use crate::http::message::{Outcome, Request, Response};
use crate::http::page::{Forms, response as page_of};
use crate::hub::{self, Consent, ConsentRejected, Hub, SignIn};

/// The cookie that ties a form to the browser which was shown it.
const COOKIE: &str = "taskhub_consent";
/// Random bytes of the cookie.
const COOKIE_BYTES: usize = 16;

/// Answers `GET` and `POST /authorize`.
pub fn handle(hub: &Hub<'_>, request: &Request) -> Outcome {
    let asked = match authorize::read(hub, request) {
        Ok(asked) => asked,
        Err(NotAsked::Fetch(fetch)) => return Outcome::Fetch(fetch),
        Err(NotAsked::Redirect(back, error)) => {
            return Outcome::Reply(see_other(&back.with_error(hub.origin(), &error)));
        }
        Err(NotAsked::Stay(back, error)) => {
            let html = page::refused(&error.detail, &back.with_error(hub.origin(), &error));
            return Outcome::Reply(page_of(400, &html, Forms::None));
        }
        Err(NotAsked::Page(trouble)) => return Outcome::Reply(told(&trouble)),
    };
    let page = Page { hub, request, asked };
    Outcome::Reply(if request.method == "POST" { page.decide() } else { page.show(200, &page.fresh(), None) })
}

/// 303: the browser must turn its POST into a GET.
fn see_other(location: &str) -> Response {
    Response::empty(303)
        .with("location", location)
        .with("cache-control", "no-store")
        .with("referrer-policy", "no-referrer")
}

fn told(trouble: &Trouble) -> Response {
    let (status, retry_after) = match trouble {
        Trouble::Client(UnknownClient::Limited(seconds)) => (429, Some(*seconds)),
        Trouble::Storage(_) => (500, None),
        Trouble::Parameters(_) | Trouble::NoClient | Trouble::Client(_) | Trouble::Redirect(_) => (400, None),
    };
    let response = page_of(status, &page::trouble(trouble), Forms::None);
    match retry_after {
        Some(seconds) => response.with("retry-after", seconds.to_string()),
        None => response,
    }
}

/// One look at the page, or one answer on it.
struct Page<'p> {
    hub: &'p Hub<'p>,
    request: &'p Request,
    asked: Asked,
}

impl Page<'_> {
    /// What is chosen before the owner has chosen anything: what the client asks for. The owner's own powers are never chosen
    /// beforehand, and working on tasks, for which an executor has to be chosen too, only if nothing else is asked for.
    fn fresh(&self) -> Entered {
        let modest = self.asked.scopes.without(Scope::HubAdmin);
        let others = modest.without(Scope::TasksExecute);
        Entered { scopes: if others.is_empty() { modest } else { others }, executor: String::new() }
    }

    fn show(&self, status: u16, entered: &Entered, notice: Option<Notice>) -> Response {
        // Anybody may look at this page, so it reads no more than it shows.
        let executors = if page::offered(&self.asked).names(Scope::TasksExecute) {
            hub::executor_names(self.hub)
        } else {
            Ok(Vec::new())
        };
        let executors = match executors {
            Ok(executors) => executors,
            Err(error) => return told(&Trouble::Storage(error.failure())),
        };
        let cookie = self.cookie().map_or_else(|| self.hub.random_text::<COOKIE_BYTES>(), str::to_owned);
        let expires_at = self.hub.now() + CONSENT_PAGE_MS;
        let token = format!("{expires_at}.{}", self.form_mac(&cookie, expires_at));
        let html = page::consent(&page::View {
            asked: &self.asked,
            hub: self.hub.origin(),
            action: &format!("/authorize?{}", self.request.query),
            form_token: &token,
            entered,
            executors: &executors,
            notice,
        });
        let response = page_of(status, &html, Forms::Onward);
        let response = match notice {
            Some(Notice::Limited { retry_after_seconds }) => {
                response.with("retry-after", retry_after_seconds.to_string())
            }
            _ => response,
        };
        // Also where there is one already: it must live as long as this page.
        response.with("set-cookie", self.set_cookie(&cookie))
    }

    /// Lax, so that it comes along when a client sends the browser here; a form from elsewhere is still sent without it.
    fn set_cookie(&self, cookie: &str) -> String {
        let secure = if self.hub.origin().starts_with("https://") { "; Secure" } else { "" };
        format!(
            "{COOKIE}={cookie}; Path=/authorize; HttpOnly; SameSite=Lax; Max-Age={}{secure}",
            CONSENT_PAGE_MS / 1000
        )
    }

    fn cookie(&self) -> Option<&str> {
        let pairs = self.request.header("cookie")?.split(';');
        let value = pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(name, _)| *name == COOKIE)?.1;
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        (value.len() == 22 && value.bytes().all(is_plain)).then_some(value)
    }

    fn form_mac(&self, cookie: &str, expires_at: i64) -> String {
        let secret = &self.hub.settings().hub_secret;
        short_mac(secret, "consent-form", &[cookie, &self.request.query, &expires_at.to_string()])
    }

    fn is_own_form(&self, form: &Form) -> bool {
        let foreign = self.request.header("origin").is_some_and(|origin| origin != self.hub.origin());
        let read = || {
            let (expires_at, mac) = form.one("form_token").ok()??.split_once('.')?;
            let expires_at: i64 = expires_at.parse().ok()?;
            let right = self.form_mac(self.cookie()?, expires_at);
            Some(self.hub.now() < expires_at && equal(mac, &right))
        };
        !foreign && read().unwrap_or(false)
    }

    fn decide(&self) -> Response {
        let Ok(form) = Form::of_body(self.request) else {
            return self.show(400, &self.fresh(), Some(Notice::Stale));
        };
        if !self.is_own_form(&form) {
            return self.show(400, &self.fresh(), Some(Notice::Stale));
        }
        match form.one("decision") {
            Ok(Some("approve")) => self.approve(&form),
            Ok(Some("deny")) => {
                let error = OAuthError::new(Code::AccessDenied, "The owner declined.");
                see_other(&self.asked.back.with_error(self.hub.origin(), &error))
            }
            _ => self.show(400, &self.fresh(), Some(Notice::Stale)),
        }
    }

    fn approve(&self, form: &Form) -> Response {
        let entered = Entered {
            // What was not on the page cannot be chosen.
            scopes: form
                .all("scope")
                .filter_map(Scope::parse)
                .filter(|scope| page::offered(&self.asked).names(*scope))
                .fold(Scopes::NONE, Scopes::with),
            executor: form.one("executor").ok().flatten().unwrap_or_default().to_owned(),
        };
        let typed = form.one("passphrase").ok().flatten().unwrap_or_default();
        let address = self.request.client_address();
        match hub::sign_in(self.hub, typed, &address) {
            Ok(SignIn::Right) => self.grant(&entered, &address),
            Ok(SignIn::Wrong { left }) => self.show(403, &entered, Some(Notice::Wrong { left })),
            Ok(SignIn::Limited { retry_after_seconds }) => {
                self.show(429, &entered, Some(Notice::Limited { retry_after_seconds }))
            }
            Ok(SignIn::NotSet) => self.show(403, &entered, Some(Notice::NoPassphrase)),
            Err(error) => told(&Trouble::Storage(error.failure())),
        }
    }

    fn grant(&self, entered: &Entered, address: &str) -> Response {
        let executes = entered.scopes.names(Scope::TasksExecute);
        let consent = Consent {
            client: &self.asked.client,
            redirect_uri: &self.asked.back.redirect_uri,
            code_challenge: &self.asked.code_challenge,
            scopes: entered.scopes,
            executor: Some(entered.executor.as_str()).filter(|_| executes),
            address,
        };
        match hub::consent(self.hub, &consent) {
            Ok(code) => see_other(&self.asked.back.with(self.hub.origin(), &[("code", &code)])),
            Err(ConsentRejected::NoScope) => self.show(400, entered, Some(Notice::NoScope)),
            Err(ConsentRejected::NoExecutor) => self.show(400, entered, Some(Notice::NoExecutor)),
            Err(ConsentRejected::TooMany) => self.show(409, entered, Some(Notice::TooMany)),
            Err(ConsentRejected::Database(error)) => told(&Trouble::Storage(error.failure())),
        }
    }
}
