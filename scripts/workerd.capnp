# How scripts/dev runs the built Worker on bare workerd: SQLite on disk, settings from the environment.
#
#   workerd serve -I build -d state=/absolute/path -s http=127.0.0.1:8787 scripts/workerd.capnp hub
#
# Date and flags are those of wrangler.toml. The Worker checks addresses by itself; the two networks repeat the check below
# it, where host names are resolved.

using Workerd = import "/workerd/workerd.capnp";

# The wakes may go to private addresses (ALLOW_PRIVATE_WEBHOOKS).
const hub :Workerd.Config = (
  services = [ .main, .state,
    ( name = "internet", network = ( allow = ["public", "private"], tlsOptions = ( trustBrowserCas = true ) ) ) ],
  sockets = [ .http ] );

# The wakes go to public addresses only.
const hubPublicOnly :Workerd.Config = (
  services = [ .main, .state,
    ( name = "internet", network = ( allow = ["public"], tlsOptions = ( trustBrowserCas = true ) ) ) ],
  sockets = [ .http ] );

const main :Workerd.Service = ( name = "main", worker = .taskhub );
const state :Workerd.Service = ( name = "state", disk = ( writable = true ) );
const http :Workerd.Socket = ( name = "http", address = "127.0.0.1:8787", http = (), service = "main" );

const taskhub :Workerd.Worker = (
  modules = [
    ( name = "index.js", esModule = embed "/index.js" ),
    ( name = "index_bg.wasm", wasm = embed "/index_bg.wasm" ) ],
  compatibilityDate = "2026-11-01",
  compatibilityFlags = ["enable_request_signal", "request_signal_passthrough", "global_fetch_strictly_public"],
  durableObjectNamespaces = [ ( className = "TaskHub", uniqueKey = "taskhub", enableSql = true ) ],
  durableObjectStorage = ( localDisk = "state" ),
  # A variable that is not set arrives as null, and the Worker takes its default.
  bindings = [
    ( name = "HUB", durableObjectNamespace = "TaskHub" ),
    ( name = "HUB_SECRET", fromEnvironment = "HUB_SECRET" ),
    ( name = "OWNER_TOKEN", fromEnvironment = "OWNER_TOKEN" ),
    ( name = "OWNER_PASSPHRASE", fromEnvironment = "OWNER_PASSPHRASE" ),
    ( name = "NTFY_TOKEN", fromEnvironment = "NTFY_TOKEN" ),
    ( name = "NTFY_URL", fromEnvironment = "NTFY_URL" ),
    ( name = "NTFY_TOPIC", fromEnvironment = "NTFY_TOPIC" ),
    ( name = "NTFY_EVENTS", fromEnvironment = "NTFY_EVENTS" ),
    ( name = "SILENT_AFTER_SECONDS", fromEnvironment = "SILENT_AFTER_SECONDS" ),
    ( name = "PUBLIC_URL", fromEnvironment = "PUBLIC_URL" ),
    ( name = "ALLOW_PRIVATE_WEBHOOKS", fromEnvironment = "ALLOW_PRIVATE_WEBHOOKS" ),
    ( name = "LEASE_SECONDS", fromEnvironment = "LEASE_SECONDS" ),
    ( name = "REWAKE_AFTER_SECONDS", fromEnvironment = "REWAKE_AFTER_SECONDS" ),
    ( name = "WAKE_COALESCE_SECONDS", fromEnvironment = "WAKE_COALESCE_SECONDS" ),
    ( name = "WAKE_MAX_ATTEMPTS", fromEnvironment = "WAKE_MAX_ATTEMPTS" ),
    ( name = "WAKE_TIMEOUT_SECONDS", fromEnvironment = "WAKE_TIMEOUT_SECONDS" ),
    ( name = "INPUT_TIMEOUT_SECONDS", fromEnvironment = "INPUT_TIMEOUT_SECONDS" ),
    ( name = "RETENTION_DAYS", fromEnvironment = "RETENTION_DAYS" ),
    ( name = "RESULT_MAX_BYTES", fromEnvironment = "RESULT_MAX_BYTES" ),
    ( name = "INSTRUCTIONS_MAX_BYTES", fromEnvironment = "INSTRUCTIONS_MAX_BYTES" ),
    ( name = "ATTACHMENT_MAX_BYTES", fromEnvironment = "ATTACHMENT_MAX_BYTES" ),
    ( name = "TASK_ATTACHMENTS_MAX_BYTES", fromEnvironment = "TASK_ATTACHMENTS_MAX_BYTES" ),
    ( name = "FILE_LINK_SECONDS", fromEnvironment = "FILE_LINK_SECONDS" ),
    ( name = "ACCESS_TOKEN_SECONDS", fromEnvironment = "ACCESS_TOKEN_SECONDS" ),
    ( name = "REFRESH_TOKEN_SECONDS", fromEnvironment = "REFRESH_TOKEN_SECONDS" ) ] );
