-- Outside actions that attempts have recorded (design §4). `key` is the SHA-256 of task, step, tool and canonical parameters, so
-- it is the same in every attempt. `attempt` is the one that began the action, `last_attempt` the latest that spoke of it:
-- while the record is `begun` and that attempt is over, nobody knows what came of the action.
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

-- Whether a person is asked before another attempt begins when one is lost with an action begun; NULL where not. The task is
-- `input-required` then, with the void claim of the lost attempt; its `lane_key` is `?` and its address, for nobody has it.
ALTER TABLE tasks ADD COLUMN on_unknown_action TEXT CHECK (on_unknown_action IN ('ask'));
