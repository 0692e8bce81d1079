/**
 * What came of asking the bus: it did it, it said no, or we do not know.
 *
 * "Unknown" is a case of its own: a request without a proper answer may or may not have been acted on, so it is
 * never told as refused, and never as stored. Asking again is safe by id, handle or `ts`.
 */

import type { JsonObject } from "../../protocol/json.ts";
import { isRefusalCode, type RefusalCode, type RefusalFacts } from "../../protocol/refusal.ts";

/** The bus said no, for a reason that both ends know. */
export interface BusRefusal extends Pick<RefusalFacts, "now_ms" | "index"> {
  readonly refused: RefusalCode;
  /** When asking again makes sense, from now; at most {@link RETRY_AFTER_MAX_MS}. */
  readonly retryAfterMs?: number;
}

/** Outcome unknown. `detail` is our own system's error code, `ECONNREFUSED` say; nothing that the bus wrote. */
export interface Unreachable {
  readonly unreachable: UnreachableReason;
  readonly detail?: string;
  readonly retryAfterMs?: number;
}

export type UnreachableReason =
  /** No connection, or it broke before the whole answer was here. */
  | "network"
  /** No whole answer in time. */
  | "timeout"
  /** The answer is larger than any of a bus. */
  | "too_large"
  /** Redirected elsewhere, which is not followed: a captive portal, or not the bus's origin. */
  | "redirected"
  /** A status of 500 and above: the bus, or what stands before it, has a fault. */
  | "fault"
  /** Not JSON, or not what this route answers, or a refusal that only a newer client would know. */
  | "bad_answer"
  /** Given up by us: aborted, or the client was closed. */
  | "aborted";

export type Outcome<T> = { readonly ok: T } | BusRefusal | Unreachable;

/** Longest wait that a bus may ask for: what is longer is for a person, not for a timer. */
export const RETRY_AFTER_MAX_MS = 3_600_000;

/** True if the bus did what was asked. */
export function isOk<T>(outcome: Outcome<T>): outcome is { readonly ok: T } {
  return "ok" in outcome;
}

/** The refusal in a bus's words, or undefined if it is none that we know. */
export function readRefusal(words: JsonObject): BusRefusal | undefined {
  const { error, now_ms, retry_after_s, index } = words;
  if (typeof error !== "string" || !isRefusalCode(error)) return undefined;
  const retryAfterMs = toRetryAfterMs(retry_after_s);
  return {
    refused: error,
    ...(isWhole(now_ms) ? { now_ms } : {}),
    ...(isWhole(index) ? { index } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

/** Seconds as a bus gives them, in a body or a header, as our own milliseconds. */
export function toRetryAfterMs(seconds: unknown): number | undefined {
  const value = typeof seconds === "string" && /^\d{1,9}$/.test(seconds) ? Number(seconds) : seconds;
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) return undefined;
  return Math.min(value * 1_000, RETRY_AFTER_MAX_MS);
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
