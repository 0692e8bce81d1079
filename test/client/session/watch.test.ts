/** The watch: what a bus says of itself is read anew at each event, and only another life of it makes anything be done again. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { WebSocketServer, type WebSocket } from "ws";
import { describe, expect, it, onTestFinished } from "vitest";
import { isRefused, openBuses } from "../../../src/client/session/open-buses.ts";
import { SUBPROTOCOL } from "../../../src/protocol/frames.ts";
import { startStranger } from "../bus/support.ts";
import { isThere, newHome, ok, open, optionsOf, ownBus, pairOf, received, until } from "./support.ts";

/** Impatient, but not so that a minute's dials are over before the bus is back. */
const random = () => 0.2;

/** A bus that counts what is published, and is in the life that the test says. */
async function playBus() {
  const seen = { contacts: 0, announcements: 0, generation: "g1" };
  const { url, server } = await startStranger((request, response) => {
    request.resume();
    const isContacts = request.method === "PUT" && request.url === "/contacts";
    if (isContacts) seen.contacts++;
    const answer = isContacts ? { count: 0, generation: seen.generation } : { error: "internal" };
    response.writeHead(isContacts ? 200 : 500, { "content-type": "application/json" });
    response.end(JSON.stringify(answer));
  });
  let latest: WebSocket | undefined;
  const sockets = new WebSocketServer({ server, handleProtocols: () => SUBPROTOCOL });
  sockets.on("connection", (socket) => {
    latest = socket;
    socket.on("error", () => {});
    socket.on("message", (data) => {
      const text = String(data as Buffer);
      if (text.includes('"announce"')) seen.announcements++;
    });
    const { generation } = seen;
    socket.send(JSON.stringify({ t: "welcome", generation, now_ms: Date.now(), queued: 0, versions: [1] }));
  });
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
  });
  return { url, seen, drop: () => latest!.terminate() };
}

describe("daemon_watch", () => {
  it("a same-incarnation heartbeat leaves healthy bindings alone: nothing is published again but that we are here", async () => {
    const bus = await playBus();
    const ann = await open(newHome("ann"), bus.url, { random });
    ann.begin();
    await until(() => bus.seen.announcements === 1, "the first announcement");
    expect(bus.seen.contacts).toBe(1);
    for (let count = 2; count <= 4; count++) {
      bus.drop();
      await until(() => bus.seen.announcements === count, "the next announcement");
    }
    expect(bus.seen.contacts).toBe(1);
    expect(ann.notices().join("\n")).not.toContain("has lost what it kept");
  });

  it("a same-version restart changes the incarnation: contacts and announcement are published again", async () => {
    const bus = await playBus();
    const ann = await open(newHome("ann"), bus.url, { random });
    ann.begin();
    await until(() => bus.seen.announcements === 1, "the first announcement");
    bus.seen.generation = "g2";
    bus.drop();
    await until(() => bus.seen.announcements === 2, "the second announcement");
    expect(bus.seen.contacts).toBe(2);
    expect(ann.notices().join("\n")).toContain("has lost what it kept");
  });

  it("a failed identity query alone is not proof of loss: the handle stays, and the view is stale with its age", async () => {
    const own = await ownBus();
    const { ann } = await pairOf(own.url, { random });
    ok(await ann.discover("bob"));
    expect((await ann.whoami()).readiness).toMatchObject({ read_roster: "ready", receive: "ready" });
    await own.kill();
    const stale = ok(await ann.discover("bob"));
    expect(stale).toMatchObject({ stale_because: "network", identities: [{ sessions: [{ session: "bob-1" }] }] });
    expect(stale.view_age_ms).toBeGreaterThan(0);
    const me = await ann.whoami();
    expect(me.readiness).toEqual({
      read_roster: "bus_stale",
      send: "ready",
      receive: "not_connected",
      trust: "ready",
      wake: expect.any(String),
    });
    // How it is seen cannot be said, so nothing is said of it: least of all that it is gone.
    expect(me).not.toHaveProperty("presence");
    expect(me.connection).not.toBe("evicted");
    await own.restart();
    await isThere(ann);
  });

  it("a parked bus that was gone and is back with another incarnation gets its mail anew", async () => {
    const [first, second] = [await ownBus(), await ownBus()];
    const { ann: before, bob, homes } = await pairOf(first.url, { random });
    await before.close(1_000);
    const [home] = homes;
    const buses = join(home.dir, "buses.json");
    writeFileSync(buses, JSON.stringify({ first: { url: first.url }, second: { url: second.url } }), { mode: 0o600 });
    const { bus: _, ...options } = optionsOf(home, "");
    const ann = await openBuses({ ...options, random, buses, bus: "first" });
    if (isRefused(ann)) throw new Error(JSON.stringify(ann));
    onTestFinished(() => ann.close(1_000));
    ann.begin();
    await isThere(ann);
    ok(await ann.connectBus("second"));
    await first.kill();
    await until(() => ann.notices().some((line) => line.includes("on the parked bus first: bus")), "its loss");
    // The active one is as well as before.
    expect(await ann.whoami()).toMatchObject({ bus_name: "second", connection: "connected" });
    await first.restart(true);
    const isSeen = async () => ok(await bob.discover("ann")).identities[0]?.sessions[0]?.session === "ann-1";
    await until(isSeen, "ann on the roster of another life");
    const sent = ok(await bob.send({ to: "ann", text: "after the loss", session: "ann-1" }));
    expect(sent.life.state).toMatch(/pending|stored/);
    expect(await received(ann, 1)).toEqual(["after the loss"]);
  });
});
