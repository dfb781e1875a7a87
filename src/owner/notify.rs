//! `POST /api/notify/test`: one notice, and what became of it.

use serde_json::{Value as Json, json};

use crate::http::message::{Outcome, Request, Response, Sent, SentHow};
use crate::http::problem::Problem;
use crate::hub::{self, Hub};

/// Sends a notice first, and answers when it is known what became of it. That it was not delivered is no error of the call.
pub(super) fn test(hub: &Hub<'_>, request: &Request) -> Outcome {
    match (&hub.settings().ntfy, &request.sent) {
        (Ok(Some(_)), Some(sent)) => Outcome::Reply(Response::json(200, &told(sent))),
        (Ok(Some(ntfy)), None) => Outcome::Send(hub::test_notice(hub, ntfy)),
        (Ok(None), _) => {
            let detail =
                "Notices are off. Set NTFY_URL and NTFY_TOPIC (README, \"Your phone\"), then send the test again.";
            Outcome::Reply(Problem::new(409, "notifications_off", "Notifications off", detail).response())
        }
        (Err(words), _) => {
            let detail = format!("Notices cannot be sent: {words} Then send the test again.");
            Outcome::Reply(
                Problem::new(409, "notifications_misconfigured", "Notifications misconfigured", detail).response(),
            )
        }
    }
}

fn told(sent: &Sent) -> Json {
    let status = match &sent.how {
        SentHow::Status(status) => Some(*status),
        SentHow::NoAnswer | SentHow::Failed(_) => None,
    };
    let delivered = matches!(status, Some(200..=299));
    json!({ "delivered": delivered, "status": status, "took_ms": sent.took_ms, "detail": detail(&sent.how) })
}

/// What the answer means and what to mend.
fn detail(how: &SentHow) -> String {
    match how {
        SentHow::Status(200..=299) => {
            "The server took it. If your phone stays silent, see that its app is subscribed to this very topic on this server."
        }
        SentHow::Status(300..=399) => "The server redirects, which is not followed: set NTFY_URL to the address it leads to.",
        SentHow::Status(401 | 403) => {
            "The server refuses it: the topic needs an access token (secret NTFY_TOKEN), or this one may not write to it."
        }
        SentHow::Status(404 | 405) => "The server does not know the call: NTFY_URL is most likely no ntfy server.",
        SentHow::Status(413) => "The server takes only smaller messages than ntfy's usual limit: raise its message-size-limit.",
        SentHow::Status(429) => {
            "The server has had too many messages from this address or account; later ones are tried again. On Cloudflare many \
             Workers share an address: an account's token (NTFY_TOKEN) has a limit of its own."
        }
        SentHow::Status(400..=499) => "The server refuses the message: NTFY_URL may be no ntfy server, or a very old one.",
        SentHow::Status(_) => "The server failed. Notices are tried again until it is well.",
        SentHow::NoAnswer => "No answer in time: it may have arrived. See that NTFY_URL is reachable from the hub.",
        SentHow::Failed(why) => {
            return format!("The server cannot be reached ({why}): see that NTFY_URL is right, and that its certificate is valid.");
        }
    }
    .to_owned()
}
