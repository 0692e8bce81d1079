/** What an operator sees of a request: one line, and a counter. No text, token, signature or nonce is in either. */

import { fingerprint, type Key } from "../protocol/address.ts";
import { isRefusal, type Refusal } from "../protocol/refusal.ts";
import { logEvent } from "../durable/log.ts";
import { meter } from "../durable/meter.ts";
import type { Settings } from "../durable/settings.ts";
import { toResponse, type Reply } from "./reply.ts";

/** What is known of a request by the time it is answered. */
export interface Seen {
  readonly method: string;
  readonly route: string;
  readonly startedMs: number;
  key?: Key;
}

/** Answers a request, counts it and writes its line. `now` is read after the answer is made. */
export function answer(outcome: Reply | Refusal, seen: Seen, settings: Settings, now: () => number): Response {
  const response = toResponse(outcome);
  record(isRefusal(outcome) ? outcome.refused : undefined, response.status, seen, settings, now);
  return response;
}

/** Counts a request and writes its line. */
export function record(
  error: string | undefined,
  status: number,
  { method, route, startedMs, key }: Seen,
  settings: Settings,
  now: () => number,
): void {
  meter.request(startedMs);
  if (error !== undefined) meter.refusal(error);
  if (settings.log !== "all") return;
  const who = key === undefined ? undefined : fingerprint(key);
  logEvent("request", { method, route, status, error, key: who, ms: now() - startedMs });
}
