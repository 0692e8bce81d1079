/** One session's connection: against a real bus that is killed, restarted and out of reach, with time moved by hand. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { startBus, type LocalBus, type Variables } from "../../../scripts/local-bus.ts";
import { ATTEMPTS_PER_MINUTE_MAX, BACKOFF_MAX_MS } from "../../../src/client/bus/backoff.ts";
import { BusClock } from "../../../src/client/bus/clock.ts";
import { DIAL_MAX_MS, PONG_MAX_MS, TAKEOVERS_MAX } from "../../../src/client/bus/connection-state.ts";
import { signAnnouncement, signUnregister } from "../../../src/client/bus/sign-presence.ts";
import { CLOSE } from "../../../src/protocol/frames.ts";
import type { Signer } from "../../support/agent.ts";
import { startBlackHoleProxy } from "../../support/black-hole-proxy.ts";
import { httpOf, newSigner, ok, outgoing, Rig, routeOf, sid, startStranger, textsOf } from "./support.ts";

const HEARTBEAT_MS = 30_000;
const DAY_MS = 86_400_000;

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

/** A bus of one test's own, with a state that outlives its process. */
async function ownBus(vars: Variables = {}) {
  const dir = await mkdtemp(join(tmpdir(), "interlink-connection-"));
  const options = { bundle: inject("bundle"), dir, vars: { LOG: "faults", ...vars } };
  let running = await startBus(options);
  const { url, port } = running;
  onTestFinished(async () => {
    await running.stop();
    await rm(dir, { recursive: true, force: true });
  });
  return {
    url,
    port,
    kill: () => running.kill(),
    async restart() {
      running = await startBus({ ...options, port });
    },
  };
}

/** A peer that may write to a session `s`, and whom it may write to. */
async function withPeer(url: string) {
  const [own, peer] = [await newSigner(), await newSigner()];
  const [ofOwn, ofPeer] = [httpOf(url, own), httpOf(url, peer)];
  ok(await ofOwn.contacts([peer.key]));
  ok(await ofPeer.contacts([own.key]));
  const write = async (...texts: string[]) => {
    for (const text of texts) ok(await ofPeer.send(outgoing(peer, routeOf(own.key, "s"), text)));
  };
  return { own, peer, ofOwn, ofPeer, write };
}

const announcementOf = (signer: Signer, ts: number) =>
  signAnnouncement(signer, { name: "agent", session: { session_id: sid("s") } }, ts);

describe("mail", () => {
  it("flows; what is acked is gone, what is not comes again after the bus was killed, and only that", async () => {
    const own = await ownBus();
    const { own: signer, ofPeer, write } = await withPeer(own.url);
    await write("waiting");
    const rig = new Rig(own.url, signer);
    await rig.welcomed();
    const { generation, queued } = rig.welcomes[0]!;
    expect(queued).toBe(1);
    expect(rig.connection.announce(announcementOf(signer, rig.clock.nextTs()))).toBe(true);
    await write("acked", "kept");
    await rig.received(3);
    expect(textsOf(rig.items)).toEqual(["waiting", "acked", "kept"]);
    expect(rig.connection.ack(rig.items[1]!.seq, generation)).toBe(true);
    await write("last"); // behind the ack, so it is done when this is here
    await rig.received(4);
    expect(ok(await ofPeer.rosterOf(signer.key)).roster).toMatchObject([{ name: "agent", connected: true }]);

    await own.kill();
    expect(await rig.reaches("waiting")).toMatchObject({ why: { closed: 1006 } });
    expect(rig.connection.ack(rig.items[3]!.seq, generation)).toBe(false); // there is nobody to tell
    await own.restart();
    rig.timers.advance(BACKOFF_MAX_MS);
    await rig.welcomed(2);
    expect(rig.welcomes[1]).toMatchObject({ generation, queued: 2 });
    await rig.received(6);
    expect(textsOf(rig.items.slice(4))).toEqual(["kept", "last"]);
    expect(rig.connection.ack(rig.items[5]!.seq, generation)).toBe(true); // the same numbers, since the same life
    expect(rig.refusals).toEqual([]);
  });

  it("is not acked but on a socket that it came by, in the life that numbered it", async () => {
    const { own, write } = await withPeer(bus.url);
    const rig = new Rig(bus.url, own);
    await rig.welcomed();
    await write("text");
    await rig.received(1);
    const { generation } = rig.welcomes[0]!;
    const { seq } = rig.items[0]!;
    expect(rig.connection.ack(seq, "another life")).toBe(false);
    expect(rig.connection.ack(seq + 1, generation)).toBe(false);
    expect(rig.connection.ack(seq, generation)).toBe(true);
  });

  it("goes on over a thousand messages, acked as they come", async () => {
    const own = await ownBus({ RATE_PER_S: "100000" });
    const { own: signer, peer, ofPeer } = await withPeer(own.url);
    const rig = new Rig(own.url, signer, { acks: true });
    await rig.welcomed();
    const to = routeOf(signer.key, "s");
    for (let n = 0; n < 1_024; n += 64) {
      const batch = Array.from({ length: 64 }, (_, i) => outgoing(peer, to, String(n + i)));
      for (const result of ok(await ofPeer.sendBatch(batch))) expect(result).toMatchObject({ state: "stored" });
    }
    await rig.received(1_024);
    expect(textsOf(rig.items)).toEqual(Array.from({ length: 1_024 }, (_, n) => String(n)));
  });

  it("that was lost without our ack is told", async () => {
    const own = await ownBus({ OVERFLOW: "evict", INBOX_MAX_MESSAGES: "2" });
    const { own: signer, write } = await withPeer(own.url);
    await write("a", "b", "c");
    const rig = new Rig(own.url, signer);
    await rig.received(2);
    expect(rig.gaps).toMatchObject([{ count: 1 }]);
  });
});

describe("another process that is the same session", () => {
  it("takes over, and after a short fight both cannot go on: one stops and says why", async () => {
    const signer = await newSigner();
    const rigs = [new Rig(bus.url, signer), new Rig(bus.url, signer)];
    const isOver = () => rigs.some((rig) => rig.connection.state.at === "stopped");
    for (let turn = 0; !isOver() && turn < 100; turn++) {
      await Promise.race(
        rigs.map((rig) => rig.until(() => rig.connection.state.at === "waiting" || isOver(), "a loser")),
      );
      for (const rig of rigs) {
        if (rig.connection.state.at !== "waiting") continue;
        const { length } = rig.welcomes;
        rig.timers.advance(5_000);
        await rig.until(() => rig.welcomes.length > length || rig.connection.state.at === "stopped", "a turn");
      }
    }
    const [loser] = rigs.filter((rig) => rig.connection.state.at === "stopped");
    const winner = rigs.find((rig) => rig !== loser)!;
    expect(loser!.connection.state).toEqual({ at: "stopped", why: { by: "superseded" } });
    const losses = loser!.states.filter((state) => state.at === "waiting");
    expect(losses).toHaveLength(TAKEOVERS_MAX);
    expect(losses[0]).toMatchObject({ why: { closed: CLOSE.superseded } });
    await winner.reaches("open");
  });
});

describe("a goodbye", () => {
  it("is one frame: the bus has it, has sent on the goodbyes, and says so; nothing is dialled after it", async () => {
    const { own, peer, ofPeer } = await withPeer(bus.url);
    const rig = new Rig(bus.url, own);
    await rig.welcomed();
    rig.connection.announce(announcementOf(own, rig.clock.nextTs()));
    const goodbye = outgoing(own, routeOf(peer.key, "p"), "bye");
    const said = signUnregister(own, sid("s"), rig.clock.nextTs());
    const [first, second] = [rig.connection.unregister(said, [goodbye]), rig.connection.unregister(said)];
    expect(await first).toBe("unregistered");
    expect(await second).toBe("unregistered");
    expect(rig.connection.state).toEqual({ at: "stopped", why: { by: "unregister", isConfirmed: true } });
    expect(ok(await ofPeer.rosterOf(own.key))).toMatchObject({ roster: [], gone: [{ session_id: "s" }] });
    expect(ok(await ofPeer.recv(sid("p"), { timeoutMs: 0 })).items).toHaveLength(1);
    rig.timers.advance(DAY_MS);
    expect(rig.dials).toBe(1);
    expect(await rig.connection.unregister(said)).toBe("not_connected");
  });

  it("that is dated by a wrong clock is refused at once, and the clock is right for saying it over HTTP", async () => {
    const { own, ofOwn, ofPeer } = await withPeer(bus.url);
    const rig = new Rig(bus.url, own);
    await rig.welcomed();
    rig.connection.announce(announcementOf(own, rig.clock.nextTs()));
    const early = signUnregister(own, sid("s"), rig.clock.now() - DAY_MS);
    expect(await rig.connection.unregister(early)).toBe("refused");
    expect(rig.connection.state.at).toBe("stopped");
    ok(await ofOwn.unregister((ts) => signUnregister(own, sid("s"), ts)));
    expect(ok(await ofPeer.rosterOf(own.key))).toMatchObject({ roster: [], gone: [{ session_id: "s" }] });
  });

  it("that nobody answers is over in a quarter of a second, and is not called done", async () => {
    const { own } = await withPeer(bus.url);
    const proxy = await startBlackHoleProxy(bus.port);
    onTestFinished(() => proxy.close());
    const rig = new Rig(proxy.url, own, { audience: bus.url });
    await rig.welcomed();
    proxy.blackHole();
    const farewell = rig.connection.unregister(signUnregister(own, sid("s"), rig.clock.nextTs()));
    rig.timers.advance(250);
    expect(await farewell).toBe("unconfirmed");
    expect(rig.connection.state).toMatchObject({ why: { by: "unregister", isConfirmed: false } });
  });

  it("without a socket says so at once, for HTTP, and ends the dialling all the same", async () => {
    const { url } = await startStranger(() => {});
    const signer = await newSigner();
    const rig = new Rig(url, signer);
    const said = signUnregister(signer, sid("s"), rig.clock.nextTs());
    expect(await rig.connection.unregister(said)).toBe("not_connected");
    expect(rig.connection.state.at).toBe("stopped");
    expect(rig.timers.isIdle).toBe(true);
  });

  it("of this session that came by another way ends the connection too", async () => {
    const { own, ofOwn } = await withPeer(bus.url);
    const rig = new Rig(bus.url, own);
    await rig.welcomed();
    ok(await ofOwn.unregister((ts) => signUnregister(own, sid("s"), ts)));
    expect(await rig.reaches("stopped")).toMatchObject({ why: { by: "unregister", isConfirmed: true } });
  });
});

describe("clocks", () => {
  it.each([-5 * 60_000, 5 * 60_000])("one that is %i ms off is learned, and dialled again at once", async (ms) => {
    const { own, ofPeer } = await withPeer(bus.url);
    const rig = new Rig(bus.url, own, { clock: new BusClock(() => Date.now() + ms) });
    await rig.welcomed();
    expect(rig.states.map(({ at }) => at)).toEqual(["dialing", "dialing", "open"]);
    expect(rig.refusals).toMatchObject([{ refused: "clock_skew" }]);
    expect(Math.abs(rig.clock.offsetMs + ms)).toBeLessThan(5_000);
    rig.connection.announce(announcementOf(own, rig.clock.nextTs()));
    const bye = signUnregister(own, sid("s"), rig.clock.nextTs());
    expect(await rig.connection.unregister(bye)).toBe("unregistered");
    expect(ok(await ofPeer.rosterOf(own.key)).gone).toHaveLength(1);
    expect(rig.refusals).toHaveLength(1);
  });

  it("one that is past belief is backed off from, and not dialled with for ever at full speed", async () => {
    const rig = new Rig(bus.url, await newSigner(), { clock: new BusClock(() => Date.now() - 400 * DAY_MS) });
    expect(await rig.reaches("waiting")).toMatchObject({ why: { refused: "clock_skew" } });
    expect(rig.dials).toBe(2);
  });

  it("a refused announcement says so, and leaves the socket as it is", async () => {
    const { own } = await withPeer(bus.url);
    const rig = new Rig(bus.url, own);
    await rig.welcomed();
    rig.connection.announce(announcementOf(own, Date.now() - 3_600_000));
    await rig.until(() => rig.refusals.length > 0, "a refusal");
    expect(rig.refusals).toMatchObject([{ refused: "ts_out_of_range" }]);
    expect(rig.connection.state.at).toBe("open");
  });
});

describe("a connection that hears nothing", () => {
  it("pings, and on no pong is dropped and dialled anew at once; the mail comes by the new one", async () => {
    const { own, write } = await withPeer(bus.url);
    const proxy = await startBlackHoleProxy(bus.port);
    onTestFinished(() => proxy.close());
    const rig = new Rig(proxy.url, own, { audience: bus.url });
    await rig.welcomed();
    rig.timers.advance(HEARTBEAT_MS);
    expect(rig.connection.state).toMatchObject({ at: "open", isPinged: true });
    await rig.until(
      () => rig.states.at(-1)!.at === "open" && !(rig.states.at(-1) as { isPinged: boolean }).isPinged,
      "a pong",
    );
    expect(rig.dials).toBe(1);

    proxy.blackHole();
    await write("into the void");
    rig.timers.advance(HEARTBEAT_MS + PONG_MAX_MS);
    expect(rig.connection.state.at).toBe("dialing");
    rig.timers.advance(DIAL_MAX_MS);
    expect(rig.connection.state).toMatchObject({ at: "waiting", why: { broken: "no_welcome" } });
    expect(rig.items).toEqual([]);
    proxy.release(); // what was held back on the dropped ones comes too, and is nobody's
    rig.timers.advance(BACKOFF_MAX_MS);
    await rig.received(1);
    expect(textsOf(rig.items)).toEqual(["into the void"]);
    expect(rig.welcomes).toHaveLength(2);
  });

  it("because the machine slept is not waited for: a new socket at once, and the mail of two days", async () => {
    const { own, write } = await withPeer(bus.url);
    const rig = new Rig(bus.url, own);
    await rig.welcomed();
    rig.timers.sleep(2 * DAY_MS);
    expect(rig.states.map(({ at }) => at)).toEqual(["dialing", "open", "dialing"]);
    await write("while you slept");
    await rig.welcomed(2);
    await rig.received(1);
    expect(rig.connection.state.at).toBe("open"); // the one that was dropped has closed nothing
  });
});

describe("a bus that is down", () => {
  it(`is asked at most ${ATTEMPTS_PER_MINUTE_MAX} times a minute, and noticed when it is back`, async () => {
    const own = await ownBus();
    const signer = await newSigner();
    const rig = new Rig(own.url, signer, { random: () => 0 }); // the least patient of all
    await rig.welcomed();
    await own.kill();
    await rig.reaches("waiting");
    const MINUTES = 5;
    const before = rig.dials;
    for (let second = 0; second < MINUTES * 60; second++) {
      rig.timers.advance(1_000);
      if (rig.connection.state.at === "dialing") await rig.reaches("waiting");
    }
    const dials = rig.dials - before;
    expect(dials).toBeGreaterThan(0);
    expect(dials).toBeLessThanOrEqual(ATTEMPTS_PER_MINUTE_MAX * (MINUTES + 1));
    expect(rig.connection.state).toMatchObject({ why: { unreachable: "network", detail: "ECONNREFUSED" } });
    expect(rig.refusals).toEqual([]);
    await own.restart();
    rig.timers.advance(60_000);
    await rig.welcomed(2);
  });

  it("or stalls does not keep another waiting", async () => {
    const stalled = await startStranger(() => {});
    stalled.server.on("upgrade", () => {});
    const signer = await newSigner();
    const [slow, quick] = [new Rig(stalled.url, signer), new Rig(bus.url, signer)];
    await quick.welcomed();
    expect(slow.connection.state.at).toBe("dialing");
  });
});

describe("what is final", () => {
  it("our own close, whatever an attempt under way brings later", async () => {
    const signer = await newSigner();
    const rig = new Rig(bus.url, signer);
    rig.connection.close();
    const other = new Rig(bus.url, signer); // dialled later, so when it is welcomed the first one would have been
    await other.welcomed();
    expect(rig.states.map(({ at }) => at)).toEqual(["dialing", "stopped"]);
    expect(rig.welcomes).toEqual([]);
    rig.connection.start();
    rig.timers.advance(DAY_MS);
    expect(rig.connection.state).toEqual({ at: "stopped", why: { by: "close" } });
    expect(rig.timers.isIdle).toBe(true);
  });

  it("our own close from within what we are told", async () => {
    const signer = await newSigner();
    const rig = new Rig(bus.url, signer, {
      ears: {
        onState: ({ at }) => void (at === "open" && rig.connection.close()),
        onWelcome: () => rig.welcomes.push({ generation: "", nowMs: 0, queued: 0 }),
      },
    });
    const other = new Rig(bus.url, await newSigner());
    await other.welcomed();
    while (rig.connection.state.at !== "stopped")
      await other.until(() => true, "a turn").then(() => new Promise(setImmediate));
    expect(rig.welcomes).toEqual([]);
    expect(rig.timers.isIdle).toBe(true);
  });

  it("a key that is not admitted: told, and not dialled again", async () => {
    const own = await ownBus({ ADMISSION: "join" });
    const rig = new Rig(own.url, await newSigner());
    expect(await rig.reaches("stopped")).toMatchObject({ why: { by: "evicted", code: "not_admitted" } });
    rig.timers.advance(DAY_MS);
    expect(rig.dials).toBe(1);
  });

  it("a token for another bus", async () => {
    const rig = new Rig(bus.url, await newSigner(), { audience: "https://bus.example" });
    expect(await rig.reaches("stopped")).toMatchObject({ why: { by: "evicted", code: "bad_signature" } });
  });

  it("a key that was forgotten", async () => {
    const { own, ofOwn } = await withPeer(bus.url);
    const rig = new Rig(bus.url, own);
    await rig.welcomed();
    ok(await ofOwn.forget());
    expect(await rig.reaches("stopped")).toMatchObject({ why: { by: "evicted", code: "forgotten" } });
  });
});

it("a bus that wants us to sign again is dialled at once", async () => {
  const own = await ownBus({ SOCKET_MAX_MS: "300" });
  const rig = new Rig(own.url, await newSigner());
  await rig.welcomed(2);
  expect(rig.states.map(({ at }) => at).slice(0, 3)).toEqual(["dialing", "open", "dialing"]);
});
