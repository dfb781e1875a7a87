//! Rules 5 and 6 of design §3: a command whose n-th statement fails or panics has not happened, for every n; nothing is
//! reported outside; and the same command succeeds afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value as Json, json};
use taskhub::domain::file::Receiving;
use taskhub::domain::ids::FileId;
use taskhub::domain::ledger::OnUnknownAction;
use taskhub::domain::limits::CHUNK_BYTES;
use taskhub::domain::wake::{Wake, WakeAuth};
use taskhub::hub::{
    self, Act, Answer, Approve, AttemptCall, Claim, CreateExecutor, Defer, Delivery, Effects, Enrolment,
    ExecutorChange, Heartbeat, Hub, InputFile, NewFile, Order, Outcome, Record, Release, Report, Submit, TasksLeft,
    Upload, UploadTo, Uploaded, When,
};

use crate::support::{Held, World, task_for, task_in};

/// A hub in the middle of everything.
struct Stage {
    world: World,
    key: String,
    /// Held by `bot`.
    held: Held,
    /// Held by `bot`, waiting for an answer.
    asking: Held,
    /// The same, and silent for long.
    silent: Held,
    /// Held by `bot`, with one action begun, one failed, and one that an earlier attempt has begun; a person wants to be asked.
    acting: Held,
    /// The same, waiting for an answer, and silent for long.
    mute: Held,
    /// Canceled.
    canceled: Held,
    /// Waits for its time.
    waiting: String,
    /// Waits for the owner's word, and then for its time.
    unapproved: String,
    /// A wake that is on its way.
    order: Order,
    /// A file that `held` has brought the first piece of.
    begun: Receiving,
    /// The same of `held`, once more, with nothing of it so far.
    fresh: Receiving,
    /// An upload link that nobody has used.
    link: FileId,
    /// A file that was uploaded, and that no task has.
    loose: String,
    /// A code for `bot`.
    code: String,
}

fn stage() -> Stage {
    let world = World::new();
    let hook = json!({ "adapter": "webhook", "url": "https://bot.example/wake", "auth": { "kind": "none" } });
    let key = world.webhook_executor("bot", &["q"], hook);
    world.executor("idle", &[]);
    world.owner("POST", "/api/executors", json!({ "name": "asked", "approval": "always", "max_tasks_per_day": 5 }));
    let acting_task =
        Submit { on_unknown_action: Some(OnUnknownAction::Ask), max_attempts: Some(9), ..task_for("bot") };
    let act = |held: &Held, step: &str, status: &str| {
        world.does("action", held, json!({ "step_id": step, "tool": "t", "status": status }));
    };
    let acting_id = world.submit(&acting_task);
    act(&world.claim(&key), "earlier", "begin");
    world.pass_and_sweep(300_000);
    world.answer(&acting_id, "I cannot tell.").unwrap();
    world.submit(&acting_task);
    let (acting, mute) = (world.claim(&key), world.claim(&key));
    for held in [&acting, &mute] {
        act(held, "begun", "begin");
    }
    act(&acting, "failed", "begin");
    act(&acting, "failed", "failed");
    world.does("heartbeat", &mute, json!({ "question": "Which?" }));
    let silent = world.working("bot", &key);
    world.does("heartbeat", &silent, json!({ "question": "Which?" }));
    world.pass(200_000);
    world.does("heartbeat", &acting, json!({}));
    world.pass(200_000);
    let canceled = world.working("bot", &key);
    world.cancel(&canceled.id).unwrap();
    let asking = world.working("bot", &key);
    world.does("heartbeat", &asking, json!({ "question": "Which?" }));
    let held = world.working("bot", &key);
    let waiting = world.submit(&Submit { not_before: Some(When::In(3_600)), ..task_for("bot") });
    let unapproved = world.submit(&Submit { not_before: Some(When::In(3_600)), ..task_for("asked") });
    world.pass(1);
    let [order] = world.submit_with_effects(&task_in("q")).1.outbox.try_into().expect("one wake");
    let begin = || match world.run(|hub| hub::begin_upload(hub, &upload(&call(&held, "attachment", &Json::Null)))).0 {
        Ok(Uploaded::More(receiving)) => receiving,
        other => panic!("{other:?}"),
    };
    let (begun, fresh) = (begin(), begin());
    world
        .run(|hub| {
            hub::take_piece(hub, &upload(&call(&held, "attachment", &Json::Null)), &begun, vec![1; CHUNK_BYTES], false)
        })
        .0
        .unwrap();
    let begun = begun.with(&vec![1; CHUNK_BYTES]);
    let open =
        || FileId::parse(&world.run(|hub| hub::open_upload(hub, "owner", "a", None)).0.unwrap().file_id).unwrap();
    let (link, loose) = (open(), open());
    bring(&world.hub(), &loose).unwrap();
    let loose = loose.as_str().to_owned();
    let code = hub::issue_code(&world.hub(), "bot", &Enrolment::Existing).expect("a code").code;
    Stage {
        world,
        key,
        held,
        asking,
        silent,
        acting,
        mute,
        canceled,
        waiting,
        unapproved,
        order,
        begun,
        fresh,
        link,
        loose,
        code,
    }
}

fn upload<'u>(call: &AttemptCall<'u>) -> Upload<'u> {
    Upload { to: UploadTo::Attempt { call: *call, name: "a.bin" }, content_type: None, sha256: None, size: None }
}

/// Brings a small file by a link.
fn bring(hub: &Hub<'_>, link: &FileId) -> Result<(), String> {
    let upload = Upload { to: UploadTo::Link(link), content_type: None, sha256: None, size: None };
    match hub::begin_upload(hub, &upload) {
        Ok(Uploaded::More(begun)) => done(hub::take_piece(hub, &upload, &begun, b"x".to_vec(), true)),
        other => done(other),
    }
}

fn file(name: &str) -> NewFile {
    NewFile { name: name.to_owned(), content_type: None, bytes: b"x".to_vec() }
}

/// A command under its name; `Err` tells that the database failed.
struct Command {
    name: &'static str,
    run: fn(&Stage, &Hub<'_>) -> Result<(), String>,
}

fn done<T, E: std::fmt::Debug>(outcome: Result<T, E>) -> Result<(), String> {
    outcome.map(drop).map_err(|error| format!("{error:?}"))
}

fn call<'c>(held: &'c Held, verb: &'static str, brought: &'c Json) -> AttemptCall<'c> {
    AttemptCall { executor: "bot", task_id: &held.id, claim_token: &held.token, verb, brought }
}

fn report(outcome: Outcome) -> Report {
    let question = (outcome == Outcome::Blocked).then(|| "Which?".to_owned());
    Report { outcome, result: None, data: None, error: None, external_actions: None, question }
}

fn beat(hub: &Hub<'_>, held: &Held, input: &Heartbeat) -> Result<(), String> {
    done(hub::heartbeat(hub, &call(held, "heartbeat", &json!({ "note": "news" })), input))
}

fn end(hub: &Hub<'_>, held: &Held, outcome: Outcome) -> Result<(), String> {
    done(hub::report(hub, &call(held, "result", &json!({ "status": "it" })), &report(outcome)))
}

fn executor(hub: &Hub<'_>, key: &str) -> Result<taskhub::store::executors::ExecutorRow, String> {
    hub::authenticate(hub, key).map_err(|error| format!("{error:?}"))?.ok_or_else(|| "no executor".to_owned())
}

fn act(stage: &Stage, hub: &Hub<'_>, step: &str, record: Record) -> Result<(), String> {
    let input = Act { step_id: step.to_owned(), tool: "t".to_owned(), params: Json::Null, record };
    done(hub::act(hub, &call(&stage.acting, "action", &json!({ "step_id": step })), &input))
}

const COMMANDS: &[Command] = &[
    Command { name: "begin an action", run: |stage, hub| act(stage, hub, "new", Record::Begin) },
    Command { name: "begin an action again", run: |stage, hub| act(stage, hub, "failed", Record::Begin) },
    Command { name: "begin what was lost", run: |stage, hub| act(stage, hub, "earlier", Record::Begin) },
    Command {
        name: "an action is done",
        run: |stage, hub| act(stage, hub, "begun", Record::Done(Some(json!({ "receipt": 7 })))),
    },
    Command { name: "an action failed", run: |stage, hub| act(stage, hub, "earlier", Record::Failed(None)) },
    Command {
        name: "release that leaves an action unknown",
        run: |stage, hub| done(hub::release(hub, &call(&stage.acting, "release", &json!({})), &Release::default())),
    },
    Command {
        name: "failure that leaves an action unknown",
        run: |stage, hub| end(hub, &stage.acting, Outcome::Failed { retryable: true }),
    },
    Command {
        name: "answer to a silent attempt that leaves an action unknown",
        run: |stage, hub| done(hub::answer(hub, &answer(&stage.mute))),
    },
    Command { name: "submit", run: |_, hub| done(hub::submit(hub, &task_for("bot"))) },
    Command {
        name: "submit under a key",
        run: |_, hub| done(hub::submit(hub, &Submit { idempotency_key: Some("k".to_owned()), ..task_for("bot") })),
    },
    Command {
        name: "claim",
        run: |stage, hub| {
            let input = Claim { request_id: Some("r".to_owned()), queues: None };
            done(hub::claim(hub, &executor(hub, &stage.key)?, &input))
        },
    },
    Command {
        name: "heartbeat",
        run: |stage, hub| beat(hub, &stage.held, &Heartbeat { note: Some("news".to_owned()), ..Heartbeat::default() }),
    },
    Command {
        name: "heartbeat with a question",
        run: |stage, hub| {
            let question = Some("Where?".to_owned());
            beat(hub, &stage.held, &Heartbeat { blocked: true, question, ..Heartbeat::default() })
        },
    },
    Command { name: "heartbeat that resumes", run: |stage, hub| beat(hub, &stage.asking, &Heartbeat::default()) },
    Command { name: "result completed", run: |stage, hub| end(hub, &stage.held, Outcome::Completed) },
    Command {
        name: "result failed, retryable",
        run: |stage, hub| end(hub, &stage.held, Outcome::Failed { retryable: true }),
    },
    Command { name: "result blocked", run: |stage, hub| end(hub, &stage.held, Outcome::Blocked) },
    Command {
        name: "defer",
        run: |stage, hub| {
            let input = Defer { seconds: 60, ..Defer::default() };
            done(hub::defer(hub, &call(&stage.held, "defer", &json!({})), &input))
        },
    },
    Command {
        name: "release",
        run: |stage, hub| done(hub::release(hub, &call(&stage.held, "release", &json!({})), &Release::default())),
    },
    Command { name: "cancel", run: |stage, hub| done(hub::cancel(hub, "owner", &stage.held.id, Some("no"))) },
    Command { name: "answer", run: |stage, hub| done(hub::answer(hub, &answer(&stage.asking))) },
    Command { name: "answer to a silent attempt", run: |stage, hub| done(hub::answer(hub, &answer(&stage.silent))) },
    Command { name: "retry", run: |stage, hub| done(hub::retry_task(hub, "owner", &stage.canceled.id)) },
    Command {
        name: "record a wake",
        run: |stage, hub| done(hub::record_delivery(hub, &stage.order, &Delivery::Accepted)),
    },
    Command {
        name: "record a refused wake",
        run: |stage, hub| done(hub::record_delivery(hub, &stage.order, &Delivery::rejected("no"))),
    },
    Command { name: "wake an executor", run: |_, hub| done(hub::wake_executor(hub, "bot", None)) },
    Command {
        name: "wake a waiting task",
        run: |stage, hub| done(hub::wake_executor(hub, "bot", Some(&stage.waiting))),
    },
    Command {
        name: "create an executor",
        run: |_, hub| {
            let wake = Wake::Webhook { url: "https://new.example/".to_owned(), auth: WakeAuth::None {}, body: None };
            let queues = vec!["a".to_owned(), "b".to_owned()];
            let account = ExecutorChange { queues: Some(queues), wake: Some(wake), ..ExecutorChange::default() };
            let input = CreateExecutor { name: "new".to_owned(), account };
            done(hub::create_executor(hub, &input))
        },
    },
    Command {
        name: "change an executor",
        run: |_, hub| {
            let queues = Some(vec!["q".to_owned(), "r".to_owned(), "s".to_owned()]);
            let input = ExecutorChange { queues, paused: Some(true), ..ExecutorChange::default() };
            done(hub::change_executor(hub, "bot", &input))
        },
    },
    Command {
        name: "a ping that says something",
        run: |stage, hub| done(hub::introduce(hub, &executor(hub, &stage.key)?, Some("1"), Some(&["a".to_owned()]))),
    },
    Command {
        name: "revoke a key",
        run: |_, hub| {
            let keys = hub::list_keys(hub, "bot").map_err(|error| format!("{error:?}"))?;
            done(hub::revoke_key(hub, "bot", &keys[0].id))
        },
    },
    Command { name: "approve", run: |stage, hub| done(hub::approve(hub, &approve(stage, true))) },
    Command { name: "deny", run: |stage, hub| done(hub::approve(hub, &approve(stage, false))) },
    Command {
        name: "a code for an executor that is there",
        run: |_, hub| done(hub::issue_code(hub, "bot", &Enrolment::Existing)),
    },
    Command {
        name: "a code for a new executor",
        run: |_, hub| done(hub::issue_code(hub, "new", &Enrolment::New(ExecutorChange::default()))),
    },
    Command { name: "enroll", run: |stage, hub| done(hub::enroll(hub, &stage.code, "a nonce of the tests")) },
    Command { name: "rotate a key", run: |_, hub| done(hub::rotate_key(hub, "bot", true)) },
    Command {
        name: "attach a file",
        run: |stage, hub| done(hub::attach(hub, &call(&stage.held, "attachment", &json!({})), &file("b"))),
    },
    Command {
        name: "the first piece of a file",
        run: |stage, hub| {
            let brought = json!({});
            let call = call(&stage.held, "attachment", &brought);
            done(hub::take_piece(hub, &upload(&call), &stage.fresh, vec![2; CHUNK_BYTES], false))
        },
    },
    Command {
        name: "the next piece of a file",
        run: |stage, hub| {
            let brought = json!({});
            let call = call(&stage.held, "attachment", &brought);
            done(hub::take_piece(hub, &upload(&call), &stage.begun, vec![2; CHUNK_BYTES], false))
        },
    },
    Command {
        name: "the last piece of a file",
        run: |stage, hub| {
            let brought = json!({});
            let call = call(&stage.held, "attachment", &brought);
            done(hub::take_piece(hub, &upload(&call), &stage.begun, b"end".to_vec(), true))
        },
    },
    Command { name: "abandon an upload", run: |stage, hub| done(hub::abandon_upload(hub, &stage.begun)) },
    Command { name: "open an upload", run: |_, hub| done(hub::open_upload(hub, "owner", "b", None)) },
    Command { name: "a file by a link", run: |stage, hub| bring(hub, &stage.link) },
    Command {
        name: "submit with files",
        run: |stage, hub| {
            let uploaded = InputFile::Uploaded { file_id: stage.loose.clone() };
            done(hub::submit(hub, &Submit { inputs: vec![InputFile::Inline(file("b")), uploaded], ..task_for("bot") }))
        },
    },
    Command { name: "delete an executor", run: |_, hub| done(hub::delete_executor(hub, "idle", &TasksLeft::Keep)) },
];

fn answer(held: &Held) -> Answer {
    Answer { submitter: "owner".to_owned(), task_id: held.id.clone(), text: "This one.".to_owned() }
}

fn approve(stage: &Stage, approve: bool) -> Approve {
    let note = Some("So be it.".to_owned());
    Approve { submitter: "owner".to_owned(), task_id: stage.unapproved.clone(), approve, note }
}

fn is_empty(effects: &Effects) -> bool {
    effects.changed.is_empty() && effects.ready.is_empty() && effects.outbox.is_empty() && effects.cut_off.is_empty()
}

/// Runs the command with its n-th statement failing, for every n, until it needs no more than n.
fn fail_at_every_statement(command: &Command, panics: bool) -> u32 {
    let stage = stage();
    let before = stage.world.db.dump();
    for n in 0..200 {
        let db = &stage.world.db;
        if panics {
            db.panic_in(n)
        } else {
            db.fail_in(Some(n))
        }
        let hub = stage.world.hub();
        let outcome = catch_unwind(AssertUnwindSafe(|| (command.run)(&stage, &hub)));
        let effects = hub.take_effects();
        if db.call_off() {
            assert_eq!(outcome.ok(), Some(Ok(())), "{} succeeds when nothing fails", command.name);
            assert_ne!(db.dump(), before, "{} does something", command.name);
            return n;
        }
        assert!(!matches!(outcome, Ok(Ok(()))), "{}: statement {n} failed, and nobody was told", command.name);
        assert_eq!(db.dump(), before, "{}: statement {n} failed", command.name);
        assert!(is_empty(&effects), "{}: statement {n} failed, but {effects:?}", command.name);
    }
    panic!("{} does not end", command.name);
}

#[test]
fn a_command_that_fails_half_way_leaves_nothing() {
    for command in COMMANDS {
        let statements = fail_at_every_statement(command, false);
        assert!((2..=20).contains(&statements), "{} takes {statements} statements", command.name);
    }
}

#[test]
fn a_command_that_panics_half_way_leaves_nothing() {
    for command in COMMANDS {
        fail_at_every_statement(command, true);
    }
}

/// A refusal is not a failure: its evidence is written, or, if that fails, nothing is.
#[test]
fn evidence_is_written_whole_or_not_at_all() {
    let stage = stage();
    let late = |hub: &Hub<'_>| {
        let brought = json!({ "result": "late" });
        hub::report(hub, &call(&stage.canceled, "result", &brought), &report(Outcome::Completed))
    };
    let before = stage.world.db.dump();
    for n in 0..20 {
        stage.world.db.fail_in(Some(n));
        let (outcome, effects) = stage.world.run(late);
        assert!(is_empty(&effects));
        if stage.world.db.call_off() {
            assert_eq!(outcome, Err(hub::AttemptRejected::Canceled));
            assert_eq!(stage.world.detail(&stage.canceled.id).full.head.late_events, 1);
            return;
        }
        assert!(matches!(outcome, Err(hub::AttemptRejected::Database(_))), "{outcome:?}");
        assert_eq!(stage.world.db.dump(), before);
    }
    panic!("the refusal does not end");
}

/// A sweep is one transaction a task: a failure costs that task a delay, and nothing else.
#[test]
fn a_sweep_that_fails_half_way_leaves_each_task_as_it_was_or_as_it_should_be() {
    for n in 0..100 {
        let stage = stage();
        stage.world.pass(86_400_000);
        let held = [&stage.held.id, &stage.asking.id, &stage.silent.id, &stage.acting.id];
        let before: Vec<_> = held.iter().map(|id| stage.world.life(id)).collect();
        stage.world.db.fail_in(Some(n));
        let (swept, _) = stage.world.run(hub::sweep);
        let is_over = stage.world.db.call_off();
        let moved = held.iter().zip(&before).filter(|(id, life)| stage.world.life(id) != **life).count();
        match swept {
            Err(_) => assert_eq!(moved, 0, "statement {n}: the look at what is due failed"),
            Ok(swept) if is_over => {
                assert!(swept.trouble.is_empty());
                assert_eq!(moved, 4);
                return;
            }
            Ok(swept) => assert_eq!(swept.trouble.len(), 1, "statement {n}: {swept:?}"),
        }
        stage.world.pass_and_sweep(60_000);
        let moved = held.iter().zip(&before).filter(|(id, life)| stage.world.life(id) != **life).count();
        assert_eq!(moved, 4, "statement {n}: the next sweep makes up for it");
    }
    panic!("the sweep does not end");
}

#[test]
fn a_purge_that_fails_half_way_leaves_nothing() {
    let stage = stage();
    stage.world.pass(40 * 86_400_000);
    let before = stage.world.db.dump();
    for n in 0..100 {
        stage.world.db.fail_in(Some(n));
        let (purged, _) = stage.world.run(|hub| hub::purge(hub, ""));
        if stage.world.db.call_off() {
            assert_eq!(purged, Ok(None));
            assert_ne!(stage.world.db.dump(), before);
            return;
        }
        assert!(purged.is_err(), "statement {n}");
        assert_eq!(stage.world.db.dump(), before, "statement {n}");
    }
    panic!("the purge does not end");
}
