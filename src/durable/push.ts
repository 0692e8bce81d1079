/**
 * Pushing what waits onto a session's socket: in order, at most a window unacked, each message once a socket.
 *
 * A push is no delivery: what is pushed stays in the inbox until the client acks it from its disk.
 */

import { WINDOW, type BusFrame } from "../protocol/frames.ts";
import type { SessionId } from "../protocol/address.ts";
import type { IdentityStorage } from "./identity-storage.ts";
import type { Waiting } from "./inbox-store.ts";
import { countThrough, waitingFor } from "./mail-desk.ts";
import { envelopeText } from "./poll-answer.ts";
import type { SessionSocket } from "./socket-hub.ts";

/** Messages of one frame together: below what a client should bear at once. */
const FRAME_MAX_BYTES = 1_048_576;

/** Pushes as much as the window has room for. */
export function pushWaiting(kept: IdentityStorage, socket: SessionSocket, nowMs: number): void {
  const { session } = socket.facts;
  tellGap(kept, socket, session);
  let room = WINDOW - countThrough(kept, session, socket.facts.pushedThrough, nowMs);
  while (room > 0) {
    const { pushedThrough, pushedBefore } = socket.facts;
    const items = waitingFor(kept, session, room, FRAME_MAX_BYTES, nowMs, pushedThrough);
    if (items.length === 0) return;
    socket.send(messagesFrame(items, pushedBefore));
    socket.note({ pushedThrough: items.at(-1)!.seq });
    room -= items.length;
  }
}

/** Tells of messages that left without an ack, once a socket for each new loss; it is kept until one after it is acked. */
function tellGap(kept: IdentityStorage, socket: SessionSocket, session: SessionId): void {
  const gap = kept.inboxes.notices.gap(session);
  if (!gap || gap.seq <= socket.facts.toldGap) return;
  socket.send(JSON.stringify({ t: "gap", count: gap.count, oldest_ts: gap.oldest_ts } satisfies BusFrame));
  socket.note({ toldGap: gap.seq });
}

/** Payloads are spliced in as they were stored, not parsed again. */
function messagesFrame(items: readonly Waiting[], pushedBefore: number): string {
  const texts = items.map((item) => {
    const redelivered = item.seq <= pushedBefore ? `,"redelivered":true` : "";
    return `{"seq":${item.seq},"envelope":${envelopeText(item)}${redelivered}}`;
  });
  return `{"t":"messages","items":[${texts.join(",")}]}`;
}
