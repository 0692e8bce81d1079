/** Pairing: who waits, who may let in, and what is sent. */

import { describe, expect, it } from "vitest";
import type { Knocking } from "../../../src/client/trust/gate.ts";
import { chooseKey } from "../../../src/client/trust/key-choice.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import { answerTold, CLAIM_MS, claimAnswers, hasToTell } from "../../../src/client/trust/owed-answers.ts";
import {
  abandonAccept,
  admit,
  beginAccept,
  choosePending,
  receiveAnswer,
  receiveKnock,
  receiveKnockOfPeer,
  rejectPair,
  requestPair,
} from "../../../src/client/trust/pairing.ts";
import {
  ACCEPTING_MS,
  knockedAt,
  NO_PAIRING,
  PENDING_MAX,
  PENDING_MS,
  prunePairing,
  SENT_MAX,
  SENT_MS,
  type OurSide,
  type PairingState,
} from "../../../src/client/trust/pairing-state.ts";
import { fingerprint, parseKey, parseSessionId, type Key } from "../../../src/protocol/address.ts";
import vectors from "../../vectors/keys.json" with { type: "json" };

const NOW = 1_800_000_000_000;
const me = parseKey(vectors.carol.public)!;
const alice = parseKey(vectors.alice.public)!;
const bob = parseKey(vectors.bob.public)!;
const session = parseSessionId("s1")!;
const [one, two] = [parseSessionId("one")!, parseSessionId("two")!];
const by = (key: Key) => Operator.attest(key, "cli");
const us: OurSide = { name: "carol", ts: NOW + 5 };
const knockOf = (key: Key, changes: Partial<Knocking> = {}): Knocking => ({
  key,
  claimed_name: "laptop",
  msg_id: "k1",
  reply_session: session,
  digest: "d",
  ...changes,
});
/** Keys that are none, but differ; for counting. */
const keyNo = (i: number) => `${i}`.padEnd(43, "A") as Key;
const only =
  (...keys: Key[]) =>
  (key: Key) =>
    keys.includes(key);

function requested(state: PairingState = NO_PAIRING, nowMs = NOW, msg_id = "r1") {
  const asked = requestPair(state, { key: alice, to: { key: alice, session }, us, msg_id }, nowMs);
  if ("refused" in asked) throw new Error(asked.refused);
  return asked;
}

function begun(state: PairingState, nowMs = NOW): PairingState {
  const accepting = beginAccept(state, state.pending[0]!, by(state.pending[0]!.key), nowMs);
  if ("refused" in accepting) throw new Error(accepting.refused);
  return accepting.state;
}

describe("a knock received", () => {
  const { state } = receiveKnock(NO_PAIRING, knockOf(bob), NOW);
  const [seen] = state.pending;

  it("waits for the operator, one for each key, a day", () => {
    expect(seen).toEqual({
      what: "knock",
      key: bob,
      claimed_name: "laptop",
      msg_id: "k1",
      reply_session: "s1",
      at_ms: NOW,
    });
    const again = receiveKnock(state, knockOf(bob, { msg_id: "k2", claimed_name: "desk" }), NOW + 1);
    expect(again.state.pending).toMatchObject([{ msg_id: "k2", claimed_name: "desk" }]);
    expect(prunePairing(state, NOW + PENDING_MS - 1).pending).toHaveLength(1);
    expect(prunePairing(state, NOW + PENDING_MS).pending).toHaveLength(0);
    expect(JSON.parse(JSON.stringify(state))).toEqual(state);
  });

  it("does not push out those that wait already", () => {
    let full: PairingState = NO_PAIRING;
    for (let i = 0; i < PENDING_MAX; i++) full = receiveKnock(full, knockOf(keyNo(i)), NOW).state;
    expect(receiveKnock(full, knockOf(bob), NOW)).toEqual({ state: full, kept: false });
    expect(receiveKnock(full, knockOf(keyNo(3), { msg_id: "k2" }), NOW).kept).toBe(true);
    expect(receiveKnock(full, knockOf(bob), NOW + PENDING_MS).kept).toBe(true);
  });

  it("is accepted by the operator, and owed an answer once it is in the peers file", () => {
    const accepting = begun(state);
    expect(admit(accepting, only(), NOW)).toEqual(accepting);
    const admitted = admit(accepting, only(bob), NOW);
    expect(admitted).toEqual({ ...NO_PAIRING, owed: [{ key: bob, knock_id: "k1", reply_session: "s1" }] });
    expect(admit(admitted, only(bob), NOW)).toEqual(admitted);
  });

  it("is accepted by whoever changes the peers file, and no answer is owed to who is not in it any more", () => {
    const admitted = admit(state, only(bob), NOW);
    expect(admitted.owed).toHaveLength(1);
    expect(admit(admitted, only(), NOW)).toEqual(NO_PAIRING);
  });

  it("is rejected by the operator, and nothing is sent", () => {
    expect(rejectPair(state, seen!, by(bob), NOW)).toEqual({ state: NO_PAIRING });
  });

  it("is decided by one: while it is being accepted nobody else does, until that one must have died", () => {
    const accepting = begun(state);
    for (const at of [NOW, NOW + ACCEPTING_MS - 1]) {
      expect(beginAccept(accepting, seen!, by(bob), at)).toEqual({ refused: "being_accepted" });
      expect(rejectPair(accepting, seen!, by(bob), at)).toEqual({ refused: "being_accepted" });
    }
    expect(rejectPair(accepting, seen!, by(bob), NOW + ACCEPTING_MS)).toEqual({ state: NO_PAIRING });
    // A clock that was set back makes nobody wait for years.
    expect(rejectPair(accepting, seen!, by(bob), NOW - 2 * ACCEPTING_MS)).toEqual({ state: NO_PAIRING });
  });

  it("waits as before where the peers file refused", () => {
    expect(abandonAccept(begun(state), seen!)).toEqual(state);
    const anew = receiveKnock(begun(state), knockOf(bob, { msg_id: "k2" }), NOW).state;
    expect(abandonAccept(begun(anew), seen!)).toEqual(begun(anew)); // that is another's acceptance, of another knock
  });

  it.each([
    { why: "expired", at: NOW + PENDING_MS, state, refused: "no_such_request" },
    { why: "decided meanwhile", at: NOW, state: NO_PAIRING, refused: "no_such_request" },
    {
      why: "another knock of that key came while the operator looked",
      at: NOW,
      state: receiveKnock(state, knockOf(bob, { msg_id: "k2", claimed_name: "prod" }), NOW).state,
      refused: "request_changed",
    },
  ])("is not decided if it is not what was shown: $why", ({ at, state: changed, refused }) => {
    expect(beginAccept(changed, seen!, by(bob), at)).toEqual({ refused });
    expect(rejectPair(changed, seen!, by(bob), at)).toEqual({ refused });
  });

  it("cannot be decided without the operator, or by their word about another", () => {
    expect(() => beginAccept(state, seen!, by(alice), NOW)).toThrow("operator");
    expect(() => beginAccept(state, seen!, { via: "cli" } as Operator, NOW)).toThrow("operator");
    expect(() => rejectPair(state, seen!, by(alice), NOW)).toThrow("operator");
    // @ts-expect-error the operator is no option
    void (() => beginAccept(state, seen!, undefined, NOW));
  });

  it("of a contact is answered again, whatever of it still waited", () => {
    const again = receiveKnockOfPeer(state, knockOf(bob, { msg_id: "k2" }), NOW);
    expect(again).toEqual({ ...NO_PAIRING, owed: [{ key: bob, knock_id: "k2", reply_session: "s1" }] });
  });
});

describe("an answer that is owed", () => {
  const { owed } = admit(receiveKnock(NO_PAIRING, knockOf(bob), NOW).state, only(bob), NOW);
  const claim = (list: typeof owed, who = one, nowMs = NOW, side = us) =>
    claimAnswers(list, { session: who, us: side }, nowMs);

  it("says what the original takes, to the session that knocked", () => {
    const { tell } = claim(owed);
    expect(tell.map(({ send }) => send)).toEqual([
      {
        to: `${bob}#s1`,
        fields: {
          to: bob,
          ts: NOW + 5,
          kind: "pair_accept",
          msg_id: expect.stringMatching(/^[0-9a-f]{32}$/),
          text: "carol",
          in_reply_to: "k1",
        },
      },
    ]);
    const { reply_session: _none, ...bare } = knockOf(bob);
    const toAll = receiveKnockOfPeer(NO_PAIRING, bare, NOW).owed;
    expect(claim(toAll).tell[0]!.send).toMatchObject({ to: bob });
  });

  it("is told by one session, and by another in the same words where that one died", () => {
    const first = claim(owed);
    const second = claim(first.owed, two, NOW + CLAIM_MS - 1);
    expect(second).toEqual({ owed: first.owed, tell: [] });
    expect(hasToTell(first.owed, two, NOW + CLAIM_MS - 1)).toBe(false);
    const later = { name: "carol's desk", ts: NOW + 99 };
    const again = claim(first.owed, one, NOW + 1, later); // the same session, come again
    expect(again.tell[0]!.send).toEqual(first.tell[0]!.send);
    for (const at of [NOW + CLAIM_MS, NOW - CLAIM_MS]) {
      expect(hasToTell(first.owed, two, at)).toBe(true);
      const over = claim(first.owed, two, at, later);
      expect(over.tell[0]!.send).toEqual(first.tell[0]!.send);
      expect(claim(over.owed, one, at)).toMatchObject({ tell: [] });
    }
  });

  it("is over once it is told, and another knock is owed another", () => {
    const { owed: claimed, tell } = claim(owed);
    expect(answerTold(claimed, tell[0]!.answer)).toEqual([]);
    const anew = receiveKnockOfPeer({ ...NO_PAIRING, owed: claimed }, knockOf(bob, { msg_id: "k2" }), NOW).owed;
    expect(answerTold(anew, tell[0]!.answer)).toEqual(anew);
    expect(claim(anew).tell[0]!.send.fields.msg_id).not.toBe(tell[0]!.send.fields.msg_id);
  });
});

describe("a knock sent", () => {
  it("is what the original takes, and the gate knows of it for three days", () => {
    const { state, send } = requested();
    expect(send).toEqual({
      to: `${alice}#s1`,
      fields: { to: alice, ts: NOW + 5, kind: "pair_request", msg_id: "r1", text: "carol" },
    });
    expect(knockedAt(state, NOW + SENT_MS - 1)).toEqual(new Map([[alice, "r1"]]));
    expect(knockedAt(state, NOW + SENT_MS)).toEqual(new Map());
    expect(JSON.parse(JSON.stringify(state))).toEqual(state);
  });

  it("is the same again while it may lie on the bus, and a new one after", () => {
    const first = requested();
    expect(requested(first.state, NOW + 1_000, "r2")).toEqual(first);
    expect(requested(first.state, NOW + PENDING_MS, "r2").send.fields).toMatchObject({ msg_id: "r2" });
  });

  it("waits for the operator when it is answered, and then needs no answer", () => {
    const answer = { ...knockOf(alice), in_reply_to: "r1" };
    const taken = receiveAnswer(requested().state, answer, false, NOW + 1);
    expect(taken).toMatchObject({ outcome: "waiting", state: { pending: [{ what: "answer", key: alice }] } });
    expect(receiveAnswer(taken.state, answer, false, NOW + 2)).toEqual(taken); // a redelivery waits no longer
    expect(admit(begun(taken.state, NOW + 2), only(alice), NOW + 2)).toEqual(NO_PAIRING);
    expect(rejectPair(taken.state, taken.state.pending[0]!, by(alice), NOW + 2)).toEqual({ state: NO_PAIRING });
  });

  it("has nothing left to decide where the peer was let in meanwhile", () => {
    const answer = { ...knockOf(alice), in_reply_to: "r1" };
    expect(receiveAnswer(requested().state, answer, true, NOW + 1)).toEqual({ outcome: "agreed", state: NO_PAIRING });
  });

  it.each([
    { why: "nobody knocked", state: NO_PAIRING, at: NOW, in_reply_to: "r1" },
    { why: "to another knock", state: requested().state, at: NOW, in_reply_to: "r0" },
    { why: "too late", state: requested().state, at: NOW + SENT_MS, in_reply_to: "r1" },
  ])("is not answered by what was not asked: $why", ({ state, at, in_reply_to }) => {
    const { outcome, state: after } = receiveAnswer(state, { ...knockOf(alice), in_reply_to }, false, at);
    expect([outcome, after]).toEqual(["unasked", prunePairing(state, at)]);
  });

  it("is one of not too many", () => {
    const sent = Array.from({ length: SENT_MAX }, (_, i) => ({ ...requested().state.sent[0]!, key: keyNo(i) }));
    const ask = { key: alice, to: { key: alice }, us, msg_id: "r1" };
    expect(requestPair({ ...NO_PAIRING, sent }, ask, NOW)).toEqual({ refused: "too_many_requests" });
  });
});

describe("which key is meant", () => {
  const twin = `${bob.slice(0, 8)}${alice.slice(8)}` as Key;
  it.each([
    { why: "the whole key", typed: bob, expected: { key: bob, weak: false } },
    { why: "the fingerprint as shown", typed: fingerprint(bob), expected: { key: bob, weak: false } },
    {
      why: "the fingerprint as people write",
      typed: ` ${fingerprint(bob).toLowerCase().replaceAll("-", " ")} `,
      expected: { key: bob, weak: false },
    },
    { why: "16 characters of the key", typed: bob.slice(0, 16), expected: { key: bob, weak: false } },
    { why: "the original's 8", typed: bob.slice(0, 8), expected: { key: bob, weak: true } },
    {
      why: "the original's 8, which a key elsewhere has too",
      typed: bob.slice(0, 8),
      known: [twin],
      expected: { refused: "ambiguous_key", keys: [bob, twin] },
    },
    {
      why: "the original's 8 of a key that does not ask",
      typed: vectors.carol.fingerprint,
      known: [me],
      expected: { refused: "unknown_key", keys: [] },
    },
    { why: "15 characters", typed: bob.slice(0, 15), expected: { refused: "bad_key_choice", keys: [] } },
    { why: "7 characters", typed: bob.slice(0, 7), expected: { refused: "bad_key_choice", keys: [] } },
    { why: "nothing", typed: "", expected: { refused: "bad_key_choice", keys: [] } },
    { why: "a key that does not ask", typed: me, expected: { refused: "unknown_key", keys: [] } },
    { why: "a petname, which is no key", typed: "bob", expected: { refused: "bad_key_choice", keys: [] } },
  ])("$why", ({ typed, known = [], expected }) => {
    expect(chooseKey(typed, [alice, bob], known)).toEqual(expected);
  });

  it("is nobody where two begin alike", () => {
    const near = `${bob.slice(0, 20)}${alice.slice(20)}` as Key;
    expect(chooseKey(bob.slice(0, 16), [bob, near])).toEqual({ refused: "ambiguous_key", keys: [bob, near] });
    expect(chooseKey(fingerprint(bob), [bob, near])).toMatchObject({ refused: "ambiguous_key" });
    expect(chooseKey(bob, [bob, near])).toEqual({ key: bob, weak: false });
  });

  it("is the request that the operator sees", () => {
    const { state } = receiveKnock(NO_PAIRING, knockOf(bob), NOW);
    expect(choosePending(state, fingerprint(bob), [], NOW)).toEqual({ request: state.pending[0], weak: false });
    expect(choosePending(state, fingerprint(bob), [], NOW + PENDING_MS)).toMatchObject({ refused: "unknown_key" });
  });
});
