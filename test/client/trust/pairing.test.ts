/** Pairing: who waits, who may let in, and what is sent. */

import { describe, expect, it } from "vitest";
import type { Knocking } from "../../../src/client/trust/gate.ts";
import { chooseKey } from "../../../src/client/trust/key-choice.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import {
  acceptPair,
  answerKnock,
  choosePending,
  holdAnswer,
  knockedAt,
  NO_PAIRING,
  PENDING_MAX,
  PENDING_MS,
  prunePairing,
  receiveAnswer,
  receiveKnock,
  rejectPair,
  requestPair,
  SENT_MAX,
  SENT_MS,
  type OurSide,
  type PairingState,
} from "../../../src/client/trust/pairing.ts";
import { fingerprint, parseKey, parseSessionId, type Key } from "../../../src/protocol/address.ts";
import vectors from "../../vectors/keys.json" with { type: "json" };

const NOW = 1_800_000_000_000;
const me = parseKey(vectors.carol.public)!;
const alice = parseKey(vectors.alice.public)!;
const bob = parseKey(vectors.bob.public)!;
const session = parseSessionId("s1")!;
const by = (key: Key) => Operator.attest(key, "cli");
const us = (msg_id: string): OurSide => ({ name: "carol", route: { key: me, session }, msg_id });
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

function requested(by_operator: boolean, state: PairingState = NO_PAIRING, nowMs = NOW, msg_id = "r1", petname = "al") {
  const to = { key: alice, session };
  const asked = requestPair(
    state,
    { key: alice, petname, to, us: us(msg_id) },
    nowMs,
    by_operator ? by(alice) : undefined,
  );
  if ("refused" in asked) throw new Error(asked.refused);
  return asked;
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
  });

  it("does not push out those that wait already", () => {
    let full: PairingState = NO_PAIRING;
    for (let i = 0; i < PENDING_MAX; i++) full = receiveKnock(full, knockOf(keyNo(i)), NOW).state;
    expect(receiveKnock(full, knockOf(bob), NOW)).toEqual({ state: full, kept: false });
    expect(receiveKnock(full, knockOf(keyNo(3), { msg_id: "k2" }), NOW).kept).toBe(true);
    expect(receiveKnock(full, knockOf(bob), NOW + PENDING_MS).kept).toBe(true);
  });

  it("is accepted by the operator: whom to add, and what to sign and send to the session that knocked", () => {
    const operator = by(bob);
    expect(acceptPair(state, seen!, { petname: "bobby", us: us("a1") }, operator, NOW + 5)).toEqual({
      state: NO_PAIRING,
      add: { petname: "bobby", key: bob, operator },
      send: {
        to: `${bob}#s1`,
        fields: { to: bob, ts: NOW + 5, kind: "pair_accept", msg_id: "a1", text: "carol", in_reply_to: "k1" },
        reply_to: `${me}#s1`,
      },
    });
  });

  it("is rejected by the operator, and nothing is sent", () => {
    expect(rejectPair(state, seen!, by(bob), NOW)).toEqual({ state: NO_PAIRING });
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
  ])("is not decided if it is not what was shown: $why", ({ at, state, refused }) => {
    expect(acceptPair(state, seen!, { petname: "b", us: us("a1") }, by(bob), at)).toEqual({ refused });
    expect(rejectPair(state, seen!, by(bob), at)).toEqual({ refused });
  });

  it("cannot be decided without the operator, or by their word about another", () => {
    const choice = { petname: "b", us: us("a1") };
    expect(() => acceptPair(state, seen!, choice, by(alice), NOW)).toThrow("operator");
    expect(() => acceptPair(state, seen!, choice, { via: "cli" } as Operator, NOW)).toThrow("operator");
    expect(() => rejectPair(state, seen!, by(alice), NOW)).toThrow("operator");
    // @ts-expect-error the operator is no option
    void (() => acceptPair(state, seen!, choice, undefined, NOW));
  });

  it("of a contact is answered again, to the identity where it names no session", () => {
    const { reply_session: _none, ...bare } = knockOf(bob);
    expect(answerKnock(bare, us("a2"), NOW)).toMatchObject({
      to: bob,
      fields: { kind: "pair_accept", in_reply_to: "k1" },
    });
  });
});

describe("a knock sent", () => {
  it("is what the original takes, and the gate knows of it for three days", () => {
    const { state, send } = requested(true);
    expect(send).toEqual({
      to: `${alice}#s1`,
      fields: { to: alice, ts: NOW, kind: "pair_request", msg_id: "r1", text: "carol" },
      reply_to: `${me}#s1`,
    });
    expect(knockedAt(state, NOW + SENT_MS - 1)).toEqual(new Map([[alice, "r1"]]));
    expect(knockedAt(state, NOW + SENT_MS)).toEqual(new Map());
    expect(JSON.parse(JSON.stringify(state))).toEqual(state);
  });

  it("is the same again while it may lie on the bus, and a new one after", () => {
    const first = requested(true);
    expect(requested(true, first.state, NOW + 1_000, "r2").send).toEqual(first.send);
    expect(requested(true, first.state, NOW + PENDING_MS, "r2").send.fields).toMatchObject({
      msg_id: "r2",
      ts: NOW + PENDING_MS,
    });
  });

  it("of the operator is completed by the answer", () => {
    const { state } = requested(true);
    const answer = receiveAnswer(state, { ...knockOf(alice), in_reply_to: "r1" }, NOW + 1);
    expect(answer).toMatchObject({ outcome: "add", state: NO_PAIRING, add: { petname: "al", key: alice } });
    // The file takes the person's earlier word.
    if (answer.outcome === "add") Operator.check(answer.add.operator, alice);
    // Where the file refuses the name, the operator is asked anew.
    expect(holdAnswer(state, knockOf(alice), NOW).pending).toMatchObject([{ what: "answer", key: alice }]);
  });

  it("of the agent waits for the operator even when it is answered", () => {
    const { state } = requested(false);
    const answer = receiveAnswer(state, { ...knockOf(alice), in_reply_to: "r1" }, NOW + 1);
    expect(answer).toMatchObject({ outcome: "waiting", state: { pending: [{ what: "answer", key: alice }] } });
    if (answer.outcome !== "waiting") return;
    const done = acceptPair(
      answer.state,
      answer.state.pending[0]!,
      { petname: "al", us: us("a1") },
      by(alice),
      NOW + 2,
    );
    expect(done).toEqual({ state: NO_PAIRING, add: { petname: "al", key: alice, operator: expect.any(Operator) } });
    expect(rejectPair(answer.state, answer.state.pending[0]!, by(alice), NOW + 2)).toEqual({ state: NO_PAIRING });
  });

  it("of the agent becomes the operator's when they ask too, and neither that nor their name is undone by it", () => {
    const asked = requested(true, requested(false).state, NOW + 1, "r2", "alice");
    const again = requested(false, asked.state, NOW + 2, "r3", "eve");
    expect(again.state.sent).toMatchObject([{ by_operator: true, petname: "alice" }]);
  });

  it.each([
    { why: "nobody knocked", state: NO_PAIRING, at: NOW, in_reply_to: "r1" },
    { why: "to another knock", state: requested(true).state, at: NOW, in_reply_to: "r0" },
    { why: "too late", state: requested(true).state, at: NOW + SENT_MS, in_reply_to: "r1" },
  ])("is not answered by what was not asked: $why", ({ state, at, in_reply_to }) => {
    expect(receiveAnswer(state, { ...knockOf(alice), in_reply_to }, at)).toEqual({ outcome: "unasked" });
  });

  it("is one of not too many", () => {
    const sent = Array.from({ length: SENT_MAX }, (_, i) => ({ ...requested(false).state.sent[0]!, key: keyNo(i) }));
    const ask = () =>
      requestPair({ pending: [], sent }, { key: alice, petname: "a", to: { key: alice }, us: us("r1") }, NOW);
    expect(ask()).toEqual({ refused: "too_many_requests" });
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
