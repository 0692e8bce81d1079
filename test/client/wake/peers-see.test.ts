/**
 * What a peer sees of how a session is woken: a real bus, two sessions, a host's inbox that is a real socket, and the desk
 * that wakes it. Shown while a wake was answered, taken back when it was not, and left away at a bus that knows nothing of it.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer, request as requestHttp, type IncomingMessage } from "node:http";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { systemTimers, type Timers } from "../../../src/client/bus/timers.ts";
import type { Agent, DiscoveredSession } from "../../../src/client/session/agent.ts";
import { isRefused, openBuses } from "../../../src/client/session/open-buses.ts";
import { hookPlace } from "../../../src/client/wake/hook-address.ts";
import { askAgent } from "../../../src/client/wake/hook-client.ts";
import { ThreadBook } from "../../../src/client/wake/thread-book.ts";
import { WakeDesk } from "../../../src/client/wake/wake-desk.ts";
import { SUBPROTOCOL } from "../../../src/protocol/frames.ts";
import { begin, isThere, newHome, ok, optionsOf, pair, until } from "../session/support.ts";

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

/** A wake that was not answered is repeated after minutes: here, when the test says so. */
class HeldTimers implements Timers {
  readonly #held = new Map<object, () => void>();
  now = (): number => Date.now();

  setTimeout(run: () => void, delayMs: number): unknown {
    if (delayMs < 60_000) return systemTimers.setTimeout(run, delayMs);
    const handle = {};
    this.#held.set(handle, run);
    return handle;
  }

  clearTimeout(handle: unknown): void {
    if (!this.#held.delete(handle as object)) systemTimers.clearTimeout(handle);
  }

  release(): void {
    const due = [...this.#held.values()];
    this.#held.clear();
    for (const run of due) run();
  }
}

/** A host's inbox of a session: what was written there. */
async function hostInbox(): Promise<{ path: string; wakes: string[] }> {
  const folder = mkdtempSync(join(tmpdir(), "interlink-inbox-"));
  const path = join(folder, "inbox");
  const wakes: string[] = [];
  const server = createServer((socket) => {
    let text = "";
    socket.on("data", (data) => (text += String(data)));
    socket.on("end", () => {
      wakes.push(text);
      socket.end();
    });
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  onTestFinished(() => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { path, wakes };
}

/** Ann, and bob at a host with an inbox, on buses that may be others; they are peers. */
async function people(bobsBus = bus.url) {
  const timers = new HeldTimers();
  const inbox = await hostInbox();
  const ann = await begin(newHome("ann"), bus.url);
  const home = newHome("bob");
  const options = { ...optionsOf(home, bobsBus, { timers, audience: bus.url }), buses: join(home.dir, "buses.json") };
  const bob = await openBuses({ ...options, goesOn: false });
  if (isRefused(bob)) throw new Error(JSON.stringify(bob));
  onTestFinished(() => bob.close(1_000));
  const log = () => {};
  const place = hookPlace(join(home.dir, "hooks"), process.platform, true)!;
  const desk = new WakeDesk({
    wish: "auto",
    host: { socket: inbox.path },
    place,
    book: new ThreadBook({ isPinned: true, log }),
    timers,
    log,
  });
  onTestFinished(() => desk.close());
  desk.attach(bob);
  bob.begin();
  await isThere(bob);
  await pair(ann, "bob", bob, "ann");
  const look = () => bob.checkMessages({ max: 64, maxBytes: 1_000_000 });
  /** Ann writes, and bob's host is told of it. */
  const wake = async (text: string) => {
    const before = inbox.wakes.length;
    ok(await ann.send({ to: "bob", text }));
    await until(() => inbox.wakes.length > before, "a wake");
  };
  return { ann, bob, place, timers, inbox, look, wake };
}

/** Bob's session, as another sees it. */
async function seenBy(agent: Agent, name: string): Promise<DiscoveredSession> {
  const { identities } = ok(await agent.discover(name));
  expect(identities[0]!.sessions).toHaveLength(1);
  return identities[0]!.sessions[0]!;
}
const isShown = (agent: Agent, name = "bob") =>
  until(async () => (await seenBy(agent, name)).wake, "what wakes bob is shown");
const isHidden = (agent: Agent, name = "bob") =>
  until(async () => (await seenBy(agent, name)).wake === undefined, "what wakes bob is not shown");

describe("a peer's discover", { timeout: 60_000 }, () => {
  it("says by which path a wake was answered and how long ago, and no more once two were not", async () => {
    const { ann, timers, inbox, look, wake, bob } = await people();
    expect(await seenBy(ann, "bob")).not.toHaveProperty("wake");
    await wake("one");
    expect(await seenBy(ann, "bob")).not.toHaveProperty("wake"); // that a socket takes bytes proves nothing
    await look();
    const shown = await isShown(ann);
    expect(shown).toEqual({ path: "inbox_socket", proven_age_ms: expect.any(Number) });
    expect(shown.proven_age_ms).toBeLessThan(15_000);
    expect(await isShown(bob, "self")).toMatchObject({ path: "inbox_socket" });

    await wake("two");
    expect(await seenBy(ann, "bob")).toHaveProperty("wake"); // one that is not answered yet is no sign
    timers.release();
    await until(() => inbox.wakes.length === 3, "the repeat");
    await isHidden(ann);
    await look();
    expect(await isShown(ann)).toMatchObject({ path: "inbox_socket" });
  });

  it("says nothing of it any more when the path is bound to another inbox", async () => {
    const { ann, look, wake, inbox, place } = await people();
    await wake("one");
    await look();
    await isShown(ann);
    const other = await hostInbox();
    // As a hook of the host says it.
    const bind = { ask: "bind", source: "startup", thread: "t", socket: other.path } as const;
    const talk = await askAgent(place, { socket: inbox.path }, bind);
    expect(talk?.first).toEqual({ say: "done" });
    talk?.close();
    await isHidden(ann);
    ok(await ann.send({ to: "bob", text: "two" }));
    await until(() => other.wakes.length > 0, "a wake by the other inbox");
    await look();
    expect(await isShown(ann)).toMatchObject({ path: "inbox_socket" });
  });

  it("is not for strangers: they see the session, and not what wakes it", async () => {
    const { ann, bob, look, wake } = await people();
    const { key } = await bob.whoami();
    await wake("one");
    await look();
    await isShown(ann);
    const stranger = await begin(newHome("eve"), bus.url);
    const { identities } = ok(await stranger.discover());
    const seen = identities.find((each) => each.key === key)!.sessions;
    expect(seen).toMatchObject([{ name: "bob" }]);
    expect(seen[0]).not.toHaveProperty("wake");
  });
});

/**
 * A bus of before: it refuses a field that it does not know, and is a real one otherwise.
 * @returns how many announcements told of wakes, for each socket
 */
async function olderBus() {
  const leased: number[] = [];
  const server = createHttpServer((request: IncomingMessage, response) => {
    const { method, url: path, headers } = request;
    const onward = requestHttp(bus.url + path!, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  });
  const sockets = new WebSocketServer({ server, handleProtocols: () => SUBPROTOCOL });
  sockets.on("connection", (near, { url: path, headers }) => {
    const offered = headers["sec-websocket-protocol"]!.split(",").map((word) => word.trim());
    const far = new WebSocket(bus.url.replace(/^http/, "ws") + path!, offered);
    const index = leased.push(0) - 1;
    const waiting: string[] = [];
    const forward = (text: string) => (far.readyState === WebSocket.OPEN ? far.send(text) : waiting.push(text));
    far.on("open", () => waiting.forEach((text) => far.send(text)));
    far.on("message", (data) => near.send(String(data)));
    for (const [one, other] of [
      [far, near],
      [near, far],
    ] as const) {
      one.on("close", () => other.terminate());
      one.on("error", () => other.terminate());
    }
    near.on("message", (data) => {
      const text = String(data);
      const { wake } = text === "ping" ? {} : JSON.parse(text);
      if (wake === undefined) return void forward(text);
      leased[index]!++;
      near.send(JSON.stringify({ t: "err", error: "unknown_field", message: "A field is not part of this request." }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate();
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    leased,
    cut: () => {
      for (const socket of sockets.clients) socket.terminate();
    },
  };
}

describe("a bus that is older", { timeout: 60_000 }, () => {
  it("has the session all the time, is told of wakes once a connection, and shows nothing of them", async () => {
    const older = await olderBus();
    const { ann, bob, look, wake } = await people(older.url);
    await wake("one");
    await look();
    await until(() => older.leased[0] === 1, "it is told");
    const before = await seenBy(ann, "bob");
    expect(before).toMatchObject({ presence: "live" });
    expect(before).not.toHaveProperty("wake");
    // What is announced behind the refusal is taken, so it is without a lease.
    ok(await bob.setSummary("still here"));
    await until(async () => (await seenBy(ann, "bob")).summary === "still here", "the summary");
    await wake("two");
    await look();
    expect((await bob.whoami()).connection).toBe("connected");
    expect(older.leased).toEqual([1]);

    older.cut();
    await until(() => older.leased[1] === 1, "it is told on the next connection");
    await isThere(bob);
    ok(await bob.setSummary("here again"));
    await until(async () => (await seenBy(ann, "bob")).summary === "here again", "the summary, again");
    expect(older.leased).toEqual([1, 1]);
    expect(await seenBy(ann, "bob")).not.toHaveProperty("wake");
  });
});
