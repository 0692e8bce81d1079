/** The request token: one string that signs one request, for HTTP and for a socket's handshake alike. */

import { parseKey, type Key } from "./address.ts";
import { decodeBase64url } from "./base64url.ts";
import { sha256, tokenBytes } from "./canonical.ts";
import { TOKEN_PREFIX, type Limits } from "./constants.ts";
import { refuse, type Refusal } from "./refusal.ts";
import { parseSignature, verifySignature } from "./signature.ts";

/** A token taken apart; nothing in it is verified yet. */
export interface Token {
  readonly key: Key;
  readonly ts: number;
  /** 22 characters for 16 random bytes. */
  readonly nonce: string;
  readonly sig: string;
}

/** What a token signs, beside its own key, time and nonce. */
export interface SignedRequest {
  /** GET, POST, PUT, or WS for a socket's handshake. */
  readonly method: string;
  /** Raw path and query, as sent. */
  readonly target: string;
  readonly body: Uint8Array<ArrayBuffer>;
}

const SHAPE = new RegExp(`^${TOKEN_PREFIX}\\.([\\w-]{43})\\.(0|[1-9]\\d{0,15})\\.([\\w-]{22})\\.([\\w-]{86})$`);

/** How long a used nonce must be remembered past the token's `ts`: the window on both sides and a second. */
export function nonceRetainMs(limits: Pick<Limits, "CLOCK_SKEW_MS">): number {
  return 2 * limits.CLOCK_SKEW_MS + 1_000;
}

/** Takes a token apart. Refuses with `bad_auth`, or `bad_key` (as a 401). */
export function parseToken(text: string): Token | Refusal {
  const match = SHAPE.exec(text);
  if (!match) return refuse("bad_auth");
  const [, keyText, tsText, nonce, sig] = match as unknown as [string, string, string, string, string];
  const key = parseKey(keyText);
  if (!key) return refuse("bad_key", { status: 401 });
  const ts = Number(tsText);
  if (!Number.isSafeInteger(ts) || !decodeBase64url(nonce, 16) || !parseSignature(sig)) return refuse("bad_auth");
  return { key, ts, nonce, sig };
}

/** Puts a token together; the inverse of {@link parseToken}. */
export function formatToken({ key, ts, nonce, sig }: Token): string {
  return [TOKEN_PREFIX, key, ts, nonce, sig].join(".");
}

/** The bytes that a token's signature is over, for one audience. */
export async function signedTokenBytes(
  token: Omit<Token, "sig">,
  request: SignedRequest,
  audience: string,
): Promise<Uint8Array<ArrayBuffer>> {
  return tokenBytes({
    key: token.key,
    ts: token.ts,
    nonce: decodeBase64url(token.nonce, 16)!,
    audience,
    method: request.method,
    target: request.target,
    bodyHash: await sha256(request.body),
  });
}

/** True if the token signs this request for one of the bus's audiences. */
export async function verifyToken(
  token: Token,
  request: SignedRequest,
  audiences: readonly string[],
): Promise<boolean> {
  for (const audience of audiences) {
    if (await verifySignature(await signedTokenBytes(token, request, audience), token.sig, token.key)) return true;
  }
  return false;
}
