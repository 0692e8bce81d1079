/** Several buses on real ones: switch, park, mail by a parked one, the ninth, leaving, and being there again. */

import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { WebSocketServer } from "ws";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import type { BusAgent } from "../../../src/client/session/buses.ts";
import { isRefused, openBuses, type BusesOptions } from "../../../src/client/session/open-buses.ts";
import { isToolRefusal } from "../../../src/client/session/agent.ts";
import { SUBPROTOCOL } from "../../../src/protocol/frames.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import { startStranger } from "../bus/support.ts";
import {
  begin,
  isThere,
  newHome,
  ok,
  optionsOf,
  ownBus,
  pair,
  reaches,
  received,
  until,
  type Home,
} from "./support.ts";

let one: LocalBus;
let two: LocalBus;
beforeAll(async () => {
  const vars = { LOG: "faults" };
  [one, two] = await Promise.all([
    startBus({ bundle: inject("bundle"), vars }),
    startBus({ bundle: inject("bundle"), vars }),
  ]);
});
afterAll(() => Promise.all([one.stop(), two.stop()]));

/** Impatient, but not so that a minute's dials are over before the bus is back. */
const random = () => 0.2;

type Named = Readonly<Record<string, object>>;

const fileOf = ({ dir }: Home) => join(dir, "buses.json");
const name = (home: Home, buses: Named) => writeFileSync(fileOf(home), JSON.stringify(buses), { mode: 0o600 });

type Options = Partial<BusesOptions> & { readonly isUnnamed?: boolean };

/** An agent on all its buses, closed with its test. */
async function openOn(home: Home, bus: string | undefined, { isUnnamed = false, ...options }: Options = {}) {
  const { bus: _, name: ours, ...others } = optionsOf(home, "");
  const rest = isUnnamed ? others : { ...others, name: ours! };
  const agent = await openBuses({
    ...rest,
    goesOn: false,
    random,
    buses: fileOf(home),
    ...(bus !== undefined && { bus }),
    ...options,
  });
  if (isRefused(agent)) throw new Error(JSON.stringify(agent));
  onTestFinished(() => agent.close(1_000));
  return agent;
}

async function beginOn(home: Home, bus: string | undefined, options: Options = {}): Promise<BusAgent> {
  const agent = await openOn(home, bus, options);
  agent.begin();
  await isThere(agent);
  return agent;
}

const rolesOf = async (agent: BusAgent) =>
  Object.fromEntries((await agent.listBuses()).buses.map(({ name: bus, role }) => [bus, role]));

/** How a session is seen on a bus, by another session of its identity. */
async function seenOn(bus: string, home: Home, session: string): Promise<string | undefined> {
  const look = await begin(home, bus, { session: "look" });
  const { identities } = ok(await look.discover("self"));
  const found = identities.flatMap(({ sessions }) => sessions).find((each) => each.session === session);
  await look.close(1_000);
  return found?.presence;
}

describe("Active and Parked Sessions", () => {
  it("switching targets parks the previous: it keeps its socket, its presence and its mail, which is named", async () => {
    const home = newHome("ann");
    name(home, { first: { url: one.url }, second: { url: two.url } });
    const ann = await beginOn(home, one.url);
    const bobs = newHome("bob");
    const bob = await begin(bobs, one.url);
    await pair(ann, "bob", bob, "ann");
    ann.notices();

    expect(await ann.connectBus("second")).toMatchObject({ name: "second", role: "active", connection: "connected" });
    await isThere(ann);
    expect(await rolesOf(ann)).toEqual({ first: "parked", second: "active" });
    expect(await ann.whoami()).toMatchObject({
      bus: two.url,
      bus_name: "second",
      parked: ["first"],
      last_drop: { what: "switched", bus: "first", mend: { tool: "connect_bus", bus: "first" } },
    });
    // Bob sees it there still, and writes to it.
    const [seen] = ok(await bob.discover("ann")).identities;
    expect(seen!.sessions).toMatchObject([{ session: "ann-1", presence: "live", connected: true }]);
    const sent = ok(await bob.send({ to: "ann", text: "by the parked one" }));
    await reaches(bob, sent, "acked");
    expect(ann.notices().join("\n")).toMatch(/on the parked bus first: unread: 1 \(1 from bob\)/);
    const { messages, left } = await ann.checkMessages({ max: 5, maxBytes: 10_000 });
    expect(messages).toMatchObject([{ bus: "first", body: "by the parked one" }]);
    expect(left).toBe(0);
    const [{ msg_id } = { msg_id: "" }] = messages;
    // It can be read where it is, and answered only there.
    expect(ok(await ann.readMessage(msg_id, 0)).body).toBe("by the parked one");
    expect(await ann.send({ to: "bob", text: "yes", in_reply_to: msg_id })).toMatchObject({
      code: "unknown_message",
      connect: "first",
    });
    ok(await ann.connectBus("first"));
    ok(await ann.send({ to: "bob", text: "yes", in_reply_to: msg_id }));
    expect(await received(bob, 1)).toEqual(["yes"]);
  });

  it("what a parked bus brought counts as read by an agent, wherever it writes next", async () => {
    const home = newHome("ann");
    name(home, { first: { url: one.url }, second: { url: two.url } });
    const ann = await beginOn(home, one.url);
    const bobs = newHome("bob");
    const [here, there] = [await begin(bobs, one.url), await begin(bobs, two.url, { session: "bob-2" })];
    await pair(ann, "bob", here, "ann");
    ok(await ann.connectBus("second"));
    await isThere(ann);
    // Both know each other already; the second bus is told so by each.
    await until(async () => !isToolRefusal(await ann.discover("bob")), "bob");
    ok(await here.send({ to: "ann", text: "hello" }));
    await received(ann, 1);
    let refused;
    for (let count = 0; count < 40 && !refused; count++) {
      const sent = await ann.send({ to: "bob", text: `reply ${count}`, session: "bob-2" });
      refused = isToolRefusal(sent) ? sent : undefined;
    }
    expect(refused).toMatchObject({ code: "budget_spent" });
    expect(await there.whoami()).toMatchObject({ connection: "connected" });
  });

  it("each bus may have its own key: another identity, and neither tells of the other", async () => {
    const home = newHome("ann");
    name(home, { first: { url: one.url }, second: { url: two.url, key: "second.key" } });
    const ann = await beginOn(home, one.url, { isUnnamed: true });
    const before = await ann.whoami();
    ok(await ann.connectBus("second"));
    const after = await ann.whoami();
    expect(existsSync(join(home.dir, "second.key"))).toBe(true);
    expect(after.key).not.toBe(before.key);
    expect(after.name).toBe(after.fingerprint);
    expect(after.session).toBe(before.session);
    // Two identities and two buses: two files of the session.
    expect(readdirSync(join(home.dir, "sessions")).filter((file) => /^ann-1-.*\.db$/.test(file))).toHaveLength(2);
  });

  it("explicit parked-session disconnect: goodbye there, and the active one stays", async () => {
    const home = newHome("ann");
    name(home, { first: { url: one.url }, second: { url: two.url } });
    const ann = await beginOn(home, one.url);
    ok(await ann.connectBus("second"));
    expect(ok(await ann.disconnectBus("first"))).toEqual({ name: "first" });
    expect(await rolesOf(ann)).toEqual({ first: "named", second: "active" });
    expect(await seenOn(one.url, home, "ann-1")).toBeUndefined();
  });

  it("the ninth parked bus ends the least recently used, with a goodbye there", { timeout: 60_000 }, async () => {
    const home = newHome("ann");
    // One bus under ten keys is ten targets: another identity is another place to be.
    const names = Array.from({ length: 10 }, (_, index) => `b${index}`);
    name(home, Object.fromEntries(names.map((each) => [each, { url: two.url, key: `${each}.key` }])));
    const ann = await beginOn(home, "b0");
    const homeKey = (await ann.whoami()).key;
    const bob = await begin(newHome("bob"), two.url);
    await pair(ann, "bob", bob, "ann");
    ok(await ann.send({ to: "bob", text: "hello" }));
    await received(bob, 1);
    for (const each of names.slice(1, 9)) ok(await ann.connectBus(each));
    expect(Object.values(await rolesOf(ann)).filter((role) => role === "parked")).toHaveLength(8);
    expect(await ann.connectBus("b9")).toMatchObject({ name: "b9", role: "active" });
    const roles = await rolesOf(ann);
    expect(Object.values(roles).filter((role) => role === "parked")).toHaveLength(8);
    expect(roles).toMatchObject({ b0: "named", b1: "parked", b9: "active" });
    await until(() => bob.notices().some((line) => line.includes("has ended")), "its goodbye");
    const { identities } = ok(await bob.discover(homeKey));
    expect(identities[0]!.sessions).toEqual([]);
  });
});

describe("The Session-Write Guard", () => {
  it("explicit disconnect cancels automatic rejoin, also over a restart", async () => {
    const home = newHome("ann");
    name(home, { first: { url: one.url }, second: { url: two.url } });
    const ann = await beginOn(home, one.url);
    ok(await ann.disconnectBus());
    expect(await seenOn(one.url, home, "ann-1")).toBeUndefined();
    expect(await ann.send({ to: "self", text: "x" })).toEqual({ code: "not_connected", connect: "first" });
    expect(await ann.disconnectBus()).toEqual({ code: "not_connected", connect: "first" });
    expect(await ann.whoami()).toMatchObject({
      connection: "disconnected",
      readiness: { read_roster: "not_connected", send: "not_connected", receive: "not_connected", trust: "ready" },
      last_drop: { what: "disconnected", reason: "asked", mend: { tool: "connect_bus", bus: "first" } },
    });
    expect(ann.notices().join("\n")).toContain('until you call connect_bus with bus="first"');
    // Trust needs files alone.
    expect(await ann.peers()).toEqual([]);
    await ann.close(1_000);

    const again = await openOn(home, one.url, { goesOn: true });
    again.begin();
    expect(await again.whoami()).toMatchObject({
      connection: "disconnected",
      last_drop: { what: "disconnected", bus: "first", mend: { tool: "connect_bus", bus: "first" } },
    });
    expect(await seenOn(one.url, home, "ann-1")).toBeUndefined();
    expect(await again.connectBus("first")).toMatchObject({ role: "active", connection: "connected" });
    await isThere(again);
  });

  it("a restart of the process is where the one before was: the active bus, and the parked ones", async () => {
    const home = newHome("ann");
    name(home, { first: { url: one.url }, second: { url: two.url } });
    const ann = await beginOn(home, one.url);
    ok(await ann.connectBus("second"));
    await ann.close(1_000);
    const again = await beginOn(home, one.url, { goesOn: true });
    await until(async () => (await rolesOf(again))["first"] === "parked", "the parked one");
    expect(await rolesOf(again)).toEqual({ first: "parked", second: "active" });
    await again.close(1_000);
    // Another beginning of the session goes where its settings say.
    const anew = await beginOn(home, one.url, { goesOn: false });
    expect(await rolesOf(anew)).toEqual({ first: "active", second: "named" });
  });

  it("a bus that cannot be reached leaves the healthy session in place", async () => {
    const home = newHome("ann");
    const dead = await ownBus();
    name(home, { first: { url: one.url }, dead: { url: dead.url } });
    const ann = await beginOn(home, one.url);
    await dead.kill();
    expect(await ann.connectBus("dead")).toMatchObject({ code: "not_connected", detail: "network ECONNREFUSED" });
    expect(await rolesOf(ann)).toEqual({ first: "active", dead: "named" });
    expect((await ann.whoami()).presence?.presence).toBe("live");
    await dead.restart();
    expect(await ann.connectBus("dead")).toMatchObject({ role: "active", connection: "connected" });
  });
});

describe("Session Drop Tracking", () => {
  it("Disconnected: another process of the session said goodbye, and connect_bus is the call that mends it", async () => {
    const home = newHome("ann");
    const ann = await beginOn(home, one.url);
    // The same key and session id with files elsewhere: another machine, say.
    const other = newHome("ann");
    mkdirSync(join(other.dir, "sessions"), { mode: 0o700 });
    const key = join(home.dir, "id.key");
    // Each throws the other out; the twin takes its time to come back, and says goodbye while the socket is ours.
    const twin = await begin(other, one.url, { key, session: "ann-1", random: () => 0.99 });
    await until(async () => (await twin.whoami()).reason === "closed 4409", "our return");
    await until(async () => (await ann.whoami()).connection === "connected", "our return");
    await twin.close(1_000);
    await until(async () => (await ann.whoami()).reason === "unregistered", "the goodbye of another");
    const me = await ann.whoami();
    expect(me).toMatchObject({
      connection: "disconnected",
      readiness: { receive: "not_connected", send: "ready" },
      last_drop: { what: "disconnected", reason: "unregistered", mend: { tool: "connect_bus", bus: one.url } },
    });
    expect(await ann.connectBus(one.url)).toMatchObject({ role: "active", connection: "connected" });
    await isThere(ann);
    expect(await ann.whoami()).not.toHaveProperty("last_drop");
  });

  it("Evicted: a definitive refusal is not retried, and told with what mends it", async () => {
    const home = newHome("ann");
    const closed = await ownBus({ ADMISSION: "join" });
    name(home, { first: { url: one.url }, closed: { url: closed.url } });
    const ann = await beginOn(home, one.url);
    expect(await ann.connectBus("closed")).toMatchObject({ code: "not_admitted", connect: "closed" });
    expect(await rolesOf(ann)).toEqual({ first: "active", closed: "named" });
    await ann.close(1_000);

    const there = await openOn(home, "closed");
    there.begin();
    await until(async () => (await there.whoami()).connection === "evicted", "the refusal");
    expect(await there.whoami()).toMatchObject({
      readiness: { receive: "not_admitted", send: "ready", trust: "ready" },
      last_drop: { what: "evicted", reason: "not_admitted", mend: { tool: "connect_bus", bus: "closed" } },
    });
  });
});

describe("daemon_watch", () => {
  it("a version that this client cannot speak: it asks to be replaced, once it is the active bus's", async () => {
    const home = newHome("ann");
    let isAsked = 0;
    const strange = await startStranger((_, response) => response.writeHead(404).end());
    const sockets = new WebSocketServer({ server: strange.server, handleProtocols: () => SUBPROTOCOL });
    const welcome = { t: "welcome", generation: "g", queued: 0, versions: [999] };
    sockets.on("connection", (socket) => socket.send(JSON.stringify({ ...welcome, now_ms: Date.now() })));
    const ann = await openOn(home, strange.url, { onTooOld: () => void isAsked++ });
    ann.begin();
    await until(() => isAsked > 0, "the question");
    expect(isAsked).toBe(1);
    expect(await ann.whoami()).toMatchObject({
      reason: "client_too_old",
      readiness: { receive: "client_too_old" },
      last_drop: { what: "disconnected", mend: { tool: "reconnect" } },
    });
  });
});

describe("the user's file", () => {
  it("is the only way to a bus without their word", async () => {
    const home = newHome("ann");
    name(home, { first: { url: one.url } });
    const ann = await beginOn(home, undefined);
    expect((await ann.whoami()).bus_name).toBe("first");
    expect(await ann.connectBus(two.url)).toEqual({ code: "unlisted_bus", detail: fileOf(home) });
    const { key, isListed } = ok(await ann.findBus(two.url));
    expect(isListed).toBe(false);
    expect(await ann.connectBus(two.url, Operator.attest(key, "elicitation"))).toMatchObject({ role: "active" });
    expect(await ann.connectBus("nowhere")).toMatchObject({
      code: "unknown_bus",
      candidates: expect.arrayContaining(["first"]),
    });
    expect(await ann.connectBus("http://10.0.0.1")).toEqual({ code: "bad_bus_url", detail: "not_https" });
    expect(ok(await ann.findBus(`${one.url}/`))).toMatchObject({ name: "first", isListed: true });
  });

  it("with a fault in it stops no session on a bus that needs no file, and connects to none", async () => {
    const home = newHome("ann");
    writeFileSync(fileOf(home), `{"first": {"url": "${one.url}", "keyfile": "x"}}`, { mode: 0o600 });
    const ann = await beginOn(home, one.url);
    expect(await ann.connectBus("first")).toEqual({
      code: "bad_file",
      detail: `${fileOf(home)} (unknown_field at first)`,
    });
    expect((await ann.listBuses()).badFile).toMatchObject({ code: "bad_file" });
    const { bus: _, ...rest } = optionsOf(home, "");
    expect(await openBuses({ ...rest, session: "ann-2", buses: fileOf(home) })).toMatchObject({
      refused: "buses_file",
    });
  });
});
