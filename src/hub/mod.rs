//! The hub's commands: one a file, each one transaction (design §3 rules 5 and 6).
//!
//! Owns: what submitters, executors, the owner and the clock can do. A command is a function of the database, its input,
//! `now` and entropy; it never waits. What must happen outside because of it comes back as `Effects`, and only once it
//! has committed. It refuses to know HTTP, MCP and JSON-RPC.

mod action;
mod answer;
mod approve;
mod attach;
mod attempt;
mod attendance;
mod callbacks;
mod cancel;
mod claim;
mod clients;
mod defer;
mod enroll;
mod enrolment;
mod executors;
mod feed;
mod files;
mod grants;
mod heartbeat;
mod inputs;
mod keys;
mod list;
mod loose;
mod notices;
mod outbox;
mod owed;
mod passphrase;
mod presence;
mod query;
mod release;
mod removal;
mod result;
mod retry;
mod status;
mod submit;
mod sweep;
mod throttle;
mod unknown;
mod upload;
mod wakes;

use std::cell::RefCell;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value as Json;

use crate::domain::lifecycle::Rules;
use crate::domain::settings::Settings;
use crate::domain::task::Address;
use crate::store::database::{Database, DatabaseError};
use crate::store::events::{self, Kind, NewEvent};
use crate::store::tasks::TaskHead;

pub use action::{Act, Acted, ActionRejected, ActionView, Record, act};
pub use answer::{Answer, AnswerRejected, Answered, answer};
pub use approve::{Approve, ApproveRejected, Approved, approve};
pub use attach::{NewFile, attach};
pub use attempt::{AttemptCall, AttemptRejected};
pub use attendance::{
    Attendance, Attendant, IntroductionRejected, attendance, claims_again_at, claims_today, introduce,
};
pub use cancel::{CancelRejected, Canceled, cancel};
pub use claim::{Claim, ClaimRejected, Claimed, addresses, claim};
pub use clients::{
    ClientMetadata, KnownClient, delete_client, find_client, keep_document, list_clients, register_client,
};
pub use defer::{Defer, Deferred, defer};
pub use enroll::{EnrollRejected, Enrolled, enroll};
pub use enrolment::{Enrolment, IssuedCode, issue_code};
pub use executors::{
    CreateExecutor, CreatedExecutor, ExecutorChange, ExecutorRejected, ExecutorView, change_executor, create_executor,
    executor_names, find_executor, list_executors,
};
pub use feed::{FeedEvent, events_after, is_granted, is_work_ready, newest_event};
pub use files::{
    FileView, LinkedFile, StorageUse, StoredFile, attachments, file, file_link, files_of_attempt, linked, read_file,
    storage_use, stored_file,
};
pub use grants::{
    Consent, ConsentRejected, Exchange, Granted, TokenRejected, Tokens, consent, exchange, give_back, granted,
    is_alive, list_grants, purge_sign_in, refresh, replayed_grants, revoke_all_grants, revoke_grant,
};
pub use heartbeat::{Beat, Heartbeat, heartbeat};
pub use inputs::InputFile;
pub use keys::{KeyView, NewKey, authenticate, executor_at_work, list_keys, revoke_key, rotate_key};
pub use list::{List, ListRejected, Listed, TaskSummary, list_tasks};
pub use loose::{UploadLink, open_upload, purge_files};
pub use notices::{test_notice, watch_silence};
pub use outbox::{Delivery, Dispatched, Order, discard, dispatch, list_outbox, purge_outbox, record_delivery, revive};
pub use passphrase::{PassphraseRejected, SignIn, change_passphrase, sign_in};
pub use presence::Presence;
pub use query::{EventView, Message, Note, TaskDetail, get_task, revision};
pub use release::{Release, Released, release};
pub use removal::{Removal, TasksLeft, delete_executor};
pub use result::{Ended, Outcome, Report, report};
pub use retry::{RetryRejected, retry_task};
pub use status::{HubStatus, held_count, hub_status, ready_counts};
pub use submit::{Submit, SubmitRejected, Submitted, When, submit};
pub use sweep::{Swept, purge, sweep};
pub use throttle::{Throttle, take_try};
pub use upload::{FileRejected, Upload, UploadTo, Uploaded, abandon_upload, begin_upload, take_piece};
pub use wakes::{WakeRejected, Woken, wake_executor};

/// Random bytes that nobody can guess.
pub trait Entropy {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// What must happen outside after a command has committed.
#[derive(Debug, Default)]
pub struct Effects {
    /// Ids of tasks that changed in a way that somebody may wait for.
    pub changed: Vec<String>,
    /// Addresses (`Address` as text) at which a task became claimable.
    pub ready: Vec<String>,
    /// Messages to send now. They are durable: one that is never recorded is sent again.
    pub outbox: Vec<Order>,
    /// Executors whose sockets must close now: disabled, deleted, with a key that ended, or with other queues.
    pub cut_off: Vec<String>,
}

/// Everything a command needs beside its input.
pub struct Hub<'h> {
    db: &'h dyn Database,
    settings: &'h Settings,
    presence: &'h Presence,
    entropy: &'h dyn Entropy,
    now: i64,
    origin: String,
    effects: RefCell<Effects>,
}

impl<'h> Hub<'h> {
    /// A hub at this moment. `origin` is where it is reached (scheme and host); a configured `PUBLIC_URL` wins over it.
    pub fn new(
        db: &'h dyn Database,
        settings: &'h Settings,
        presence: &'h Presence,
        entropy: &'h dyn Entropy,
        now: i64,
        origin: &str,
    ) -> Self {
        let origin = settings.public_url.clone().unwrap_or_else(|| origin.to_owned());
        Self { db, settings, presence, entropy, now, origin, effects: RefCell::default() }
    }

    /// The owner's settings.
    pub fn settings(&self) -> &Settings {
        self.settings
    }

    /// The hub's clock, in milliseconds.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Where the hub is reached, without a trailing slash.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What the commands since the last call want done outside.
    pub fn take_effects(&self) -> Effects {
        self.effects.take()
    }

    /// When the alarm must ring next: the earliest timer of all tasks and of the outbox, in milliseconds.
    pub fn next_due(&self) -> Result<Option<i64>, DatabaseError> {
        crate::store::next_due(self.db)
    }

    /// Runs a command: everything that `body` writes stays, and its effects count, if it returns `Ok`; otherwise nothing
    /// has happened.
    fn command<T, E: From<DatabaseError>>(&self, body: impl Fn(&mut Effects) -> Result<T, E>) -> Result<T, E> {
        let mut outcome: Option<Result<(T, Effects), E>> = None;
        let committed = self.db.atomically(&mut || {
            let mut effects = Effects::default();
            let result = body(&mut effects);
            crate::hooks::panic_point("transaction");
            let failed = result.is_err();
            outcome = Some(result.map(|value| (value, effects)));
            if failed { Err(DatabaseError::Refused("the command was rejected".to_owned())) } else { Ok(()) }
        });
        match (committed, outcome) {
            (Ok(()), Some(Ok((value, effects)))) => {
                let mut all = self.effects.borrow_mut();
                all.changed.extend(effects.changed);
                all.ready.extend(effects.ready);
                all.outbox.extend(effects.outbox);
                all.cut_off.extend(effects.cut_off);
                Ok(value)
            }
            (_, Some(Err(rejected))) => Err(rejected),
            (Err(error), _) => Err(error.into()),
            (Ok(()), None) => Err(DatabaseError::Refused("the transaction did not run".to_owned()).into()),
        }
    }

    /// Adds an event to a task's history and returns its number, which the change of the task has to name.
    fn record(&self, task: &TaskHead, kind: Kind, attempt: u32, actor: &str, data: Json) -> Result<i64, DatabaseError> {
        let event = NewEvent {
            task_id: &task.id,
            previous_seq: Some(task.event_seq),
            at: self.now,
            kind,
            attempt,
            actor,
            request_key: None,
            data,
        };
        events::insert(self.db, &event)
    }

    /// Random bytes in base64url.
    pub fn random_text<const N: usize>(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.random::<N>())
    }

    fn rules(&self, wakes: bool) -> Rules<'_> {
        Rules { settings: self.settings, now: self.now, wakes, asks: false }
    }

    fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.entropy.fill(&mut bytes);
        bytes
    }
}

impl Effects {
    /// The task changed; if it is claimable now, whoever waits for work there is told.
    fn task_changed(&mut self, id: &str, state: crate::domain::task::State, address: &Address) {
        self.changed.push(id.to_owned());
        if state.lane() == Some(crate::domain::task::Lane::Ready) {
            self.ready.push(address.to_string());
        }
    }
}
