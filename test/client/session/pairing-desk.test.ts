/** The desk by itself: when it looks, and what it does with what another session left undone. */

import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { Timers } from "../../../src/client/bus/timers.ts";
import { Outbox } from "../../../src/client/session/outbox.ts";
import { PairingDesk } from "../../../src/client/session/pairing-desk.ts";
import { keepInvitation, takenInvitations } from "../../../src/client/state/invitations.ts";
import { openPairing } from "../../../src/client/state/open-pairing.ts";
import { openState } from "../../../src/client/state/store.ts";
import { openIdentity } from "../../../src/client/trust/identity-file.ts";
import { invitedKnockId } from "../../../src/client/trust/invite-text.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import { CLAIM_MS, claimAnswers } from "../../../src/client/trust/owed-answers.ts";
import { receiveKnock } from "../../../src/client/trust/pairing.ts";
import { PeersFile } from "../../../src/client/trust/peers.ts";
import { fakeKey, sessionId } from "../../support/fake-agent.ts";
import { refuse } from "../../../src/protocol/refusal.ts";
import { newHome, until } from "./support.ts";

const ann = fakeKey(2);
const START_MS = 1_800_000_000_000;
const LOOK_MS = 5_000;

async function deskOf() {
  const { dir } = newHome("bob");
  const opened = await openIdentity(join(dir, "id.key"));
  if ("refused" in opened) throw new Error(opened.refused);
  const { identity } = opened;
  const directory = join(dir, "sessions");
  const paired = openPairing({ directory, me: identity.key, nowMs: START_MS });
  const kept = openState({ path: join(directory, "two.db"), nowMs: START_MS });
  if ("refusal" in paired || "refusal" in kept) throw new Error("refused");
  const { pairing } = paired;
  const { state } = kept;
  const peers = new PeersFile({ path: join(dir, "peers.json"), me: identity.key });
  const clock = { nowMs: START_MS, due: undefined as (() => void) | undefined };
  const timers: Timers = {
    now: () => clock.nowMs,
    setTimeout: (run) => (clock.due = run),
    clearTimeout: () => (clock.due = undefined),
  };
  const author = {
    key: identity.key,
    session: sessionId("two"),
    sign: async (bytes: Uint8Array<ArrayBuffer>) => identity.sign(bytes),
  };
  const outbox = new Outbox({ state, author, buses: () => ["main"], random: () => 0 });
  const events: string[] = [];
  const desk = new PairingDesk({
    me: identity.key,
    pairing,
    peers,
    outbox,
    timers,
    session: author.session,
    name: "bob",
    onPeersChanged: async () => void events.push("published"),
    onQueued: () => void events.push("queued"),
    onFault: (fault) => void events.push(`fault ${String(fault)}`),
  });
  onTestFinished(() => {
    desk.close();
    state.close();
  });
  /** The timer fires, and the look that it began is over. */
  const look = async (nowMs: number) => {
    clock.nowMs = nowMs;
    const { due } = clock;
    clock.due = undefined;
    due!();
    await until(() => clock.due, "the next look");
  };
  return { desk, pairing, peers, outbox, state, events, look, clock, me: identity.key };
}

it("takes over an answer whose session died, once the buses know of the peer, in the words of that session", async () => {
  const { desk, pairing, peers, state, events, look } = await deskOf();
  await peers.add("ann", ann, Operator.attest(ann, "cli"));
  const knock = { key: ann, claimed_name: "ann", msg_id: "k1", digest: "d" };
  desk.takeKnockOfPeer(knock, START_MS);
  const dead = { session: sessionId("one"), us: { name: "bob's desk", ts: START_MS } };
  pairing.update((before) => ({ state: { ...before, owed: claimAnswers(before.owed, dead, START_MS).owed } }));

  desk.start();
  await look(START_MS + LOOK_MS);
  expect([events, state.outbox.pendingCount()]).toEqual([[], 0]);
  await look(START_MS + CLAIM_MS);
  expect(events).toEqual(["published", "queued"]);
  const [queued] = state.outbox.pending(9);
  expect(JSON.parse(queued!.payload)).toMatchObject({ kind: "pair_accept", text: "bob's desk", ts: START_MS });
  expect(pairing.read().owed).toEqual([]);
  await look(START_MS + CLAIM_MS + LOOK_MS);
  expect(events).toEqual(["published", "queued"]);
  // The same knock, brought again by another bus, is no other.
  await desk.takeKnockOfPeer(knock, START_MS)();
  expect([pairing.read().owed, state.outbox.pendingCount()]).toEqual([[], 1]);
});

it("takes a knock once for all sessions, and none that is older than what was decided", async () => {
  const { desk } = await deskOf();
  const knock = { key: ann, claimed_name: "ann", msg_id: "k1", digest: "d" };
  desk.takeKnock(knock, START_MS);
  expect(desk.pending()).toMatchObject([{ what: "knock", claimed_name: "ann" }]);
  desk.reject(ann, Operator.attest(ann, "cli"));
  desk.takeKnock(knock, START_MS);
  desk.takeKnock({ ...knock, msg_id: "k0" }, START_MS - 1);
  expect(desk.pending()).toEqual([]);
  desk.takeKnock({ ...knock, msg_id: "k2", claimed_name: "ann again" }, START_MS + 1);
  expect(desk.pending()).toMatchObject([{ claimed_name: "ann again" }]);
});

it("tells a fault and goes on looking", async () => {
  const { desk, pairing, events, look, clock } = await deskOf();
  desk.start();
  pairing.close();
  await look(START_MS + LOOK_MS);
  expect(events).toEqual([expect.stringMatching(/^fault .*not open/)]);
  desk.close();
  expect(clock.due).toBeUndefined();
});

it("keeps no more knocks than an operator can look at, and takes a lost one when there is room", async () => {
  const { desk, pairing } = await deskOf();
  for (let n = 0; n < 64; n++)
    pairing.update((state) => receiveKnock(state, { key: fakeKey(n + 10), claimed_name: "x", msg_id: "k" }, START_MS));
  const knock = { key: ann, claimed_name: "ann", msg_id: "k1", digest: "d" };
  desk.takeKnock(knock, START_MS);
  expect(desk.pending().map(({ key }) => key)).not.toContain(ann);
  desk.reject(fakeKey(10), Operator.attest(fakeKey(10), "cli"));
  desk.takeKnock(knock, START_MS);
  expect(desk.pending().map(({ key }) => key)).toContain(ann);
});

it("knocks by itself where its human took an invite: once a day, until they are no peer any more or have answered", async () => {
  const { desk, pairing, peers, state, look, me } = await deskOf();
  const DAY_MS = 86_400_000;
  const secret = "A".repeat(22);
  await peers.add("ann", ann, Operator.attest(ann, "cli"));
  keepInvitation(pairing, { key: ann, secret, at_ms: START_MS });
  desk.start();
  const knocks = () => state.outbox.pending(9).map(({ kind, peer, msg_id }) => ({ kind, peer, msg_id }));
  const knock = (turn: number) => ({ kind: "pair_request", peer: ann, msg_id: invitedKnockId(secret, me, turn) });
  await until(() => knocks().length === 1, "the knock");
  await look(START_MS + LOOK_MS);
  expect(knocks()).toEqual([knock(0)]);
  await look(START_MS + DAY_MS);
  expect(knocks()).toEqual([knock(0), knock(1)]);

  const answer = { key: ann, claimed_name: "Ann", msg_id: "a1", in_reply_to: knock(1).msg_id, digest: "" };
  desk.takeAnswer({ ...answer, in_reply_to: "another" }, true);
  expect(takenInvitations(pairing, START_MS + DAY_MS)).toHaveLength(1);
  desk.takeAnswer(answer, true);
  expect(takenInvitations(pairing, START_MS + DAY_MS)).toEqual([]);

  keepInvitation(pairing, { key: ann, secret, at_ms: START_MS });
  await peers.remove("ann", ann, Operator.attest(ann, "cli"));
  await look(START_MS + 2 * DAY_MS);
  expect(knocks()).toHaveLength(2);
  expect(takenInvitations(pairing, START_MS + 2 * DAY_MS)).toEqual([]);
});

it("knocks anew where every bus refused the knock before, and else says the same again", async () => {
  const { desk, outbox, clock } = await deskOf();
  const knock = async () => {
    const asked = await desk.request({ key: ann, petname: "ann", to: { key: ann } });
    if (!("msg_id" in asked)) throw new Error(asked.code);
    return asked.msg_id;
  };
  const first = await knock();
  expect(await knock(), "it may lie on the bus").toBe(first);
  // Dated by a clock that was hours ahead.
  const refusal = refuse("ts_out_of_range", { now_ms: START_MS - 3 * 3_600_000 });
  outbox.settle(first, "main", { outcome: "refused", refusal }, START_MS);
  clock.nowMs = START_MS - 3 * 3_600_000;
  const second = await knock();
  expect(second).not.toBe(first);
  outbox.settle(second, "main", { outcome: "stored" }, clock.nowMs);
  expect(await knock()).toBe(second);
});
