/** A token over one request: signed anew each time, since a nonce is good for one use. */

import { createHash, randomBytes } from "node:crypto";
import { encodeBase64url } from "../../protocol/base64url.ts";
import { tokenBytes } from "../../protocol/canonical.ts";
import { formatToken } from "../../protocol/token.ts";
import type { Signer } from "./signer.ts";

const NONCE_BYTES = 16;

/** What a token is signed over, beside its key and nonce. */
export interface RequestToSign {
  /** GET, POST, PUT, or WS for a socket's handshake. */
  readonly method: string;
  /** Raw path and query, as sent. */
  readonly target: string;
  /** Absent: no body. */
  readonly body?: Uint8Array;
  /** Origin that the bus knows itself by. */
  readonly audience: string;
  /** The bus's clock, Unix milliseconds. */
  readonly ts: number;
}

/** The text of a token. */
export function signRequest(signer: Signer, { method, target, body, audience, ts }: RequestToSign): string {
  const nonce = randomBytes(NONCE_BYTES);
  const bodyHash = createHash("sha256")
    .update(body ?? "")
    .digest();
  const bytes = tokenBytes({ key: signer.key, ts, nonce, audience, method, target, bodyHash });
  return formatToken({ key: signer.key, ts, nonce: encodeBase64url(nonce), sig: signer.sign(bytes) });
}
