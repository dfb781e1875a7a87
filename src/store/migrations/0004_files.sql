-- Files of tasks (design §9), and those that wait for a task.

-- One row for each file of each task. A row that is `receiving` is being uploaded, or waits for it; one without a task is
-- an input that no task has yet. Both end at `expires_at`. `content_id` names the chunks: several rows may share them.
-- `owner` is who brought it: a submitter of an input, the executor of an output.
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
CREATE INDEX attachments_task ON attachments (task_id) WHERE task_id IS NOT NULL;
-- What ends by itself. Of inputs, those are the ones that no task has.
CREATE INDEX attachments_expiry ON attachments (kind, expires_at) WHERE expires_at IS NOT NULL;
-- Whose chunks lie under another id than their own.
CREATE INDEX attachments_shared ON attachments (content_id) WHERE content_id <> id;

-- The bytes, in pieces of 1 MiB. Without rowid, each is one row to write.
CREATE TABLE attachment_chunks (
  content_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (content_id, number)
) STRICT, WITHOUT ROWID;

-- What is stored altogether, kept in the same transactions: files, and the bytes of their contents, each counted once.
CREATE TABLE attachment_totals (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  files INTEGER NOT NULL CHECK (files >= 0),
  bytes INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT;
