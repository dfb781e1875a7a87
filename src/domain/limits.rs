//! Every bound in one place. Nouns first, units last. A bound that an owner may change is a setting
//! (`settings`), and its permitted range stands here.

/// Longest request body the hub reads, in bytes; larger ones are refused with 413 before they are parsed.
pub const REQUEST_BODY_BYTES_MAX: usize = 1_048_576;
/// Longest value the database is given, in bytes (Cloudflare's own limit on a row, string or blob is 2 MB).
pub const VALUE_BYTES_MAX: usize = 2_000_000;

/// Bytes of one stored piece of a file; every piece but a file's last has as many.
pub const CHUNK_BYTES: usize = 1_048_576;
/// Files of one task, its inputs included.
pub const TASK_FILES_MAX: usize = 100;
/// Uploads to one task that may be under way; the oldest gives way to one more.
pub const TASK_UPLOADS_MAX: usize = 8;
/// Files that were uploaded, or are awaited, and that no task has yet.
pub const LOOSE_FILES_MAX: u32 = 100;
/// How long such a file is kept, in milliseconds (one day).
pub const LOOSE_FILE_MS: i64 = 86_400_000;
/// How long an upload link is good, and what came of an upload that nobody ended is kept, in milliseconds (one hour).
pub const UPLOAD_MS: i64 = 3_600_000;
/// How long the body of an upload may stand still, in milliseconds.
pub const UPLOAD_STALL_MS: u32 = 60_000;
/// How long one piece of an upload may take, in milliseconds: there is room for only so many.
pub const UPLOAD_PIECE_MS: u32 = 300_000;
/// Pieces of uploads that are in memory at a time, and as many of downloads: an object has 128 MB for everything.
pub const PIECES_HELD_MAX: u32 = 16;
/// How much of a piece is given to the client of a download at a time, in bytes.
pub const DOWNLOAD_PART_BYTES: u32 = 65_536;
/// How long a client may take for that before its piece makes room for others, in milliseconds.
pub const DOWNLOAD_SLOW_MS: u32 = 1_000;
/// What the hub reads of a body that it has refused, so that its sender, who may look at nothing before all is sent, gets to
/// see why, in bytes.
pub const UNREAD_BYTES_MAX: u32 = 104_857_600;
/// How long that may take, in milliseconds.
pub const UNREAD_MS: u32 = 300_000;
/// Longest name of a file, in bytes.
pub const FILE_NAME_BYTES_MAX: usize = 200;
/// Longest content type of a file, in bytes.
pub const CONTENT_TYPE_BYTES_MAX: usize = 100;
/// Bytes of files that one transaction of the purge deletes before it leaves the rest to the next.
pub const PURGE_FILE_BYTES_MAX: i64 = 67_108_864;
/// Expired uploads that one purge deletes.
pub const PURGE_FILES_MAX: usize = 10;

/// Longest file inside a call of a tool, in bytes.
pub const INLINE_FILE_BYTES_MAX: usize = 524_288;
/// Longest image that is shown inside an answer, in bytes.
pub const INLINE_IMAGE_BYTES_MAX: usize = 131_072;

/// Longest title, in characters.
pub const TITLE_CHARS_MAX: usize = 200;
/// Longest context that a submitter may attach, in bytes of JSON.
pub const CONTEXT_BYTES_MAX: usize = 65_536;
/// Longest checkpoint, in bytes of JSON.
pub const CHECKPOINT_BYTES_MAX: usize = 65_536;
/// Longest note, in characters.
pub const NOTE_CHARS_MAX: usize = 2_000;
/// Longest question or answer, in characters.
pub const MESSAGE_CHARS_MAX: usize = 8_000;
/// Longest error message, in characters.
pub const ERROR_CHARS_MAX: usize = 8_000;
/// Most outside actions a result may report, and their bytes of JSON.
pub const EXTERNAL_ACTIONS_BYTES_MAX: usize = 32_768;
/// Most outside actions that a task's ledger holds.
pub const ACTIONS_MAX: u32 = 200;
/// Longest step or tool of such an action, in bytes.
pub const ACTION_NAME_BYTES_MAX: usize = 200;
/// Longest parameters of such an action, in bytes of canonical JSON.
pub const ACTION_PARAMS_BYTES_MAX: usize = 4_096;
/// Longest outcome of such an action, in bytes of JSON.
pub const ACTION_OUTCOME_BYTES_MAX: usize = 4_096;
/// The largest whole number that JSON carries everywhere as it is: 2^53 - 1.
pub const NUMBER_EXACT_MAX: u64 = 9_007_199_254_740_991;
/// Actions that a question about lost ones names; it counts the others.
pub const ASKED_ACTIONS_MAX: usize = 5;
/// For how long the same answer again counts as a second press of the same button, where the hub has asked something new
/// meanwhile, in milliseconds.
pub const ANSWER_REPEAT_MS: i64 = 60_000;
/// Longest idempotency key or request id, in bytes.
pub const REQUEST_ID_BYTES_MAX: usize = 200;
/// Longest executor name, in bytes.
pub const EXECUTOR_NAME_BYTES_MAX: usize = 40;
/// Longest queue name, in bytes.
pub const QUEUE_NAME_BYTES_MAX: usize = 64;
/// Most queues that one executor serves, or that one claim names.
pub const EXECUTOR_QUEUES_MAX: usize = 16;
/// Most executors in one hub.
pub const EXECUTORS_MAX: usize = 64;
/// Most tasks that one executor may hold at a time, whatever its own limit says.
pub const EXECUTOR_HELD_MAX: u32 = 1_000;
/// Keys of one executor that are valid at a time.
pub const EXECUTOR_KEYS_MAX: usize = 2;
/// How long an enrolment code is good, in milliseconds (ten minutes).
pub const ENROLMENT_MS: i64 = 600_000;
/// Enrolment codes that are kept of an executor; the newest stay.
pub const ENROLMENTS_MAX: usize = 5;
/// Shortest nonce of an enrolment, in bytes: who sees a code that was used must not guess it.
pub const ENROLMENT_NONCE_BYTES_MIN: usize = 16;
/// The largest daily limit of an executor, in tasks.
pub const EXECUTOR_DAY_TASKS_MAX: u32 = 1_000_000;
/// Longest version that an executor may give of itself, in characters.
pub const VERSION_CHARS_MAX: usize = 100;
/// Most capabilities that an executor may give of itself.
pub const CAPABILITIES_MAX: usize = 32;
/// Longest capability, in characters.
pub const CAPABILITY_CHARS_MAX: usize = 100;
/// How long after its last call an executor counts as there, in milliseconds (design §11).
pub const ONLINE_MS: i64 = 60_000;
/// A claim writes when its executor was at work no more often than this, in milliseconds, unless a wake waits to be answered.
pub const PRESENCE_WRITE_MS: i64 = 60_000;
/// A call that writes nothing else writes when its executor was last seen no more often than this, in milliseconds.
pub const PRESENCE_IDLE_WRITE_MS: i64 = 900_000;
/// Tasks that are readied for a wake when their executor goes to work again.
pub const RESUMED_TASKS_MAX: usize = 50;
/// Tasks of a deleted executor that one call cancels or moves; the call is repeated for the rest.
pub const LEFT_TASKS_MAX: usize = 500;

/// Priorities run from 0 (last) to 9 (first).
pub const PRIORITY_MAX: u8 = 9;
/// The priority of a task that names none.
pub const PRIORITY_DEFAULT: u8 = 5;
/// Failures that a task may spend before it fails for good, when it names none.
pub const ATTEMPTS_DEFAULT: u32 = 3;
/// The largest failure budget a task may ask for.
pub const ATTEMPTS_MAX: u32 = 100;

/// Longest time a claim may wait for work, in seconds.
pub const CLAIM_WAIT_SECONDS_MAX: u32 = 25;
/// Longest time `get_task` may wait for a change, in seconds.
pub const TASK_WAIT_SECONDS_MAX: u32 = 50;
/// Longest deferral, in seconds (seven days).
pub const DEFER_SECONDS_MAX: u32 = 604_800;
/// Furthest `not_before` or deadline from now, in seconds (one year).
pub const HORIZON_SECONDS_MAX: i64 = 31_536_000;
/// How long whoever sends a message has to begin and to record it, beyond the time-out of its request.
pub const SEND_RECORD_GRACE_MS: i64 = 5_000;
/// Tries of a message before it is given up.
pub const SENDS_MAX: u32 = 8;
/// Messages that one batch makes ready to be sent.
pub const DISPATCH_BATCH_MAX: usize = 10;
/// Longest time for which a receiver may ask to be left alone, in milliseconds (one hour).
pub const RETRY_AFTER_MS_MAX: i64 = 3_600_000;
/// Most messages of the outbox in one list.
pub const OUTBOX_READ_MAX: usize = 50;
/// How long publishing a notice may take, in milliseconds: less than a call of the object, for one of them is a test of it.
pub const NOTICE_TIMEOUT_MS: i64 = 8_000;
/// Tasks that a notice of several names.
pub const NOTICE_TASKS_MAX: usize = 5;
/// How long a released task waits before its executor is woken again, so that a wake and a release cannot chase each other.
pub const RELEASE_REWAKE_MS: i64 = 60_000;
/// Longest wake body that an owner may configure, in bytes.
pub const WAKE_BODY_BYTES_MAX: usize = 4_096;
/// Longest webhook address, in bytes.
pub const WAKE_URL_BYTES_MAX: usize = 2_048;
/// Most wakes sent in one round; the rest follow in the next.
pub const WAKES_PER_ROUND_MAX: usize = 16;

/// Events that refused calls may leave on one task, and how many of them heartbeats may take.
pub const LATE_EVENTS_MAX: u32 = 20;
/// Of the late events, those that heartbeats may take, so that a zombie cannot crowd out the result it brings later.
pub const LATE_HEARTBEAT_EVENTS_MAX: u32 = 5;
/// How much of what a refused call brought is kept, in bytes.
pub const LATE_EVIDENCE_BYTES_MAX: usize = 2_048;
/// Most events that one read of a task returns; older ones are counted.
pub const EVENTS_READ_MAX: usize = 200;
/// Most events that are looked through for what people said and how attempts ended: more, so that what an attempt records of its
/// actions does not hide it.
pub const EVENTS_SEARCHED_MAX: usize = 1_000;
/// Most messages that a heartbeat or a claim hands over; the newest are kept.
pub const MESSAGES_READ_MAX: usize = 20;
/// Most earlier attempts whose last words a claim hands over; the newest are kept.
pub const NOTES_READ_MAX: usize = 20;

/// Tasks whose timers one batch of a sweep handles. Requests get their turn between batches, so this bounds how long they wait.
pub const SWEEP_BATCH_MAX: usize = 25;
/// Batches in one alarm; if more is due, the alarm is set again at once.
pub const SWEEP_BATCHES_MAX: usize = 40;
/// Tasks that one purge transaction looks at.
pub const PURGE_BATCH_MAX: usize = 50;
/// Purge transactions in one sweep.
pub const PURGE_BATCHES_MAX: usize = 20;

/// Tasks in one page of a list.
pub const PAGE_TASKS_MAX: usize = 50;
/// The page size of a list that names none.
pub const PAGE_TASKS_DEFAULT: usize = 20;
/// Rows that one page of a filtered list looks at before it stops and hands out its cursor.
pub const PAGE_ROWS_EXAMINED_MAX: usize = 500;
/// Of these, the rows that it reads at a time.
pub const PAGE_ROWS_READ_MAX: usize = 100;
/// Size of one tool result, in bytes of JSON: under 10,000 tokens even where a token is little more than three bytes.
pub const TOOL_RESULT_BYTES_MAX: usize = 30_000;
/// Messages in one JSON-RPC batch (2025-03-26 only).
pub const RPC_BATCH_MAX: usize = 20;

/// How long an authorization code can be exchanged, in milliseconds.
pub const CODE_MS: i64 = 60_000;
/// How long a refresh token can be used again after its successor was first used, in milliseconds.
pub const REFRESH_GRACE_MS: i64 = 120_000;
/// How long a grant that ended is remembered, and a client that was never approved is kept, in milliseconds (30 days).
pub const SIGN_IN_KEPT_MS: i64 = 2_592_000_000;
/// Most grants in one hub.
pub const GRANTS_MAX: usize = 1_000;
/// Most clients that were never approved; the newest stay.
pub const UNUSED_CLIENTS_MAX: usize = 100;
/// Most clients in one list.
pub const CLIENTS_READ_MAX: usize = 500;
/// Longest client name that is kept, in characters.
pub const CLIENT_NAME_CHARS_MAX: usize = 100;
/// Most redirect addresses of a client.
pub const REDIRECT_URIS_MAX: usize = 10;
/// Longest redirect address, client id or client address, in bytes.
pub const CLIENT_URL_BYTES_MAX: usize = 2_048;
/// Longest client metadata document, in bytes (the draft recommends 5 KB).
pub const CLIENT_DOCUMENT_BYTES_MAX: usize = 10_240;
/// How long reading such a document may take, in milliseconds.
pub const CLIENT_DOCUMENT_TIMEOUT_MS: i64 = 5_000;
/// How long such a document is taken as it was read, in milliseconds (one day).
pub const CLIENT_DOCUMENT_FRESH_MS: i64 = 86_400_000;
/// Longest `state` of an authorization request, in bytes.
pub const STATE_BYTES_MAX: usize = 2_048;
/// How long a consent page can be sent, in milliseconds.
pub const CONSENT_PAGE_MS: i64 = 1_800_000;
/// How long the owner is told of a replayed credential, in milliseconds (seven days).
pub const REPLAY_TOLD_MS: i64 = 604_800_000;
/// Addresses from which tries of a kind are counted one by one; beyond, only their sum is.
pub const TRY_ADDRESSES_MAX: usize = 200;

/// How long a listening socket counts as alive after it was accepted or said `ping`, in milliseconds. A client sends one
/// at least every 50 seconds, so that two may be lost.
pub const SOCKET_ALIVE_MS: i64 = 150_000;
/// Listening sockets of one executor; the oldest gives way to one more.
pub const EXECUTOR_SOCKETS_MAX: usize = 8;
/// Listening sockets altogether.
pub const LISTENING_SOCKETS_MAX: usize = 512;
/// Sockets that watch the hub's events; the one heard from longest ago gives way to one more.
pub const EVENT_SOCKETS_MAX: usize = 64;
/// Messages that the hub does not know, after which it closes the socket.
pub const SOCKET_MISTAKES_MAX: i64 = 10;
/// How much may lie unread in a socket before the hub sends it no more events for the time being, in bytes.
pub const SOCKET_UNREAD_BYTES_MAX: u32 = 262_144;
/// How long a socket may take nothing of that before it is closed, in milliseconds.
pub const SOCKET_STUCK_MS: i64 = 60_000;
/// Events that one socket is sent in one turn.
pub const EVENTS_PAGE_MAX: usize = 50;
/// Tasks that changed without an event, which one socket that lags is told of one by one later.
pub const CHANGES_KEPT_MAX: usize = 256;
