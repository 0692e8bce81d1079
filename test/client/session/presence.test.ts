/** Who is there, who sleeps, and who has gone: what a sender is told of it. */

import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { parseBusUrl } from "../../../src/client/bus/bus-url.ts";
import { BusClock } from "../../../src/client/bus/clock.ts";
import { BusHttp } from "../../../src/client/bus/http.ts";
import { openIdentity } from "../../../src/client/trust/identity-file.ts";
import { begin, newHome, ok, open, ownBus, pairOf, received, until } from "./support.ts";

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

describe("a session that is silent", () => {
  it("is away and gets its mail; a sibling that is live is named, and not written to", async () => {
    const LIVE_MS = 400;
    const quick = await ownBus({ LIVE_MS: String(LIVE_MS) });
    const { ann, bob, homes } = await pairOf(quick.url, { limits: { LIVE_MS } });
    ok(await bob.send({ to: "ann", text: "mine" }));
    await received(ann, 1);
    // Its heartbeats are further apart than what counts as live here; its sibling's are not.
    await begin(homes[1], quick.url, { session: "bob-2", limits: { LIVE_MS, HEARTBEAT_MS: 50 } });
    await until(async () => {
      const [bobs] = ok(await ann.discover("bob")).identities;
      const presence = Object.fromEntries(bobs!.sessions.map((each) => [each.session, each.presence]));
      return presence["bob-1"] === "away" && presence["bob-2"] === "live";
    }, "one away, one live");
    const { route, life } = ok(await ann.send({ to: "bob", text: "sleep well" }));
    expect(route).toMatchObject({ to: "session", session: "bob-1", presence: "away", live_sibling: "bob-2" });
    expect((route as { age_ms: number }).age_ms).toBeGreaterThanOrEqual(LIVE_MS);
    expect(life).toMatchObject({ state: "stored", presence: "away" });
    expect(await received(bob, 1)).toEqual(["sleep well"]);
  });
});

describe("two sessions of one identity that begin together", () => {
  it("an overtaken list of contacts is said again, and is no news", async () => {
    const { bob, homes } = await pairOf(bus.url);
    const opened = await openIdentity(join(homes[0].dir, "id.key"));
    const url = parseBusUrl(bus.url);
    if ("refused" in opened || "refusal" in url) throw new Error("no identity");
    // What another session published, at a moment after ours is signed.
    const http = new BusHttp({ url, signer: opened.identity, clock: new BusClock(() => Date.now() + 500) });
    onTestFinished(() => http.close());
    expect(await http.contacts([])).toMatchObject({ ok: { count: 0 } });
    const second = await open(homes[0], bus.url, { session: "ann-2" });
    second.begin();
    ok(await second.setSummary("shown to contacts alone"));
    const reasons = new Set<string>();
    await until(async () => {
      const { connection, reason } = await second.whoami();
      if (connection === "connected") reasons.add(String(reason));
      const [anns] = ok(await bob.discover("ann")).identities;
      return anns!.sessions.some(({ summary }) => summary !== undefined);
    }, "bob is a contact again");
    expect([...reasons]).toEqual(["undefined"]);
  });
});

describe("a session that closes", () => {
  it("is off the roster at once, and its peers no longer write to it, but to whoever of them comes", async () => {
    const { ann, bob, homes } = await pairOf(bus.url);
    ok(await bob.send({ to: "ann", text: "hello" }));
    await received(ann, 1);
    expect(ok(await ann.send({ to: "bob", text: "hello" })).route).toMatchObject({ session: "bob-1" });
    const closing = performance.now();
    await bob.close(400);
    expect(performance.now() - closing).toBeLessThan(400);
    expect(ok(await ann.discover("bob")).identities[0]!.sessions).toEqual([]);
    // Told in our words, once, with the next result; never mail, which a model would read as the peer's.
    const told = await until(() => {
      const lines = ann.notices();
      return lines.length > 0 ? lines : undefined;
    }, "a word of it");
    expect(told).toEqual([
      "bob: the session that you talked with says that it has ended; discover shows who else is there",
    ]);
    expect(ann.notices()).toEqual([]);
    expect(await ann.whoami()).toMatchObject({ unread: 0 });
    expect(await ann.checkMessages({ max: 9, maxBytes: 10_000 })).toEqual({ messages: [], left: 0 });
    expect(JSON.stringify(ok(await ann.history({ with: "bob", max: 9 })))).not.toContain("ending this session");
    // Nobody of them is there, and the one that we talked with has said that it is not either.
    const later = ok(await ann.send({ to: "bob", text: "for whoever comes" }));
    expect(later).toMatchObject({ route: { to: "identity" }, life: { state: "stored" } });
    const next = await begin(homes[1], bus.url, { session: "bob-2" });
    expect(await received(next, 1)).toEqual(["for whoever comes"]);
  });

  it("twice is closed once, and may come back under its id", async () => {
    const home = newHome("ann");
    const session = await begin(home, bus.url);
    await Promise.all([session.close(400), session.close(400)]);
    const again = await begin(home, bus.url); // the same file and id: a goodbye does not forbid to come back
    expect(await again.whoami()).toMatchObject({ session: "ann-1", presence: { presence: "live" } });
  });

  it("while its bus is away is over in time", async () => {
    const own = await ownBus();
    const { bob } = await pairOf(own.url);
    await own.kill();
    const closing = performance.now();
    await bob.close(300);
    expect(performance.now() - closing).toBeLessThan(450);
  });
});
