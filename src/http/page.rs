//! The hub's pages: plain HTML that works without scripts, on a phone, and with a screen reader.
//!
//! Owns their frame, their style and the headers that they are sent with. A page loads nothing, may not be framed, and runs
//! no script. It refuses to know what is on a page.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::message::Response;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8886;--edge:#767676;--accent:#1f6feb;--bad:#c62828;--warn:#8a5300}\
@media(prefers-color-scheme:dark){:root{--edge:#949494;--accent:#6ea8fe;--bad:#ff8a80;--warn:#ffcc80}}\
*{box-sizing:border-box}\
body{margin:0;padding:1.5rem 1rem;font:1rem/1.5 system-ui,sans-serif;background:Canvas;color:CanvasText}\
main{max-width:32rem;margin:0 auto}\
h1{font-size:1.4rem;line-height:1.25;margin:0 0 .75rem;overflow-wrap:anywhere}\
p{margin:.5rem 0;overflow-wrap:anywhere}\
fieldset{border:1px solid var(--line);border-radius:.5rem;margin:1rem 0;padding:.25rem 1rem}\
legend{font-weight:600;padding:0 .25rem}\
.scope{display:grid;grid-template-columns:auto 1fr;gap:.1rem .75rem;align-items:start;padding:.6rem 0}\
.scope input{width:1.3rem;height:1.3rem;margin:.15rem 0 0}\
.scope small,.scope select{grid-column:2}\
small{display:block;line-height:1.4;opacity:.8}\
label{font-weight:600}\
input[type=password],select{width:100%;font:inherit;padding:.6rem;border:1px solid var(--edge);border-radius:.4rem;margin:.25rem 0 .4rem}\
.buttons{display:flex;gap:.75rem;margin-top:1rem;flex-wrap:wrap}\
button{flex:1 1 8rem;font:inherit;font-weight:600;padding:.75rem 1rem;border-radius:.4rem;border:1px solid var(--accent);\
background:none;color:var(--accent);cursor:pointer}\
button.go{background:var(--accent);color:Canvas}\
.notice{border-left:.3rem solid var(--bad);padding:.25rem .75rem;margin:1rem 0}\
.warning{border-left:.3rem solid var(--warn);padding:.25rem .75rem;margin:1rem 0}\
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}";

static STYLE_HASH: LazyLock<String> = LazyLock::new(|| STANDARD.encode(Sha256::digest(STYLE.as_bytes())));

/// Where the forms of a page may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forms {
    /// It has none.
    None,
    /// To the hub.
    Here,
    /// To the hub, which sends the browser on. Browsers apply `form-action` to every redirect that follows, those of the
    /// client's site included, and some of these lead to the scheme of an app (claude.ai sends the browser on to claude:). No
    /// list of schemes is complete, so such a page does without. Nothing that a client says gets onto it unescaped.
    Onward,
}

/// A page as a response.
pub fn response(status: u16, html: &Markup, forms: Forms) -> Response {
    let form_action = match forms {
        Forms::None => "; form-action 'none'",
        Forms::Here => "; form-action 'self'",
        Forms::Onward => "",
    };
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; frame-ancestors 'none'; base-uri 'none'{form_action}",
        *STYLE_HASH
    );
    Response::bytes(status, "text/html; charset=utf-8", html.0.clone().into_bytes())
        .with("content-security-policy", policy)
        .with("x-frame-options", "DENY")
        .with("x-content-type-options", "nosniff")
        .with("referrer-policy", "same-origin")
}

/// A page of this title.
pub fn frame(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { (body) } }
        }
    }
}
