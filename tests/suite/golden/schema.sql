CREATE TABLE actions (
  task_id TEXT NOT NULL,
  key TEXT NOT NULL,
  number INTEGER NOT NULL CHECK (number >= 1),
  recorded TEXT NOT NULL CHECK (recorded IN ('begun', 'done', 'failed')),
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  last_attempt INTEGER NOT NULL CHECK (last_attempt >= attempt),
  began_at INTEGER NOT NULL,
  ended_at INTEGER,
  step_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  params TEXT NOT NULL,
  outcome TEXT,
  PRIMARY KEY (task_id, key),
  CHECK ((recorded = 'begun') = (ended_at IS NULL)),
  CHECK (outcome IS NULL OR ended_at IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE TABLE attachment_chunks (
  content_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (content_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE attachment_totals (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  files INTEGER NOT NULL CHECK (files >= 0),
  bytes INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT;

CREATE TABLE attachments (
  id TEXT PRIMARY KEY,
  task_id TEXT,
  kind TEXT NOT NULL CHECK (kind IN ('input', 'output')),
  attempt INTEGER,
  state TEXT NOT NULL CHECK (state IN ('receiving', 'stored')),
  name TEXT NOT NULL,
  content_type TEXT NOT NULL,
  size INTEGER CHECK (size >= 0),
  sha256 TEXT,
  content_id TEXT NOT NULL,
  owner TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  CHECK ((kind = 'output') = (attempt IS NOT NULL)),
  CHECK (kind = 'input' OR task_id IS NOT NULL),
  CHECK ((state = 'stored') = (size IS NOT NULL)),
  CHECK ((state = 'stored') = (sha256 IS NOT NULL)),
  CHECK ((expires_at IS NULL) = (state = 'stored' AND task_id IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE auth_tries (
  kind TEXT NOT NULL,
  address TEXT NOT NULL,
  count INTEGER NOT NULL,
  since INTEGER NOT NULL,
  PRIMARY KEY (kind, address)
) STRICT, WITHOUT ROWID;

CREATE TABLE enrolments (
  code_hash TEXT PRIMARY KEY,
  executor TEXT NOT NULL REFERENCES executors (name) ON DELETE CASCADE,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  nonce_hash TEXT,
  used_at INTEGER,
  CHECK ((nonce_hash IS NULL) = (used_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE executor_keys (
  hash TEXT PRIMARY KEY,
  executor TEXT NOT NULL REFERENCES executors (name) ON DELETE CASCADE,
  created_at INTEGER NOT NULL,
  rank INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE executors (
  name TEXT PRIMARY KEY,
  queues TEXT NOT NULL,
  max_concurrent INTEGER NOT NULL CHECK (max_concurrent >= 1),
  wake TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  last_claim_at INTEGER,
  last_wake_at INTEGER,
  last_wake_status TEXT
, last_seen_at INTEGER, version TEXT, capabilities TEXT, paused_at INTEGER, disabled_at INTEGER, approval TEXT NOT NULL DEFAULT 'never' CHECK (approval IN ('never', 'always')), max_tasks_per_day INTEGER CHECK (max_tasks_per_day >= 1), day INTEGER, day_claims INTEGER NOT NULL DEFAULT 0 CHECK (day_claims >= 0), silence_told_at INTEGER) STRICT, WITHOUT ROWID;

CREATE TABLE oauth_clients (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('registered', 'document')),
  name TEXT,
  uri TEXT,
  redirect_uris TEXT NOT NULL,
  auth_method TEXT NOT NULL CHECK (auth_method IN ('none', 'client_secret_post', 'client_secret_basic')),
  created_at INTEGER NOT NULL,
  fetched_at INTEGER,
  used_at INTEGER,
  CHECK ((kind = 'document') = (fetched_at IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE oauth_grants (
  id TEXT PRIMARY KEY,
  client_id TEXT NOT NULL,
  client_name TEXT,
  scopes TEXT NOT NULL,
  executor TEXT,
  redirect_uri TEXT NOT NULL,
  code_challenge TEXT NOT NULL,
  approved_from TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  code_expires_at INTEGER NOT NULL,
  exchanged_at INTEGER,
  generation INTEGER NOT NULL DEFAULT 0,
  rotated_at INTEGER,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER,
  revoked_because TEXT CHECK (revoked_because IN ('owner', 'client', 'code_replayed', 'refresh_replayed')),
  CHECK ((exchanged_at IS NULL) = (rotated_at IS NULL)),
  CHECK ((exchanged_at IS NULL) = (generation = 0)),
  CHECK ((revoked_at IS NULL) = (revoked_because IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
  state TEXT NOT NULL CHECK (state IN ('due', 'told', 'dead')),
  next_at INTEGER NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('wake', 'notice', 'callback')),
  subject TEXT NOT NULL,
  task_id TEXT,
  wake_round INTEGER,
  count INTEGER NOT NULL DEFAULT 1 CHECK (count >= 1),
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  last_status TEXT,
  created_at INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (state, next_at, id),
  CHECK (state <> 'told' OR kind = 'notice')
) STRICT, WITHOUT ROWID;

CREATE TABLE owner_passphrase (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  hash TEXT NOT NULL,
  bootstrap TEXT NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT;

CREATE TABLE queue_executors (
  queue TEXT NOT NULL,
  executor TEXT NOT NULL REFERENCES executors (name) ON DELETE CASCADE,
  PRIMARY KEY (queue, executor)
) STRICT, WITHOUT ROWID;

CREATE TABLE schema_version (
  one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT;

CREATE TABLE task_events (
  seq INTEGER PRIMARY KEY,
  task_id TEXT NOT NULL,
  previous_seq INTEGER,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  actor TEXT NOT NULL,
  request_key TEXT,
  data TEXT
) STRICT;

CREATE TABLE tasks (
  id TEXT PRIMARY KEY,

  -- Life: what `domain::lifecycle` reads and writes.
  state TEXT NOT NULL CHECK (state IN (
    'submitted', 'dispatched', 'waiting', 'working', 'input-required', 'completed', 'failed', 'canceled')),
  waiting_on TEXT CHECK (waiting_on IN ('time', 'tasks', 'approval', 'external', 'executor_user', 'submitter')),
  attempt INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0 CHECK (failures <= attempt),
  max_attempts INTEGER NOT NULL CHECK (max_attempts >= 1),
  claimed_by TEXT,
  claim_token_hash TEXT,
  heard_at INTEGER,
  lease_expires_at INTEGER,
  input_expires_at INTEGER,
  answered_at INTEGER,
  visible_at INTEGER,
  deadline_at INTEGER,
  next_wake_at INTEGER,
  wake_attempts INTEGER NOT NULL DEFAULT 0,
  wake_round INTEGER NOT NULL DEFAULT 0,
  last_wake_at INTEGER,
  last_wake_status TEXT CHECK (last_wake_status IN (
    'sent', 'coalesced', 'accepted', 'unknown', 'rejected', 'given_up')),
  error_code TEXT,
  completed_at INTEGER,

  -- Where the indexes find it. `lane_key` is the address of a ready or waiting task and the executor of a held one,
  -- `rank` is 9 - priority; `due_at` is never later than the earliest timer of the task, unless handling that timer failed.
  lane TEXT,
  lane_key TEXT,
  rank INTEGER NOT NULL CHECK (rank BETWEEN 0 AND 9),
  due_at INTEGER,

  -- Bookkeeping.
  executor TEXT,
  queue TEXT,
  submitted_by TEXT NOT NULL,
  idempotency_key TEXT,
  submit_hash TEXT NOT NULL,
  retry_of TEXT,
  revision INTEGER NOT NULL DEFAULT 1,
  event_seq INTEGER NOT NULL,
  message_seq INTEGER,
  late_events INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  progress REAL CHECK (progress BETWEEN 0 AND 1),
  title TEXT NOT NULL,
  note TEXT,
  question TEXT,

  -- Long texts last, so that reading the columns above does not touch their pages.
  error TEXT,
  external_actions TEXT,
  checkpoint TEXT,
  context TEXT,
  instructions TEXT NOT NULL,
  result TEXT,
  data TEXT, notify TEXT, callback_url TEXT, not_before INTEGER, on_unknown_action TEXT CHECK (on_unknown_action IN ('ask')),

  CHECK ((executor IS NULL) <> (queue IS NULL)),
  CHECK (lane IS CASE
    WHEN state IN ('submitted', 'dispatched') THEN 'ready'
    WHEN state IN ('working', 'input-required') THEN 'held'
    WHEN state = 'waiting' THEN 'waiting' END),
  CHECK ((lane IS NULL) = (lane_key IS NULL)),
  CHECK ((state = 'working') = (lease_expires_at IS NOT NULL)),
  CHECK ((state = 'input-required') = (input_expires_at IS NOT NULL)),
  CHECK ((state IN ('waiting', 'input-required')) = (waiting_on IS NOT NULL)),
  CHECK (waiting_on IS NULL OR (waiting_on IN ('executor_user', 'submitter')) = (state = 'input-required')),
  CHECK (state = 'waiting' OR visible_at IS NULL),
  CHECK (state <> 'waiting' OR (waiting_on IN ('time', 'external')) = (visible_at IS NOT NULL)),
  CHECK (answered_at IS NULL OR state = 'input-required'),
  CHECK (next_wake_at IS NULL OR state IN ('submitted', 'dispatched')),
  CHECK ((lane IS NULL) = (completed_at IS NOT NULL)),
  CHECK ((state = 'failed') = (error_code IS NOT NULL)),
  CHECK (lane IS NOT 'held' OR (claimed_by IS NOT NULL AND claim_token_hash IS NOT NULL AND heard_at IS NOT NULL)),
  CHECK (lane IS NOT NULL OR due_at IS NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX attachments_expiry ON attachments (kind, expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX attachments_shared ON attachments (content_id) WHERE content_id <> id;

CREATE INDEX attachments_task ON attachments (task_id) WHERE task_id IS NOT NULL;

CREATE INDEX enrolments_executor ON enrolments (executor, rank);

CREATE INDEX executor_keys_executor ON executor_keys (executor, rank);

CREATE INDEX oauth_clients_unused ON oauth_clients (created_at) WHERE used_at IS NULL;

CREATE INDEX oauth_grants_client ON oauth_grants (client_id);

CREATE INDEX oauth_grants_expiry ON oauth_grants (expires_at);

CREATE INDEX oauth_grants_origin ON oauth_grants (approved_from);

CREATE INDEX oauth_grants_replayed ON oauth_grants (revoked_at)
  WHERE revoked_because IN ('code_replayed', 'refresh_replayed');

CREATE INDEX outbox_notices ON outbox (subject) WHERE kind = 'notice';

CREATE INDEX queue_executors_executor ON queue_executors (executor);

CREATE UNIQUE INDEX task_events_request ON task_events (request_key) WHERE request_key IS NOT NULL;

CREATE INDEX tasks_due ON tasks (due_at) WHERE due_at IS NOT NULL;

CREATE UNIQUE INDEX tasks_idempotency ON tasks (submitted_by, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE INDEX tasks_open ON tasks (lane, lane_key, rank, id) WHERE lane IS NOT NULL;

CREATE INDEX tasks_unhappy ON tasks (state, id) WHERE state IN ('failed', 'canceled');

