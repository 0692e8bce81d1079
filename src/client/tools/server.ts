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
import { CallsInFlight } from "./calls-in-flight.ts";
import { busTools } from "./buses.ts";
import { namesThreadInCalls } from "./host-call.ts";
import { INBOX_URI, offerInbox } from "./inbox-resource.ts";
import { INSTRUCTIONS } from "./instructions.ts";
import { Listening } from "./listening.ts";
import { messageTools } from "./messages.ts";
import { Opening, type Open } from "./opening.ts";
import { pairingTools } from "./pairing.ts";
import { presenceTools } from "./presence.ts";
import { Reality } from "./reality.ts";
import { taskTools } from "./tasks.ts";
import type { Desk, Log } from "./tool.ts";
import { ThreadBook } from "../wake/thread-book.ts";
import { WakeDesk } from "../wake/wake-desk.ts";

/** Every tool, in the order in which it is listed; hosts cache the list, so it is the same for all. */
const TOOLS = [...messageTools, ...taskTools, ...presenceTools, ...busTools, ...pairingTools];

/** A list never changes while a process lives; a host may ask again once a minute. */
const TOOLS_TTL_MS = 60_000;
/** A human may be away from the form for a while; after this what was shown must be shown again. */
const ANSWER_TTL_S = 600;
/** The goodbye of a session that its host has left for another. */
const MOVE_MAX_MS = 300;

const CHANNEL = "claude/channel";

export interface ToolServerOptions {
  /** Opens the agent; called when it is first needed, and again after a failure. */
  readonly open: Open;
  readonly version: string;
  /** At least 32 bytes. The same after a restart, or an operator's answer to a question from before counts for nothing. */
  readonly stateKey: Uint8Array;
  readonly timers: Timers;
  readonly log: Log;
  /** What wakes the host; absent: only a client that watches the inbox is told. */
  readonly wake?: WakeDesk;
  /** Offers to wake by a channel, in the older era. */
  readonly hasChannel?: boolean;
  readonly input: Readable;
  readonly output: Writable;
}

export interface ToolServer {
  /** Settles when the pipe is closed, by either side. */
  readonly closed: Promise<void>;
  /** The session was real before this process, and goes on: it is announced without waiting for a call. */
  rejoin(): void;
  /** Resolves when no tool call is without its answer. */
  idle(): Promise<void>;
  /** Closes the pipe and lets the agent, if there is one, say goodbye; at most this long. */
  close(withinMs: number): Promise<void>;
}

/** Serves until the host closes the pipe; then the caller closes the rest. */
export function serveTools(options: ToolServerOptions): ToolServer {
  const { open, version, stateKey, timers, log, hasChannel = false, input, output } = options;
  const wake = options.wake ?? watchedOnly(timers, log);
  /** The one that was made last serves; one before it was a probe's. */
  let current: McpServer | undefined;
  const listening = new Listening();
  const tell = (event: string) => (fault: unknown) => log(event, { error: String(fault) });
  const opening = new Opening(open, (agent) => wake.attach(agent));
  wake.onMove = () => opening.move(MOVE_MAX_MS);
  const reality = new Reality(() => void opening.begin().catch(tell("begin")), timers);
  const desk: Desk = {
    opening,
    seal: createRequestStateCodec<{ readonly shown: string }>({ key: stateKey, ttlSeconds: ANSWER_TTL_S }),
    now: () => timers.now(),
    log,
    onCall: (meta) => {
      wake.called(meta);
      reality.called();
    },
    wake: () => wake.standing(),
  };

  const factory = ({ era }: McpRequestContext): McpServer => {
    const isChannel = hasChannel && era === "legacy";
    const server = makeServer(desk, version, isChannel);
    current = server;
    const inbox = offerInbox(server, era, opening, () => listening.isOn(INBOX_URI));
    wake.connected({ ...inbox, ...(isChannel && { channel: (text: string) => tellChannel(server, text) }) });
    // Only what opens the older era makes such a server.
    if (era === "legacy") reality.settled(() => !namesThreadInCalls(server.server.getClientVersion()?.name));
    return server;
  };

  const wire = new StdioServerTransport(input, output);
  const calls = new CallsInFlight();
  const send = wire.send.bind(wire);
  wire.send = async (message) => {
    await send(message);
    calls.said(message);
  };
  const handle = serveStdio(factory, { transport: wire, onerror: ({ message }) => log("mcp", { error: message }) });
  const closed = listen(wire, (message) => {
    listening.look(message);
    calls.heard(message);
    const revision = claimOf(message);
    if (revision === undefined) return;
    reality.settled(() => current?.server.getNegotiatedProtocolVersion() === revision);
  }).then(() => reality.stop());
  return {
    closed,
    rejoin: () => reality.called(),
    idle: () => calls.none(),
    close: async (withinMs) => {
      reality.stop();
      wake.close();
      // The goodbye does not wait for a pipe that nobody reads.
      await Promise.all([opening.close(withinMs), handle.close()]);
    },
  };
}

/** A server with all that it offers but the inbox, which depends on the era. */
function makeServer(desk: Desk, version: string, isChannel: boolean): McpServer {
  const server = new McpServer(
    { name: "interlink", title: "Interlink", version },
    {
      instructions: INSTRUCTIONS,
      capabilities: { resources: { subscribe: true }, ...(isChannel && { experimental: { [CHANNEL]: {} } }) },
      cacheHints: { "tools/list": { ttlMs: TOOLS_TTL_MS, cacheScope: "private" } },
      requestState: { verify: desk.seal.verify },
    },
  );
  for (const register of TOOLS) register(server, desk);
  return server;
}

/** A word that begins a turn, where the host has let this server have a channel; else it drops it in silence. */
async function tellChannel({ server }: McpServer, content: string): Promise<void> {
  const notification = { method: `notifications/${CHANNEL}`, params: { content } };
  await server.notification(notification as unknown as Parameters<typeof server.notification>[0]);
}

function watchedOnly(timers: Timers, log: Log): WakeDesk {
  return new WakeDesk({ wish: "auto", host: {}, book: new ThreadBook({ isPinned: true, log }), timers, log });
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
