-- OAuth: the clients that may ask the owner, and what the owner granted them (design §6). No credential is stored.

-- `kind` says how the client made itself known: it registered, or its id is the address of a document about it.
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
-- Those that the owner never approved, for their end.
CREATE INDEX oauth_clients_unused ON oauth_clients (created_at) WHERE used_at IS NULL;

-- One consent of the owner with all that comes of it. `id` is derived from the hash of the handle that its code and tokens
-- carry. `generation` counts the refresh tokens: the newest is the only one that was never used.
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
CREATE INDEX oauth_grants_client ON oauth_grants (client_id);
CREATE INDEX oauth_grants_expiry ON oauth_grants (expires_at);
CREATE INDEX oauth_grants_replayed ON oauth_grants (revoked_at)
  WHERE revoked_because IN ('code_replayed', 'refresh_replayed');
CREATE INDEX oauth_grants_origin ON oauth_grants (approved_from);

-- The owner's passphrase: its slow hash, and which OWNER_PASSPHRASE was set when that was made.
CREATE TABLE owner_passphrase (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  hash TEXT NOT NULL,
  bootstrap TEXT NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT;

-- Tries that are limited, by kind and address; the address '*' counts them all. A row counts from `since` on.
CREATE TABLE auth_tries (
  kind TEXT NOT NULL,
  address TEXT NOT NULL,
  count INTEGER NOT NULL,
  since INTEGER NOT NULL,
  PRIMARY KEY (kind, address)
) STRICT, WITHOUT ROWID;
