/**
 * The one verification predicate, shared by bus, clients and tests: strict encodings and points, then
 * the runtime's cofactorless verifier. Both ends must use it, or a message that one accepts is dropped
 * by the other.
 */

import { keyBytes, type Key } from "./address.ts";
import { decodeBase64url } from "./base64url.ts";
import { isStrictSignature } from "./strict-point.ts";

/** The 64 bytes of a signature, or undefined if it is not their canonical base64url. */
export function parseSignature(text: string): Uint8Array<ArrayBuffer> | undefined {
  return decodeBase64url(text, 64);
}

/**
 * True if `signature` (86 characters) is `key`'s over `bytes`. Never throws.
 * @param key already strict: {@link Key} is only made by `parseKey`
 */
export async function verifySignature(bytes: Uint8Array<ArrayBuffer>, signature: string, key: Key): Promise<boolean> {
  const sig = parseSignature(signature);
  if (!sig || !isStrictSignature(sig)) return false;
  try {
    return await crypto.subtle.verify("Ed25519", await importKey(key), sig, bytes);
  } catch {
    return false; // a runtime may throw for a key that is not on the curve
  }
}

/** Imported keys: a request verifies twice under one key, and an agent sends many. Keys are only ever the same. */
const imported = new Map<Key, ReturnType<typeof crypto.subtle.importKey>>();
const IMPORTED_MAX = 256;

function importKey(key: Key): ReturnType<typeof crypto.subtle.importKey> {
  const known = imported.get(key);
  if (known) return known;
  if (imported.size >= IMPORTED_MAX) imported.clear();
  const importing = crypto.subtle.importKey("raw", keyBytes(key), "Ed25519", false, ["verify"]);
  imported.set(key, importing);
  return importing;
}
