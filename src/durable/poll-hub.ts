/**
 * Parked polls: hibernating sockets between the door and this object, at most one a session.
 *
 * The door holds the client's request; held here, a poll would keep the object in memory and billed.
 * A poll is only a hint: what it would deliver is in the inbox until acked.
 */

import type { SessionId } from "../protocol/address.ts";

/** Closing code for a poll that a newer one of its session replaced; read by the door alone. */
export const POLL_SUPERSEDED = 4409;
/** Closing code for a poll that was answered or is not needed any more. */
const POLL_DONE = 1000;

interface PollAttachment {
  readonly kind: "poll";
  readonly session: SessionId;
  readonly isList: boolean;
  readonly max: number;
  readonly sinceMs: number;
}

export interface ParkedPoll {
  readonly session: SessionId;
  readonly isList: boolean;
  readonly max: number;
  readonly sinceMs: number;
  answer(text: string): void;
}

export class PollHub {
  readonly #ctx: DurableObjectState;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
  }

  /** Parks a poll and ends the session's older one. @returns the door's end of the socket */
  park(poll: Omit<PollAttachment, "kind">): WebSocket {
    this.end(poll.session, POLL_SUPERSEDED);
    const { 0: door, 1: here } = new WebSocketPair();
    this.#ctx.acceptWebSocket(here, [tagOf(poll.session)]);
    here.serializeAttachment({ kind: "poll", ...poll } satisfies PollAttachment);
    return door;
  }

  /** The session's parked poll, if there is one. */
  of(session: SessionId): ParkedPoll | undefined {
    const socket = this.#open(tagOf(session))[0];
    return socket && toParked(socket);
  }

  /** Every parked poll, longest first. */
  all(): ParkedPoll[] {
    return this.#open()
      .map(toParked)
      .filter((poll) => poll !== undefined)
      .sort((a, b) => a.sinceMs - b.sinceMs);
  }

  /** Ends a session's poll without an answer. */
  end(session: SessionId, code: number = POLL_DONE): void {
    for (const socket of this.#open(tagOf(session))) socket.close(code);
  }

  #open(tag?: string): WebSocket[] {
    return this.#ctx.getWebSockets(tag).filter((socket) => socket.readyState === WebSocket.READY_STATE_OPEN);
  }
}

function tagOf(session: SessionId): string {
  return `poll:${session}`;
}

function toParked(socket: WebSocket): ParkedPoll | undefined {
  const attachment = socket.deserializeAttachment() as PollAttachment | { kind: "session" };
  if (attachment.kind !== "poll") return undefined;
  const { session, isList, max, sinceMs } = attachment;
  return {
    session,
    isList,
    max,
    sinceMs,
    answer(text) {
      socket.send(text);
      socket.close(POLL_DONE);
    },
  };
}
