/** One person, one home, two clients: `id.key` and `peers.json` written by either are the other's. */

import { join } from "node:path";
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { EdgeAgent, endAgents, RustAgent, until } from "./agents.ts";

const isMissing = "missing" in inject("rust");

let bus: LocalBus;
beforeAll(async () => {
  if (!isMissing) bus = await startBus({ bundle: inject("bundle"), vars: { ACCESS: "open", LOG: "faults" } });
});
afterEach(endAgents);
afterAll(() => bus?.stop());

/** Both of one person. */
function both() {
  const rust = new RustAgent({ bus: bus.url, name: "crab" });
  return { rust, edge: new EdgeAgent({ bus: bus.url, name: "edge", home: rust.home }) };
}

/** A key of somebody else. */
function strangerKey(): Promise<string> {
  return new EdgeAgent({ bus: bus.url, name: "stranger" }).setUp();
}

function peersFile({ home }: RustAgent): Record<string, { key: string }> {
  return JSON.parse(readFileSync(join(home, ".config/interlink/peers.json"), "utf8"));
}

describe.skipIf(isMissing)("one home for the Rust client and ours", { timeout: 90_000 }, () => {
  it("a key and peers that theirs wrote are ours", async () => {
    const { rust, edge } = both();
    const key = await rust.setUp();
    expect(await edge.setUp()).toBe(key);
    await rust.start();
    const [amy, ben] = await Promise.all([strangerKey(), strangerKey()]);
    await rust.call("add_peer", { petname: "amy", key: amy });
    expect(await edge.type("peers", "list")).toContain("amy");

    // And on: each writes behind the other, while theirs runs and has its lock file there.
    await edge.type("peers", "add", "Бен", ben, "--yes");
    await rust.until("list_peers", {}, (text) => text.includes(`Бен → ${ben}`) && text.includes(`amy → ${amy}`));
    await rust.call("remove_peer", { petname: "amy" });
    expect(await edge.type("peers", "list")).not.toContain("amy");
    expect(peersFile(rust)).toEqual({ Бен: { key: ben } });
    await edge.type("peers", "remove", "Бен", "--yes");
    expect(await rust.call("list_peers")).toBe("no peers authorized");
  });

  it("a key and peers that ours wrote are theirs", async () => {
    const { rust, edge } = both();
    const key = await edge.setUp();
    const amy = await strangerKey();
    await edge.type("peers", "add", "amy", amy, "--yes");
    await rust.start();
    expect(await rust.call("list_peers")).toBe(`amy → ${amy}`);
    await rust.until("discover", {}, (text) => text.includes(`key: ${key}`) && text.includes("[you]"));
  });

  it("a running session of ours takes in whom theirs adds", async () => {
    const { rust, edge } = both();
    await rust.setUp();
    const friend = new RustAgent({ bus: bus.url, name: "friend" });
    const friendKey = await friend.setUp();
    await Promise.all([rust.start(), edge.start(), friend.start()]);
    await friend.call("add_peer", { petname: "them", key: (await edge.call("whoami")).public_key });
    await rust.call("add_peer", { petname: "friend", key: friendKey });
    await edge.until("list_peers", {}, ({ peers }) => peers.length === 1);
    await until(
      () => friend.sees(edge.session),
      (line) => line !== undefined,
    );
    await friend.send("them", "to the one", { session: edge.session });
    expect(await edge.readOne()).toMatchObject({ from: "friend", body: "to the one" });
    await friend.send("them", "to the other", { session: rust.session });
    expect(await rust.readOne()).toMatchObject({ from: "friend", body: "to the other" });
  });

  it("two sessions of one identity write to each other as self", async () => {
    const { rust, edge } = both();
    await rust.setUp();
    await Promise.all([rust.start(), edge.start()]);
    await until(
      () => edge.sees(rust.session),
      (session) => session !== undefined,
    );
    await edge.send("self", "from ours");
    expect(await rust.readOne()).toMatchObject({ from: "self", body: "from ours" });
    await rust.send("self", "from theirs");
    expect(await edge.readOne()).toMatchObject({ from: "self", body: "from theirs" });
  });
});
