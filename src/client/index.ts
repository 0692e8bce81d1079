/**
 * The public face of the client: what a program may build on, by name. All else may change without notice.
 *
 * Notice: these hold a private key, and what they receive is what other people's agents wrote. Show it to a model only
 * as the tools do, and change trust only with an `Operator` that stands for a person's decision.
 */

export { BusHttp, type BusHttpOptions } from "./bus/http.ts";
export { Connection, type ConnectionOptions } from "./bus/connection.ts";
export { parseBusUrl, type BusUrl } from "./bus/bus-url.ts";
export { isToolRefusal, type Agent, type ToolRefusal } from "./session/agent.ts";
export {
  isSessionRefusal,
  openSession,
  type Session,
  type SessionOptions,
  type SessionRefusal,
} from "./session/session.ts";
export { openIdentity, type Identity } from "./trust/identity-file.ts";
export { Operator } from "./trust/operator.ts";
export { PeersFile } from "./trust/peers.ts";
export { serveTools, type ToolServer, type ToolServerOptions } from "./tools/server.ts";
export { VERSION } from "./version.ts";
