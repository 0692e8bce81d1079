/**
 * One session's socket against its object: what is pushed, what an ack removes, who owns the mail, what is true of
 * presence. The object is put to sleep between the steps, so that nothing may lean on its memory.
 */

import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { clock } from "../../src/durable/clock.ts";
import { phaseOf, socketLifeMs } from "../../src/durable/expiry.ts";
import type { IdentityObject } from "../../src/durable/identity-object.ts";
import { connectIdentity } from "../../src/worker/ask.ts";
import type { Key } from "../../src/protocol/address.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { CLOSE } from "../../src/protocol/frames.ts";
import { classifyPresence } from "../../src/protocol/presence.ts";
import { type Agent, signAnnouncement, type Json } from "../support/agent.ts";
import { listen, newAgent, open, throughDoor } from "../support/door.ts";
import {
  announce,
  announcement,
  ask,
  bindings,
  entry,
  freezeAt,
  must,
  newKey,
  passTime,
  sendMany,
  sendOne,
  session,
  stubOf,
  take,
  view,
  waitingIds,
} from "../support/objects.ts";
import { SessionSocket } from "../support/session-socket.ts";

const { AWAY_RETAIN_MS, BODY_MAX_BYTES, LIVE_MS, MESSAGE_RETAIN_MS, RATE_PER_S, SOCKET_MAX_MS } = DEFAULT_LIMITS;
const HOUR = 3_600_000;
/** As the wire says it, whatever the bus's constant says. */
const WINDOW = 64;
/** Far ahead of the system's clock, by which real alarms ring: none of them rings into a test. */
const NOW = 4_000_000_000_000;
/** Puts the object to sleep, unless it is. */
const sleep = (key: Key) =>
  evictDurableObject(stubOf(key)).catch((fault: Error) => {
    if (!fault.message.includes("not currently running")) throw fault;
  });
const ring = (key: Key) => runDurableObjectAlarm(stubOf(key));

/** An announced agent, whose contacts are those given. */
async function announced(id: string, ...contacts: Key[]): Promise<Agent> {
  const agent = await newAgent();
  await must(agent.key, "contacts", { contacts, ts: 1 });
  await announce(agent.key, id);
  return agent;
}

/** Messages with these ids, from the identity itself, which is always admitted. */
async function mail(key: Key, to: string | undefined, ids: readonly string[]): Promise<void> {
  for (let from = 0; from < ids.length; from += WINDOW) {
    const entries = ids.slice(from, from + WINDOW).map((msgId) => entry(key, to, { msgId }));
    for (const result of await sendMany(key, entries)) expect(result).toMatchObject({ state: "stored" });
  }
}

const idsOf = (count: number, prefix = "m") => Array.from({ length: count }, (_, n) => `${prefix}${n}`);

/** What the roster says of one session, as its owner sees it. */
async function seen(key: Key, id: string): Promise<Json> {
  const { roster } = await view(key, key);
  return roster.find((each) => each.session.session_id === id);
}

/** A handshake as the door hands it to the object. */
function handshake(key: Key, id: string): Request {
  const nonce = { nonce: crypto.randomUUID(), expiresAtMs: clock.now() + 121_000 };
  const call = JSON.stringify({ key, session: session(id), nonce });
  return new Request(`https://identity/socket?call=${encodeURIComponent(call)}`, { headers: { upgrade: "websocket" } });
}

/**
 * Makes calls that the object takes into one commit: they come while another is on its way to the disk.
 * @returns what the socket among them hears, also later
 */
function inOneCommit(
  key: Key,
  makeCalls: (object: IdentityObject, state: DurableObjectState) => Promise<unknown>[],
): Promise<Json[]> {
  return runInDurableObject(stubOf(key), async (object: IdentityObject, state) => {
    const frames: Json[] = [];
    const underWay = object.enqueue(JSON.stringify({ key, entries: [entry(key, "another")] }));
    for (const answer of await Promise.all([...makeCalls(object, state), underWay])) {
      if (!(answer instanceof Response)) continue;
      listen(answer, { message: (data) => void frames.push(JSON.parse(data)), closed: () => undefined });
    }
    return frames;
  });
}

const idsIn = (frames: readonly Json[]): string[] =>
  frames
    .filter(({ t }) => t === "messages")
    .flatMap(({ items }) => items.map((item: Json) => item.envelope.payload.msg_id));

const rowsOf = (key: Key, query: string): Promise<Json[]> =>
  runInDurableObject(stubOf(key), (_, { storage }) => storage.sql.exec(query).toArray());

describe("the window", () => {
  it("is 64 messages: the 65th comes only after an ack, and one for each", async () => {
    const agent = await announced("s");
    const ids = idsOf(70);
    await mail(agent.key, "s", ids);
    const socket = await open(agent, "s");
    expect(socket.welcome).toMatchObject({ queued: 70, versions: [1] });
    await socket.settled();
    expect(socket.ids).toEqual(ids.slice(0, WINDOW));
    await sleep(agent.key);
    await mail(agent.key, "s", ["late"]); // a send wakes the object, and may not push past the window
    await sleep(agent.key);
    await socket.settled();
    expect(socket.items).toHaveLength(WINDOW);
    socket.ack(socket.items[0]!.seq);
    await socket.settled();
    expect(socket.ids).toEqual(ids.slice(0, WINDOW + 1));
    await sleep(agent.key);
    socket.ack(socket.items[3]!.seq);
    await socket.settled();
    expect(socket.ids).toEqual(ids.slice(0, WINDOW + 4));
    socket.ack();
    await socket.settled();
    expect(socket.ids).toEqual([...ids, "late"]);
    expect(socket.unackedMax).toBe(WINDOW);
  });

  it("is one of its socket: what an HTTP ack removes makes room by the next push", async () => {
    const agent = await announced("s");
    await mail(agent.key, "s", idsOf(WINDOW + 1));
    const socket = await open(agent, "s");
    await socket.received(WINDOW);
    const { items = [] } = await take(agent.key, "s");
    await must(agent.key, "ack", { session: session("s"), acks: items.slice(0, 2).map((item) => item.ack) });
    await sleep(agent.key);
    await mail(agent.key, "s", ["next"]);
    await socket.settled();
    expect(socket.ids).toEqual([...idsOf(WINDOW + 1), "next"]);
  });

  it("splits what is large into frames that a client can bear, in order", async () => {
    const agent = await announced("s");
    const payload = (msgId: string) => JSON.stringify({ msg_id: msgId, text: "x".repeat(60_000) });
    const ids = idsOf(40);
    for (let from = 0; from < ids.length; from += 10) {
      await sendMany(
        agent.key,
        ids.slice(from, from + 10).map((msgId) => entry(agent.key, "s", { msgId, payload: payload(msgId) })),
      );
    }
    const socket = await open(agent, "s");
    await socket.settled();
    expect(socket.ids).toEqual(ids);
    expect(socket.of("messages").length).toBeGreaterThan(1);
    for (const frame of socket.of("messages")) expect(JSON.stringify(frame).length).toBeLessThan(1_200_000);
  });

  it("lets no knock overtake mail that a frame had no room for: a cumulative ack would take that mail unseen", async () => {
    const agent = await announced("s");
    const ids = idsOf(30);
    const payload = (msgId: string) => JSON.stringify({ msg_id: msgId, text: "x".repeat(60_000) });
    for (let from = 0; from < ids.length; from += 10) {
      await sendMany(
        agent.key,
        ids.slice(from, from + 10).map((msgId) => entry(agent.key, "s", { msgId, payload: payload(msgId) })),
      );
    }
    await sendOne(agent.key, entry(newKey(), "s", { msgId: "knock", kind: "pair_request" }));
    const socket = await open(agent, "s", { acks: true });
    await socket.settled();
    await socket.settled();
    expect(socket.ids).toEqual([...ids, "knock"]);
  });
});

describe("an ack", () => {
  it("is cumulative: removes all up to its number, each with a receipt, and nothing above", async () => {
    const agent = await announced("s");
    const ids = idsOf(8);
    await mail(agent.key, "s", ids);
    const socket = await open(agent, "s");
    await socket.received(8);
    await sleep(agent.key);
    socket.ack(socket.items[4]!.seq);
    socket.ack(socket.items[1]!.seq); // an older one after it is late, not wrong
    socket.ack(0);
    await socket.settled();
    expect(await waitingIds(agent.key, "s")).toEqual(ids.slice(5));
    const { receipts } = await must(agent.key, "receipts", { sender: agent.key, msgIds: ids });
    expect(receipts.map(({ state }) => state)).toEqual([...Array(5).fill("acked"), ...Array(3).fill("stored")]);
    expect(socket.errors).toEqual(["bad_ack"]); // settled()'s own
  });

  it("above what was pushed on this socket is refused, and removes nothing", async () => {
    const agent = await announced("s");
    await mail(agent.key, "s", idsOf(WINDOW + 1));
    const socket = await open(agent, "s");
    await socket.received(WINDOW);
    const [{ last }] = (await rowsOf(agent.key, "SELECT max(seq) AS last FROM message")) as [Json];
    await sleep(agent.key);
    for (const through of [last, socket.items.at(-1)!.seq + 1, Number.MAX_SAFE_INTEGER]) {
      socket.send({ t: "ack", through });
    }
    await socket.waitFor(() => socket.errors.length === 3, "three refusals");
    expect(socket.errors).toEqual(["bad_ack", "bad_ack", "bad_ack"]);
    expect(await rowsOf(agent.key, "SELECT 1 FROM message")).toHaveLength(WINDOW + 1);
    expect(socket.close).toBeUndefined();
  });

  it("of an earlier socket's numbers is refused where this one pushed nothing yet", async () => {
    const agent = await announced("s");
    const first = await open(agent, "s");
    await mail(agent.key, "s", ["a"]);
    await first.received(1);
    first.ack();
    await first.settled();
    await first.end();
    const second = await open(agent, "s");
    second.ack(first.items[0]!.seq);
    await second.waitFor(() => second.errors.length > 0, "a refusal");
    expect(second.errors).toEqual(["bad_ack"]);
  });

  it("frees what it took from being sent again, on any later socket", async () => {
    const agent = await announced("s");
    await mail(agent.key, "s", ["a", "b", "c"]);
    const first = await open(agent, "s");
    await first.received(3);
    first.ack(first.items[1]!.seq);
    await first.settled();
    const second = await open(agent, "s");
    await second.settled();
    expect(second.ids).toEqual(["c"]);
  });
});

describe("redelivery", () => {
  const WAYS = [
    { way: "the socket closed", leave: (socket: SessionSocket) => socket.end(), sleeps: false },
    { way: "the socket closed and the object slept", leave: (socket: SessionSocket) => socket.end(), sleeps: true },
    { way: "a newer socket took over", leave: () => undefined, sleeps: false },
    { way: "a newer socket took over from one that slept", leave: () => undefined, sleeps: true },
  ];
  for (const { way, leave, sleeps } of WAYS) {
    it(`is marked after ${way}, and only of what was pushed before`, async () => {
      const agent = await announced("s");
      const ids = idsOf(WINDOW + 2);
      await mail(agent.key, "s", ids);
      const first = await open(agent, "s");
      await first.received(WINDOW);
      expect(first.items.some((item) => item.redelivered)).toBe(false);
      if (sleeps) await sleep(agent.key);
      await leave(first);
      if (sleeps) await sleep(agent.key);
      const second = await open(agent, "s", { acks: true, application: first.application });
      await second.received(WINDOW + 2);
      expect(second.ids).toEqual(ids);
      expect(second.items.map((item) => item.redelivered ?? false)).toEqual([
        ...Array(WINDOW).fill(true),
        false,
        false,
      ]);
      expect(first.application.messages).toHaveLength(WINDOW + 2);
    });
  }
});

describe("a gap", () => {
  it("is told after an expiry, once a socket, again on a new one, and not after an ack of something later", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    await mail(agent.key, "s", ["lost1", "lost2"]);
    freezeAt(NOW + HOUR);
    await mail(agent.key, "s", ["kept"]);
    freezeAt(NOW + MESSAGE_RETAIN_MS - 1);
    const first = await open(agent, "s");
    await first.received(3);
    expect(first.of("gap")).toEqual([]);
    await sleep(agent.key);
    freezeAt(NOW + MESSAGE_RETAIN_MS);
    await ring(agent.key);
    await first.waitFor(() => first.of("gap").length > 0, "a gap");
    await sleep(agent.key);
    await ring(agent.key);
    first.ack(); // of what was there before the loss: it does not say that the loss was heard of
    await first.settled();
    const told = { t: "gap", count: 2, oldest_ts: NOW };
    expect(first.of("gap")).toEqual([told]);

    const second = await open(agent, "s");
    await second.settled();
    expect(second.of("gap")).toEqual([told]);
    await mail(agent.key, "s", ["later"]);
    await second.received(1);
    expect(second.frames.findIndex(({ t }) => t === "gap")).toBeLessThan(
      second.frames.findIndex(({ t }) => t === "messages"),
    );
    await sleep(agent.key);
    const third = await open(agent, "s");
    await third.settled();
    expect(third.of("gap")).toEqual([told]); // nothing later was acked
    third.ack();
    await third.settled();
    const fourth = await open(agent, "s");
    await fourth.settled();
    expect(fourth.of("gap")).toEqual([]);
  });

  it("of the identity's own inbox is told to the session that comes to own it", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    await mail(agent.key, undefined, ["lost"]);
    freezeAt(NOW + MESSAGE_RETAIN_MS);
    await ring(agent.key);
    const socket = await open(agent, "s");
    await socket.settled();
    expect(socket.of("gap")).toEqual([{ t: "gap", count: 1, oldest_ts: NOW }]);
  });
});

describe("two sockets of one session", () => {
  for (const sleeps of [false, true]) {
    it(`have one owner, the newer${sleeps ? ", also if the object slept in between" : ""}`, async () => {
      const agent = await announced("s");
      const rest = async () => sleeps && sleep(agent.key);
      const older = await open(agent, "s");
      await mail(agent.key, "s", ["a"]);
      await older.received(1);
      await rest();
      const newer = await open(agent, "s");
      expect(await older.closed()).toEqual({ code: CLOSE.superseded, reason: "superseded" });
      await rest();
      await mail(agent.key, "s", ["b"]);
      await newer.received(2);
      await rest();
      await mail(agent.key, "s", ["c"]);
      await newer.received(3);
      await newer.settled();
      expect(newer.ids).toEqual(["a", "b", "c"]);
      expect(older.ids).toEqual(["a"]);
      expect(await seen(agent.key, "s")).toMatchObject({ connected: true });
    });
  }

  it("dialled at once: one stays, whichever, and it has all that comes", async () => {
    const agent = await announced("s");
    await mail(agent.key, "s", ["a"]);
    const sockets = await Promise.all(Array.from({ length: 8 }, () => open(agent, "s")));
    const isOpen = (socket: SessionSocket) => socket.close === undefined;
    await Promise.all(sockets.map((socket) => socket.ping().catch(() => undefined)));
    const [owner, ...others] = sockets.filter(isOpen);
    expect(others).toEqual([]);
    for (const socket of sockets.filter((each) => each !== owner)) {
      expect(socket.close).toEqual({ code: CLOSE.superseded, reason: "superseded" });
    }
    await mail(agent.key, "s", ["b"]);
    await owner!.settled();
    expect(owner!.ids).toEqual(["a", "b"]);
  });

  it("are two owners of nothing: a sibling session's mail and socket are its own", async () => {
    const agent = await announced("s");
    const [one, two] = [await open(agent, "s"), await open(agent, "s2")];
    await sleep(agent.key);
    await mail(agent.key, "s", ["to-s"]);
    await mail(agent.key, "s2", ["to-s2"]);
    await one.settled();
    await two.settled();
    expect([one.ids, two.ids]).toEqual([["to-s"], ["to-s2"]]);
  });
});

describe("a socket is closed", () => {
  it("by the alarm at the end of its life, and not before: 4408, and the session stays", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    const socket = await open(agent, "s");
    await sleep(agent.key);
    const lifeMs = socketLifeMs(DEFAULT_LIMITS, phaseOf(agent.key));
    freezeAt(NOW + lifeMs - 1);
    await ring(agent.key);
    await socket.settled();
    expect(socket.close).toBeUndefined();
    await sleep(agent.key);
    freezeAt(NOW + lifeMs);
    await ring(agent.key);
    expect(await socket.closed()).toEqual({ code: CLOSE.signAgain, reason: "sign_again" });
    expect(await seen(agent.key, "s")).toBeDefined();
    await open(agent, "s"); // signed anew
    expect(await seen(agent.key, "s")).toMatchObject({ connected: true });
  });

  it("at three bad frames: 4400, however long it slept between them", async () => {
    const agent = await announced("s");
    const socket = await open(agent, "s");
    socket.send("{");
    await socket.waitFor(() => socket.errors.length === 1, "a refusal");
    await sleep(agent.key);
    socket.send({ t: "hello" });
    await socket.waitFor(() => socket.errors.length === 2, "a refusal");
    await sleep(agent.key);
    socket.send({ t: "ack", through: 0, extra: 1 });
    expect(await socket.closed()).toEqual({ code: CLOSE.tooManyErrors, reason: "too_many_errors" });
    expect(socket.errors).toEqual(["bad_json", "bad_frame", "unknown_field"]);
    expect(await seen(agent.key, "s")).toMatchObject({ connected: false });
  });

  it("at anything binary, and at what is larger than a body may be", async () => {
    const agent = await announced("s");
    const binary = await open(agent, "s");
    binary.send(new Uint8Array([1]));
    expect(await binary.closed()).toEqual({ code: CLOSE.binary, reason: "binary" });
    const large = await open(agent, "s");
    large.send("x".repeat(BODY_MAX_BYTES + 1));
    expect(await large.closed()).toEqual({ code: CLOSE.tooLarge, reason: "too_large" });
  });

  it("at its handshake where the nonce was used: 4401, and the one that used it stays the owner", async () => {
    const agent = await announced("s");
    const token = agent.token({ method: "WS", target: `/socket?me=${encodeURIComponent(agent.route("s"))}` });
    const first = await open(agent, "s", { token });
    for (const sleeps of [false, true]) {
      if (sleeps) await sleep(agent.key);
      const replayed = await SessionSocket.dial(agent, "s", { dialer: throughDoor, token });
      expect(await replayed.closed()).toEqual({ code: CLOSE.notAuthenticated, reason: "replay" });
      expect(replayed.frames).toMatchObject([{ t: "err", error: "replay" }]);
    }
    await mail(agent.key, "s", ["a"]);
    await first.settled();
    expect(first.ids).toEqual(["a"]);
  });

  it("when its identity is forgotten, whatever its session", async () => {
    const agent = await announced("s");
    const sockets = [await open(agent, "s"), await open(agent, "never-announced")];
    await sleep(agent.key);
    await must(agent.key, "forget", { nonce: { nonce: "n", expiresAtMs: clock.now() + 121_000 } });
    for (const socket of sockets) {
      expect(await socket.closed()).toEqual({ code: CLOSE.unregistered, reason: "forgotten" });
    }
    expect(await view(agent.key, agent.key)).toMatchObject({ roster: [], gone: [] });
  });
});

describe("what a frame asks for in vain is answered, and is not a bad frame", () => {
  it("however often: an announcement that is stale, another key's, another session's, untimely or unsigned", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    const other = await newAgent();
    const socket = await open(agent, "s");
    const said = (signer: Agent, id: string, ts = NOW + 1) =>
      signAnnouncement(signer.signer, { name: "agent", session: { session_id: id }, ts });
    const cases = [
      { announcement: said(agent, "s", NOW), error: "stale" },
      { announcement: said(other, "s"), error: "key_mismatch" },
      { announcement: said(agent, "s2"), error: "not_owner" },
      { announcement: said(agent, "s", NOW + 60_001), error: "ts_out_of_range" },
      { announcement: { ...said(agent, "s"), name: "changed" }, error: "bad_payload_signature" },
      { announcement: { ...said(agent, "s"), pubkey: other.key }, error: "key_mismatch" },
    ];
    for (const { announcement } of cases) {
      socket.send({ t: "announce", announcement });
      await sleep(agent.key);
    }
    await socket.waitFor(() => socket.errors.length === cases.length, "all refusals");
    expect(socket.errors).toEqual(cases.map(({ error }) => error));
    expect(socket.close).toBeUndefined();
    const { roster } = await view(agent.key, agent.key);
    expect(roster.map((each) => [each.session.session_id, each.ts])).toEqual([["s", NOW]]);
    expect(await rowsOf(other.key, "SELECT name FROM sqlite_master WHERE name = 'session'")).toEqual([]);
  });

  it("and an announcement that is taken is a heartbeat, with its public part", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    const socket = await open(agent, "s");
    freezeAt(NOW + HOUR);
    await sleep(agent.key);
    socket.announce("renamed");
    await socket.settled();
    expect(await seen(agent.key, "s")).toMatchObject({ name: "renamed", age_ms: 0, connected: true });
  });
});

describe("an unregister frame", () => {
  it("has its goodbyes in the peers' inboxes before the close comes, more of them than are called at once", async () => {
    const agent = await announced("s");
    const peers = await Promise.all(Array.from({ length: 8 }, () => announced("p", agent.key)));
    const stranger = await announced("p");
    const listening = await open(peers[0]!, "p");
    const goodbyes = [...peers, stranger].map((peer) => agent.message(peer.route("p"), "goodbye"));
    const socket = await open(agent, "s");
    for (const { key } of [agent, ...peers]) await sleep(key);
    socket.unregister(goodbyes);
    expect(await socket.closed()).toEqual({ code: CLOSE.unregistered, reason: "unregistered" });
    // No await but the readings themselves: what is not there now was not done before the close.
    for (const [n, peer] of peers.entries()) {
      expect(await waitingIds(peer.key, "p")).toEqual([goodbyes[n]!.payload.msg_id]);
    }
    expect(await waitingIds(stranger.key, "p")).toEqual([]);
    expect(listening.ids).toEqual([goodbyes[0]!.payload.msg_id]);
    const { roster, gone } = await view(agent.key, agent.key);
    expect(roster).toEqual([]);
    expect(gone).toMatchObject([{ pubkey: agent.key, session_id: "s" }]);
  });

  it("keeps its tombstone: what was announced before it, or a socket opened after it, revives nobody", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    const socket = await open(agent, "s");
    socket.unregister([], NOW + 50);
    await socket.closed();
    await sleep(agent.key);
    const again = await open(agent, "s");
    again.announce("late", NOW + 50);
    await again.settled();
    expect(again.errors).toEqual(["stale", "bad_ack"]);
    expect(await view(agent.key, agent.key)).toMatchObject({ roster: [], gone: [{ session_id: "s" }] });
    again.announce("resumed", NOW + 51);
    await again.settled();
    expect(await view(agent.key, agent.key)).toMatchObject({ roster: [{ name: "resumed" }], gone: [] });
  });

  it("that is older than the last announcement is refused, sends no goodbye and closes nothing", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    const peer = await announced("p", agent.key);
    const socket = await open(agent, "s");
    socket.unregister([agent.message(peer.route("p"), "goodbye")], NOW - 1);
    await socket.settled();
    expect(socket.errors).toEqual(["stale", "bad_ack"]);
    expect(socket.close).toBeUndefined();
    expect(await waitingIds(peer.key, "p")).toEqual([]);
    expect(await seen(agent.key, "s")).toMatchObject({ connected: true });
  });

  it("closes its own session only, and leaves its mail to a session resumed under its id", async () => {
    const agent = await announced("s");
    await announce(agent.key, "s2");
    const [socket, sibling] = [await open(agent, "s"), await open(agent, "s2")];
    await mail(agent.key, "s", ["unread"]);
    await socket.received(1);
    socket.unregister();
    await socket.closed();
    await sibling.settled();
    expect(await seen(agent.key, "s2")).toMatchObject({ connected: true });
    expect(sibling.ids).toEqual([]);
    const resumed = await open(agent, "s");
    await resumed.received(1);
    expect(resumed.items).toMatchObject([{ redelivered: true }]);
  });
});

describe("a close is silence, not death", () => {
  const ROWS = [
    { afterMs: 0, presence: "live", why: "it was there just now" },
    { afterMs: LIVE_MS - 1, presence: "live", why: "three heartbeats are not over" },
    { afterMs: LIVE_MS, presence: "away", why: "a laptop was shut" },
    { afterMs: AWAY_RETAIN_MS - 1, presence: "away", why: "a long weekend" },
    { afterMs: AWAY_RETAIN_MS, presence: "gone", why: "three days" },
  ];
  for (const { afterMs, presence, why } of ROWS) {
    it(`${afterMs} ms after it the session is ${presence}: ${why}`, async () => {
      freezeAt(NOW);
      const agent = await announced("s");
      const socket = await open(agent, "s");
      freezeAt(NOW + 7 * HOUR); // connected all the while; the age counts from the close
      await socket.end();
      await sleep(agent.key);
      freezeAt(NOW + 7 * HOUR + afterMs);
      for (const rings of [false, true]) {
        if (rings) await ring(agent.key);
        const row = await seen(agent.key, "s");
        expect(row ? classifyPresence(row.age_ms, DEFAULT_LIMITS) : "gone").toBe(presence);
        if (row) expect(row).toMatchObject({ age_ms: afterMs, connected: false });
      }
      expect((await view(agent.key, agent.key)).gone).toEqual([]); // nobody said goodbye
    });
  }

  it("and while it is on its way to the disk, nobody sees an age of before the socket was opened", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    const socket = await open(agent, "s");
    freezeAt(NOW + 7 * HOUR);
    await socket.settled();
    let glimpse: Json;
    await inOneCommit(agent.key, (object, state) => {
      const [closing] = state.getWebSockets();
      closing!.close(1000); // as it is by the time that the platform tells of a peer's close
      const closed = object.webSocketClose(closing!, 1000, "", true);
      const looked = object.view(JSON.stringify({ key: agent.key, viewer: agent.key, scope: "identity" }));
      return [closed, looked.then((answer) => (glimpse = JSON.parse(answer)))];
    });
    expect(glimpse.roster).toMatchObject([{ age_ms: 0 }]);
    expect(await seen(agent.key, "s")).toMatchObject({ age_ms: 0, connected: false });
  });

  it("and an open socket that says nothing is as silent: away and not connected, whatever the system says", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    const socket = await open(agent, "s");
    await sleep(agent.key);
    freezeAt(NOW + LIVE_MS - 1);
    expect(await seen(agent.key, "s")).toMatchObject({ age_ms: LIVE_MS - 1, connected: true });
    freezeAt(NOW + LIVE_MS);
    expect(await seen(agent.key, "s")).toMatchObject({ age_ms: LIVE_MS, connected: false });
    expect(await sendOne(agent.key, entry(agent.key, "s"))).toMatchObject({ presence: "away", age_ms: LIVE_MS });
    await socket.settled(); // a frame is a sign of life
    expect(await seen(agent.key, "s")).toMatchObject({ age_ms: 0, connected: true });
  });

  it("reconnected within a second, nobody sees it leave, in whatever order the old socket ends", async () => {
    for (const closesFirst of [true, false]) {
      freezeAt(NOW);
      const agent = await announced("s");
      const peer = newKey();
      await must(agent.key, "contacts", { contacts: [peer], ts: 2 });
      const first = await open(agent, "s");
      freezeAt(NOW + HOUR);
      await first.settled();
      const glimpses: Json[] = [];
      const glance = async () =>
        glimpses.push(...[await view(agent.key, peer)].map(({ roster, gone }) => [roster, gone]));
      await glance();
      if (closesFirst) await first.end();
      await glance();
      await sleep(agent.key);
      freezeAt(NOW + HOUR + 500);
      const second = open(agent, "s");
      await glance();
      await second;
      await glance();
      await sleep(agent.key);
      freezeAt(NOW + HOUR + 1_000);
      await glance();
      expect(glimpses).toHaveLength(5);
      for (const [roster, gone] of glimpses) {
        expect(gone).toEqual([]);
        expect(roster).toHaveLength(1);
        expect(classifyPresence(roster[0].age_ms, DEFAULT_LIMITS)).toBe("live");
        expect(roster[0].age_ms).toBeLessThanOrEqual(1_000);
      }
      expect(glimpses.at(-1)[0][0].connected).toBe(true);
    }
  });
});

describe("ages of sockets that were open while the object slept", () => {
  it("come from the automatic answer, which ran no handler", async () => {
    freezeAt(Date.now() - 600_000);
    const agent = await announced("s");
    const socket = await open(agent, "s");
    passTime(0); // the system's clock from here on: the automatic answer goes by it
    await sleep(agent.key);
    expect((await seen(agent.key, "s")).age_ms).toBeGreaterThanOrEqual(600_000);
    await sleep(agent.key);
    await socket.ping();
    await sleep(agent.key);
    const { age_ms, connected } = await seen(agent.key, "s");
    expect(age_ms).toBeLessThan(5_000);
    expect(connected).toBe(true);
    await socket.end();
    await sleep(agent.key);
    expect((await seen(agent.key, "s")).age_ms).toBeLessThan(5_000);
  });

  it("keep an idle session that is connected for longer than AWAY_RETAIN_MS from being expired", async () => {
    freezeAt(Date.now() - AWAY_RETAIN_MS - HOUR);
    const agent = await announced("s");
    await announce(agent.key, "silent");
    const socket = await open(agent, "s");
    await socket.ping(); // by the system's clock, so an hour past the end of its three days
    await sleep(agent.key);
    passTime(0);
    await ring(agent.key);
    const { roster } = await view(agent.key, agent.key);
    expect(roster.map((each) => each.session.session_id)).toEqual(["s"]);
    expect(roster[0]!.age_ms).toBeLessThan(5_000);
    expect(await rowsOf(agent.key, "SELECT session_id FROM session")).toEqual([{ session_id: "s" }]);
    await socket.closed(); // it was a day old as well
    await sleep(agent.key);
    expect((await seen(agent.key, "s")).age_ms).toBeLessThan(5_000);
  });

  it("stay true of a peer that vanished, also after its day-old socket was closed without an answer", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    const call = { key: agent.key, session: session("s"), nonce: { nonce: "n", expiresAtMs: NOW + 121_000 } };
    const socket = await open(agent, "s", {
      dialer: async (_url, _target, _protocols, ears) =>
        listen(await connectIdentity(bindings, call), ears, { allowHalfOpen: true }),
    });
    freezeAt(NOW + 20 * HOUR);
    await socket.settled(); // the last that was heard of it
    await sleep(agent.key);
    freezeAt(NOW + SOCKET_MAX_MS);
    const age = async () => (await seen(agent.key, "s")).age_ms;
    expect(await age()).toBe(4 * HOUR);
    await ring(agent.key);
    freezeAt(NOW + 25 * HOUR);
    expect(await age(), "once the bus gave the socket up").toBe(5 * HOUR);
    await sleep(agent.key);
    expect(await age(), "after it slept").toBe(5 * HOUR);
  });
});

describe("after a crash of the bus", () => {
  it("a session that was connected is away at worst, not gone, for it was heard until nobody knows when", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    await announce(agent.key, "polls-only");
    await mail(agent.key, "s", ["a"]);
    const socket = await open(agent, "s");
    await socket.received(1);
    freezeAt(NOW + AWAY_RETAIN_MS - HOUR);
    await abortAllDurableObjects();
    expect((await socket.closed()).code).toBe(1006);
    freezeAt(NOW + AWAY_RETAIN_MS + HOUR);
    const { roster } = await view(agent.key, agent.key);
    expect(roster).toMatchObject([{ session: { session_id: "s" }, age_ms: 0, connected: false }]);
    await ring(agent.key);
    freezeAt(NOW + AWAY_RETAIN_MS + 2 * HOUR);
    await sleep(agent.key);
    expect(await seen(agent.key, "s")).toMatchObject({ age_ms: HOUR, connected: false }); // repaired once, not at each start
    const again = await open(agent, "s");
    await again.received(1);
    expect(await seen(agent.key, "s")).toMatchObject({ age_ms: 0, connected: true });
  });

  it("and one whose socket had closed before it keeps its true age", async () => {
    freezeAt(NOW);
    const agent = await announced("s");
    await (await open(agent, "s")).end();
    freezeAt(NOW + HOUR);
    await abortAllDurableObjects();
    expect(await seen(agent.key, "s")).toMatchObject({ age_ms: HOUR, connected: false });
  });
});

describe("the identity's own inbox", () => {
  it("goes to exactly one session, the first that connected, also if the object slept", async () => {
    freezeAt(NOW);
    const agent = await announced("first");
    const first = await open(agent, "first");
    freezeAt(NOW + 1);
    const second = await open(agent, "second");
    await mail(agent.key, undefined, ["a"]);
    await sleep(agent.key);
    await mail(agent.key, undefined, ["b"]);
    await first.settled();
    await first.end();
    await sleep(agent.key);
    await mail(agent.key, undefined, ["c"]);
    await second.settled();
    expect([first.ids, second.ids]).toEqual([["a", "b"], ["c"]]);
    const again = await open(agent, "first"); // what was its own stays its own
    await again.settled();
    expect(again.ids).toEqual(["a", "b"]);
    await second.settled();
    expect(second.ids).toEqual(["c"]);
  });

  it("waits for whoever comes, and keeps its order behind what was sent to that session", async () => {
    const agent = await announced("s");
    await mail(agent.key, undefined, ["a"]);
    await mail(agent.key, "s", ["b"]);
    await mail(agent.key, undefined, ["c"]);
    await sleep(agent.key);
    const [s, s2] = await Promise.all([open(agent, "s"), open(agent, "s2")]);
    await Promise.all([s.settled(), s2.settled()]);
    const [claimed, other] = s.ids.includes("a") ? [s, s2] : [s2, s];
    expect([...s.ids, ...s2.ids].toSorted()).toEqual(["a", "b", "c"]);
    expect(claimed.ids).toEqual(claimed === s ? ["a", "b", "c"] : ["a", "c"]);
    expect(other.ids).toEqual(claimed === s ? [] : ["b"]);
  });

  it("is not left behind by what comes in the very commit of a handshake", async () => {
    const agent = await announced("s");
    const frames = await inOneCommit(agent.key, (object) => [
      object.fetch(handshake(agent.key, "s")),
      object.enqueue(JSON.stringify({ key: agent.key, entries: [entry(agent.key, undefined, { msgId: "bare" })] })),
    ]);
    await mail(agent.key, "s", ["after"]);
    const owner = await open(agent, "s");
    await owner.settled();
    expect(idsIn(frames)).toEqual(["bare", "after"]);
    expect(owner.ids).toEqual(["bare", "after"]);
  });
});

describe("what a handshake shares its commit with", () => {
  it("a message, before it or after it, comes once and behind the welcome", async () => {
    const agent = await announced("s");
    const send = (object: IdentityObject, msgId: string) =>
      object.enqueue(JSON.stringify({ key: agent.key, entries: [entry(agent.key, "s", { msgId })] }));
    const frames = await inOneCommit(agent.key, (object) => [
      send(object, "a"),
      object.fetch(handshake(agent.key, "s")),
      send(object, "b"),
    ]);
    await mail(agent.key, "s", ["c"]);
    await open(agent, "s"); // by its welcome, all that was sent to the other is there
    expect(frames[0]).toMatchObject({ t: "welcome" });
    expect(idsIn(frames)).toEqual(["a", "b", "c"]);
  });

  it("another handshake of the session closes it, and finds no fault", async () => {
    const agent = await announced("s");
    await mail(agent.key, "s", ["a"]);
    const frames = await inOneCommit(agent.key, (object) => [
      object.fetch(handshake(agent.key, "s")),
      object.fetch(handshake(agent.key, "s")),
    ]);
    expect(await rowsOf(agent.key, "SELECT connected FROM session")).toEqual([{ connected: 1 }]);
    await mail(agent.key, "s", ["b"]);
    await open(agent, "s");
    expect(idsIn(frames).filter((id) => id === "b")).toEqual(["b"]);
  });

  it("an announcement knows the socket that is being opened, so that a crash repairs its session", async () => {
    const agent = await newAgent();
    const said = announcement(agent.key, "s");
    await inOneCommit(agent.key, (object) => [
      object.fetch(handshake(agent.key, "s")),
      object.announce(JSON.stringify({ key: agent.key, announcement: said })),
    ]);
    expect(await seen(agent.key, "s")).toMatchObject({ connected: true });
    expect(await rowsOf(agent.key, "SELECT connected FROM session")).toEqual([{ connected: 1 }]);
  });

  it("the end of the older socket does not pass for the end of the newer", async () => {
    const agent = await announced("s");
    await open(agent, "s");
    await inOneCommit(agent.key, (object, state) => {
      const [older] = state.getWebSockets();
      older!.close(1000); // as it is by the time that the platform tells of a peer's close
      return [object.fetch(handshake(agent.key, "s")), object.webSocketClose(older!, 1000, "", true)];
    });
    expect(await seen(agent.key, "s")).toMatchObject({ connected: true });
    expect(await rowsOf(agent.key, "SELECT connected FROM session")).toEqual([{ connected: 1 }]);
  });
});

it("pushes what comes after the clock stepped back and the object slept", async () => {
  freezeAt(NOW);
  const agent = await announced("s");
  const socket = await open(agent, "s", { acks: true });
  await mail(agent.key, "s", ["before"]);
  await socket.received(1);
  await socket.settled();
  await sleep(agent.key);
  freezeAt(NOW - 5_000);
  await mail(agent.key, "s", ["after"]);
  await socket.settled();
  expect(socket.ids).toEqual(["before", "after"]);
});

it("answers frames past the rate limit with when to come again, and takes them again by then", async () => {
  freezeAt(NOW);
  const agent = await announced("s");
  const other = await newAgent();
  const socket = await open(agent, "s");
  // Another key's announcement: refused each time it is let in, and never a bad frame.
  const announcement = signAnnouncement(other.signer, { name: "x", session: { session_id: "s" }, ts: NOW });
  const sendTimes = async (count: number) => {
    const before = socket.errors.length;
    for (let i = 0; i < count; i++) socket.send({ t: "announce", announcement });
    await socket.waitFor(() => socket.errors.length === before + count, `${count} refusals`);
    return socket.errors.slice(before).filter((error) => error === "key_mismatch").length;
  };
  // Its calls so far count as well: contacts, announce and the handshake itself.
  const burst = RATE_PER_S * 10 - 3;
  expect(await sendTimes(burst)).toBe(burst);
  expect(await sendTimes(5)).toBe(0);
  expect(socket.of("err").at(-1)).toMatchObject({ error: "rate_limited", retry_after_s: 1 });
  const whole = { viewer: agent.key, scope: "identity" } as const;
  expect(await ask(agent.key, "view", whole)).toMatchObject({ refused: "rate_limited" }); // its calls share the limit
  expect(await ask(agent.key, "view", { ...whole, viewer: other.key })).not.toHaveProperty("refused");
  freezeAt(NOW + 1_000);
  expect(await sendTimes(RATE_PER_S + 1)).toBe(RATE_PER_S);
  expect(socket.close).toBeUndefined();
});

describe("sockets of sessions that nobody announced", () => {
  it("are bounded like sessions, and a session that has one may dial again", async () => {
    const agent = await newAgent();
    const held: Response[] = []; // a socket that nobody holds is collected, and closes
    const dial = async (id: string) => {
      held.push(await stubOf(agent.key).fetch(handshake(agent.key, id)));
      return held.at(-1)!.status;
    };
    for (let i = 0; i < DEFAULT_LIMITS.SESSIONS_MAX; i++) expect(await dial(`s${i}`)).toBe(101);
    const refused = await stubOf(agent.key).fetch(handshake(agent.key, "one-more"));
    expect(await refused.json()).toEqual({ refused: "session_limit", retry_after_s: 60 });
    expect(await dial("s5")).toBe(101);
    expect(held).toHaveLength(DEFAULT_LIMITS.SESSIONS_MAX + 1);
  });

  it("hand mail to the bare key to one that is heard, not to one that has long been silent", async () => {
    freezeAt(NOW);
    const agent = await announced("silent");
    const silent = await open(agent, "silent");
    freezeAt(NOW + LIVE_MS);
    const heard = await open(agent, "heard");
    await mail(agent.key, undefined, ["to whom it may concern"]);
    await heard.received(1);
    expect(silent.ids).toEqual([]);
  });
});
