/**
 * What a session says on its socket, and what is done about it. The handshake was signed; what a frame
 * says of the key is signed again, and checked as the door checks a request.
 */

import type { SessionId } from "../protocol/address.ts";
import type { Limits } from "../protocol/constants.ts";
import { BAD_FRAMES_MAX, CLOSE, parseClientFrame, type ClientFrame } from "../protocol/frames.ts";
import { isRefusal, refuse, type Refusal, type RefusalCode } from "../protocol/refusal.ts";
import { byteLength } from "../protocol/text.ts";
import type { IdentityCalls, Nonce } from "./calls.ts";
import { socketLifeMs } from "./expiry.ts";
import type { IdentityStorage } from "./identity-storage.ts";
import { takeAnnouncement, takeUnregister } from "./intake.ts";
import { claim, countThrough } from "./mail-desk.ts";
import type { Settings } from "./settings.ts";
import type { SessionSocket } from "./socket-hub.ts";

/** What the identity does when a frame has been checked. */
export interface FrameActions {
  announce(call: IdentityCalls["announce"]["call"]): Promise<Refusal | object>;
  unregister(call: IdentityCalls["unregister"]["call"]): Promise<Refusal | object>;
  ackThrough(socket: SessionSocket, through: number): Promise<void>;
  close(socket: SessionSocket, code: number, reason: string): Promise<void>;
}

/** What a handshake keeps: its nonce is used up, its session is heard, and it owns the identity's own inbox if it is first. */
export function beginSocket(
  kept: IdentityStorage,
  session: SessionId,
  nonce: Nonce,
  limits: Limits,
  nowMs: number,
): Refusal | undefined {
  if (!kept.nonces.use(nonce)) return refuse("replay");
  kept.roster.setConnected(session, true, nowMs);
  claim(kept, session);
  kept.armFor({ nonceExpiresAtMs: nonce.expiresAtMs, socketDueAtMs: nowMs + socketLifeMs(limits, kept.phase) });
  return undefined;
}

/** What is kept of a socket that is gone: when it was last heard, and what it had pushed in vain. */
export function endSocket(kept: IdentityStorage, { facts }: SessionSocket, seenAtMs: number): void {
  kept.roster.setConnected(facts.session, false, seenAtMs);
  if (countThrough(kept, facts.session, facts.pushedThrough, seenAtMs) > 0) {
    kept.inboxes.notices.notePushed(facts.session, facts.pushedThrough);
  }
}

/** Refusals of a frame as such, not of what it asks for: three of them end the socket. */
const BAD_FRAME_CODES: ReadonlySet<RefusalCode> = new Set([
  "bad_json",
  "too_deep",
  "bad_frame",
  "unknown_field",
  "bad_field",
]);

/** Handles one frame: answers a refusal with an `err` frame, closes what cannot be a client of ours. */
export async function handleFrame(
  socket: SessionSocket,
  data: string | ArrayBuffer,
  settings: Settings,
  actions: FrameActions,
  nowMs: number,
): Promise<void> {
  if (typeof data !== "string") return actions.close(socket, CLOSE.binary, "binary");
  if (byteLength(data) > settings.limits.BODY_MAX_BYTES) {
    return actions.close(socket, CLOSE.tooLarge, "too_large");
  }
  socket.note({ frameAtMs: nowMs });
  const frame = parseClientFrame(data);
  const refusal = isRefusal(frame) ? frame : await act(socket, frame, settings, actions, nowMs);
  if (!refusal) return;
  socket.refuse(refusal);
  if (!BAD_FRAME_CODES.has(refusal.refused)) return;
  const badFrames = socket.facts.badFrames + 1;
  if (badFrames >= BAD_FRAMES_MAX) await actions.close(socket, CLOSE.tooManyErrors, "too_many_errors");
  else socket.note({ badFrames });
}

async function act(
  socket: SessionSocket,
  frame: ClientFrame,
  settings: Settings,
  actions: FrameActions,
  nowMs: number,
): Promise<Refusal | undefined> {
  const { key, session } = socket.facts;
  switch (frame.t) {
    case "ack": {
      if (frame.through > socket.facts.pushedThrough) return refuse("bad_ack");
      await actions.ackThrough(socket, frame.through);
      return undefined;
    }
    case "announce": {
      const { announcement } = frame;
      if (announcement.pubkey !== key) return refuse("key_mismatch");
      if (announcement.session.session_id !== session) return refuse("not_owner");
      const taken = await takeAnnouncement(announcement, frame, settings, nowMs);
      return refusalOf(isRefusal(taken) ? taken : await actions.announce({ key, ...taken }));
    }
    case "unregister": {
      const { ts, sig, goodbyes = [] } = frame;
      const signed = { pubkey: key, session: { session_id: session }, ts, sig };
      const taken = await takeUnregister(signed, goodbyes, settings, nowMs);
      return refusalOf(isRefusal(taken) ? taken : await actions.unregister({ key, session, ts, sig, goodbyes: taken }));
    }
  }
}

function refusalOf(answer: Refusal | object): Refusal | undefined {
  return isRefusal(answer) ? answer : undefined;
}
