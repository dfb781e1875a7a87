//! The pages at `/authorize`: plain HTML that works without scripts, on a phone, and with a screen reader.
//!
//! Everything that a client says is escaped by the template.

use maud::{Markup, html};

use super::authorize::{Asked, Trouble};
use super::client::{self, UnknownClient};
use super::redirect::{self, Reach};
use crate::domain::scope::{Scope, Scopes};
use crate::http::page::frame;
use crate::http::problem::storage_failed;

/// What the owner has entered so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The scopes that are switched on.
    pub scopes: Scopes,
    /// The executor for `tasks:execute`; empty if none is chosen.
    pub executor: String,
}

/// What the owner must be told before the next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The passphrase is wrong.
    Wrong {
        /// Tries that are left from here.
        left: u32,
    },
    /// Too many wrong ones.
    Limited {
        /// When to try again, in seconds.
        retry_after_seconds: u32,
    },
    /// The hub has no passphrase.
    NoPassphrase,
    /// The form is too old, or not this page's.
    Stale,
    /// No scope is switched on.
    NoScope,
    /// No executor is chosen.
    NoExecutor,
    /// There are too many grants.
    TooMany,
}

/// Everything on the consent page.
pub struct View<'v> {
    /// What the client asks for.
    pub asked: &'v Asked,
    /// Where the hub is.
    pub hub: &'v str,
    /// Where the form goes.
    pub action: &'v str,
    /// What proves that the form is this page's.
    pub form_token: &'v str,
    /// What is entered.
    pub entered: &'v Entered,
    /// The executors that there are.
    pub executors: &'v [String],
    /// What to tell.
    pub notice: Option<Notice>,
}

/// The scopes that the page offers: what the client asks for, and reading and writing tasks in any case, because some
/// clients cannot ask for more later.
pub fn offered(asked: &Asked) -> Scopes {
    Scopes::USUAL.iter().fold(asked.scopes, Scopes::with)
}

/// The page on which the owner decides.
pub fn consent(view: &View<'_>) -> Markup {
    let client = &view.asked.client;
    let name = client.name.as_deref().unwrap_or("A client without a name");
    let offered = offered(view.asked);
    let is_wrong = matches!(view.notice, Some(Notice::Wrong { .. }));
    let described_by = if is_wrong { "notice passphrase-note" } else { "passphrase-note" };
    // The first thing that a screen reader says, and what a tab in the background shows.
    let title = match view.notice {
        Some(_) => format!("Not approved yet: {name} – taskhub"),
        None => format!("Approve {name}? – taskhub"),
    };
    let body = html! {
        h1 { bdi { (name) } " wants to use your taskhub" }
        (identity(view.asked))
        @if let Some(notice) = view.notice { (told(notice)) }
        form method="post" action=(view.action) {
            input type="hidden" name="form_token" value=(view.form_token);
            fieldset {
                legend { "It may" }
                @for scope in offered.iter() { (switch(scope, view)) }
            }
            // Nobody sees or sends it: a password manager keeps the passphrase under this name.
            input type="text" autocomplete="username" value="owner" hidden;
            label for="passphrase" { "Your passphrase for this hub" }
            input #passphrase type="password" name="passphrase" required autocomplete="current-password"
                autocapitalize="none" spellcheck="false" aria-describedby=(described_by)
                aria-invalid=[is_wrong.then_some("true")] autofocus[is_wrong];
            small #passphrase-note { "It is OWNER_PASSPHRASE unless you have changed it. Type it at " strong { (view.hub) } " only." }
            div.buttons {
                button.go type="submit" name="decision" value="approve" { "Approve" }
                button type="submit" name="decision" value="deny" formnovalidate { "Decline" }
            }
        }
    };
    frame(&title, &body)
}

/// Who it is, as far as that is known, and where the browser goes next.
fn identity(asked: &Asked) -> Markup {
    let host = redirect::host(&asked.back.redirect_uri);
    let document = Some(asked.client.id.as_str()).filter(|id| client::is_document(id)).map(redirect::host);
    html! {
        @match &document {
            Some(site) => p { "It is described by " strong { (site) } ", which stands for its name." }
            None => p { "It registered itself; its name is its own word, and nobody vouches for it." }
        }
        @match asked.reach {
            Reach::Site => p { "Once you decide, your browser goes to " strong { (host) } "." }
            Reach::Loopback => {
                p.warning {
                    "Once you decide, your browser goes to a program on the computer it runs on (" strong { (host) } "). Any \
                     program there can pretend to be this client: approve only if you have just started it yourself."
                }
            }
        }
    }
}

fn switch(scope: Scope, view: &View<'_>) -> Markup {
    let id = scope.name().replace(':', "-");
    let note = format!("{id}-note");
    let (label, words) = match scope {
        Scope::TasksRead => ("See tasks", "Your tasks with their results, your executors, and the state of the hub."),
        Scope::TasksWrite => ("Hand out tasks", "Submit, answer, cancel and retry tasks, and wake executors."),
        Scope::TasksExecute => ("Work on tasks", "Take the tasks of one executor and send their results."),
        Scope::HubAdmin => (
            "Administer the hub",
            "Everything you can do yourself: executors, keys, clients, the passphrase. Rarely needed.",
        ),
    };
    let is_possible = scope != Scope::TasksExecute || !view.executors.is_empty();
    html! {
        div.scope {
            input #(id) type="checkbox" name="scope" value=(scope.name()) aria-describedby=(note)
                checked[is_possible && view.entered.scopes.names(scope)] disabled[!is_possible];
            label for=(id) { (label) }
            small #(note) { (words) }
            @if scope == Scope::TasksExecute {
                @if view.executors.is_empty() {
                    small { "There is no executor yet. Create one, then let the client ask again." }
                } @else {
                    select name="executor" aria-label="Executor to work as" {
                        option value="" { "Choose the executor…" }
                        @for executor in view.executors {
                            option value=(executor) selected[*executor == view.entered.executor] { (executor) }
                        }
                    }
                }
            }
        }
    }
}

fn told(notice: Notice) -> Markup {
    let words = match notice {
        Notice::Wrong { left: 0 } => "This passphrase is wrong, and there are no tries left for now.".to_owned(),
        Notice::Wrong { left: 1 } => "This passphrase is wrong. One try is left for now.".to_owned(),
        Notice::Wrong { left } => format!("This passphrase is wrong. {left} tries are left for now."),
        Notice::Limited { retry_after_seconds } => {
            let minutes = retry_after_seconds.div_ceil(60);
            format!(
                "There were too many wrong passphrases, so this one was not looked at. Try again in {minutes} min, or \
                 from a network from which you approved a client before; the hub's OWNER_TOKEN is taken in place of the passphrase at \
                 any time."
            )
        }
        Notice::NoPassphrase => "This hub has no passphrase yet. Set the secret OWNER_PASSPHRASE (wrangler secret put \
                                 OWNER_PASSPHRASE), then reload this page."
            .to_owned(),
        Notice::Stale => {
            "This page had been open for too long, it is open under another name than the hub's own, or your browser sent no cookie. \
             Check it and send it again."
                .to_owned()
        }
        Notice::NoScope => "Nothing is switched on: switch on what it may do, or decline.".to_owned(),
        Notice::NoExecutor => {
            "To work on tasks, it needs one of your executors: choose it, or switch that off.".to_owned()
        }
        Notice::TooMany => {
            "This hub has as many grants as it may: end some (DELETE /api/grants/{id}), then try again.".to_owned()
        }
    };
    html! { p.notice #notice role="alert" { (words) } }
}

/// A reason that ends its sentence.
fn ended(why: &str) -> String {
    format!("{}.", why.trim_end_matches('.'))
}

/// The page that says what is wrong with the request of a client that the owner has never approved. Its browser is not sent
/// on by itself: anybody can register an address, and would have this hub's name lead to it (RFC 9700 §4.11.2).
pub fn refused(detail: &str, back: &str) -> Markup {
    let body = html! {
        h1 { "This client cannot be connected" }
        p.notice role="alert" { (detail) }
        p {
            "The client made a broken request; its maker has to mend it. You have not approved it before, so your browser stays \
             here. The client waits at " a href=(back) rel="noreferrer" { (redirect::host(back)) } "."
        }
    };
    frame("Not connected – taskhub", &body)
}

/// The page that says why the owner is not asked.
pub fn trouble(trouble: &Trouble) -> Markup {
    let (what, remedy) = match trouble {
        Trouble::Parameters(detail) => (detail.clone(), "The client made a broken request; its maker has to mend it."),
        Trouble::NoClient => (
            "The request does not say which client it is from (client_id).".to_owned(),
            "This page is opened by a client that wants to connect. Begin there, for example by adding this hub as a \
             connector in Claude.",
        ),
        Trouble::Client(UnknownClient::NotRegistered) => (
            "This client is not registered at this hub, or its registration was never used and has expired.".to_owned(),
            "Remove the connection in the client and add it again, so that it registers anew.",
        ),
        Trouble::Client(UnknownClient::Address(why)) => (
            format!("The client's id is an address at which its description cannot be: {}", ended(why)),
            "The client's maker has to mend it, or let it register instead.",
        ),
        Trouble::Client(UnknownClient::Document(why)) => (
            format!("The client's description could not be used: {}", ended(why)),
            "Try again in a minute. If it stays so, the client's maker has to mend it.",
        ),
        Trouble::Client(UnknownClient::Limited(seconds)) => (
            format!(
                "Too many unknown clients came; their descriptions are read again in {} min.",
                seconds.div_ceil(60)
            ),
            "Try again then.",
        ),
        Trouble::Storage(failure) => (storage_failed(*failure).detail, "This page can be loaded again then."),
        Trouble::Redirect(why) => (
            (*why).to_owned(),
            "The browser is not sent there, because somebody else might be waiting. Remove the connection in the client and add \
             it again; if it stays so, the client's maker has to mend it.",
        ),
    };
    let body = html! {
        h1 { "This client cannot be connected" }
        p.notice role="alert" { (what) }
        p { (remedy) }
    };
    frame("Not connected – taskhub", &body)
}
