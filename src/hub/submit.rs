//! `submit`: a task enters the hub, once per idempotency key.

use serde_json::{Value as Json, json};

use super::attendance::{Attendance, attendance_of};
use super::inputs::{self, InputFile};
use super::notices::{self, About};
use super::wakes::{self, Consumers};
use super::{Effects, Hub};
use crate::domain::executor::Approval;
use crate::domain::ids::TaskId;
use crate::domain::ledger::OnUnknownAction;
use crate::domain::lifecycle::{self, Hold};
use crate::domain::limits::{
    ATTEMPTS_DEFAULT, ATTEMPTS_MAX, CONTEXT_BYTES_MAX, EXECUTORS_MAX, HORIZON_SECONDS_MAX, PRIORITY_DEFAULT,
    PRIORITY_MAX, REQUEST_ID_BYTES_MAX, TITLE_CHARS_MAX,
};
use crate::domain::notice::NoticeEvents;
use crate::domain::secret;
use crate::domain::target;
use crate::domain::task::{Address, State, WaitingOn};
use crate::faults::{self, Fault};
use crate::store::database::DatabaseError;
use crate::store::events::{self, Kind, NewEvent};
use crate::store::executors::{self, ExecutorRow};
use crate::store::tasks::{self, NewTask, TaskHead, Wishes};

/// A moment, as a submitter may give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Milliseconds of Unix time.
    At(i64),
    /// Seconds from now.
    In(i64),
}

/// A task as it is submitted.
#[derive(Clone, Debug, Default)]
pub struct Submit {
    /// Who submits it: the scope of its idempotency key.
    pub submitter: String,
    /// A line.
    pub title: String,
    /// What to do.
    pub instructions: String,
    /// The executor it is for; or
    pub executor: Option<String>,
    /// the queue it is for.
    pub queue: Option<String>,
    /// Data for the executor.
    pub context: Option<Json>,
    /// 0 to 9.
    pub priority: Option<u8>,
    /// When it fails whatever happens.
    pub deadline: Option<When>,
    /// When it may be claimed at the earliest.
    pub not_before: Option<When>,
    /// The same key returns the same task.
    pub idempotency_key: Option<String>,
    /// How many lease expiries and retryable failures end it.
    pub max_attempts: Option<u32>,
    /// Who is told of its end.
    pub callback_url: Option<String>,
    /// Of which of its events the owner is told (`domain::notice`); `None`: as the hub is set.
    pub notify: Option<Vec<String>>,
    /// What becomes of it when an attempt is lost with an outside action begun; `None`: the next one begins.
    pub on_unknown_action: Option<OnUnknownAction>,
    /// The task that it repeats.
    pub retry_of: Option<String>,
    /// What that one left.
    pub checkpoint: Option<Json>,
    /// Files for the executor. A retry has those of the task that it repeats as well.
    pub inputs: Vec<InputFile>,
}

/// The task's place in the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Its id.
    pub id: String,
    /// Its state: at birth, or as it is now if it was submitted before.
    pub state: State,
    /// Whether the key had been used, so that nothing was created.
    pub existed: bool,
    /// What it waits for, of a task that was created just now.
    pub waiting_on: Option<WaitingOn>,
    /// Who may take it, of a task that was created just now.
    pub attendance: Option<Attendance>,
}

/// Why nothing was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitRejected {
    /// A field is wrong: its name, and what is right.
    Invalid {
        /// The field.
        field: &'static str,
        /// What is right, as a sentence.
        detail: String,
    },
    /// The key was used for something else.
    IdempotencyConflict {
        /// The task that has it.
        task_id: String,
    },
    /// Nobody would ever do it.
    NoConsumer {
        /// What was asked for.
        asked: String,
        /// The executors there are, without those that are disabled.
        executors: Vec<String>,
        /// The queues that one of them serves.
        queues: Vec<String>,
        /// Executors that would do it, were they not disabled.
        disabled: Vec<String>,
    },
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for SubmitRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Takes a task in. The same key of the same submitter returns the task that it made first.
pub fn submit(hub: &Hub<'_>, input: &Submit) -> Result<Submitted, SubmitRejected> {
    check_key(input)?;
    let hash = hash(input);
    hub.command(|effects| {
        // First of all: what was right when it was submitted need not be so now, such as a deadline.
        if let Some(key) = &input.idempotency_key
            && let Some(task) = tasks::by_idempotency_key(hub.db, &input.submitter, key)?
        {
            return if task.submit_hash == hash || faults::is_on(Fault::KeyIgnoresBody) {
                Ok(existing(task))
            } else {
                Err(SubmitRejected::IdempotencyConflict { task_id: task.id })
            };
        }
        if let Some(task) = retried_before(hub, input)? {
            return Ok(existing(task));
        }
        let plan = Plan::of(hub, input)?;
        let consumers = match &plan.address {
            Some(address) => wakes::consumers(hub, address)?,
            None => Consumers::default(),
        };
        match &plan.address {
            Some(address) if !consumers.is_empty() => create(hub, effects, input, (&plan, &hash), address, &consumers),
            _ => Err(no_consumer(hub, input)?),
        }
    })
}

fn existing(task: TaskHead) -> Submitted {
    Submitted { id: task.id, state: task.life.state, existed: true, waiting_on: None, attendance: None }
}

/// Names the retry of a task, whoever asks for it.
fn retry_key(input: &Submit) -> Option<String> {
    input.retry_of.as_ref().map(|task| secret::sha256_hex(&json!(["retry", task]).to_string()))
}

/// The retry of the same task that somebody else has asked for before: a task has one.
fn retried_before(hub: &Hub<'_>, input: &Submit) -> Result<Option<TaskHead>, DatabaseError> {
    let Some(key) = retry_key(input) else { return Ok(None) };
    let event = events::by_request(hub.db, &key)?;
    Ok(event.map(|event| tasks::head(hub.db, &event.task_id)).transpose()?.flatten())
}

/// What a submission comes to, checked.
struct Plan {
    address: Option<Address>,
    not_before: Option<i64>,
    deadline_at: Option<i64>,
    priority: u8,
    max_attempts: u32,
    wishes: Wishes,
}

impl Plan {
    fn of(hub: &Hub<'_>, input: &Submit) -> Result<Self, SubmitRejected> {
        check_texts(hub, input)?;
        let priority = input.priority.unwrap_or(PRIORITY_DEFAULT);
        if priority > PRIORITY_MAX {
            return Err(invalid("priority", "It must be a whole number from 0 (last) to 9 (first); 5 is usual."));
        }
        let max_attempts = input.max_attempts.unwrap_or(ATTEMPTS_DEFAULT);
        if !(1..=ATTEMPTS_MAX).contains(&max_attempts) {
            return Err(invalid("max_attempts", &format!("It must be a whole number from 1 to {ATTEMPTS_MAX}.")));
        }
        let deadline_at = moment(hub, "deadline", input.deadline)?;
        if deadline_at.is_some_and(|at| at <= hub.now) {
            return Err(invalid("deadline", "It is not in the future; give a later one, or none."));
        }
        let not_before = moment(hub, "not_before", input.not_before)?;
        if let (Some(from), Some(until)) = (not_before, deadline_at)
            && from >= until
        {
            return Err(invalid("not_before", "It must be earlier than the deadline."));
        }
        let address = match (&input.executor, &input.queue) {
            (Some(_), Some(_)) => {
                return Err(invalid("executor", "Give an executor or a queue, not both."));
            }
            (Some(name), None) => Address::executor(name),
            (None, Some(name)) => Address::queue(name),
            (None, None) => None,
        };
        let callback_url = match &input.callback_url {
            Some(url) => Some(
                target::check(url, hub.settings.targets)
                    .map_err(|refused| invalid("callback_url", refused.detail()))?,
            ),
            None => None,
        };
        let wishes = Wishes { notify: notify(input)?, callback_url };
        Ok(Self { address, not_before, deadline_at, priority, max_attempts, wishes })
    }

    /// What the task waits for at first. The owner's word comes before its time, which is kept for then.
    fn hold(&self, consumers: &Consumers) -> Hold {
        if consumers.rows().iter().any(|executor| executor.approval == Approval::Always) {
            return Hold::Approval;
        }
        self.not_before.map_or(Hold::None, Hold::Until)
    }
}

fn invalid(field: &'static str, detail: &str) -> SubmitRejected {
    SubmitRejected::Invalid { field, detail: detail.to_owned() }
}

fn check_texts(hub: &Hub<'_>, input: &Submit) -> Result<(), SubmitRejected> {
    if input.title.trim().is_empty() || input.title.chars().nth(TITLE_CHARS_MAX).is_some() {
        return Err(invalid("title", &format!("It must have 1 to {TITLE_CHARS_MAX} characters.")));
    }
    let bytes_max = hub.settings.instructions_bytes_max;
    if input.instructions.trim().is_empty() || input.instructions.len() > bytes_max {
        let detail = format!("They must have 1 to {bytes_max} bytes; refer to long material instead of quoting it.");
        return Err(invalid("instructions", &detail));
    }
    if input.context.as_ref().is_some_and(|context| context.to_string().len() > CONTEXT_BYTES_MAX) {
        return Err(invalid("context", &format!("It must be at most {CONTEXT_BYTES_MAX} bytes of JSON.")));
    }
    Ok(())
}

/// What the owner is to be told, as it is stored.
fn notify(input: &Submit) -> Result<Option<String>, SubmitRejected> {
    let Some(names) = &input.notify else { return Ok(None) };
    let events = NoticeEvents::of_names(names.iter().map(String::as_str));
    events.map(|events| Some(events.to_wish())).map_err(|why| invalid("notify", &format!("{why}.")))
}

fn check_key(input: &Submit) -> Result<(), SubmitRejected> {
    if input.idempotency_key.as_ref().is_some_and(|key| key.is_empty() || key.len() > REQUEST_ID_BYTES_MAX) {
        return Err(invalid("idempotency_key", &format!("It must have 1 to {REQUEST_ID_BYTES_MAX} bytes.")));
    }
    Ok(())
}

fn moment(hub: &Hub<'_>, field: &'static str, when: Option<When>) -> Result<Option<i64>, SubmitRejected> {
    let at = match when {
        None => return Ok(None),
        Some(When::At(at)) => at,
        Some(When::In(seconds)) => hub.now.saturating_add(seconds.saturating_mul(1000)),
    };
    if at > hub.now + HORIZON_SECONDS_MAX * 1000 {
        return Err(invalid(field, "It is more than a year away; give an earlier one."));
    }
    Ok(Some(at.max(0)))
}

/// Over what was given, not what it came to, so that "in an hour" said twice is the same.
fn hash(input: &Submit) -> String {
    let when = |when: Option<When>| match when {
        None => json!(null),
        Some(When::At(at)) => json!({ "at": at }),
        Some(When::In(seconds)) => json!({ "in": seconds }),
    };
    let given = json!([
        input.title,
        input.instructions,
        input.executor,
        input.queue,
        input.context,
        input.priority,
        when(input.deadline),
        when(input.not_before),
        input.max_attempts,
        input.retry_of,
    ]);
    // A field that came later counts only where it is given, so that what was submitted before keeps its hash.
    let given = match &input.notify {
        Some(events) => json!([given, { "notify": events }]),
        None => given,
    };
    let given = match &input.callback_url {
        Some(url) => json!([given, { "callback_url": url }]),
        None => given,
    };
    let given = match input.on_unknown_action {
        Some(wish) => json!([given, { "on_unknown_action": wish.as_str() }]),
        None => given,
    };
    let given = match input.inputs.as_slice() {
        [] => given,
        inputs => json!([given, { "files": inputs.iter().map(InputFile::mark).collect::<Vec<_>>() }]),
    };
    secret::sha256_hex(&given.to_string())
}

fn create(
    hub: &Hub<'_>,
    effects: &mut Effects,
    input: &Submit,
    (plan, hash): (&Plan, &str),
    address: &Address,
    consumers: &Consumers,
) -> Result<Submitted, SubmitRejected> {
    let id = TaskId::new(hub.now, hub.random());
    let hold = plan.hold(consumers);
    let life = lifecycle::submit(&hub.rules(consumers.any_is_sent()), hold, plan.deadline_at, plan.max_attempts);
    let (life, wakes_owed) = wakes::plan(hub, id.as_str(), life, consumers)?;
    let (actor, retry_key) = (format!("submitter:{}", input.submitter), retry_key(input));
    let event = NewEvent {
        task_id: id.as_str(),
        previous_seq: None,
        at: hub.now,
        kind: Kind::Submitted,
        attempt: 0,
        actor: &actor,
        request_key: retry_key.as_deref(),
        data: input.retry_of.as_ref().map_or(Json::Null, |task| json!({ "retry_of": task })),
    };
    let event_seq = events::insert(hub.db, &event)?;
    let task = NewTask {
        id: id.as_str(),
        life: &life,
        priority: plan.priority,
        due_at: life.due_at(hub.settings.lease_ms),
        address,
        submitted_by: &input.submitter,
        idempotency_key: input.idempotency_key.as_deref(),
        submit_hash: hash,
        retry_of: input.retry_of.as_deref(),
        event_seq,
        now: hub.now,
        title: &input.title,
        instructions: &input.instructions,
        context: input.context.as_ref(),
        checkpoint: input.checkpoint.as_ref(),
        wishes: &plan.wishes,
        not_before: plan.not_before.filter(|_| hold == Hold::Approval),
        on_unknown_action: input.on_unknown_action.unwrap_or_default(),
    };
    tasks::insert(hub.db, &task)?;
    inputs::give(hub, input, id.as_str())?;
    wakes::post(hub, effects, wakes_owed)?;
    let about = About { id: id.as_str(), title: &input.title, address, wishes: plan.wishes.notify.as_deref() };
    notices::submitted(hub, effects, (about, &life), (&input.submitter, &input.instructions), consumers)?;
    effects.task_changed(id.as_str(), life.state, address);
    let attendance = Some(attendance_of(hub, consumers.rows()));
    let waiting_on = life.waiting_on;
    Ok(Submitted { id: id.to_string(), state: life.state, existed: false, waiting_on, attendance })
}

fn no_consumer(hub: &Hub<'_>, input: &Submit) -> Result<SubmitRejected, DatabaseError> {
    let all = executors::all(hub.db, EXECUTORS_MAX)?;
    let (all, disabled): (Vec<_>, Vec<_>) = all.into_iter().partition(|executor| executor.disabled_at.is_none());
    let mut queues: Vec<String> = all.iter().flat_map(|executor| executor.queues.clone()).collect();
    queues.sort();
    queues.dedup();
    let asked = match (&input.executor, &input.queue) {
        (Some(name), _) => format!("the executor \"{name}\""),
        (None, Some(name)) => format!("the queue \"{name}\""),
        (None, None) => "neither an executor nor a queue".to_owned(),
    };
    let would = |executor: &ExecutorRow| match (&input.executor, &input.queue) {
        (Some(name), _) => executor.name == *name,
        (None, Some(name)) => executor.queues.contains(name),
        (None, None) => false,
    };
    let disabled = disabled.into_iter().filter(would).map(|executor| executor.name).collect();
    let executors = all.into_iter().map(|executor| executor.name).collect();
    Ok(SubmitRejected::NoConsumer { asked, executors, queues, disabled })
}
