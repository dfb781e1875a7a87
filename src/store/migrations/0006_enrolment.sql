-- Enrolment (design §12): one row for each code that was handed out, until its executor has newer ones. Neither the code nor
-- the key that it is traded for is stored. `nonce_hash` names the one caller who may be given that key again.
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
CREATE INDEX enrolments_executor ON enrolments (executor, rank);
