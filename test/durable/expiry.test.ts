/** When an alarm must ring next, and when an identity is a ghost: as tables, and for whatever is kept. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DEFAULT_LIMITS, type Limits } from "../../src/protocol/constants.ts";
import { isEmpty, isGhost, nextWake, phaseOf, socketLifeMs, type Kept } from "../../src/durable/expiry.ts";
import { encodeBase64url } from "../../src/protocol/base64url.ts";
import type { Key } from "../../src/protocol/address.ts";

const DAY = 86_400_000;
/** A whole day, so that a row shows at sight whether it is swept. */
const NOW = 20_800 * DAY;
const { AWAY_RETAIN_MS, MESSAGE_RETAIN_MS, KNOCK_RETAIN_MS, DEDUPE_RETAIN_MS, GHOST_RETAIN_MS } = DEFAULT_LIMITS;

type Instant = Exclude<keyof Kept, "hasContacts">;

/** How long after each instant it is due, and whether a reader would see that it is still there. */
const KINDS: { readonly [Name in Instant]-?: { readonly retain?: keyof Limits; readonly isSwept?: true } } = {
  seenAtMs: { retain: "AWAY_RETAIN_MS" },
  messageAtMs: { retain: "MESSAGE_RETAIN_MS" },
  knockAtMs: { retain: "KNOCK_RETAIN_MS" },
  emptiedAtMs: { retain: "GHOST_RETAIN_MS" },
  callDueAtMs: {},
  socketDueAtMs: {},
  buriedAtMs: { retain: "AWAY_RETAIN_MS", isSwept: true },
  receiptAtMs: { retain: "DEDUPE_RETAIN_MS", isSwept: true },
  nonceExpiresAtMs: { isSwept: true },
};
const NAMES = Object.keys(KINDS) as Instant[];

const kept = (instants: Partial<Kept>): Kept => ({ hasContacts: false, ...instants });

const ROWS: readonly { kept: Partial<Kept>; wake: number | undefined; why: string }[] = [
  { kept: {}, wake: undefined, why: "nothing is kept, so nothing is ever due" },
  { kept: { hasContacts: true }, wake: undefined, why: "a contact list has no end of its own" },
  { kept: { seenAtMs: NOW }, wake: NOW + AWAY_RETAIN_MS, why: "a silent session is gone after three days" },
  { kept: { messageAtMs: NOW }, wake: NOW + MESSAGE_RETAIN_MS, why: "mail expires with a receipt" },
  { kept: { knockAtMs: NOW }, wake: NOW + KNOCK_RETAIN_MS, why: "a knock makes room after a day" },
  { kept: { callDueAtMs: NOW + 5 }, wake: NOW + 5, why: "a goodbye is tried again when it was said to be" },
  { kept: { socketDueAtMs: NOW + 5 }, wake: NOW + 5, why: "a socket must sign again, or its age be kept" },
  { kept: { emptiedAtMs: NOW }, wake: NOW + GHOST_RETAIN_MS, why: "a ghost is deleted a day after it was emptied" },
  { kept: { buriedAtMs: NOW }, wake: NOW + AWAY_RETAIN_MS, why: "a tombstone at a whole day is swept at it" },
  {
    kept: { buriedAtMs: NOW + 1 },
    wake: NOW + AWAY_RETAIN_MS + DAY,
    why: "readers pass over a tombstone whose time has come, so one sweep a day is enough",
  },
  {
    kept: { receiptAtMs: NOW + 1 },
    wake: NOW + DEDUPE_RETAIN_MS + DAY,
    why: "a retry so late is refused by its own time, whether its id is remembered or not",
  },
  {
    kept: { nonceExpiresAtMs: NOW + 121_000 },
    wake: NOW + DAY,
    why: "a nonce past its window is refused by the clock, remembered or not",
  },
  {
    kept: { seenAtMs: NOW, messageAtMs: NOW - MESSAGE_RETAIN_MS + 7, knockAtMs: NOW },
    wake: NOW + 7,
    why: "the soonest decides",
  },
  {
    kept: { nonceExpiresAtMs: NOW + 1, callDueAtMs: NOW + 2 },
    wake: NOW + 2,
    why: "what is only swept does not hold up what is due",
  },
  { kept: { seenAtMs: 0 }, wake: AWAY_RETAIN_MS, why: "long overdue is due then, and so at once" },
];

describe("the next alarm", () => {
  for (const { kept: instants, wake, why } of ROWS) {
    it(`of ${JSON.stringify(instants)}: ${why}`, () => {
      expect(nextWake(kept(instants), DEFAULT_LIMITS, 0)).toBe(wake);
    });
  }
});

const GHOSTS: readonly { kept: Partial<Kept>; isGhost: boolean; why: string }[] = [
  { kept: { emptiedAtMs: NOW - GHOST_RETAIN_MS }, isGhost: true, why: "it was empty for a day" },
  { kept: { emptiedAtMs: NOW - GHOST_RETAIN_MS + 1 }, isGhost: false, why: "the day is not over" },
  { kept: {}, isGhost: false, why: "nobody has written down since when it is empty" },
  {
    kept: { emptiedAtMs: NOW - GHOST_RETAIN_MS, hasContacts: true },
    isGhost: false,
    why: "whom it admits must not be forgotten by sleeping",
  },
  {
    kept: { emptiedAtMs: NOW - GHOST_RETAIN_MS, messageAtMs: NOW },
    isGhost: false,
    why: "nothing unacked is reaped, whatever was written down before",
  },
];

describe("a ghost", () => {
  for (const { kept: instants, isGhost: expected, why } of GHOSTS) {
    it(`${expected ? "is" : "is not"} ${JSON.stringify(instants)}: ${why}`, () => {
      expect(isGhost(kept(instants), NOW, DEFAULT_LIMITS)).toBe(expected);
    });
  }

  it("keeps nothing of any kind", () => {
    expect(isEmpty(kept({}))).toBe(true);
    expect(isEmpty(kept({ emptiedAtMs: NOW }))).toBe(true);
    expect(isEmpty(kept({ hasContacts: true }))).toBe(false);
    for (const name of NAMES.filter((each) => each !== "emptiedAtMs")) {
      expect(isEmpty(kept({ [name]: NOW })), name).toBe(false);
    }
  });
});

/** Any of the instants, any of them absent, near or far. */
const anything: fc.Arbitrary<Kept> = fc
  .record(
    Object.fromEntries(NAMES.map((name) => [name, fc.nat({ max: 2 * NOW })])) as Record<Instant, fc.Arbitrary<number>>,
    { requiredKeys: [] },
  )
  .map(kept);

const limitsOf = fc
  .record({
    AWAY_RETAIN_MS: fc.integer({ min: 1, max: 9 * AWAY_RETAIN_MS }),
    MESSAGE_RETAIN_MS: fc.integer({ min: 1, max: 9 * MESSAGE_RETAIN_MS }),
    KNOCK_RETAIN_MS: fc.integer({ min: 1, max: 9 * KNOCK_RETAIN_MS }),
    DEDUPE_RETAIN_MS: fc.integer({ min: 1, max: 9 * DEDUPE_RETAIN_MS }),
    GHOST_RETAIN_MS: fc.integer({ min: 1, max: 9 * GHOST_RETAIN_MS }),
  })
  .map((some): Limits => ({ ...DEFAULT_LIMITS, ...some }));

/** An identity's own time of the day. */
const phase = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

/** When each thing that is kept is due. */
function dueTimes(what: Kept, limits: Limits): { dueAtMs: number; isSwept: boolean }[] {
  return NAMES.flatMap((name) => {
    const { retain, isSwept = false } = KINDS[name];
    const instant = what[name];
    return instant === undefined ? [] : [{ dueAtMs: instant + (retain ? limits[retain] : 0), isSwept }];
  });
}

describe("whatever is kept", () => {
  it("the alarm is never later than what is due, and for a sweep at most a day later", () => {
    fc.assert(
      fc.property(anything, limitsOf, phase, (what, limits, at) => {
        const wake = nextWake(what, limits, at) ?? Infinity;
        for (const { dueAtMs, isSwept } of dueTimes(what, limits)) {
          expect(wake).toBeLessThanOrEqual(isSwept ? dueAtMs + DAY : dueAtMs);
        }
      }),
    );
  });

  it("the alarm is never before the first thing is due, so that an object is not woken for nothing", () => {
    fc.assert(
      fc.property(anything, limitsOf, phase, (what, limits, at) => {
        const first = Math.min(...dueTimes(what, limits).map(({ dueAtMs }) => dueAtMs));
        expect(nextWake(what, limits, at) ?? Infinity).toBeGreaterThanOrEqual(first);
      }),
    );
  });

  it("sweeps of one day fall on one instant, so that many cost one alarm", () => {
    const inOneDay = fc.tuple(fc.integer({ min: 1, max: DAY }), fc.integer({ min: 1, max: DAY }));
    fc.assert(
      fc.property(inOneDay, phase, ([a, b], at) => {
        const begun = NOW + Math.floor(at * DAY);
        const wakeAfter = (ms: number) => nextWake(kept({ nonceExpiresAtMs: begun + ms }), DEFAULT_LIMITS, at);
        expect(wakeAfter(a)).toBe(wakeAfter(b));
      }),
    );
  });

  it("one thing more never makes the alarm later", () => {
    fc.assert(
      fc.property(anything, anything, phase, (what, more, at) => {
        const wake = (each: Kept) => nextWake(each, DEFAULT_LIMITS, at) ?? Infinity;
        const added = Object.fromEntries(NAMES.filter((name) => !(name in what)).map((name) => [name, more[name]]));
        expect(wake({ ...what, ...added })).toBeLessThanOrEqual(wake(what));
      }),
    );
  });
});

describe("an identity's own time of the day", () => {
  const keyOf = (first: number, then: number) =>
    encodeBase64url(Uint8Array.from({ length: 32 }, (_, index) => (index < 2 ? first : index < 6 ? then : 7))) as Key;

  it("is the first sweep at or after what may go", () => {
    const wakeAfter = (ms: number) => nextWake(kept({ nonceExpiresAtMs: NOW + ms }), DEFAULT_LIMITS, 0.25);
    expect(wakeAfter(DAY / 4)).toBe(NOW + DAY / 4);
    expect(wakeAfter(DAY / 4 + 1)).toBe(NOW + DAY / 4 + DAY);
  });

  it("comes from its key, between the beginning and the end of the day, and not from what chooses its shard", () => {
    expect(phaseOf(keyOf(1, 0))).toBe(0);
    expect(phaseOf(keyOf(1, 0x80))).toBeCloseTo(0.5, 2);
    expect(phaseOf(keyOf(1, 0xff))).toBeLessThan(1);
    expect(phaseOf(keyOf(200, 0x80))).toBe(phaseOf(keyOf(1, 0x80)));
  });

  it("a socket lives for SOCKET_MAX_MS at most and three quarters of it at least, so that no two days have the same wave", () => {
    fc.assert(
      fc.property(phase, fc.integer({ min: 1_000, max: DAY }), (at, SOCKET_MAX_MS) => {
        const lifeMs = socketLifeMs({ SOCKET_MAX_MS }, at);
        expect(lifeMs).toBeLessThanOrEqual(SOCKET_MAX_MS);
        expect(lifeMs).toBeGreaterThanOrEqual((SOCKET_MAX_MS * 3) / 4);
      }),
    );
    expect(socketLifeMs({ SOCKET_MAX_MS: DAY }, 0)).toBe(DAY);
    expect(socketLifeMs({ SOCKET_MAX_MS: DAY }, 0.5)).toBe(DAY - DAY / 8);
  });
});
