import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ATTEMPTS_PER_MINUTE_MAX,
  ATTEMPTS_WINDOW_MS,
  BACKOFF_BASE_MS,
  BACKOFF_MAX_MS,
  backoffMs,
  HELD_MS,
  holdOffMs,
  NO_ATTEMPTS,
  noteAttempt,
  noteEnd,
  noteFailure,
  noteFresh,
} from "../../../src/client/bus/backoff.ts";

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe("backoff", () => {
  it("doubles its ceiling up to a bound, and takes any part of it", () => {
    let attempts = NO_ATTEMPTS;
    for (let n = 0; n < 2_000; n++) {
      attempts = noteFailure(attempts);
      const ceilingMs = Math.min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** n);
      expect(backoffMs(attempts, 0, 0)).toBe(0);
      expect(backoffMs(attempts, 0, 0.5)).toBe(ceilingMs / 2);
      expect(backoffMs(attempts, 0, 1 - Number.EPSILON)).toBeLessThan(ceilingMs);
    }
  });

  it("begins anew after a connection that held, not after one that was dropped at once", () => {
    const attempts = { ...NO_ATTEMPTS, failures: 5 };
    expect(noteEnd(attempts, HELD_MS - 1).failures).toBe(5);
    expect(noteEnd(attempts, -1).failures).toBe(5);
    expect(noteEnd(attempts, HELD_MS).failures).toBe(0);
    expect(noteFresh(attempts).failures).toBe(0);
  });

  it(`never lets more than ${ATTEMPTS_PER_MINUTE_MAX} attempts into a minute, whatever fails, holds or is at once`, () => {
    const move = fc.record({ isAtOnce: fc.boolean(), random, heldMs: fc.nat(2 * HELD_MS), tookMs: fc.nat(3_000) });
    fc.assert(
      fc.property(fc.array(move, { minLength: 30, maxLength: 80 }), (moves) => {
        let attempts = NO_ATTEMPTS;
        let nowMs = 1_000_000;
        const beganAtMs: number[] = [];
        for (const { isAtOnce, random, heldMs, tookMs } of moves) {
          beganAtMs.push(nowMs);
          attempts = noteAttempt(attempts, nowMs);
          nowMs += tookMs;
          if (isAtOnce) {
            attempts = noteEnd(attempts, heldMs);
            nowMs += holdOffMs(attempts, nowMs);
          } else {
            attempts = noteFailure(attempts);
            nowMs += backoffMs(attempts, nowMs, random);
          }
        }
        for (let i = ATTEMPTS_PER_MINUTE_MAX; i < beganAtMs.length; i++) {
          expect(beganAtMs[i]! - beganAtMs[i - ATTEMPTS_PER_MINUTE_MAX]!).toBeGreaterThanOrEqual(ATTEMPTS_WINDOW_MS);
        }
      }),
    );
  });

  it("waits no longer than its bounds, however the clock is set", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 30 }), fc.nat(), random, (beganAtMs, nowMs, random) => {
        const attempts = noteFailure(beganAtMs.reduce(noteAttempt, NO_ATTEMPTS));
        const waitMs = backoffMs(attempts, nowMs, random);
        expect(waitMs).toBeGreaterThanOrEqual(0);
        expect(waitMs).toBeLessThanOrEqual(ATTEMPTS_WINDOW_MS);
      }),
    );
  });
});
