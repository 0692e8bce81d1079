/**
 * The sessions' hibernating sockets: at most one a session, the newest.
 *
 * All that is known of a socket lies in its attachment, which outlives the object's memory. `ping` is
 * answered by the runtime while no handler runs, so the last sign of life is read from that answer's
 * time: one that a handler kept would go stale.
 */

import type { Key, SessionId } from "../protocol/address.ts";
import type { Limits } from "../protocol/constants.ts";
import { CLOSE, errorFrame, FRAME_VERSIONS, PING, PONG, SUBPROTOCOL, type BusFrame } from "../protocol/frames.ts";
import type { Refusal } from "../protocol/refusal.ts";
import { phaseOf, socketLifeMs } from "./expiry.ts";
import { meter } from "./meter.ts";

interface SessionAttachment {
  readonly kind: "session";
  readonly key: Key;
  readonly session: SessionId;
  /** When it was accepted, and so signed. */
  readonly sinceMs: number;
  /** The last frame that was not a ping. */
  readonly frameAtMs: number;
  /** Highest number pushed on this socket: a cumulative ack counts up to here. */
  readonly pushedThrough: number;
  /** Highest number pushed on an earlier socket of the session, as far as it is known. */
  readonly pushedBefore: number;
  /** The loss that was last told on this socket, by its number. */
  readonly toldGap: number;
  readonly badFrames: number;
}

/** One session's open socket. */
export class SessionSocket {
  readonly #socket: WebSocket;
  readonly #autoAnsweredAtMs: number;
  #facts: SessionAttachment;

  constructor(socket: WebSocket, facts: SessionAttachment, autoAnsweredAtMs: number) {
    this.#socket = socket;
    this.#facts = facts;
    this.#autoAnsweredAtMs = autoAnsweredAtMs;
  }

  get facts(): SessionAttachment {
    return this.#facts;
  }

  /** The bus's own evidence: accepted, a frame, or the last ping that the runtime answered. */
  get signOfLifeMs(): number {
    return Math.max(this.#facts.sinceMs, this.#facts.frameAtMs, this.#autoAnsweredAtMs);
  }

  /** When it has to sign again. */
  endsAtMs(limits: Limits): number {
    return this.#facts.sinceMs + socketLifeMs(limits, phaseOf(this.#facts.key));
  }

  note(change: Partial<Omit<SessionAttachment, "kind" | "key" | "session" | "sinceMs">>): void {
    // Read anew: another handler of this socket may have noted something while this one awaited.
    this.#facts = { ...(this.#socket.deserializeAttachment() as SessionAttachment), ...change };
    this.#socket.serializeAttachment(this.#facts);
  }

  /** Sending proves nothing: only an ack does. To a socket that was closed meanwhile it is as good as lost. */
  send(frame: string): void {
    if (this.#socket.readyState === WebSocket.READY_STATE_OPEN) this.#socket.send(frame);
  }

  /** The first frame. `queued`: what waits, so that a client knows when it has caught up. */
  welcome(generation: string, nowMs: number, queued: number): void {
    const frame: BusFrame = { t: "welcome", generation, now_ms: nowMs, queued, versions: FRAME_VERSIONS };
    this.send(JSON.stringify(frame));
  }

  refuse(refusal: Refusal): void {
    meter.refusal(refusal.refused);
    this.send(errorFrame(refusal));
  }

  /** A fault of ours; its detail is in the log alone. */
  fail(): void {
    const frame: BusFrame = { t: "err", error: "internal", message: "The bus has a fault; it is safe to try again." };
    this.send(JSON.stringify(frame));
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, reason);
  }
}

export class SocketHub {
  readonly #ctx: DurableObjectState;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
  }

  /**
   * Accepts a session's socket. The older one is closed first, so there is one owner at any time.
   * @param pushedBefore see {@link SessionAttachment.pushedBefore}; what the older socket pushed counts too
   */
  accept(key: Key, session: SessionId, pushedBefore: number, nowMs: number): { door: Response; socket: SessionSocket } {
    const older = this.of(session);
    older?.close(CLOSE.superseded, "superseded");
    const { 0: theirs, 1: ours } = new WebSocketPair();
    this.#ctx.acceptWebSocket(ours, [tagOf(session)]);
    const facts: SessionAttachment = {
      kind: "session",
      key,
      session,
      sinceMs: nowMs,
      frameAtMs: nowMs,
      pushedThrough: 0,
      pushedBefore: Math.max(pushedBefore, older?.facts.pushedThrough ?? 0),
      toldGap: 0,
      badFrames: 0,
    };
    ours.serializeAttachment(facts);
    const headers = { "sec-websocket-protocol": SUBPROTOCOL };
    return {
      door: new Response(null, { status: 101, webSocket: theirs, headers }),
      socket: new SessionSocket(ours, facts, 0),
    };
  }

  /** A session's open socket. */
  of(session: SessionId): SessionSocket | undefined {
    return this.#open(tagOf(session))[0];
  }

  /** Every open socket, oldest first. */
  all(): SessionSocket[] {
    return this.#open().sort((a, b) => a.facts.sinceMs - b.facts.sinceMs);
  }

  /** What this object knows of a socket that a handler was given; undefined for a parked poll. */
  recognise(socket: WebSocket): SessionSocket | undefined {
    const facts = socket.deserializeAttachment() as SessionAttachment | { kind: "poll" };
    if (facts.kind !== "session") return undefined;
    return new SessionSocket(socket, facts, this.#ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0);
  }

  #open(tag?: string): SessionSocket[] {
    return this.#ctx
      .getWebSockets(tag)
      .filter((socket) => socket.readyState === WebSocket.READY_STATE_OPEN)
      .map((socket) => this.recognise(socket))
      .filter((socket) => socket !== undefined);
  }
}

function tagOf(session: SessionId): string {
  return `session:${session}`;
}
