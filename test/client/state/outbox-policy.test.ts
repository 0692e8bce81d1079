/** The life of an outgoing message: the decision table as data, and what holds for every course of events. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  afterSetBack,
  AHEAD_WAIT_MAX_MS,
  applyReceipt,
  BACKOFF_MAX_MS,
  dueAtMs,
  hurry,
  NEW_LIFE,
  passTime,
  RETRY_AFTER_MAX_S,
  SET_BACK_MIN_MS,
  settle,
  type Lane,
  type Life,
  type Outcome,
} from "../../../src/client/session/outbox-policy.ts";
import { treatmentOf } from "../../../src/client/session/refusal-treatment.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/constants.ts";
import { refuse, REFUSAL_CODES, statusOf, type RefusalCode, type RefusalFacts } from "../../../src/protocol/refusal.ts";

const NOW = 1_800_000_000_000;
const { MESSAGE_RETAIN_MS, CLOCK_SKEW_MS } = DEFAULT_LIMITS;
const HOUR_MS = 3_600_000;
/** Longest wait that a lane is ever given: what a full bus may ask for, with its jitter. */
const WAIT_MAX_MS = RETRY_AFTER_MAX_S * 1_250;
const silence: Outcome = { outcome: "silence" };
const stored: Outcome = { outcome: "stored", presence: "live", age_ms: 5 };
const refused = (code: RefusalCode, facts: RefusalFacts = {}): Outcome => ({
  outcome: "refused",
  refusal: refuse(code, facts),
});
const at = (lane: Lane, bus = "a"): Life => ({ state: "pending", lanes: { [bus]: lane } });
const waiting = (attempts: number, next_at_ms: number, why: RefusalCode | "no_answer" = "no_answer"): Lane => {
  return { state: "pending", attempts, since_ms: NOW, next_at_ms, why };
};
const storedAt = (...buses: string[]): Life => ({ state: "stored", at_ms: NOW - 9, buses });

interface Row {
  readonly life?: Life;
  readonly outcome: Outcome;
  readonly buses?: readonly string[];
  readonly ts?: number;
  readonly after: Life;
  readonly offset?: number;
  readonly why: string;
}

/** Every try is of bus "a", with a random draw of 0. */
const ROWS: readonly Row[] = [
  {
    outcome: stored,
    after: { state: "stored", at_ms: NOW, buses: ["a"], presence: "live", age_ms: 5 },
    why: "it is there",
  },
  { outcome: silence, after: at(waiting(1, NOW + 500)), why: "no answer: half a second at least" },
  {
    life: at(waiting(3, 0)),
    outcome: silence,
    after: at(waiting(4, NOW + 4_000)),
    why: "each silence doubles the wait",
  },
  { life: at(waiting(99, 0)), outcome: silence, after: at(waiting(100, NOW + 30_000)), why: "up to a minute" },
  {
    life: at(waiting(7, 0)),
    outcome: refused("queue_full", { retry_after_s: 30 }),
    after: at(waiting(0, NOW + 30_000, "queue_full")),
    why: "full is not lost, and the bus has answered",
  },
  {
    outcome: refused("rate_limited"),
    after: at(waiting(0, NOW + 30_000, "rate_limited")),
    why: "without a time, ours",
  },
  {
    outcome: refused("knock_limit", { retry_after_s: 999_999 }),
    after: at(waiting(0, NOW + 3_600_000, "knock_limit")),
    why: "no bus may silence us for days",
  },
  {
    outcome: refused("sender_quota", { retry_after_s: 0 }),
    after: at(waiting(0, NOW + 1_000, "sender_quota")),
    why: "nor make us spin",
  },
  {
    outcome: refused("not_paired"),
    after: { state: "refused", at_ms: NOW, bus: "a", code: "not_paired", retry: "after_pairing" },
    why: "only people change that",
  },
  {
    outcome: refused("msg_id_conflict"),
    after: { state: "refused", at_ms: NOW, bus: "a", code: "msg_id_conflict", retry: "as_a_new_message" },
    why: "the id names other bytes",
  },
  {
    outcome: refused("bad_text"),
    after: { state: "refused", at_ms: NOW, bus: "a", code: "bad_text", retry: "with_other_words" },
    why: "the same bytes get the same answer",
  },
  {
    outcome: refused("not_paired"),
    buses: ["a", "b"],
    after: at({ state: "refused", code: "not_paired", retry: "after_pairing" }),
    why: "the other bus may know the recipient",
  },
  {
    life: at({ state: "refused", code: "bad_text", retry: "with_other_words" }, "b"),
    outcome: refused("not_paired"),
    buses: ["b", "a"],
    after: { state: "refused", at_ms: NOW, bus: "a", code: "not_paired", retry: "after_pairing" },
    why: "the last of all buses has refused",
  },
  {
    life: at({ state: "refused", code: "not_paired" }, "b"),
    outcome: stored,
    buses: ["b", "a"],
    after: { state: "stored", at_ms: NOW, buses: ["a"], presence: "live", age_ms: 5 },
    why: "stored if any stored",
  },
  {
    outcome: refused("clock_skew", { now_ms: NOW - 7_200_000 }),
    after: at(waiting(0, NOW, "clock_skew")),
    offset: -7_200_000,
    why: "the offset is learned, and it is tried at once",
  },
  {
    life: at(waiting(0, NOW, "clock_skew")),
    outcome: refused("clock_skew", { now_ms: NOW - 7_200_000 }),
    after: at(waiting(1, NOW + 500, "clock_skew")),
    offset: -7_200_000,
    why: "but only once in a row",
  },
  {
    outcome: refused("ts_out_of_range", { now_ms: NOW - CLOCK_SKEW_MS - 5_000 }),
    after: at(waiting(0, NOW + 5_000, "ts_out_of_range")),
    offset: -CLOCK_SKEW_MS - 5_000,
    why: "dated a little ahead: it waits until the bus is there",
  },
  {
    outcome: refused("ts_out_of_range", { now_ms: NOW - CLOCK_SKEW_MS - AHEAD_WAIT_MAX_MS - 1 }),
    after: { state: "refused", at_ms: NOW, bus: "a", code: "ts_out_of_range", retry: "as_a_new_message" },
    offset: -CLOCK_SKEW_MS - AHEAD_WAIT_MAX_MS - 1,
    why: "dated far ahead: the clock was wrong",
  },
  {
    ts: NOW - MESSAGE_RETAIN_MS,
    outcome: refused("ts_out_of_range", { now_ms: NOW }),
    after: { state: "expired", at_ms: NOW, why: "not_stored", last: "ts_out_of_range" },
    why: "too old for one bus is too old for all",
  },
  {
    outcome: refused("bad_signature"),
    after: at(waiting(1, NOW + 500, "bad_signature")),
    why: "the request was wrong, the message is blameless",
  },
  {
    outcome: refused("bad_key", { status: 401 }),
    after: at(waiting(1, NOW + 500, "bad_key")),
    why: "the token's key, not the recipient's",
  },
  { life: storedAt("b"), outcome: stored, after: storedAt("b", "a"), why: "a late answer adds its bus" },
  { life: storedAt("b"), outcome: silence, after: storedAt("b"), why: "another's silence unsays nothing" },
  { life: storedAt("b"), outcome: refused("not_paired"), after: storedAt("b"), why: "nor does its refusal" },
  {
    life: { state: "acked", at_ms: 1 },
    outcome: stored,
    after: { state: "acked", at_ms: 1 },
    why: "acked is for good",
  },
  {
    life: { state: "expired", at_ms: 1, why: "not_stored" },
    outcome: stored,
    after: { state: "stored", at_ms: NOW, buses: ["a"], presence: "live", age_ms: 5 },
    why: "an answer that came late is still true",
  },
  {
    life: { state: "refused", at_ms: 1, bus: "a", code: "not_paired" },
    outcome: silence,
    after: { state: "refused", at_ms: 1, bus: "a", code: "not_paired" },
    why: "it is settled",
  },
];

describe("a try", () => {
  for (const { life = NEW_LIFE, outcome, buses = ["a"], ts = NOW, after, offset, why } of ROWS) {
    it(`${life.state} → ${after.state}: ${why}`, () => {
      const answer = settle(life, { bus: "a", outcome, nowMs: NOW, buses, ts, random: 0 });
      expect(answer.life).toEqual(after);
      expect(answer.offset_ms).toBe(offset);
    });
  }

  it("treats every code, each 429 as back-pressure, and nothing else of 401 as the message's fault", () => {
    for (const code of REFUSAL_CODES) {
      const { treatment } = treatmentOf(code, statusOf(refuse(code)));
      if (statusOf(refuse(code)) === 429) expect(treatment, code).toBe("back_pressure");
      if (statusOf(refuse(code)) === 401) expect(["not_heard", "our_clock"], code).toContain(treatment);
    }
  });
});

describe("a receipt", () => {
  const gone = (state: "acked" | "expired" | "evicted" | "forgotten" | "stored") => ({ state, at_ms: 7 });
  it.each<{ life: Life; state: Parameters<typeof gone>[0]; after: Life; why: string }>([
    { life: storedAt("a"), state: "stored", after: storedAt("a"), why: "nothing new" },
    { life: storedAt("a"), state: "acked", after: { state: "acked", at_ms: 7 }, why: "the recipient has it" },
    { life: storedAt("b"), state: "acked", after: { state: "acked", at_ms: 7 }, why: "wherever it was acked" },
    { life: at(waiting(1, 0)), state: "acked", after: { state: "acked", at_ms: 7 }, why: "our answer was lost" },
    { life: storedAt("a"), state: "expired", after: { state: "expired", at_ms: 7, why: "never_acked" }, why: "unread" },
    { life: storedAt("a"), state: "evicted", after: { state: "evicted", at_ms: 7 }, why: "pushed out" },
    { life: storedAt("a", "b"), state: "evicted", after: storedAt("b"), why: "another still holds it" },
    {
      life: storedAt("a"),
      state: "forgotten",
      after: { state: "pending", lanes: {}, was_stored: true },
      why: "another life of the bus: once more",
    },
    { life: storedAt("b"), state: "forgotten", after: storedAt("b"), why: "it never stored it" },
    {
      life: { state: "acked", at_ms: 1 },
      state: "evicted",
      after: { state: "acked", at_ms: 1 },
      why: "acked is final",
    },
  ])("$life.state, $state → $after.state: $why", ({ life, state, after }) => {
    expect(applyReceipt(life, "a", gone(state))).toEqual(after);
  });
});

describe("time", () => {
  it("expires what no bus took, with the last reason", () => {
    const life = at(waiting(3, 0, "queue_full"));
    expect(passTime(life, MESSAGE_RETAIN_MS - 1, ["a"], NOW)).toBe(life);
    expect(passTime(life, MESSAGE_RETAIN_MS, ["a"], NOW)).toEqual({
      state: "expired",
      at_ms: NOW,
      why: "not_stored",
      last: "queue_full",
    });
    expect(passTime(storedAt("a"), MESSAGE_RETAIN_MS, ["a"], NOW)).toEqual(storedAt("a"));
  });

  it("refuses when the only bus that had not is no longer configured, and waits while there is none", () => {
    const life: Life = { state: "pending", lanes: { a: { state: "refused", code: "not_paired" }, b: waiting(1, 0) } };
    expect(passTime(life, 0, ["a", "b"], NOW)).toBe(life);
    expect(passTime(life, 0, [], NOW)).toBe(life);
    expect(passTime(life, 0, ["a"], NOW)).toMatchObject({ state: "refused", code: "not_paired" });
  });

  it("hurries what waits for an answer, and not what a full bus put off", () => {
    expect(hurry(at(waiting(5, NOW + 60_000)), "a", NOW)).toEqual(at(waiting(5, NOW)));
    const full = at(waiting(0, NOW + 60_000, "queue_full"));
    expect(hurry(full, "a", NOW)).toBe(full);
  });

  it("tries at once a bus that was not tried, and never one that refused", () => {
    expect(dueAtMs(NEW_LIFE, "a")).toBe(0);
    expect(dueAtMs(at({ state: "refused", code: "bad_text" }), "a")).toBeUndefined();
    expect(dueAtMs(at(waiting(1, NOW + 500)), "a")).toBe(NOW + 500);
  });

  const WAITS: readonly { why: RefusalCode | "no_answer"; leftMs: number }[] = [
    { why: "no_answer", leftMs: 0 },
    { why: "clock_skew", leftMs: 0 },
    { why: "bad_signature", leftMs: 0 },
    { why: "ts_out_of_range", leftMs: 0 },
    { why: "queue_full", leftMs: 30_000 },
    { why: "rate_limited", leftMs: 30_000 },
    { why: "sender_quota", leftMs: 30_000 },
    { why: "knock_limit", leftMs: 30_000 },
  ];

  it.each(WAITS)("ends a wait for $why, or begins it anew, when the clock is set back", ({ why, leftMs }) => {
    const life = at(waiting(3, NOW + 30_000, why));
    for (const byMs of [SET_BACK_MIN_MS + 1, HOUR_MS, 24 * HOUR_MS]) {
      const nowMs = NOW - byMs;
      const lane = { ...waiting(3, nowMs + leftMs, why), since_ms: nowMs };
      expect(afterSetBack(life, nowMs)).toEqual(at(lane));
      expect(afterSetBack(at(lane), nowMs), "once").toEqual(at(lane));
    }
  });

  it("leaves a wait be at any other time, and what does not wait", () => {
    const life: Life = {
      state: "pending",
      lanes: { a: waiting(3, NOW + 30_000), b: { state: "refused", code: "not_paired" } },
    };
    for (const offMs of [-SET_BACK_MIN_MS, -1, 0, 29_999, 30_000, HOUR_MS, 24 * HOUR_MS]) {
      expect(afterSetBack(life, NOW + offMs)).toBe(life);
    }
    expect(afterSetBack(storedAt("a"), 0)).toEqual(storedAt("a"));
    expect(afterSetBack(life, 0)).toMatchObject({ lanes: { a: { next_at_ms: 0 }, b: { state: "refused" } } });
  });

  it("lets no clock that is set back again and again stretch a wait by more than its own length each time", () => {
    const steps = fc.array(fc.record({ passMs: fc.nat(70_000), backMs: fc.nat(2 * HOUR_MS) }), { maxLength: 6 });
    const any = fc.constantFrom<RefusalCode | "no_answer">("no_answer", "queue_full");
    fc.assert(
      fc.property(steps, any, fc.integer({ min: 1_000, max: 60_000 }), (all, why, waitMs) => {
        let [life, wallMs, waitedMs] = [at(waiting(1, NOW + waitMs, why)), NOW, 0];
        for (const { passMs, backMs } of all) {
          wallMs += passMs - backMs;
          waitedMs += passMs;
          life = afterSetBack(life, wallMs);
        }
        const leftMs = dueAtMs(life, "a")! - wallMs;
        expect(leftMs).toBeLessThanOrEqual(waitMs + SET_BACK_MIN_MS);
        if (why === "queue_full") expect(waitedMs + leftMs).toBeGreaterThanOrEqual(waitMs);
      }),
    );
  });
});

describe("properties", () => {
  const anyOutcome: fc.Arbitrary<Outcome> = fc.oneof(
    fc.constant(silence),
    fc.constant(stored),
    fc
      .record({
        code: fc.constantFrom(...REFUSAL_CODES),
        retry_after_s: fc.option(fc.integer({ min: -5, max: 1e7 }), { nil: undefined }),
        now_ms: fc.option(fc.integer({ min: NOW - 1e9, max: NOW + 1e9 }), { nil: undefined }),
      })
      .map(({ code, retry_after_s, now_ms }) =>
        refused(code, {
          ...(retry_after_s === undefined ? {} : { retry_after_s }),
          ...(now_ms === undefined ? {} : { now_ms }),
        }),
      ),
  );
  const events = fc.array(
    fc.record({
      bus: fc.constantFrom("a", "b", "c"),
      outcome: anyOutcome,
      random: fc.double({ min: 0, max: 0.999, noNaN: true }),
    }),
    { minLength: 1, maxLength: 20 },
  );

  it("stored once is stored, whatever comes after; and every wait is one that ends", () => {
    fc.assert(
      fc.property(events, (all) => {
        let life: Life = NEW_LIFE;
        let nowMs = NOW;
        let wasStored = false;
        for (const { bus, outcome, random } of all) {
          nowMs += 1_000;
          life = settle(life, { bus, outcome, nowMs, buses: ["a", "b", "c"], ts: NOW, random }).life;
          wasStored ||= outcome.outcome === "stored";
          if (wasStored) expect(life.state).toBe("stored");
          const next = dueAtMs(life, bus);
          if (next !== undefined) {
            expect(next).toBeLessThanOrEqual(nowMs + WAIT_MAX_MS);
            if (outcome.outcome === "silence") expect(next - nowMs).toBeLessThanOrEqual(BACKOFF_MAX_MS);
            if (outcome.outcome === "silence") expect(next).toBeGreaterThan(nowMs);
          }
          // It survives the disk.
          expect(JSON.parse(JSON.stringify(life))).toEqual(life);
        }
      }),
    );
  });

  it("a pending message always has a bus that will be tried, unless none is configured", () => {
    fc.assert(
      fc.property(events, (all) => {
        let life: Life = NEW_LIFE;
        const buses = ["a", "b", "c"];
        for (const { bus, outcome, random } of all) {
          life = settle(life, { bus, outcome, nowMs: NOW, buses, ts: NOW, random }).life;
          const hasDue = buses.some((each) => dueAtMs(life, each) !== undefined);
          expect(hasDue).toBe(life.state === "pending");
        }
      }),
    );
  });
});
