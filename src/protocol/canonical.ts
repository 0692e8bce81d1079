/**
 * The exact bytes that get signed. Pinned by test/vectors, which another language made.
 *
 * Every text is length-prefixed and in fixed order, so no byte can move from one field to the next.
 */

import { keyBytes, type Key } from "./address.ts";
import { ANNOUNCE_DOMAIN, MESSAGE_DOMAIN, TOKEN_DOMAIN, UNREGISTER_DOMAIN, WAKE_DOMAIN } from "./constants.ts";

const encoder = new TextEncoder();

export interface MessageFields {
  readonly from: Key;
  readonly to: Key;
  readonly ts: number;
  readonly kind: string;
  readonly msg_id: string;
  readonly text: string;
  readonly status?: string;
  readonly task_id?: string;
  readonly in_reply_to?: string;
}

export interface AnnouncementFields {
  readonly pubkey: Key;
  readonly name: string;
  readonly session: {
    readonly session_id: string;
    readonly cwd?: string;
    readonly git_root?: string;
    readonly summary?: string;
  };
  readonly ts: number;
}

export interface WakeLeaseFields {
  readonly key: Key;
  readonly session_id: string;
  readonly path: string;
  readonly proven_at_ms: number;
  readonly until_ms: number;
}

export interface TokenFields {
  readonly key: Key;
  readonly ts: number;
  /** 16 random bytes. */
  readonly nonce: Uint8Array;
  /** Configured origin of the bus, never the Host header. */
  readonly audience: string;
  /** GET, POST, PUT, or WS for a socket. */
  readonly method: string;
  /** Raw path and query, as sent. */
  readonly target: string;
  /** SHA-256 of the body's bytes, of nothing if there is no body. */
  readonly bodyHash: Uint8Array;
}

export function messageBytes(m: MessageFields): Uint8Array<ArrayBuffer> {
  return join([
    encoder.encode(MESSAGE_DOMAIN),
    keyBytes(m.from),
    keyBytes(m.to),
    u64le(m.ts),
    ...[m.kind, m.msg_id, m.text, m.status ?? "", m.task_id ?? "", m.in_reply_to ?? ""].flatMap(prefixed),
  ]);
}

export function announcementBytes(a: AnnouncementFields): Uint8Array<ArrayBuffer> {
  const { session_id, cwd = "", git_root = "", summary = "" } = a.session;
  return join([
    encoder.encode(ANNOUNCE_DOMAIN),
    keyBytes(a.pubkey),
    ...[a.name, session_id, cwd, git_root, summary].flatMap(prefixed),
    u64le(a.ts),
  ]);
}

export function unregisterBytes(key: Key, sessionId: string, ts: number): Uint8Array<ArrayBuffer> {
  return join([encoder.encode(UNREGISTER_DOMAIN), keyBytes(key), ...prefixed(sessionId), u64le(ts)]);
}

export function wakeLeaseBytes(lease: WakeLeaseFields): Uint8Array<ArrayBuffer> {
  return join([
    encoder.encode(WAKE_DOMAIN),
    keyBytes(lease.key),
    ...[lease.session_id, lease.path].flatMap(prefixed),
    u64le(lease.proven_at_ms),
    u64le(lease.until_ms),
  ]);
}

export function tokenBytes(t: TokenFields): Uint8Array<ArrayBuffer> {
  return join([
    encoder.encode(TOKEN_DOMAIN),
    keyBytes(t.key),
    u64le(t.ts),
    t.nonce,
    ...[t.audience, t.method, t.target].flatMap(prefixed),
    t.bodyHash,
  ]);
}

/** SHA-256 of bytes. */
export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

function prefixed(text: string): [Uint8Array, Uint8Array] {
  const bytes = encoder.encode(text);
  const n = bytes.length;
  return [Uint8Array.of(n & 0xff, (n >> 8) & 0xff, (n >> 16) & 0xff, n >>> 24), bytes];
}

/** A whole number up to 2^53 - 1, which is all that JSON carries exactly. */
function u64le(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true);
  return bytes;
}

function join(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
