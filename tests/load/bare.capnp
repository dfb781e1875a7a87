# The bare object, on the same runtime as the hub, with the same date and flags.
#
#   workerd serve -I tests/load -d state=/absolute/path -s http=127.0.0.1:0 tests/load/bare.capnp bare

using Workerd = import "/workerd/workerd.capnp";

const bare :Workerd.Config = (
  services = [ ( name = "main", worker = .object ), ( name = "state", disk = ( writable = true ) ) ],
  sockets = [ ( name = "http", address = "127.0.0.1:8789", http = (), service = "main" ) ] );

const object :Workerd.Worker = (
  modules = [ ( name = "bare.js", esModule = embed "/bare.js" ) ],
  compatibilityDate = "2026-11-01",
  compatibilityFlags = ["enable_request_signal", "request_signal_passthrough"],
  durableObjectNamespaces = [ ( className = "Bare", uniqueKey = "bare", enableSql = true ) ],
  durableObjectStorage = ( localDisk = "state" ),
  bindings = [ ( name = "BARE", durableObjectNamespace = "Bare" ) ] );
