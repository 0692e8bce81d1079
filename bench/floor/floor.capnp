# The floor under plain workerd. The port comes from --socket-addr, the folder from --directory-path; worker.js is
# worker.ts without its types, put beside a copy of this file by adapters/floor.ts.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    ( name = "floor", worker = .floor ),
    ( name = "objects", disk = ( writable = true ) ),
    ( name = "internet", network = ( allow = [] ) ),
  ],
  sockets = [ ( name = "http", address = "127.0.0.1:0", http = (), service = "floor" ) ],
);

# The date and the flags are those of wrangler.toml, so that the floor differs from the bus by its code alone.
const floor :Workerd.Worker = (
  modules = [ ( name = "worker.js", esModule = embed "worker.js" ) ],
  compatibilityDate = "2026-11-01",
  compatibilityFlags = [ "enable_request_signal", "no_web_socket_compression" ],
  durableObjectNamespaces = [ ( className = "Mailbox", uniqueKey = "bench-floor-Mailbox-v1", enableSql = true ) ],
  durableObjectStorage = ( localDisk = "objects" ),
  bindings = [ ( name = "MAILBOXES", durableObjectNamespace = "Mailbox" ) ],
);
