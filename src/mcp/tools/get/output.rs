//! One task as `get_task` shows it.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::super::files::FileOut;
use super::super::view;
use crate::domain::ledger::OnUnknownAction;
use crate::hub::{Attendance, Attendant, TaskDetail};
use crate::mcp::moment::Moment;

/// Executors that are shown of those that may claim a task, the likeliest.
const CONSUMERS_SHOWN_MAX: usize = 5;

/// A text that may be too long for one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    Result,
    Data,
    Error,
    Question,
    Note,
    Messages,
    EarlierAttempts,
    ExternalActions,
    Actions,
    Attachments,
    Instructions,
    Context,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct Output {
    pub(super) task_id: String,
    pub(super) title: String,
    /// Where it stands. completed, failed and canceled are final.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::states"))]
    pub(super) state: &'static str,
    /// What a task that is waiting or input-required waits for.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::reasons"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waiting_on: Option<&'static str>,
    /// What to do now.
    pub(super) next: String,
    /// How to take what the executor wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) notice: Option<&'static str>,
    /// The executor it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) executor: Option<String>,
    /// The queue it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<String>,
    /// The executor that has it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held_by: Option<String>,
    /// How many times it has been claimed.
    pub(super) attempt: u32,
    /// How many of those ended in silence or in a failure worth a retry.
    pub(super) failures: u32,
    /// How many failures end it.
    pub(super) max_attempts: u32,
    /// 9 is most urgent.
    pub(super) priority: u8,
    /// How far the attempt is, from 0 to 1, as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<f64>,
    /// What the attempt said last about its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    /// What the executor asks; answer_task answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) question: Option<String>,
    /// Questions and answers so far, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) messages: Vec<Message>,
    /// How earlier attempts ended, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) earlier_attempts: Vec<Earlier>,
    /// What it brought, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<String>,
    /// What it brought, as data.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::any"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Json>,
    /// What went wrong, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// Why it failed.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::failure_codes"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error_code: Option<&'static str>,
    /// What the executor says it did to the outside world.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::any"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) external_actions: Option<Json>,
    /// What its attempts recorded of what they did outside, in their order.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "Vec<view::Action>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) actions: Option<Json>,
    /// What becomes of it when an attempt is lost in the middle of such an action, if that is to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) on_unknown_action: Option<&'static str>,
    /// Its files, the newest first: get_attachment reads them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attachments: Vec<FileOut>,
    pub(super) created_at: Moment,
    pub(super) updated_at: Moment,
    /// When the hub last heard from the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) heard_at: Option<Moment>,
    /// When the attempt counts as dead unless it is heard from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease_expires_at: Option<Moment>,
    /// When it fails unless its question is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_expires_at: Option<Moment>,
    /// When its question was answered, if the attempt has not come for the answer yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answered_at: Option<Moment>,
    /// When it becomes claimable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) visible_at: Option<Moment>,
    /// When it fails whatever happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deadline_at: Option<Moment>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) completed_at: Option<Moment>,
    /// The task that it does again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_of: Option<String>,
    /// The call that told its executor to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wake: Option<WakeView>,
    /// While nobody has it: who may claim it, the likeliest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) executors: Vec<Consumer>,
    /// Texts that are too long for this answer: read them with part and offset.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) truncated: Vec<Truncated>,
    /// The part that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<Page>,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct Message {
    pub(super) at: Moment,
    /// executor:NAME, submitter:NAME, or hub.
    pub(super) from: String,
    pub(super) text: String,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct Earlier {
    pub(super) attempt: u32,
    /// lease_expired, released, deferred, failed, silent or moved.
    pub(super) ended: String,
    pub(super) at: Moment,
    /// The last that it said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct WakeView {
    /// sent, coalesced (an earlier call covers it), accepted, unknown (no answer in time), rejected, given_up.
    pub(super) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<Moment>,
    /// When the next one is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_at: Option<Moment>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct Consumer {
    pub(super) name: String,
    /// Whether it called within the last minute, or listens.
    pub(super) online: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_seen_at: Option<Moment>,
    /// Whether the owner has it rest: it claims nothing new.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) paused: bool,
    /// Whether the owner has shut it out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) disabled: bool,
    /// When it may claim again, if it has claimed as many tasks as it may today.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claims_again_at: Option<Moment>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct Truncated {
    pub(super) part: Part,
    /// Where to go on reading.
    pub(super) next_offset: usize,
    /// Characters of the whole.
    pub(super) length: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct Page {
    pub(super) part: Part,
    /// The character at which the text begins.
    pub(super) offset: usize,
    /// The text; for data, external_actions, actions, messages, earlier_attempts, attachments and context a piece of JSON as text.
    pub(super) text: String,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_offset: Option<usize>,
    /// Characters of the whole.
    pub(super) length: usize,
}

impl Output {
    /// The task without its long texts.
    pub(super) fn of(task: &TaskDetail, attendance: &Attendance) -> Self {
        let (head, life) = (&task.full.head, &task.full.head.life);
        let held_by = view::held_by(life).map(str::to_owned);
        let claim = life.claim.as_ref().filter(|_| held_by.is_some());
        let consumer = |one: &Attendant| Consumer {
            name: one.name.clone(),
            online: one.online,
            last_seen_at: one.last_seen_at.map(Moment),
            paused: one.paused,
            disabled: one.disabled,
            claims_again_at: one.claims_again_at.map(Moment),
        };
        Self {
            task_id: head.id.clone(),
            title: head.title.clone(),
            state: life.state.as_str(),
            waiting_on: life.waiting_on.map(|on| on.as_str()),
            next: view::next_step(head, attendance),
            notice: None,
            executor: head.address.executor_name().map(str::to_owned),
            queue: head.address.queue_name().map(str::to_owned),
            attempt: life.attempt,
            failures: life.failures,
            max_attempts: life.max_attempts,
            priority: head.priority,
            progress: head.progress,
            note: None,
            question: None,
            messages: vec![],
            earlier_attempts: vec![],
            result: None,
            data: None,
            error: None,
            error_code: life.failure.map(|code| code.as_str()),
            external_actions: None,
            actions: None,
            on_unknown_action: Some(task.full.on_unknown_action)
                .filter(|wish| *wish != OnUnknownAction::default())
                .map(OnUnknownAction::as_str),
            attachments: vec![],
            created_at: Moment(head.created_at),
            updated_at: Moment(head.updated_at),
            heard_at: claim.map(|claim| Moment(claim.heard_at)),
            lease_expires_at: life.lease_expires_at.map(Moment),
            input_expires_at: life.input_expires_at.map(Moment),
            answered_at: life.answered_at.map(Moment),
            visible_at: life.visible_at.map(Moment),
            deadline_at: life.deadline_at.map(Moment),
            completed_at: life.completed_at.map(Moment),
            retry_of: head.retry_of.clone(),
            wake: life.last_wake_status.map(|status| WakeView {
                status: status.as_str(),
                at: life.last_wake_at.map(Moment),
                next_at: life.next_wake_at.map(Moment),
            }),
            executors: attendance.0.iter().take(CONSUMERS_SHOWN_MAX).map(consumer).collect(),
            truncated: vec![],
            page: None,
            held_by,
        }
    }
}
