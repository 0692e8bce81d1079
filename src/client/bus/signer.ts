/** What this room needs of an identity: its name and its hand. Where the private key lies is the trust room's. */

import type { Key } from "../../protocol/address.ts";

export interface Signer {
  readonly key: Key;
  /** Signs bytes; 86 characters of base64url. At once, so that a goodbye fits into what a dying process has left. */
  sign(bytes: Uint8Array): string;
}
