/** How a private key signs. The client's and the tests' side; the bus never imports this file. */

import { getPublicKeyAsync, signAsync } from "@noble/ed25519";
import type { Key } from "./address.ts";
import { encodeBase64url } from "./base64url.ts";

/** The public key of a 32-byte seed. */
export async function publicKeyOf(seed: Uint8Array): Promise<Key> {
  return encodeBase64url(await getPublicKeyAsync(seed)) as Key;
}

/** Signs bytes with a 32-byte seed; 86 characters of base64url. */
export async function sign(bytes: Uint8Array, seed: Uint8Array): Promise<string> {
  return encodeBase64url(await signAsync(bytes, seed));
}
