/** Who signed this request, for this bus, just now. Touches no object: a stranger's request wakes nothing. */

import { AUTH_SCHEME } from "../protocol/constants.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { nonceRetainMs, parseToken, verifyToken, type SignedRequest, type Token } from "../protocol/token.ts";
import type { Settings } from "../durable/settings.ts";
import type { Caller } from "./route.ts";

/** Takes the token out of the header; two headers arrive joined by a comma and are malformed. */
export function tokenFromHeader(header: string | null): Token | Refusal {
  if (header === null || header === "") return refuse("auth_required");
  const [scheme, text, ...rest] = header.split(" ");
  if (scheme !== AUTH_SCHEME || text === undefined || rest.length > 0) return refuse("bad_auth");
  return parseToken(text);
}

/** Verifies a token for one request: signature, then clock. */
export async function authenticate(
  token: Token | Refusal,
  request: SignedRequest,
  settings: Settings,
  nowMs: number,
): Promise<Caller | Refusal> {
  if (isRefusal(token)) return token;
  if (!(await verifyToken(token, request, settings.audiences))) return refuse("bad_signature");
  if (Math.abs(token.ts - nowMs) > settings.limits.CLOCK_SKEW_MS) return refuse("clock_skew", { now_ms: nowMs });
  return { key: token.key, nonce: token.nonce, nonceExpiresAtMs: token.ts + nonceRetainMs(settings.limits) };
}
