/**
 * PURE: many write to one identity. What is let in is decided by the object's own rules (token-bucket.ts, inbox-policy.ts),
 * what a sender does with a refusal by the outbox's (outbox-policy.ts); the object itself is a queue.
 */

import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { refuse as refusalOf } from "../../src/protocol/refusal.ts";
import { WINDOW } from "../../src/protocol/frames.ts";
import { admit, type Tally as InboxTally } from "../../src/durable/inbox-policy.ts";
import { TokenBuckets } from "../../src/durable/token-bucket.ts";
import { dueAtMs, NEW_LIFE, settle, type Life, type Outcome } from "../../src/client/session/outbox-policy.ts";
import { Agenda } from "./agenda.ts";
import { exponential, type Random } from "../random.ts";
import { Station } from "./station.ts";
import { reached } from "./tally.ts";

export interface HotOptions {
  readonly senders: number;
  /** Written by each sender. */
  readonly eachPerS: number;
  /** Whether a session of the recipient takes and acks. */
  readonly isOnline: boolean;
  readonly objectPerS: number;
  readonly queueMaxMs: number;
  readonly networkMs: number;
  /** What a request costs that is refused by the object, of what one costs that is stored. */
  readonly refusalCost: number;
  /** Nothing new is written after this. */
  readonly writesForMs: number;
  readonly forMs: number;
}

/** Of the object, per first or later try. */
export type Refused = "rate_limited" | "sender_quota" | "queue_full" | "overloaded";

export interface Hot {
  readonly written: number;
  readonly stored: number;
  readonly pending: number;
  /** Stored at the first try. */
  readonly atOnce: number;
  readonly tries: number;
  readonly refused: Readonly<Record<Refused, number>>;
  /** From writing until the bus has said stored; of those that were stored in time. */
  readonly waitP50Ms: number;
  readonly waitP99Ms: number;
  /** When the last was stored that was. */
  readonly lastStoredAtMs: number;
  /** When the first was refused; undefined if none was. */
  readonly firstRefusedAtMs: number | undefined;
}

interface Letter {
  readonly sender: string;
  readonly writtenAtMs: number;
  tries: number;
  life: Life;
}

type What =
  | { readonly on: "writes"; readonly sender: string }
  | { readonly on: "arrives" | "tries"; readonly letter: Letter }
  | { readonly on: "hears"; readonly letter: Letter; readonly outcome: Outcome }
  | { readonly on: "acks"; readonly count: number };

const BUS = "bus";
/** A message of a few lines, as stored. */
const BYTES = 700;
/** As mail-desk.ts. */
export const FULL_RETRY_S = 30;

export function simulateHot(options: HotOptions, random: Random): Hot {
  const { senders, eachPerS, isOnline, networkMs, refusalCost, writesForMs, forMs } = options;
  const agenda = new Agenda<What>();
  const station = new Station({ perS: options.objectPerS, waitMaxMs: options.queueMaxMs });
  const buckets = new TokenBuckets(DEFAULT_LIMITS.RATE_PER_S);
  const bySender = new Map<string, number>();
  /** Oldest first: who wrote what is in the inbox. */
  const inbox: string[] = [];
  let [pushed, serial, written, tries, atOnce, stored, lastStoredAtMs] = [0, 0, 0, 0, 0, 0, 0];
  const refused: Record<Refused, number> = { rate_limited: 0, sender_quota: 0, queue_full: 0, overloaded: 0 };
  const waits: number[] = [];
  let firstRefusedAtMs: number | undefined;

  const refuse = (code: Refused, nowMs: number): Outcome => {
    refused[code]++;
    firstRefusedAtMs ??= nowMs;
    if (code === "overloaded") return { outcome: "silence" };
    return { outcome: "refused", refusal: refusalOf(code, { retry_after_s: FULL_RETRY_S }) };
  };
  const push = (nowMs: number): void => {
    if (!isOnline || pushed > 0 || inbox.length === 0) return;
    pushed = Math.min(WINDOW, inbox.length);
    agenda.put(nowMs + 2 * networkMs, { on: "acks", count: pushed });
  };
  /** What the object says, when it comes to it. */
  const decide = (letter: Letter, nowMs: number): Outcome => {
    const waitS = buckets.take(letter.sender, 1, nowMs);
    if (waitS > 0) {
      const outcome = refuse("rate_limited", nowMs) as Outcome & { outcome: "refused" };
      return { outcome: "refused", refusal: { ...outcome.refusal, retry_after_s: waitS } };
    }
    const tally: InboxTally = { messages: inbox.length, bytes: inbox.length * BYTES, bySender };
    const arrival = { sender: letter.sender, bytes: BYTES, digest: String(serial++), knownDigest: undefined };
    const verdict = admit(arrival, tally, 1, DEFAULT_LIMITS, "refuse");
    if (verdict.verdict === "refuse") return refuse(verdict.code as Refused, nowMs);
    inbox.push(letter.sender);
    bySender.set(letter.sender, (bySender.get(letter.sender) ?? 0) + 1);
    push(nowMs);
    return { outcome: "stored" };
  };

  for (let one = 0; one < senders; one++) {
    agenda.put(exponential(random, 1_000 / eachPerS), { on: "writes", sender: `sender-${one}` });
  }
  for (let next = agenda.next(); next && next.atMs <= forMs; next = agenda.next()) {
    const { atMs, what } = next;
    switch (what.on) {
      case "writes": {
        if (atMs > writesForMs) break;
        const letter: Letter = { sender: what.sender, writtenAtMs: atMs, tries: 0, life: NEW_LIFE };
        written++;
        agenda.put(atMs, { on: "tries", letter });
        agenda.put(atMs + exponential(random, 1_000 / eachPerS), what);
        break;
      }
      case "tries":
        tries++;
        what.letter.tries++;
        agenda.put(atMs + networkMs, { on: "arrives", letter: what.letter });
        break;
      case "arrives": {
        const { letter } = what;
        let outcome: Outcome = { outcome: "silence" };
        const doneAtMs = station.take(atMs, (beginsAtMs) => {
          outcome = decide(letter, beginsAtMs);
          return outcome.outcome === "stored" ? 1 : refusalCost;
        });
        if (doneAtMs === undefined) outcome = refuse("overloaded", atMs);
        agenda.put((doneAtMs ?? atMs) + networkMs, { on: "hears", letter, outcome });
        break;
      }
      case "hears": {
        const { letter, outcome } = what;
        const now = { bus: BUS, buses: [BUS], outcome, nowMs: atMs, ts: letter.writtenAtMs, random: random() };
        letter.life = settle(letter.life, now).life;
        if (letter.life.state === "stored") {
          stored++;
          lastStoredAtMs = atMs;
          if (letter.tries === 1) atOnce++;
          waits.push(atMs - letter.writtenAtMs);
        } else {
          const dueMs = dueAtMs(letter.life, BUS);
          if (dueMs !== undefined) agenda.put(Math.max(atMs, dueMs), { on: "tries", letter });
        }
        break;
      }
      case "acks": {
        const doneAtMs = station.take(atMs);
        if (doneAtMs === undefined) {
          agenda.put(atMs + networkMs, what); // pushed again, and acked again
          break;
        }
        for (const sender of inbox.splice(0, what.count)) bySender.set(sender, bySender.get(sender)! - 1);
        pushed = 0;
        push(doneAtMs);
        break;
      }
    }
  }
  return {
    written,
    stored,
    pending: written - stored,
    atOnce,
    tries,
    refused,
    waitP50Ms: reached(waits, 0.5),
    waitP99Ms: reached(waits, 0.99),
    lastStoredAtMs,
    firstRefusedAtMs,
  };
}
