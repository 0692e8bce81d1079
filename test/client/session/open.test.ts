/** What a session needs before there is one, and what it remembers when it comes again. */

import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { openSession } from "../../../src/client/session/session.ts";
import { begin, newHome, ok, open, optionsOf, pairOf, received, until } from "./support.ts";

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

describe("there is no session", () => {
  it.each([
    { options: { bus: "http://bus.example" }, refusal: { refused: "bus_url", why: "not_https" } },
    { options: { bus: " , " }, refusal: { refused: "bus_count", count: 0 } },
    { options: { name: "a\nb" }, refusal: { refused: "bad_name" } },
    { options: { session: "a b" }, refusal: { refused: "bad_session" } },
  ])("with $options", async ({ options, refusal }) => {
    expect(await openSession(optionsOf(newHome("ann"), bus.url, options))).toMatchObject(refusal);
  });

  it("with a key file that is none", async () => {
    const home = newHome("ann");
    writeFileSync(join(home.dir, "id.key"), "no seed", { mode: 0o600 });
    expect(await openSession(optionsOf(home, bus.url))).toMatchObject({
      refused: "identity",
      why: { refused: "bad_key_file" },
    });
  });

  it("where another process is this session", async () => {
    const home = newHome("ann");
    await open(home, bus.url);
    expect(await openSession(optionsOf(home, bus.url))).toMatchObject({
      refused: "state",
      why: { refusal: "in_use" },
    });
  });
});

describe("a session that comes again", () => {
  it("has its mail, its talk and its summary, and what came meanwhile", async () => {
    const { ann, bob, homes } = await pairOf(bus.url);
    ok(await bob.setSummary("busy"));
    ok(await ann.send({ to: "bob", text: "unread" }));
    await until(async () => (await bob.whoami()).unread === 1, "mail");
    await bob.close(400);
    ok(await ann.send({ to: "bob", text: "meanwhile" }));
    const again = await begin(homes[1], bus.url);
    expect(await received(again, 2)).toEqual(["unread", "meanwhile"]);
    expect(ok(await ann.discover("bob")).identities[0]!.sessions).toMatchObject([{ summary: "busy" }]);
  });

  it("before it has begun is not seen, and receives nothing", async () => {
    const home = newHome("ann");
    const ann = await open(home, bus.url);
    expect(await ann.whoami()).toMatchObject({ connection: "disconnected", reason: "not_begun", unread: 0 });
    expect(ok(await ann.discover("self")).identities[0]!.sessions).toEqual([]);
  });
});

it.skipIf(process.getuid?.() === undefined)(
  "a peers file that others may write holds mail back until it is mended",
  async () => {
    const { ann, bob, homes } = await pairOf(bus.url);
    const path = join(homes[1].dir, "peers.json");
    chmodSync(path, 0o666);
    const { msg_id } = ok(await ann.send({ to: "bob", text: "wait for it" }));
    await until(() => bob.notices().some((line) => line.includes(`cannot be used`)), "a notice");
    expect(await bob.checkMessages({ max: 1, maxBytes: 1_000 })).toEqual({ messages: [], left: 0 });
    expect(await bob.findPeer("ann")).toMatchObject({ code: "bad_file", detail: path });
    expect(ok(await ann.messageStatus(msg_id)).life.state).toBe("stored");
    chmodSync(path, 0o600);
    expect(await received(bob, 1)).toEqual(["wait for it"]);
  },
);
