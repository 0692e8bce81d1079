/** The boundaries of presence, to the millisecond. */

import { describe, expect, it } from "vitest";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { classifyPresence, isStale, type Presence } from "../../src/protocol/presence.ts";

const ROWS: readonly { age_ms: number; presence: Presence; why: string }[] = [
  { age_ms: 0, presence: "live", why: "it was heard just now" },
  { age_ms: -1, presence: "live", why: "a clock that was set back does not make anyone silent" },
  { age_ms: 89_999, presence: "live", why: "it may have lost two heartbeats" },
  { age_ms: 90_000, presence: "away", why: "three heartbeats are missing" },
  { age_ms: 259_199_999, presence: "away", why: "silence is not death, for three days" },
  { age_ms: 259_200_000, presence: "gone", why: "three days of silence" },
  { age_ms: Number.MAX_SAFE_INTEGER, presence: "gone", why: "it stays gone" },
];

describe("presence", () => {
  it.each(ROWS)("is $presence at $age_ms ms: $why", ({ age_ms, presence }) => {
    expect(classifyPresence(age_ms, DEFAULT_LIMITS)).toBe(presence);
  });

  it("follows the limits of the bus that it is given", () => {
    const limits = { LIVE_MS: 2, AWAY_RETAIN_MS: 4 };
    expect([1, 2, 3, 4].map((age) => classifyPresence(age, limits))).toStrictEqual(["live", "away", "away", "gone"]);
  });
});

describe("staleness", () => {
  it("begins at one day of silence, and not a millisecond before", () => {
    expect(isStale(86_399_999, DEFAULT_LIMITS)).toBe(false);
    expect(isStale(86_400_000, DEFAULT_LIMITS)).toBe(true);
  });

  it("is wording only: a stale session is still away", () => {
    expect(classifyPresence(86_400_000, DEFAULT_LIMITS)).toBe("away");
  });
});
