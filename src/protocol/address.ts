/**
 * Who and where: identity keys, session ids and routes. The only file that builds or splits a route.
 */

import { decodeBase64url } from "./base64url.ts";
import { isStrictPoint } from "./strict-point.ts";
import { refuse, type Refusal } from "./refusal.ts";

/** An Ed25519 public key: 43 characters of canonical base64url. Made only by {@link parseKey}. */
export type Key = string & { readonly Key: unique symbol };
/** One running agent of an identity, `^[A-Za-z0-9_-]{1,64}$`. Made only by {@link parseSessionId}. */
export type SessionId = string & { readonly SessionId: unique symbol };

/** `key#session`, or without a session the identity's own inbox. */
export interface Route {
  readonly key: Key;
  readonly session?: SessionId;
}

const ID = /^[A-Za-z0-9_-]{1,64}$/;
const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** A key, or undefined: the spelling must be canonical and the point one that can be a signer's. */
export function parseKey(text: string): Key | undefined {
  const bytes = decodeBase64url(text, 32);
  return bytes && isStrictPoint(bytes) ? (text as Key) : undefined;
}

/** The 32 bytes of a key. */
export function keyBytes(key: Key): Uint8Array<ArrayBuffer> {
  return decodeBase64url(key, 32)!;
}

/** A session id, or undefined. */
export function parseSessionId(text: string): SessionId | undefined {
  return ID.test(text) ? (text as SessionId) : undefined;
}

/** True if the text may be a message id: the same alphabet and length as a session id. */
export function isMessageId(text: string): boolean {
  return ID.test(text);
}

/** Splits a route. Refuses with `bad_route`, `bad_key` or `bad_session`. */
export function parseRoute(text: string): Route | Refusal {
  const [keyText, sessionText, ...rest] = text.split("#");
  if (keyText === undefined || keyText === "" || rest.length > 0) return refuse("bad_route");
  const key = parseKey(keyText);
  if (!key) return refuse("bad_key");
  if (sessionText === undefined) return { key };
  const session = parseSessionId(sessionText);
  return session ? { key, session } : refuse("bad_session");
}

/** Builds the text of a route; the inverse of {@link parseRoute}. */
export function formatRoute({ key, session }: Route): string {
  return session === undefined ? key : `${key}#${session}`;
}

/** For people to compare: 16 base32 characters (80 bits) of the key in four groups. */
export function fingerprint(key: Key): string {
  const bytes = keyBytes(key);
  let bits = 0n;
  for (let i = 0; i < 10; i++) bits = (bits << 8n) | BigInt(bytes[i]!);
  let text = "";
  for (let i = 15; i >= 0; i--) text += BASE32[Number((bits >> BigInt(i * 5)) & 31n)];
  return text.replace(/(.{4})(?=.)/g, "$1-");
}
