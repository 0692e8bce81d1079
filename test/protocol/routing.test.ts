/** Where a message goes: the decision table as data, and what holds for every roster. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SessionId } from "../../src/protocol/address.ts";
import { chooseRoute, type Destination, type PeerSession, type RoutingRefusal } from "../../src/protocol/routing.ts";

interface Row {
  readonly sessions: readonly PeerSession[];
  readonly asked?: string;
  readonly sticky?: string;
  readonly self?: string;
  readonly expected: Destination | RoutingRefusal;
  readonly why: string;
}

const id = (text: string) => text as SessionId;
const live = (session: string, age_ms = 1_000): PeerSession => ({ session: id(session), presence: "live", age_ms });
const away = (session: string, age_ms = 600_000): PeerSession => ({ session: id(session), presence: "away", age_ms });

const to = (chosen: PeerSession): Destination => ({ to: "session", on_roster: true, ...chosen });
const toWithSibling = (chosen: PeerSession, sibling: string): Destination => ({
  to: "session",
  on_roster: true,
  ...chosen,
  live_sibling: id(sibling),
});
const remembered = (session: string): Destination => ({ to: "remembered", on_roster: false, session: id(session) });
const identity: Destination = { to: "identity", on_roster: false };
const refused = (refusal: RoutingRefusal["refusal"], ...sessions: PeerSession[]): RoutingRefusal => ({
  refusal,
  sessions,
});

const ASKED: readonly Row[] = [
  {
    sessions: [live("a1"), live("b1")],
    asked: "b1",
    expected: to(live("b1")),
    why: "a whole id is that session",
  },
  {
    sessions: [live("a1"), away("b1")],
    asked: "b1",
    expected: to(away("b1")),
    why: "the sender chose an away session, so no sibling is offered in its place",
  },
  {
    sessions: [live("a1"), live("b1")],
    asked: "b1",
    sticky: "a1",
    expected: to(live("b1")),
    why: "what is named comes before what is remembered",
  },
  {
    sessions: [live("ab"), live("abc"), live("abd")],
    asked: "ab",
    expected: to(live("ab")),
    why: "a whole id is not ambiguous for being the beginning of others",
  },
  {
    sessions: [live("abc"), away("xyz")],
    asked: "x",
    expected: to(away("xyz")),
    why: "the beginning of exactly one is that one, whatever its presence",
  },
  {
    sessions: [away("abd"), live("abc"), live("xyz")],
    asked: "ab",
    expected: refused("ambiguous", live("abc"), away("abd")),
    why: "the beginning of several is refused with those several, the live one first",
  },
  {
    sessions: [live("abc"), live("abd")],
    asked: "ab",
    sticky: "abd",
    expected: refused("ambiguous", live("abc"), live("abd")),
    why: "memory does not settle what the sender left open",
  },
  {
    sessions: [live("a1")],
    asked: "gone1",
    sticky: "gone1",
    expected: remembered("gone1"),
    why: "the remembered session was real: its inbox keeps the mail, with the note that nobody sees it",
  },
  {
    sessions: [],
    asked: "gone1",
    sticky: "gone1",
    expected: remembered("gone1"),
    why: "the same on an empty roster",
  },
  {
    sessions: [live("gone12")],
    asked: "gone1",
    sticky: "gone1",
    expected: remembered("gone1"),
    why: "the whole remembered id is not the beginning of a stranger's",
  },
  {
    sessions: [live("a1")],
    asked: "gone",
    sticky: "gone1",
    expected: refused("unknown_session", live("a1")),
    why: "off the roster only the whole id counts: a short form there is as likely a slip",
  },
  {
    sessions: [away("b1"), live("a1")],
    asked: "c",
    expected: refused("unknown_session", live("a1"), away("b1")),
    why: "a mistyped id must not become an inbox that nobody reads",
  },
  {
    sessions: [],
    asked: "c",
    expected: refused("unknown_session"),
    why: "named and unknown is not the same as not named: no identity inbox",
  },
  {
    sessions: [live("a1")],
    asked: "A1",
    expected: refused("unknown_session", live("a1")),
    why: "ids differ by case",
  },
  {
    sessions: [live("a1")],
    asked: "a1x",
    expected: refused("unknown_session", live("a1")),
    why: "a longer id is not a shorter one",
  },
  {
    sessions: [live("a1")],
    asked: "",
    expected: refused("unknown_session", live("a1")),
    why: "nothing is the beginning of everything and names nobody",
  },
  {
    sessions: [],
    asked: "",
    self: "me",
    expected: refused("unknown_session"),
    why: "nor does it name ourselves",
  },
  {
    sessions: [away("b1", 5), live("a1", 50)],
    asked: "c",
    expected: refused("unknown_session", live("a1", 50), away("b1", 5)),
    why: "who is awake is listed first, whatever two buses' ages say",
  },
  {
    sessions: [live("me"), live("a1")],
    asked: "me",
    self: "me",
    expected: refused("oneself", live("a1")),
    why: "a message to oneself would come back as a peer's",
  },
  {
    sessions: [live("a1")],
    asked: "me",
    self: "me",
    expected: refused("oneself", live("a1")),
    why: "the same while our announcement has not arrived",
  },
  {
    sessions: [live("me"), live("me2")],
    asked: "me",
    self: "me",
    expected: refused("oneself", live("me2")),
    why: "our whole id is not the beginning of a sibling's",
  },
  {
    sessions: [live("me1"), live("a1")],
    asked: "me",
    self: "me1",
    expected: refused("oneself", live("a1")),
    why: "a short form that only we answer to is ourselves, not unknown",
  },
  {
    sessions: [live("me1"), live("me2")],
    asked: "me",
    self: "me1",
    expected: to(live("me2")),
    why: "we are no candidate, so one sibling is unambiguous",
  },
  {
    sessions: [live("me")],
    asked: "me",
    sticky: "me",
    self: "me",
    expected: refused("oneself"),
    why: "that we remember ourselves does not make us a peer",
  },
];

const UNASKED: readonly Row[] = [
  {
    sessions: [live("a1"), live("b1")],
    sticky: "b1",
    expected: to(live("b1")),
    why: "sticky and live: the talk goes on where it was",
  },
  {
    sessions: [live("a1", 5), away("b1")],
    sticky: "b1",
    expected: toWithSibling(away("b1"), "a1"),
    why: "sticky and away: it will wake; the sibling is named, not chosen",
  },
  {
    sessions: [live("a1", 50), away("b1"), live("c1", 5)],
    sticky: "b1",
    expected: toWithSibling(away("b1"), "c1"),
    why: "of several live siblings the freshest is named",
  },
  {
    sessions: [live("c1", 5), live("a1", 5), away("b1")],
    sticky: "b1",
    expected: toWithSibling(away("b1"), "a1"),
    why: "equally fresh siblings are told apart by id, not by the roster's order",
  },
  {
    sessions: [away("a1", 100_000), away("b1", 200_000)],
    sticky: "b1",
    expected: to(away("b1", 200_000)),
    why: "an away sibling is no better than the sticky one and is not named",
  },
  {
    sessions: [away("b1"), live("me")],
    sticky: "b1",
    self: "me",
    expected: to(away("b1")),
    why: "we are not our sibling's live alternative",
  },
  {
    sessions: [live("a1"), away("c1")],
    sticky: "gone1",
    expected: to(live("a1")),
    why: "sticky gone: the only live one, since an unregistered session will not read",
  },
  {
    sessions: [live("a1", 20), live("b1", 10), away("c1")],
    sticky: "gone1",
    expected: refused("several_live", live("b1", 10), live("a1", 20), away("c1")),
    why: "sticky gone and several live: the sender chooses from all, with their states",
  },
  {
    sessions: [live("a1")],
    expected: to(live("a1")),
    why: "never talked: the only one",
  },
  {
    sessions: [away("b1", 100_000), live("a1"), away("c1", 200_000)],
    expected: to(live("a1")),
    why: "never talked: one live is enough, however many sleep",
  },
  {
    sessions: [live("a1"), live("b1")],
    expected: refused("several_live", live("a1"), live("b1")),
    why: "never talked and several live: no guess",
  },
  {
    sessions: [away("a1")],
    expected: to(away("a1")),
    why: "alone and away: it reads when it wakes",
  },
  {
    sessions: [away("a1")],
    sticky: "gone1",
    expected: to(away("a1")),
    why: "sticky gone: one that may wake is better than one that was closed",
  },
  {
    sessions: [away("b1", 200_000), away("a1", 100_000)],
    expected: refused("several_away", away("a1", 100_000), away("b1", 200_000)),
    why: "several away: which wakes first says nothing of which is meant",
  },
  {
    sessions: [away("b1", 200_000), away("a1", 100_000)],
    sticky: "gone1",
    expected: refused("several_away", away("a1", 100_000), away("b1", 200_000)),
    why: "the same when the remembered one is gone",
  },
  {
    sessions: [],
    sticky: "gone1",
    expected: remembered("gone1"),
    why: "nobody is seen: the remembered inbox outlives presence",
  },
  {
    sessions: [],
    expected: identity,
    why: "nobody is seen or remembered: whoever of the identity comes first",
  },
  {
    sessions: [live("me"), live("a1")],
    self: "me",
    expected: to(live("a1")),
    why: "our only sibling is meant, not ourselves",
  },
  {
    sessions: [live("me"), away("a1")],
    self: "me",
    expected: to(away("a1")),
    why: "that we are live does not make us the only live one",
  },
  {
    sessions: [live("me"), live("a1")],
    sticky: "me",
    self: "me",
    expected: to(live("a1")),
    why: "a remembered self is no memory",
  },
  {
    sessions: [live("me")],
    sticky: "gone1",
    self: "me",
    expected: remembered("gone1"),
    why: "a sibling that left is remembered like any session",
  },
  {
    sessions: [live("me")],
    self: "me",
    expected: refused("oneself"),
    why: "our identity's own inbox would be read by ourselves",
  },
  {
    sessions: [],
    sticky: "me",
    self: "me",
    expected: refused("oneself"),
    why: "the same before our announcement has arrived, whatever is remembered",
  },
];

function choose({ sessions, asked, sticky, self }: Row): Destination | RoutingRefusal {
  return chooseRoute({
    sessions,
    ...(asked === undefined ? {} : { asked }),
    ...(sticky === undefined ? {} : { sticky: id(sticky) }),
    ...(self === undefined ? {} : { self: id(self) }),
  });
}

describe.each([
  ["where the sender names a session", ASKED],
  ["where the sender names none", UNASKED],
] as const)("%s", (_, rows) => {
  it.each(rows)("$why", (row) => {
    expect(choose(row)).toStrictEqual(row.expected);
  });
});

it("leaves the roster that it was given as it was", () => {
  const sessions = Object.freeze([away("b1"), live("a1")]);
  expect(() => chooseRoute({ sessions })).not.toThrow();
  expect(sessions.map(({ session }) => session)).toStrictEqual(["b1", "a1"]);
});

// Few letters and short ids, so that prefixes, exact matches and absent sessions all come up often.
const anyId = fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 3 }).map(id);
const anySession: fc.Arbitrary<PeerSession> = fc.record({
  session: anyId,
  presence: fc.constantFrom("live", "away"),
  age_ms: fc.nat(3),
});
const anyQuestion = fc.record(
  {
    sessions: fc.uniqueArray(anySession, { selector: ({ session }) => session, maxLength: 5 }),
    asked: fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 3 }),
    sticky: anyId,
    self: anyId,
  },
  { requiredKeys: ["sessions"] },
);

describe("for every roster", () => {
  it("never chooses, lists or names oneself", () => {
    fc.assert(
      fc.property(anyQuestion, (question) => {
        fc.pre(question.self !== undefined);
        const result = chooseRoute(question);
        const named = "refusal" in result ? result.sessions.map(({ session }) => session) : [];
        if ("session" in result) named.push(result.session);
        if ("live_sibling" in result && result.live_sibling !== undefined) named.push(result.live_sibling);
        expect(named).not.toContain(question.self);
        expect(result).not.toMatchObject({ to: "identity" });
      }),
    );
  });

  it("does not depend on the order of the sessions", () => {
    const shuffled = anyQuestion.chain((question) =>
      fc.record({
        question: fc.constant(question),
        sessions: fc.shuffledSubarray(question.sessions, { minLength: question.sessions.length }),
      }),
    );
    fc.assert(
      fc.property(shuffled, ({ question, sessions }) => {
        expect(chooseRoute({ ...question, sessions })).toStrictEqual(chooseRoute(question));
      }),
    );
  });

  it("never reroutes mail for an away session to its sibling", () => {
    const withAwaySticky = fc.record({
      question: anyQuestion.filter(({ asked }) => asked === undefined),
      sticky: anyId,
      age_ms: fc.nat(3),
    });
    fc.assert(
      fc.property(withAwaySticky, ({ question, sticky, age_ms }) => {
        fc.pre(sticky !== question.self);
        const siblings = question.sessions.filter(({ session }) => session !== sticky);
        const sessions = [...siblings, away(sticky, age_ms)];
        const result = chooseRoute({ ...question, sticky, sessions });
        expect(result).toMatchObject({ to: "session", session: sticky, presence: "away", age_ms });
        const awake = siblings.filter(({ session, presence }) => presence === "live" && session !== question.self);
        expect("live_sibling" in result).toBe(awake.length > 0);
      }),
    );
  });

  it("goes to a session of the roster, with its own facts, or to the remembered one", () => {
    fc.assert(
      fc.property(anyQuestion, (question) => {
        const result = chooseRoute(question);
        if ("refusal" in result) {
          for (const session of result.sessions) expect(question.sessions).toContainEqual(session);
        } else if (result.to === "session") {
          const { session, presence, age_ms } = result;
          expect(question.sessions).toContainEqual({ session, presence, age_ms });
        } else if (result.to === "remembered") {
          expect(result.session).toBe(question.sticky);
          expect(question.sessions.map(({ session }) => session)).not.toContain(result.session);
        }
      }),
    );
  });

  it("goes, where a session is named, to no session of another name", () => {
    fc.assert(
      fc.property(anyQuestion, (question) => {
        const { asked } = question;
        fc.pre(asked !== undefined);
        const result = chooseRoute(question);
        if ("refusal" in result) return;
        expect(result.to).not.toBe("identity");
        if (result.to !== "identity") expect(result.session.startsWith(asked)).toBe(true);
      }),
    );
  });
});
