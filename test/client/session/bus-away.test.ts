/** Buses that are down, come back, have forgotten everything, stall, or are two. */

import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { startStranger } from "../bus/support.ts";
import { begin, isThere, newHome, ok, open, ownBus, pair, pairOf, reaches, received, until } from "./support.ts";

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

/** Impatient, but not so that a minute's dials are over before the bus is back. */
const random = () => 0.2;

describe("a bus that is away", () => {
  it("at the start: what is written is pending, and stored once it is there", async () => {
    const own = await ownBus();
    const { ann, bob, homes } = await pairOf(own.url, { random });
    ok(await bob.send({ to: "ann", text: "hello" }));
    await received(ann, 1);
    await ann.close(400);
    await until(() => bob.notices().some((line) => line.includes("has ended")), "its goodbye");
    await own.kill();

    const again = await open(homes[0], own.url, { random });
    again.begin();
    const sent = ok(await again.send({ to: "bob", text: "are you there?" }));
    expect(sent).toMatchObject({ life: { state: "pending" }, route: { to: "unseen", session: "bob-1" } });
    expect(await again.whoami()).toMatchObject({ pending: 1, reason: expect.stringContaining("ECONNREFUSED") });
    expect(again.notices()).toContainEqual(expect.stringContaining("messages that no bus has stored yet: 1"));
    await own.restart();
    await reaches(again, sent, "stored", "acked");
    expect(await received(bob, 1)).toEqual(["are you there?"]);
  });

  it("in the middle: killed and restarted, everything arrives once and in order", async () => {
    const own = await ownBus();
    const { ann, bob } = await pairOf(own.url, { random });
    ok(await ann.send({ to: "bob", text: "1" }));
    await own.kill();
    for (const text of ["2", "3"]) {
      expect(ok(await ann.send({ to: "bob", text })).life).toMatchObject({ state: "pending" });
    }
    const stale = ok(await ann.discover("bob"));
    expect(stale).toMatchObject({ stale_because: "network", identities: [{ sessions: [{ session: "bob-1" }] }] });
    expect(stale.view_age_ms).toBeGreaterThan(0);
    await own.restart();
    await Promise.all([isThere(ann), isThere(bob)]);
    ok(await ann.send({ to: "bob", text: "4" }));
    expect(await received(bob, 4)).toEqual(["1", "2", "3", "4"]);
  });

  it("and has lost everything: contacts, presence and unacked mail are published again", async () => {
    const own = await ownBus();
    const { ann, bob, homes } = await pairOf(own.url, { random });
    ok(await ann.send({ to: "bob", text: "1" }));
    expect(await received(bob, 1)).toEqual(["1"]);
    await bob.close(400);
    await until(() => ann.notices().some((line) => line.includes("has ended")), "its goodbye");
    const kept = ok(await ann.send({ to: "bob", text: "2" }));
    expect(kept.life.state).toBe("stored");
    await own.kill();
    await own.restart(true);
    await until(() => ann.notices().some((line) => line.includes("has lost what it kept")), "news of it");
    await isThere(ann);
    const back = await begin(homes[1], own.url, { random });
    expect(await received(back, 1)).toEqual(["2"]);
    await reaches(ann, kept, "acked");
    ok(await back.send({ to: "ann", text: "3" }));
    expect(await received(ann, 1)).toEqual(["3"]);
  });
});

describe("several buses", () => {
  it("that stall hold up neither the others nor the end", async () => {
    const stalled = await startStranger(() => {});
    stalled.server.on("upgrade", () => {});
    const { bob, homes } = await pairOf(bus.url);
    const ann = await open(homes[0], `${stalled.url},${bus.url}`, { session: "ann-2" });
    ann.begin();
    const asked = performance.now();
    expect(ok(await ann.send({ to: "bob", text: "by the other" })).life.state).toBe("stored");
    expect(performance.now() - asked).toBeLessThan(1_000);
    expect(await received(bob, 1)).toEqual(["by the other"]);
    const closing = performance.now();
    await ann.close(400);
    expect(performance.now() - closing).toBeLessThan(600);
  });

  it("bring one message once, show one roster, and go on when one of them ends", async () => {
    const other = await ownBus();
    const both = `${bus.url},${other.url}`;
    const [homeA, homeB] = [newHome("ann"), newHome("bob")];
    const [ann, bob] = [await begin(homeA, both, { random }), await begin(homeB, both, { random })];
    await pair(ann, "bob", bob, "ann");
    ok(await ann.send({ to: "bob", text: "1" }));
    expect(await received(bob, 1)).toEqual(["1"]);
    const { identities } = ok(await ann.discover());
    expect(identities.map(({ sessions }) => sessions.map(({ session }) => session))).toEqual(
      expect.arrayContaining([["ann-1"], ["bob-1"]]),
    );
    await other.kill();
    expect(ok(await ann.send({ to: "bob", text: "2" })).life.state).toBe("stored");
    expect(await received(bob, 1)).toEqual(["2"]);
    await bob.close(400);
    expect(ok(await ann.discover("bob")).identities[0]!.sessions).toEqual([]);
  });
});
