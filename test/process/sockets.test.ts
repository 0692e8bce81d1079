/** Sockets of a real bus whose clients come, go and vanish, and which is killed under them: no mail is lost, no presence made up. */

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { request } from "node:http";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { endWithParent, startBus, type LocalBus, type Variables } from "../../scripts/local-bus.ts";
import { CLOSE, SUBPROTOCOL, WINDOW, type Item } from "../../src/protocol/frames.ts";
import { checkHistory } from "../history/checker.ts";
import { History, type HistoryItem, type Invocation } from "../history/history.ts";
import { Agent, type Answer, type Json } from "../support/agent.ts";
import { startBlackHoleProxy } from "../support/black-hole-proxy.ts";
import { Application, SessionSocket, type SocketOptions } from "../support/session-socket.ts";

/** Tests send in seconds what agents send in hours. */
const LOADED: Variables = { RATE_PER_S: "100000", LOG: "faults" };
/** Two processes of one machine read its clock this much apart, at most: each at the turn of its own event loop. */
const CLOCKS_MS = 20;

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: LOADED });
});
afterAll(() => bus.stop());

const newAgent = (at = bus) => Agent.create({ url: at.url });

/** A bus of one test's own, with a state that outlives its process. */
async function ownBus(vars: Variables = {}): Promise<{ bus: LocalBus; restart(how: "kill" | "stop"): Promise<void> }> {
  const dir = await mkdtemp(join(tmpdir(), "interlink-sockets-"));
  const options = { bundle: inject("bundle"), dir, vars: { ...LOADED, ...vars } };
  const own = {
    bus: await startBus(options),
    async restart(how: "kill" | "stop") {
      await own.bus[how]();
      own.bus = await startBus({ ...options, port: own.bus.port });
    },
  };
  onTestFinished(async () => {
    await own.bus.stop();
    await rm(dir, { recursive: true, force: true });
  });
  return own;
}

/** An agent whose session is announced, and others that it admits and that admit it. */
async function withPeers(at: LocalBus, session: string, peers: number): Promise<[Agent, Agent[]]> {
  const agent = await newAgent(at);
  const others = await Promise.all(Array.from({ length: peers }, () => newAgent(at)));
  accepted(await agent.contacts(others.map(({ key }) => key)));
  for (const other of others) accepted(await other.contacts([agent.key]));
  accepted(await agent.announce(session));
  return [agent, others];
}

function accepted({ status, body }: Answer): Json {
  expect(status, JSON.stringify(body)).toBeLessThan(300);
  return body;
}

/** An application whose history is kept: all that is pushed to it, and what it reads of that. */
class RecordedApplication extends Application {
  readonly #history: History;
  readonly #by: string;

  constructor(history: History, by: string) {
    super();
    this.#history = history;
    this.#by = by;
  }

  override take(item: Item): void {
    const one = itemOf(item.envelope.payload);
    const before = this.messages.length;
    this.#history.pushed(this.#by, [one]);
    super.take(item);
    if (this.messages.length > before) this.#history.read(this.#by, one);
  }
}

function itemOf({ from, msg_id, text }: Json): HistoryItem {
  return { from, msg_id, sum: text };
}

const textsOf = (messages: readonly Json[]): string[] => messages.map(({ text }) => text);

describe("churn", () => {
  const RECONNECTS = 500;
  const SENDERS = 4;
  const MESSAGES_EACH = 250;
  /** Reconnects at which the bus is killed, and how long after they began: within, between and after their steps. */
  const KILLS = [
    { at: 60, afterMs: 0 },
    { at: 150, afterMs: 1 },
    { at: 240, afterMs: 2 },
    { at: 330, afterMs: 3 },
    { at: 420, afterMs: 5 },
  ];

  for (const kills of [[], KILLS]) {
    const title = `${RECONNECTS} reconnects while ${SENDERS * MESSAGES_EACH} messages come`;
    it(`${title}, and ${kills.length} kills of the bus: each once to the application, in order, none lost`, async () => {
      const own = await ownBus();
      const [reader, senders] = await withPeers(own.bus, "s", SENDERS);
      const history = new History();
      const application = new RecordedApplication(history, reader.route("s"));
      let reconnects = 0;
      /** Settles when the bus is there again. */
      let up = Promise.resolve();
      const due = [...kills];

      const sendAll = async (sender: Agent, number: number): Promise<string[]> => {
        const ids: string[] = [];
        for (let n = 0; n < MESSAGES_EACH; n++) {
          // Spread over all the reconnects.
          while (reconnects < (n * RECONNECTS) / MESSAGES_EACH) await delay(1);
          const message = sender.message(reader.route("s"), `${number} ${n}`);
          const what = { op: "send", to: message.to, ...itemOf(message.payload) } as const;
          accepted(await untilAnswered(() => sender.request("POST", "/send", message), what));
          ids.push(message.payload.msg_id);
        }
        return ids;
      };
      const untilAnswered = async (call: () => Promise<Answer>, what: Invocation): Promise<Answer> => {
        for (;;) {
          const outcome = history.invoke(what);
          try {
            const answer = await call();
            if (answer.status < 300) outcome.ok();
            else outcome.fail(answer.body.error);
            return answer;
          } catch (fault) {
            outcome.unknown();
            if (kills.length === 0) throw fault;
            await up;
          }
        }
      };
      const dial = async (options: SocketOptions): Promise<SessionSocket> => {
        for (let failures = 0; ; failures++) {
          try {
            return await SessionSocket.open(reader, "s", { application, ...options });
          } catch (fault) {
            if (kills.length === 0 || failures > 10) throw fault;
            await up;
          }
        }
      };

      const sending = Promise.all(senders.map(sendAll));
      sending.catch(() => undefined); // is awaited below
      for (; reconnects < RECONNECTS; reconnects++) {
        const [kill] = due;
        if (kill && reconnects >= kill.at) {
          due.shift();
          up = delay(kill.afterMs).then(() => own.restart("kill"));
        }
        // Three in four ack what they get; the rest leave all of it to be sent again.
        const socket = await dial({ acks: reconnects % 4 !== 3 });
        if (reconnects % 2 === 0) await socket.ping().catch(() => undefined);
        const leave = reconnects % 3;
        if (leave === 0) socket.terminate();
        else if (leave === 1) socket.end().catch(() => undefined); // still closing while the next one comes
        else socket.closed().catch(() => undefined); // left to the next one, which supersedes it
      }
      const ids = await sending;
      await up;
      const last = await dial({ acks: true });
      await last.waitFor(() => application.messages.length >= SENDERS * MESSAGES_EACH, "the rest of the messages");
      await last.settled();

      expect(due).toEqual([]);
      history.drained([reader.route("s")]);
      const { violations, counted } = checkHistory(history.events);
      expect(violations).toEqual([]);
      const all = SENDERS * MESSAGES_EACH;
      expect(counted).toMatchObject({ sent: all, acknowledged: all, read: all });
      expect(counted.handedOut).toBe(all + application.repeats);
      for (const [number, sender] of senders.entries()) {
        const expected = Array.from({ length: MESSAGES_EACH }, (_, n) => `${number} ${n}`);
        expect(textsOf(application.messages.filter(({ from }) => from === sender.key))).toEqual(expected);
        const { receipts } = accepted(await sender.receipts(reader.key, ids[number]!));
        expect(new Set(receipts.map(({ state }: Json) => state))).toEqual(new Set(["acked"]));
      }
      // A bus that was killed cannot know what it had pushed; one that was not must say so.
      if (kills.length === 0) expect(application.unmarked).toEqual([]);
      const { roster, gone } = accepted(await senders[0]!.roster(reader.key));
      expect(gone).toEqual([]);
      expect(roster).toMatchObject([{ session: { session_id: "s" }, connected: true }]);
      await last.end();
      expect(application.repeats, "nothing was ever sent again, so nothing was tried").toBeGreaterThan(0);
      expect(faultsOf(own.bus)).toEqual([]);
    }, 30_000);
  }
});

describe("a deep backlog", () => {
  const MESSAGES = 1_000;
  const GROWTH_MAX_MB = 64;

  it("drains in order, 64 unacked at most; half of it acked and the bus killed, exactly the rest comes again", async () => {
    const own = await ownBus();
    const [reader, senders] = await withPeers(own.bus, "s", 4);
    const texts = Array.from({ length: MESSAGES }, (_, n) => `${n} ${"x".repeat(2_000)}`);
    for (let from = 0; from < MESSAGES; from += 25) {
      const sender = senders[(from / 25) % senders.length]!;
      const batch = texts.slice(from, from + 25).map((text) => sender.message(reader.route("s"), text));
      for (const { state } of accepted(await sender.sendBatch(batch)).results) expect(state).toBe("stored");
    }

    const first = await SessionSocket.open(reader, "s");
    expect(first.welcome.queued).toBe(MESSAGES);
    await first.received(WINDOW);
    const before = memoryMb(own.bus.pid);
    for (let acked = 1; acked <= MESSAGES / 2; acked++) {
      first.ack(first.items[acked - 1]!.seq);
      await first.received(WINDOW + acked); // one for one: what was acked is off the bus's disk by now
    }
    expect(memoryMb(own.bus.pid) - before).toBeLessThan(GROWTH_MAX_MB);
    expect(first.unackedMax).toBe(WINDOW);
    expect(first.items.some((item) => item.redelivered)).toBe(false);
    expect(textsOf(first.application.messages)).toEqual(texts.slice(0, WINDOW + MESSAGES / 2));
    await own.restart("kill");

    const second = await SessionSocket.open(reader, "s", { acks: true });
    expect(second.welcome.queued).toBe(MESSAGES / 2);
    const beforeRest = memoryMb(own.bus.pid);
    await second.received(MESSAGES / 2);
    await second.settled();
    expect(memoryMb(own.bus.pid) - beforeRest).toBeLessThan(GROWTH_MAX_MB);
    expect(second.unackedMax).toBeLessThanOrEqual(WINDOW);
    expect(second.items).toHaveLength(MESSAGES / 2);
    expect(textsOf(second.application.messages)).toEqual(texts.slice(MESSAGES / 2));
    const third = await SessionSocket.open(reader, "s");
    await third.settled();
    expect(third.items).toEqual([]);
    await third.end();
  }, 20_000);
});

describe("a network that swallows everything", () => {
  const HEARTBEAT_MS = 250;
  const LIVE_MS = 2 * HEARTBEAT_MS;
  let own: LocalBus;
  beforeAll(async () => {
    const vars = { ...LOADED, HEARTBEAT_MS: String(HEARTBEAT_MS), LIVE_MS: String(LIVE_MS) };
    own = await startBus({ bundle: inject("bundle"), vars });
  });
  afterAll(() => own.stop());

  /** A session that pings through a proxy, until its network is gone and a peer sees it away. */
  async function halfOpen() {
    const proxy = await startBlackHoleProxy(own.port);
    const [agent, [peer]] = await withPeers(own, "s", 1);
    const socket = await SessionSocket.open(agent, "s", { via: proxy.url });
    const beating = setInterval(() => socket.beat(), HEARTBEAT_MS);
    onTestFinished(async () => {
      clearInterval(beating);
      await proxy.close();
    });
    await socket.waitFor(() => socket.pongs >= 2, "two heartbeats");
    const look = async (): Promise<Json> => {
      const { roster, gone, view_at_ms } = accepted(await peer!.roster(agent.key));
      expect(gone).toEqual([]);
      expect(roster).toHaveLength(1);
      return { ...roster[0], heard_at_ms: view_at_ms - roster[0].age_ms };
    };
    expect(await look()).toMatchObject({ connected: true });
    proxy.blackHole();
    const holeAtMs = Date.now();
    let glimpse = await look();
    while (glimpse.age_ms < LIVE_MS) {
      expect(glimpse).toMatchObject({ connected: true }); // silence so short is no silence
      await delay(10);
      glimpse = await look();
    }
    /** The last sign of life came after the last ping whose answer came back, and before the hole. */
    const expectAway = async (): Promise<void> => {
      const { heard_at_ms, age_ms, connected } = await look();
      expect(connected).toBe(false);
      expect(age_ms).toBeGreaterThanOrEqual(LIVE_MS);
      expect(heard_at_ms).toBeGreaterThanOrEqual(socket.pingedAtMs[socket.pongs - 1]! - CLOCKS_MS);
      expect(heard_at_ms).toBeLessThanOrEqual(holeAtMs + CLOCKS_MS);
    };
    await expectAway();
    return { proxy, agent, peer: peer!, socket, look, expectAway };
  }

  it("leaves the session away, with a true age, while its socket is open; its mail waits and drains by a new one", async () => {
    const { proxy, agent, peer, socket, look, expectAway } = await halfOpen();
    expect(proxy.openToTarget()).toBe(1);
    expect(socket.close).toBeUndefined();
    for (const [n, text] of ["one", "two", "three"].entries()) {
      const answer = accepted(await peer.send(agent.route("s"), text));
      expect(answer).toMatchObject({ state: "stored", presence: "away", queued: n + 1 });
      expect(answer.age_ms).toBeGreaterThanOrEqual(LIVE_MS);
    }
    await expectAway(); // what the bus pushed into the void is no sign of life
    expect(proxy.openToTarget()).toBe(1);

    const fresh = await SessionSocket.open(agent, "s", { acks: true, application: socket.application });
    expect(fresh.welcome.queued).toBe(3);
    await fresh.received(3);
    expect(await look()).toMatchObject({ connected: true });
    accepted(await peer.send(agent.route("s"), "four"));
    await fresh.received(4);

    proxy.release(); // what was on its way comes late, and then the end of it
    expect(await socket.closed()).toMatchObject({ code: CLOSE.superseded });
    expect(socket.items.length).toBeLessThanOrEqual(3);
    await fresh.settled();
    expect(textsOf(fresh.application.messages)).toEqual(["one", "two", "three", "four"]);
    expect(await look()).toMatchObject({ connected: true });
    await fresh.end();
  });

  it("and lets go again without the client having noticed: the same socket goes on, live at once", async () => {
    const { proxy, agent, peer, socket, look } = await halfOpen();
    accepted(await peer.send(agent.route("s"), "late"));
    const pongs = socket.pongs;
    proxy.release();
    await socket.received(1);
    await socket.waitFor(() => socket.pongs > pongs, "a heartbeat");
    expect(await look()).toMatchObject({ connected: true });
    expect(socket.close).toBeUndefined();
    socket.ack();
    await socket.settled();
    expect(accepted(await agent.recv({ session: "s", timeoutMs: 0 }))).toEqual({ status: "timeout" });
    await socket.end();
  });
});

describe("a client with 300 ms left to live", () => {
  const LEFT_MS = 300;
  /** Several groups of what the bus calls at once. */
  const PEERS = 16;
  /** Opens a socket, says so, and on a word from outside sends one frame; it is not asked whether that arrived. */
  const CLIENT = `
    const [agentUrl, socketUrl, url, seed, ...routes] = process.argv.slice(1);
    const { Agent } = await import(agentUrl);
    const { SessionSocket } = await import(socketUrl);
    const agent = await Agent.create({ url, seed: Buffer.from(seed, "hex") });
    const socket = await SessionSocket.open(agent, "s");
    socket.announce("short-lived");
    await socket.settled();
    const goodbyes = routes.map((route) => agent.message(route, "goodbye"));
    process.stdin.once("data", () => socket.unregister(goodbyes));
    process.stdout.write("ready");`;

  it(`is gone for its peers, and its ${PEERS} goodbyes are in their inboxes, when it is killed`, async () => {
    const seed = new Uint8Array(32).fill(77);
    const agent = await Agent.create({ url: bus.url, seed });
    const peers = await Promise.all(Array.from({ length: PEERS }, () => newAgent()));
    accepted(await agent.contacts(peers.map(({ key }) => key)));
    for (const peer of peers) accepted(await peer.contacts([agent.key]));
    const support = (file: string) => pathToFileURL(join(import.meta.dirname, "../support", file)).href;
    const args = [support("agent.ts"), support("session-socket.ts"), bus.url, Buffer.from(seed).toString("hex")];
    const routes = peers.map((peer) => peer.route("p"));
    const child = spawn(process.execPath, ["--input-type=module", "-e", CLIENT, ...args, ...routes], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    endWithParent(child);
    await once(child.stdout, "data");
    expect(accepted(await peers[0]!.roster(agent.key)).roster).toMatchObject([{ name: "short-lived" }]);

    child.stdin.write("go");
    await delay(LEFT_MS); // the one wait that is meant: it is all that the client has
    child.kill("SIGKILL");
    await once(child, "exit");
    const { roster, gone } = accepted(await peers[0]!.roster(agent.key));
    expect(roster).toEqual([]);
    expect(gone).toMatchObject([{ session_id: "s" }]);
    for (const peer of peers) {
      const { envelope } = accepted(await peer.recv({ session: "p", timeoutMs: 0 }));
      expect(envelope.payload).toMatchObject({ from: agent.key, text: "goodbye" });
    }
  }, 15_000);
});

describe("a restart of the bus with sockets open", () => {
  for (const how of ["stop", "kill"] as const) {
    it(`(${how}): no session is gone, each comes back, and nothing is lost`, async () => {
      const own = await ownBus();
      const [agent, [peer]] = await withPeers(own.bus, "s", 1);
      accepted(await agent.announce("s2"));
      const sockets = [await SessionSocket.open(agent, "s"), await SessionSocket.open(agent, "s2")];
      for (const text of ["acked", "pushed"]) accepted(await peer!.send(agent.route("s"), text));
      const [socket] = sockets;
      await socket!.received(2);
      socket!.ack(socket!.items[0]!.seq);
      await socket!.settled();
      await own.restart(how);
      for (const each of sockets) expect((await each.closed()).code).toBe(1006); // a broken line, whatever broke it

      const { roster, gone } = accepted(await peer!.roster(agent.key));
      expect(gone).toEqual([]);
      expect(roster.map((each: Json) => each.session.session_id).toSorted()).toEqual(["s", "s2"]);
      for (const each of roster) expect(each).toMatchObject({ connected: false });
      for (const each of roster) expect(each.age_ms).toBeLessThan(5_000);
      accepted(await peer!.send(agent.route("s"), "meanwhile"));
      const again = await SessionSocket.open(agent, "s", { acks: true, application: socket!.application });
      await again.received(2);
      expect(textsOf(again.application.messages)).toEqual(["acked", "pushed", "meanwhile"]);
      expect(textsOf(again.items.map((item) => item.envelope.payload))).toEqual(["pushed", "meanwhile"]);
      await again.end();
    });
  }
});

it("expires no session that only pings, while its silent sibling goes", async () => {
  const [HEARTBEAT_MS, LIVE_MS, AWAY_RETAIN_MS] = [100, 800, 900];
  const own = await ownBus({
    HEARTBEAT_MS: String(HEARTBEAT_MS),
    LIVE_MS: String(LIVE_MS),
    AWAY_RETAIN_MS: String(AWAY_RETAIN_MS),
  });
  const [agent, [peer]] = await withPeers(own.bus, "s", 1);
  accepted(await agent.announce("silent"));
  const sinceMs = Date.now();
  const socket = await SessionSocket.open(agent, "s");
  const beating = setInterval(() => socket.send("ping"), HEARTBEAT_MS);
  onTestFinished(() => clearInterval(beating));
  for (;;) {
    const { roster } = accepted(await peer!.roster(agent.key));
    const ids = roster.map((each: Json) => each.session.session_id);
    expect(ids).toContain("s");
    expect(roster[ids.indexOf("s")].age_ms).toBeLessThan(LIVE_MS);
    if (!ids.includes("silent") && Date.now() - sinceMs > 2.2 * AWAY_RETAIN_MS) break;
    await delay(10);
  }
  await socket.end();
  expect(accepted(await peer!.roster(agent.key)).roster).toHaveLength(1);
});

it("with OVERFLOW=evict tells a socket of what was evicted under it, again on the next, until it has heard", async () => {
  const own = await ownBus({ OVERFLOW: "evict", INBOX_MAX_MESSAGES: "3" });
  const [agent, [peer]] = await withPeers(own.bus, "s", 1);
  const first = await SessionSocket.open(agent, "s");
  for (const text of ["a", "b", "c", "d"]) accepted(await peer!.send(agent.route("s"), text));
  await first.received(4);
  expect(first.of("gap")).toMatchObject([{ count: 1 }]);
  const second = await SessionSocket.open(agent, "s");
  await second.received(3);
  expect(second.of("gap")).toMatchObject([{ count: 1 }]);
  expect(textsOf(second.application.messages)).toEqual(["b", "c", "d"]);
  second.ack();
  await second.settled();
  const third = await SessionSocket.open(agent, "s");
  await third.settled();
  expect(third.of("gap")).toEqual([]);
  await third.end();
});

describe("a client of bad manners", () => {
  it("that goes on sending after it was told to go finds no fault of ours", async () => {
    const own = await ownBus();
    const agent = await newAgent(own.bus);
    accepted(await agent.announce("s"));
    const socket = await SessionSocket.open(agent, "s");
    for (let i = 0; i < 20; i++) socket.send("not JSON");
    expect(await socket.closed()).toMatchObject({ code: CLOSE.tooManyErrors });
    expect(socket.errors).toEqual(["bad_json", "bad_json", "bad_json"]);
    const older = await SessionSocket.open(agent, "s");
    const newer = SessionSocket.open(agent, "s");
    while (!older.close) {
      older.send({ t: "ack", through: Number.MAX_SAFE_INTEGER });
      await delay(0);
    }
    await (await newer).settled();
    expect(faultsOf(own.bus)).toEqual([]);
  });

  const CODES = [
    { code: 1000, why: "as it should be" },
    { code: 4999, why: "its own" },
    { code: undefined, why: "no code at all" },
    { code: 1005, why: "stands for that there was none" },
    { code: 1004, why: "reserved" },
    { code: 1015, why: "stands for a broken TLS" },
    { code: 0, why: "below all" },
    { code: 65_535, why: "above all" },
  ];
  for (const { code, why } of CODES) {
    it(`that closes with ${code ?? "nothing"} (${why}) is silent from then on, not from before`, async () => {
      const CONNECTED_MS = 200;
      const [agent, [peer]] = await withPeers(bus, "s", 1);
      const socket = await rawSocket(agent, "s");
      const sinceMs = Date.now();
      const look = async (): Promise<Json> => {
        const { roster, view_at_ms } = accepted(await peer!.roster(agent.key));
        return { ...roster[0], heard_at_ms: view_at_ms - roster[0].age_ms };
      };
      while (Date.now() < sinceMs + CONNECTED_MS) expect(await look()).toMatchObject({ connected: true });
      socket.write(clientFrame(TEXT, Buffer.from("ping")));
      while (!String(await once(socket, "data")).includes("pong"));
      const payload = Buffer.alloc(code === undefined ? 0 : 2);
      if (code !== undefined) payload.writeUInt16BE(code);
      socket.write(clientFrame(CLOSING, payload));
      let glimpse = await look();
      while (glimpse.connected) glimpse = await look();
      expect(glimpse.heard_at_ms).toBeGreaterThanOrEqual(sinceMs + CONNECTED_MS - CLOCKS_MS);
      socket.destroy();
    });
  }
});

describe("a stranger's handshake makes no object", () => {
  const CASES: readonly { name: string; options: (own: Agent) => SocketOptions; headers?: Record<string, string> }[] = [
    { name: "a token for another bus", options: () => ({ token: { audience: "https://bus.example" } }) },
    { name: "a token for HTTP", options: () => ({ token: { method: "GET" } }) },
    { name: "a token for another session", options: (own) => ({ token: { target: `/socket?me=${own.key}%23s2` } }) },
    { name: "a token from another time", options: () => ({ token: { ts: Date.now() - 3_600_000 } }) },
    { name: "a token that is none", options: () => ({ token: "il1.x" }) },
  ];

  it("whatever is wrong with it", async () => {
    const own = await ownBus();
    const [agent, other] = [await newAgent(own.bus), await newAgent(own.bus)];
    for (const { name, options } of CASES) {
      const outcome = await SessionSocket.dial(agent, "s", options(agent)).then((socket) => socket.closed(), String);
      expect(outcome, name).toEqual(
        name === "a token that is none"
          ? expect.stringContaining("401")
          : { code: CLOSE.notAuthenticated, reason: expect.stringMatching(/^(bad_signature|clock_skew)$/) },
      );
    }
    const theirs = `/socket?me=${encodeURIComponent(other.route("s"))}`;
    const foreign = await rawSocket(agent, "s", { target: theirs }).then((socket) => once(socket, "data"));
    expect(String(foreign)).toContain("not_owner");
    const page = await rawSocket(agent, "s", { headers: { origin: own.bus.url } }).catch(String);
    expect(page).toContain("403");
    expect(await own.bus.objectFiles()).toEqual([]);
    await (await SessionSocket.open(agent, "s")).end(); // while a good one does
    expect(await own.bus.objectFiles()).not.toEqual([]);
  });
});

/** A handshake without a WebSocket client around it, so that anything may be sent after it. */
function rawSocket(
  agent: Agent,
  session: string,
  { target = `/socket?me=${encodeURIComponent(agent.route(session))}`, headers = {} } = {},
): Promise<Socket> {
  const { hostname, port } = new URL(agent.url);
  const asked = request({
    host: hostname,
    port,
    path: target,
    headers: {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": Buffer.alloc(16).toString("base64"),
      "sec-websocket-protocol": `${SUBPROTOCOL}, ${agent.token({ method: "WS", target })}`,
      ...headers,
    },
  });
  return new Promise((resolve, reject) => {
    asked.on("upgrade", (_response, socket, head) => {
      socket.unshift(head);
      resolve(socket);
    });
    asked.on("response", (response) => {
      response.resume();
      reject(new Error(`the handshake was answered with ${response.statusCode}`));
    });
    asked.on("error", reject);
    asked.end();
  });
}

const TEXT = 0x1;
const CLOSING = 0x8;

/** A short frame as a client sends it, with a mask of zeros. */
function clientFrame(opcode: number, payload: Buffer): Buffer {
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | payload.length, 0, 0, 0, 0]), payload]);
}

/** What a bus printed, but for what it says once of a platform without rate limits. */
function faultsOf({ output }: LocalBus): string[] {
  const lines = output().split("\n");
  return lines.filter((line) => line !== "" && !line.startsWith(`{"event":"no_brake"`));
}

/** Resident memory of a process, as `ps` tells it on any Unix. */
function memoryMb(pid: number): number {
  return Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8" })) / 1_024;
}
