/** PURE: what a client acks by. It names its inbox, so that one inbox's handle means nothing in another. */

import { parseSessionId, type SessionId } from "../protocol/address.ts";

/** The handle of a message in a session's inbox; opaque to clients, at most 76 characters. */
export function formatHandle(session: SessionId, seq: number): string {
  return `${session}.${seq.toString(36)}`;
}

/** The message's number, or undefined if the handle is not one of this inbox. */
export function parseHandle(session: SessionId, handle: string): number | undefined {
  const [owner = "", digits = "", ...rest] = handle.split(".");
  if (parseSessionId(owner) !== session || rest.length > 0 || !/^[0-9a-z]{1,11}$/.test(digits)) return undefined;
  const seq = Number.parseInt(digits, 36);
  return Number.isSafeInteger(seq) ? seq : undefined;
}
