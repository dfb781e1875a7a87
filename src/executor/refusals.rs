//! What an executor is told to do next, above all when a call changes nothing. Exhaustive on purpose.

use crate::domain::ledger::Standing;
use crate::domain::limits::ACTIONS_MAX;
use crate::domain::moment::rfc3339;
use crate::domain::task::State;
use crate::http::auth;
use crate::http::problem::{Problem, bad_request, file_too_large, storage_failed};
use crate::hub::{
    Acted, ActionRejected, AttemptRejected, ClaimRejected, EnrollRejected, FileRejected, IntroductionRejected, Record,
    claims_again_at,
};
use crate::store::executors::ExecutorRow;

/// The problem that answers a refused heartbeat, result, deferral, release or record of an action.
pub fn attempt(rejected: &AttemptRejected) -> Problem {
    match rejected {
        AttemptRejected::TaskNotFound => task_not_found(),
        AttemptRejected::LeaseLost { why } => {
            let next =
                "Stop working on this task and discard what you have; what you sent is kept as evidence. Claim again.";
            Problem::new(409, "lease_lost", "Lease lost", format!("{why} {next}"))
        }
        AttemptRejected::TokenMismatch => Problem::new(
            409,
            "lease_lost",
            "Lease lost",
            "You hold this task, but this is not the claim token that its claim returned. Send that token exactly as you got it. \
             If you no longer have it, send the claim again under the same request_id.",
        ),
        AttemptRejected::Canceled => Problem::new(
            409,
            "canceled",
            "Task canceled",
            "The task was canceled. Stop working on it, undo nothing unless its instructions say so, and claim the next one.",
        ),
        AttemptRejected::AlreadyFinished => Problem::new(
            409,
            "already_finished",
            "Task already finished",
            "The task is over, and its outcome stays as it is. Stop working on it and claim the next one.",
        ),
        AttemptRejected::NotWorking => Problem::new(
            409,
            "not_working",
            "Task waits for input",
            "The task waits for a person's answer, and takes nothing from its attempt meanwhile but a heartbeat or a result. Nothing \
             more is needed from you: it will be handed out again when it is answered. To go on with it yourself, send a \
             heartbeat and then this call again; to end it, send a result.",
        ),
        AttemptRejected::Invalid { field, detail } => bad_request(format!("{field}: {detail}")),
        AttemptRejected::Database(error) => storage_failed(error.failure()),
    }
}

/// What an executor is told whose attempt has ended and left an action unknown about which a person wants to be asked.
pub const ASKED_ABOUT_ACTIONS: &str = "The attempt is over. It had begun an action outside and did not say what came of it, so a person is \
                                       asked before the task is handed out again. Nothing more is needed from you: claim the next \
                                       task.";

/// The problem that answers a refused record of an action.
pub fn action(rejected: &ActionRejected) -> Problem {
    let not_begun = |detail: &str| Problem::new(409, "action_not_begun", "Action not begun", detail);
    match rejected {
        ActionRejected::Attempt(rejected) => attempt(rejected),
        ActionRejected::NotBegun { failed: false } => not_begun(
            "No action of this step_id, tool and params was begun. If it is another one that you mean, send exactly its step_id, \
             tool and params. If you have done it already, send status \"begin\" and then this call again; in future, send \
             \"begin\" before you do it.",
        ),
        ActionRejected::NotBegun { failed: true } => not_begun(
            "The action was recorded as failed, and has not been begun again since. If you did it after that, send status \
             \"begin\" and then this call again.",
        ),
        ActionRejected::TooMany => Problem::new(
            409,
            "too_many_actions",
            "Too many actions",
            format!(
                "The task has {ACTIONS_MAX} actions, which is the most that its ledger holds. Record several small actions as one, \
                 or end this task and ask the submitter to give out the rest as tasks of their own."
            ),
        ),
    }
}

/// What an executor does after an action was recorded, or begun.
pub fn after_action(record: &Record, acted: &Acted) -> String {
    let attempt = acted.attempt;
    match (record, acted.standing) {
        (Record::Begin, Standing::Begun) if acted.first => {
            "It is yours to do: do it now, once, and pass idempotency_key on to the \
             other side if that takes one. Then send status \"done\" or \"failed\" with the outcome."
                .to_owned()
        }
        (Record::Begin, Standing::Begun) => {
            "You began it yourself in this attempt, or begin it again after it had failed: do it if \
             you have not, once, and then send status \"done\" or \"failed\" with the outcome."
                .to_owned()
        }
        (Record::Begin, Standing::Unknown) => format!(
            "Do not do it yet. Attempt {attempt} began it and was lost before it said what came of it, so it may have happened. Look \
             outside whether it did, by idempotency_key if the other side took one. If it happened, send status \"done\" with the \
             outcome; if it surely did not, do it and then send \"done\". If you cannot tell, ask: send a heartbeat with a \
             question."
        ),
        (Record::Begin | Record::Failed(_), Standing::Done) => format!(
            "It is done, by attempt {attempt}, and that stays: do not do it again. Use outcome, and go on with the next step."
        ),
        (Record::Done(_), Standing::Done) => "It is recorded as done. Go on with the next step.".to_owned(),
        (Record::Failed(_), Standing::Failed) => {
            "It is recorded as failed. To try it again, send status \"begin\" first; otherwise go \
             on, or end the task with a result."
                .to_owned()
        }
        (Record::Begin, Standing::Failed)
        | (Record::Done(_), Standing::Begun | Standing::Unknown | Standing::Failed)
        | (Record::Failed(_), Standing::Begun | Standing::Unknown) => "Go on with the task.".to_owned(),
    }
}

/// The problem that answers a file that is not taken, or that is not there.
pub fn file(rejected: &FileRejected) -> Problem {
    match rejected {
        FileRejected::Attempt(rejected) => attempt(rejected),
        FileRejected::NoName => bad_request(
            "name: nothing is left of it that can be a file's name. Give the file a name of letters and digits, such as report.pdf, \
             and send it again.",
        ),
        FileRejected::TooLarge { bytes_max } => file_too_large(*bytes_max),
        FileRejected::TaskFull { bytes_max, bytes } => {
            let detail = format!(
                "The files of a task may have {bytes_max} bytes together, and those of this one have {bytes} without yours, of which \
                 nothing is kept. Send a smaller file, or put it elsewhere and name its address in the result."
            );
            Problem::new(413, "task_files_too_large", "Files too large", detail)
        }
        FileRejected::TooMany { files_max } => {
            let detail = format!(
                "The task has {files_max} files, which is the most that a task may have, so this one was not taken. Put several into \
                 one archive, or name the addresses of others in the result."
            );
            Problem::new(409, "too_many_files", "Too many files", detail)
        }
        FileRejected::TooManyLoose { files_max } => {
            let detail = format!(
                "{files_max} files were uploaded, or are awaited, that no task has. Submit tasks with them; those that are not used \
                 are deleted after a day."
            );
            Problem::new(409, "too_many_uploads", "Too many uploads", detail)
        }
        FileRejected::WrongHash { found } => {
            let detail = format!(
                "What came has the SHA-256 {found}, not the one of X-Sha256, and is not kept: it was changed on the way, or \
                 the header belongs to another file. Compute it anew and send the file again."
            );
            Problem::new(422, "sha256_mismatch", "SHA-256 mismatch", detail)
        }
        FileRejected::Displaced => {
            let detail = "Another upload of the same file began later and took this one's place, or this one took more than an \
                          hour; nothing of it is kept. If the other is not yours too, send the file again.";
            Problem::new(409, "upload_displaced", "Upload displaced", detail)
        }
        FileRejected::NotFound => {
            let detail = "There is no such file, or not any more: files go with their task after its retention, and one that no task \
                          took after a day. Ask for the task's files again, or upload the file by a new link.";
            Problem::new(404, "file_not_found", "File not found", detail)
        }
        FileRejected::Taken { sha256 } => {
            let detail = format!(
                "This link was used for a file with another content (SHA-256 {sha256}), which stays as it is. Get another link with \
                 create_upload_link for this one."
            );
            Problem::new(409, "link_used", "Link used", detail)
        }
        FileRejected::Database(error) => storage_failed(error.failure()),
    }
}

/// The problem that answers a refused claim.
pub fn claim(rejected: &ClaimRejected) -> Problem {
    match rejected {
        ClaimRejected::Ended { task_id, state } => {
            let state = state.map_or("deleted", State::as_str);
            Problem::new(
                409,
                "claim_ended",
                "Claim ended",
                format!(
                    "The claim made under this request_id is over (task {task_id} is {state}). Claim again under a new \
                     request_id."
                ),
            )
        }
        ClaimRejected::QueueNotServed { queue, served } => {
            let queue = crate::domain::text::shorten(queue, 80);
            let served = if served.is_empty() { "none".to_owned() } else { served.join(", ") };
            bad_request(format!(
                "queues: this executor does not serve \"{queue}\". It serves: {served}. Leave queues out to claim from all, \
                 or ask the owner to add the queue."
            ))
        }
        ClaimRejected::Invalid { field, detail } => bad_request(format!("{field}: {detail}")),
        ClaimRejected::Database(error) => storage_failed(error.failure()),
    }
}

/// The problem that answers whatever a disabled executor calls.
pub fn disabled(name: &str) -> Problem {
    let detail = format!(
        "The hub's owner has disabled the executor {name}: none of its calls is taken, and what it holds goes back when its \
         leases run out. Stop working on its tasks, discard what you have, and do not call again before the owner has \
         enabled it."
    );
    Problem::new(403, "executor_disabled", "Executor disabled", detail)
}

/// The problem that answers a machine whose code is traded for nothing.
pub fn enrolment(rejected: &EnrollRejected) -> Problem {
    match rejected {
        EnrollRejected::Refused(refused) => auth::refused_code(*refused),
        EnrollRejected::Withdrawn { executor } => Problem::new(
            410,
            "code_withdrawn",
            "Code withdrawn",
            format!(
                "This enrolment code is not good any more: the executor {executor} was deleted, or newer codes have taken the \
                 place of this one. Ask the hub's owner for a new code; do not retry with this one."
            ),
        ),
        EnrollRejected::Used => Problem::new(
            409,
            "code_used",
            "Code used",
            "This enrolment code was used already: a code is good once. If this machine used it, it has its key, and needs no \
             code. If you did not use it, tell the hub's owner, who should end the key that somebody else got. Otherwise ask the \
             owner for a new code; do not retry with this one.",
        ),
        EnrollRejected::KeyEnded => Problem::new(
            409,
            "code_used",
            "Code used",
            "This enrolment code was used by this machine, and the key that it gave was ended since. Ask the hub's owner for a new \
             code; do not retry with this one.",
        ),
        EnrollRejected::Disabled { executor } => Problem::new(
            403,
            "executor_disabled",
            "Executor disabled",
            format!(
                "The hub's owner has disabled the executor {executor}, so it gets no key now. Ask the owner to enable it; then \
                 send the same call again while the code is good."
            ),
        ),
        EnrollRejected::Database(error) => storage_failed(error.failure()),
    }
}

/// The problem that answers a ping that says of its executor what cannot be kept.
pub fn introduction(rejected: &IntroductionRejected) -> Problem {
    match rejected {
        IntroductionRejected::Invalid { field, detail } => bad_request(format!("{field}: {detail}")),
        IntroductionRejected::Database(error) => storage_failed(error.failure()),
    }
}

/// Why claims find nothing for now whatever there is, if that is so, and what to do.
pub fn rest(executor: &ExecutorRow, now: i64) -> Option<String> {
    if executor.paused_at.is_some() {
        let sentence = "The hub's owner has paused this executor: claims find nothing until it is resumed. Finish what you hold, \
                        and ask again later.";
        return Some(sentence.to_owned());
    }
    claims_again_at(executor, now).map(|at| {
        format!(
            "This executor has claimed as many tasks as it may today: claims find nothing before {}. Finish what you hold, and \
             ask again then.",
            rfc3339(at)
        )
    })
}

/// What an executor does after a heartbeat.
pub fn after_beat(state: State) -> &'static str {
    match state {
        State::InputRequired => {
            "A person has been asked. Go on sending heartbeats with state \"input-required\" until messages holds the answer; \
             a heartbeat without it withdraws the question and goes on working. Or stop: the task is handed out again when it \
             is answered."
        }
        _ => "Go on working, and send the next heartbeat in time.",
    }
}

fn task_not_found() -> Problem {
    let detail = "There is no task with this task_id: it is mistyped, or was deleted after its retention. Use the id that the \
                  claim returned (it begins with t_).";
    Problem::new(404, "task_not_found", "Task not found", detail)
}
