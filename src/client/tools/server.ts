/**
 * The MCP server: all tools and the inbox, in both eras, over one stdio pipe.
 *
 * Making a server does nothing else: a host's probe makes one that is thrown away. The session begins only when it is
 * real, and then through the agent.
 */

import {
  CLIENT_CAPABILITIES_META_KEY,
  createRequestStateCodec,
  McpServer,
  PROTOCOL_VERSION_META_KEY,
  type JSONRPCMessage,
  type McpRequestContext,
} from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import type { Readable, Writable } from "node:stream";
import type { Timers } from "../bus/timers.ts";
import { offerInbox } from "./inbox-resource.ts";
import { INSTRUCTIONS } from "./instructions.ts";
import { messageTools } from "./messages.ts";
import { Opening, type Open } from "./opening.ts";
import { pairingTools } from "./pairing.ts";
import { presenceTools } from "./presence.ts";
import { Reality } from "./reality.ts";
import { taskTools } from "./tasks.ts";
import type { Desk, Log } from "./tool.ts";

/** Every tool, in the order in which it is listed; hosts cache the list, so it is the same for all. */
const TOOLS = [...messageTools, ...taskTools, ...presenceTools, ...pairingTools];

/** A list never changes while a process lives; a host may ask again once a minute. */
const TOOLS_TTL_MS = 60_000;
/** A human may be away from the form for a while; after this what was shown must be shown again. */
const ANSWER_TTL_S = 600;

export interface ToolServerOptions {
  /** Opens the agent; called when it is first needed, and again after a failure. */
  readonly open: Open;
  readonly version: string;
  /** At least 32 bytes. The same after a restart, or an operator's answer to a question from before counts for nothing. */
  readonly stateKey: Uint8Array;
  readonly timers: Timers;
  readonly log: Log;
  readonly input: Readable;
  readonly output: Writable;
}

export interface ToolServer {
  /** Settles when the pipe is closed, by either side. */
  readonly closed: Promise<void>;
  /** Closes the pipe and lets the agent, if there is one, say goodbye; at most this long. */
  close(withinMs: number): Promise<void>;
}

/** Serves until the host closes the pipe; then the caller closes the rest. */
export function serveTools({ open, version, stateKey, timers, log, input, output }: ToolServerOptions): ToolServer {
  /** The one that was made last serves; one before it was a probe's. */
  let current: { readonly server: McpServer; readonly update: () => Promise<void> } | undefined;
  const tell = (event: string) => (fault: unknown) => log(event, { error: String(fault) });
  const opening = new Opening(open, (agent) => {
    agent.onMail(() => void current?.update().catch(tell("inbox_update")));
  });
  const reality = new Reality(() => void opening.begin().catch(tell("begin")), timers);
  const desk: Desk = {
    opening,
    seal: createRequestStateCodec<{ readonly shown: string }>({ key: stateKey, ttlSeconds: ANSWER_TTL_S }),
    now: () => timers.now(),
    log,
    onCall: () => reality.called(),
  };

  const factory = ({ era }: McpRequestContext): McpServer => {
    const server = makeServer(desk, version);
    current = { server, update: offerInbox(server, era, opening) };
    // Only what opens the older era makes such a server.
    if (era === "legacy") reality.settled(() => true);
    return server;
  };

  const wire = new StdioServerTransport(input, output);
  const handle = serveStdio(factory, { transport: wire, onerror: ({ message }) => log("mcp", { error: message }) });
  const closed = listen(wire, (message) => {
    const revision = claimOf(message);
    if (revision === undefined) return;
    reality.settled(() => current?.server.server.getNegotiatedProtocolVersion() === revision);
  }).then(() => reality.stop());
  return {
    closed,
    close: async (withinMs) => {
      reality.stop();
      // The goodbye does not wait for a pipe that nobody reads.
      await Promise.all([opening.close(withinMs), handle.close()]);
    },
  };
}

/** A server with all that it offers but the inbox, which depends on the era. */
function makeServer(desk: Desk, version: string): McpServer {
  const server = new McpServer(
    { name: "interlink", title: "Interlink", version },
    {
      instructions: INSTRUCTIONS,
      capabilities: { resources: { subscribe: true } },
      cacheHints: { "tools/list": { ttlMs: TOOLS_TTL_MS, cacheScope: "private" } },
      requestState: { verify: desk.seal.verify },
    },
  );
  for (const register of TOOLS) register(server, desk);
  return server;
}

/** Looks at each message before it is served. Settles when the pipe is closed. */
function listen(wire: StdioServerTransport, look: (message: JSONRPCMessage) => void): Promise<void> {
  const { onmessage, onclose } = wire;
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a transport of the SDK has one callback, and no events
  wire.onmessage = (message) => {
    look(message);
    onmessage?.(message);
  };
  return new Promise((resolve) => {
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- as above
    wire.onclose = () => {
      onclose?.();
      resolve();
    };
  });
}

/** The revision that a modern request claims, if it is one that settles the era: a whole claim, and no probe. */
function claimOf(message: JSONRPCMessage): string | undefined {
  if (!("method" in message && "id" in message) || message.method === "server/discover") return undefined;
  const meta = message.params?._meta as Readonly<Record<string, unknown>> | undefined;
  const revision = meta?.[PROTOCOL_VERSION_META_KEY];
  return typeof revision === "string" && typeof meta?.[CLIENT_CAPABILITIES_META_KEY] === "object"
    ? revision
    : undefined;
}
