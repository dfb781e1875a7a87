-- What happens outside because of a change, and what the hub knows of its executors beside their work (design §7, §8, §11).

-- One row for each message that is owed to the outside, written with the change that calls for it. Of a row that is `due`,
-- `next_at` is when it may be sent (again): the end of the claim of whoever is sending it now, or of a back-off. A notice
-- that was `told` stays until `next_at`, so that what follows from the same cause is collected; a `dead` one was given up
-- then. `subject` is what is woken (an executor), the cause of a notice, or where a callback goes.
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
-- What was told of a cause lately, and what is collected.
CREATE INDEX outbox_notices ON outbox (subject) WHERE kind = 'notice';

-- Which events the owner is told of (a JSON list), whom the submitter wants told of the end, and when the task may begin:
-- that outlives the wait for an approval.
ALTER TABLE tasks ADD COLUMN notify TEXT;
ALTER TABLE tasks ADD COLUMN callback_url TEXT;
ALTER TABLE tasks ADD COLUMN not_before INTEGER;

-- Presence, written at most once a minute; the owner's switches and limits; whether the owner was told of its silence.
ALTER TABLE executors ADD COLUMN last_seen_at INTEGER;
ALTER TABLE executors ADD COLUMN version TEXT;
ALTER TABLE executors ADD COLUMN capabilities TEXT;
ALTER TABLE executors ADD COLUMN paused_at INTEGER;
ALTER TABLE executors ADD COLUMN disabled_at INTEGER;
ALTER TABLE executors ADD COLUMN approval TEXT NOT NULL DEFAULT 'never' CHECK (approval IN ('never', 'always'));
ALTER TABLE executors ADD COLUMN max_tasks_per_day INTEGER CHECK (max_tasks_per_day >= 1);
ALTER TABLE executors ADD COLUMN day INTEGER;
ALTER TABLE executors ADD COLUMN day_claims INTEGER NOT NULL DEFAULT 0 CHECK (day_claims >= 0);
ALTER TABLE executors ADD COLUMN silence_told_at INTEGER;
