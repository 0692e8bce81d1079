/** What happens to a message that wants in: the decision table as data, and what holds for every inbox. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DEFAULT_LIMITS, type Limits } from "../../src/protocol/constants.ts";
import { admit, type Arrival, type Tally, type Verdict } from "../../src/durable/inbox-policy.ts";

/** Small enough to be full by a few. */
const LIMITS: Limits = {
  ...DEFAULT_LIMITS,
  INBOX_MAX_MESSAGES: 4,
  INBOX_MAX_BYTES: 100,
  SENDER_SHARE: 3,
  INBOXES_MAX: 2,
};

/** An inbox that holds so many of each sender, and so many bytes together. */
function holding(bySender: Readonly<Record<string, number>>, bytes = 10): Tally {
  const counts = new Map(Object.entries(bySender));
  return { messages: [...counts.values()].reduce((sum, count) => sum + count, 0), bytes, bySender: counts };
}

const EMPTY = holding({}, 0);
const arriving = (fields: Partial<Arrival> = {}): Arrival => ({
  sender: "ann",
  bytes: 10,
  digest: "this",
  knownDigest: undefined,
  ...fields,
});

const ADMIT: Verdict = { verdict: "admit" };
const DUPLICATE: Verdict = { verdict: "duplicate" };
const evict = (from: string): Verdict => ({ verdict: "evict", from });
const refuse = (code: "msg_id_conflict" | "sender_quota" | "queue_full"): Verdict => ({ verdict: "refuse", code });

interface Row {
  readonly arrival?: Partial<Arrival>;
  readonly inbox: Tally;
  /** Inboxes that hold something, this one included. */
  readonly inUse?: number;
  /** What OVERFLOW=refuse does, and where it differs OVERFLOW=evict. */
  readonly expected: Verdict;
  readonly evicting?: Verdict;
  readonly why: string;
}

const FULL = holding({ ann: 1, bob: 1, cid: 2 });
const ROWS: readonly Row[] = [
  { inbox: EMPTY, inUse: 0, expected: ADMIT, why: "there is room" },
  { inbox: holding({ ann: 2, bob: 1 }), expected: ADMIT, why: "the last place is a place" },
  { arrival: { bytes: 90 }, inbox: holding({ bob: 1 }), expected: ADMIT, why: "up to the last byte" },

  {
    arrival: { knownDigest: "this" },
    inbox: EMPTY,
    expected: DUPLICATE,
    why: "the answer to the first was lost, or it was acked since",
  },
  {
    arrival: { knownDigest: "other" },
    inbox: EMPTY,
    expected: refuse("msg_id_conflict"),
    why: "one id names one message, also after its ack",
  },
  { arrival: { knownDigest: "this" }, inbox: FULL, expected: DUPLICATE, why: "a retry needs no room" },
  {
    arrival: { knownDigest: "this" },
    inbox: holding({ ann: 3 }),
    expected: DUPLICATE,
    why: "a retry takes nothing of the sender's share",
  },
  {
    arrival: { knownDigest: "this", bytes: 101 },
    inbox: EMPTY,
    expected: DUPLICATE,
    why: "a limit that was lowered since does not unsay what was stored",
  },
  {
    arrival: { knownDigest: "other" },
    inbox: FULL,
    expected: refuse("msg_id_conflict"),
    why: "asking again after a wait would not help, as queue_full would say",
  },

  {
    inbox: holding({ ann: 3 }),
    expected: refuse("sender_quota"),
    evicting: evict("ann"),
    why: "one contact must not shut out another; evicting, it pays with its own",
  },
  {
    arrival: { sender: "bob" },
    inbox: holding({ ann: 3 }),
    expected: ADMIT,
    why: "another's full share is not mine",
  },
  {
    inbox: holding({ ann: 3, bob: 1 }),
    expected: refuse("sender_quota"),
    evicting: evict("ann"),
    why: "the share is named before the inbox, since that is what the sender can mend",
  },
  { inbox: FULL, expected: refuse("queue_full"), evicting: evict("cid"), why: "who holds most pays" },
  {
    inbox: holding({ cid: 2, bob: 2 }),
    expected: refuse("queue_full"),
    evicting: evict("bob"),
    why: "of equals the first by key, so that the order of a map decides nothing",
  },
  {
    arrival: { bytes: 91 },
    inbox: holding({ bob: 1 }),
    expected: refuse("queue_full"),
    evicting: evict("bob"),
    why: "full by bytes is full",
  },
  {
    arrival: { bytes: 101 },
    inbox: holding({ bob: 1 }),
    expected: refuse("queue_full"),
    why: "evicting all of it would not make room, so nothing is evicted",
  },

  {
    inbox: EMPTY,
    inUse: 2,
    expected: refuse("queue_full"),
    why: "a sender may name any session, so their number is bounded too",
  },
  { inbox: holding({ bob: 1 }), inUse: 2, expected: ADMIT, why: "an inbox in use is not one more" },
];

describe("a message that wants into an inbox", () => {
  for (const { arrival, inbox, inUse = 1, expected, evicting = expected, why } of ROWS) {
    const asked = arriving(arrival);
    const name = (verdict: Verdict) => ("code" in verdict ? verdict.code : verdict.verdict);
    it(`${name(expected)}: ${why}`, () => {
      expect(admit(asked, inbox, inUse, LIMITS, "refuse")).toEqual(expected);
    });
    it(`${name(evicting)} under OVERFLOW=evict: ${why}`, () => {
      expect(admit(asked, inbox, inUse, LIMITS, "evict")).toEqual(evicting);
    });
  }
});

/** A message as the model below keeps it. */
interface Held {
  readonly sender: string;
  readonly bytes: number;
}

function tallyOf(held: readonly Held[]): Tally {
  const bySender = new Map<string, number>();
  for (const { sender } of held) bySender.set(sender, (bySender.get(sender) ?? 0) + 1);
  return { messages: held.length, bytes: held.reduce((sum, { bytes }) => sum + bytes, 0), bySender };
}

/** Carries out what the policy says, as the store does: on `evict` the oldest of that sender goes, and it is asked again. */
function arrive(held: Held[], arrival: Held, overflow: "refuse" | "evict"): { verdict: Verdict; evicted: Held[] } {
  const evicted: Held[] = [];
  for (;;) {
    const inUse = held.length > 0 ? 1 : 0;
    const verdict = admit(arriving(arrival), tallyOf(held), inUse, LIMITS, overflow);
    if (verdict.verdict !== "evict") {
      if (verdict.verdict === "admit") held.push(arrival);
      return { verdict, evicted };
    }
    const at = held.findIndex(({ sender }) => sender === verdict.from);
    expect(at, "who is to pay holds something").toBeGreaterThanOrEqual(0);
    evicted.push(...held.splice(at, 1));
  }
}

const arrivals = fc.array(
  fc.record({ sender: fc.constantFrom("ann", "bob", "cid", "dan"), bytes: fc.integer({ min: 1, max: 120 }) }),
  { maxLength: 40 },
);

describe("whatever arrives, in whatever order", () => {
  for (const overflow of ["refuse", "evict"] as const) {
    it(`no bound is passed (OVERFLOW=${overflow})`, () => {
      fc.assert(
        fc.property(arrivals, (all) => {
          const held: Held[] = [];
          for (const arrival of all) {
            arrive(held, arrival, overflow);
            const { messages, bytes, bySender } = tallyOf(held);
            expect(messages).toBeLessThanOrEqual(LIMITS.INBOX_MAX_MESSAGES);
            expect(bytes).toBeLessThanOrEqual(LIMITS.INBOX_MAX_BYTES);
            expect(Math.max(0, ...bySender.values())).toBeLessThanOrEqual(LIMITS.SENDER_SHARE);
          }
        }),
      );
    });
  }

  it("refusing moves nothing that is stored", () => {
    fc.assert(
      fc.property(arrivals, (all) => {
        const held: Held[] = [];
        for (const arrival of all) {
          const before = [...held];
          const { verdict, evicted } = arrive(held, arrival, "refuse");
          expect(evicted).toEqual([]);
          expect(held).toEqual(verdict.verdict === "admit" ? [...before, arrival] : before);
        }
      }),
    );
  });

  it("evicting ends, and always in a place for the message, or else evicts nothing", () => {
    fc.assert(
      fc.property(arrivals, (all) => {
        const held: Held[] = [];
        for (const arrival of all) {
          const before = held.length;
          const { verdict, evicted } = arrive(held, arrival, "evict");
          expect(evicted.length).toBeLessThanOrEqual(before);
          if (arrival.bytes <= LIMITS.INBOX_MAX_BYTES) expect(verdict).toEqual(ADMIT);
          else expect([verdict, evicted]).toEqual([refuse("queue_full"), []]);
        }
      }),
    );
  });

  it("a known id is answered as such, whatever the inbox and the limits", () => {
    const tally = arrivals.map(tallyOf);
    const rest = fc.record({ inUse: fc.nat(300), overflow: fc.constantFrom("refuse" as const, "evict" as const) });
    fc.assert(
      fc.property(tally, rest, fc.boolean(), fc.nat(1_000), (inbox, { inUse, overflow }, isSame, bytes) => {
        const arrival = arriving({ bytes, knownDigest: isSame ? "this" : "other" });
        expect(admit(arrival, inbox, inUse, LIMITS, overflow)).toEqual(isSame ? DUPLICATE : refuse("msg_id_conflict"));
      }),
    );
  });

  it("the order in which senders are counted decides nothing", () => {
    fc.assert(
      fc.property(arrivals, (all) => {
        const inbox = tallyOf(all);
        const reversed = { ...inbox, bySender: new Map([...inbox.bySender].toReversed()) };
        const verdict = admit(arriving(), inbox, 1, LIMITS, "evict");
        expect(admit(arriving(), reversed, 1, LIMITS, "evict")).toEqual(verdict);
      }),
    );
  });
});
