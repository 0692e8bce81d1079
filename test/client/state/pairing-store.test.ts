/** The pairing of an identity: one file, several processes at once, and each decision made once. */

import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { settle } from "../../../src/client/session/pair-decision.ts";
import { openPairing } from "../../../src/client/state/open-pairing.ts";
import { pairingPath } from "../../../src/client/state/paths.ts";
import { SEEN_RETAIN_MS } from "../../../src/client/state/retention.ts";
import { PAIRING_SCHEMA } from "../../../src/client/state/schema.ts";
import { receiveKnock } from "../../../src/client/trust/pairing.ts";
import { NO_PAIRING, PENDING_MAX, PENDING_MS } from "../../../src/client/trust/pairing-state.ts";
import { PeersFile } from "../../../src/client/trust/peers.ts";
import type { Key } from "../../../src/protocol/address.ts";
import { fakeKey } from "../../support/fake-agent.ts";
import { HOSTILE } from "../../support/hostile.ts";
import type { Part } from "./pairing-child.ts";
import { alter, isPosix, modeOf, newPath, T0, withoutUmask } from "./state-fixture.ts";

const me = fakeKey(1);
const knockOf = (key: Key, claimed_name = "laptop", msg_id = "k1") => ({ key, claimed_name, msg_id });

const newDirectory = () => dirname(newPath());

function opened(directory = newDirectory(), nowMs = T0) {
  const opening = openPairing({ directory, me, nowMs });
  if ("refusal" in opening) throw new Error(JSON.stringify(opening));
  onTestFinished(() => opening.pairing.close());
  return { ...opening, directory, path: pairingPath(directory, me) };
}

describe("the file", () => {
  it.runIf(isPosix)("is private, whatever the umask and whatever it was", () => {
    withoutUmask(() => {
      const { pairing, directory, path } = opened();
      pairing.update((state) => receiveKnock(state, knockOf(fakeKey(2)), T0));
      for (const file of readdirSync(directory)) expect(modeOf(join(directory, file)), file).toBe(0o600);
      chmodSync(path, 0o644);
      opened(directory);
      expect(modeOf(path)).toBe(0o600);
    });
  });

  it.runIf(isPosix)("is not reached through a symlink", () => {
    const directory = newDirectory();
    mkdirSync(directory, { recursive: true });
    const [path, target] = [pairingPath(directory, me), join(directory, "elsewhere")];
    symlinkSync(target, path);
    expect(openPairing({ directory, me, nowMs: T0 })).toEqual({ refusal: "unsafe_path", path, why: "symlink" });
    expect(existsSync(target)).toBe(false);
  });

  it("of a later version is refused and left as it is, and nobody is kept out by that", () => {
    const { pairing, directory, path } = opened();
    pairing.close();
    alter(path, "PRAGMA user_version = 99");
    const bytes = readFileSync(path);
    const refusal = { refusal: "newer_schema", path, found: 99, known: PAIRING_SCHEMA.steps.length };
    for (let n = 0; n < 2; n++) expect(openPairing({ directory, me, nowMs: T0 })).toEqual(refusal);
    expect(readFileSync(path)).toEqual(bytes);
  });

  it("that is broken is set aside, and a new one begun", () => {
    const { pairing, directory, path } = opened();
    pairing.close();
    writeFileSync(path, "this is no database. ".repeat(400));
    const again = opened(directory, T0 + 5);
    expect(again.setAside).toBe(`${path}.broken-${T0 + 5}`);
    expect(readFileSync(again.setAside!, "utf8")).toContain("no database");
    expect(again.pairing.read()).toEqual(NO_PAIRING);
  });

  it("is one for each identity", () => {
    const { directory } = opened();
    const theirs = openPairing({ directory, me: fakeKey(9), nowMs: T0 });
    if ("refusal" in theirs) throw new Error(theirs.refusal);
    theirs.pairing.update((state) => receiveKnock(state, knockOf(fakeKey(2)), T0));
    theirs.pairing.close();
    expect(opened(directory).pairing.read()).toEqual(NO_PAIRING);
  });
});

describe("what is in it", () => {
  it("is seen by all who have it open, and undone where a decision throws", () => {
    const one = opened();
    const two = opened(one.directory);
    one.pairing.update((state) => receiveKnock(state, knockOf(fakeKey(2)), T0));
    expect(two.pairing.read().pending).toMatchObject([{ key: fakeKey(2) }]);
    expect(() =>
      two.pairing.transaction(() => {
        two.pairing.update(() => ({ state: NO_PAIRING }));
        throw new Error("no");
      }),
    ).toThrow("no");
    expect(one.pairing.read().pending).toHaveLength(1);
  });

  it("comes back as it was, whatever strangers call themselves; the oldest first", () => {
    const { pairing, directory } = opened();
    const names = HOSTILE.slice(0, PENDING_MAX);
    for (const [n, name] of names.entries()) {
      pairing.update((state) => receiveKnock(state, knockOf(fakeKey(n + 2), name), T0 + names.length - n));
    }
    const kept = opened(directory).pairing.read().pending;
    expect(kept.map(({ claimed_name }) => claimed_name)).toEqual([...names].reverse());
  });

  it("remembers a knock that was decided until no bus can bring it again", () => {
    const { pairing } = opened();
    const knock = { key: fakeKey(2), msg_id: "k1", ts: T0 };
    expect(pairing.knocks.isNew(knock)).toBe(true);
    pairing.knocks.keep(knock, T0);
    expect(pairing.knocks.isNew(knock)).toBe(false);
    expect(pairing.knocks.isNew({ ...knock, msg_id: "k0", ts: T0 - 1 })).toBe(false);
    expect(pairing.knocks.isNew({ ...knock, msg_id: "k2" })).toBe(true);
    expect(pairing.knocks.isNew({ ...knock, ts: knock.ts + 1 })).toBe(true); // knocked anew under the same id
    pairing.update((state) => receiveKnock(state, knockOf(fakeKey(2)), T0));
    pairing.prune(T0 + PENDING_MS);
    expect([pairing.read(), pairing.knocks.isNew(knock)]).toEqual([NO_PAIRING, false]);
    pairing.prune(T0 + SEEN_RETAIN_MS);
    expect(pairing.knocks.isNew(knock)).toBe(true);
  });
});

describe("several processes at once", { timeout: 30_000 }, () => {
  /** Long enough for each to have started. */
  const START_MS = 1_500;

  async function together(directory: string, parts: readonly Pick<Part, "act" | "keys" | "prefix">[]) {
    const common = {
      directory,
      me,
      nowMs: T0,
      atMs: Date.now() + START_MS,
      peers: join(directory, "..", "trust", "peers.json"),
    };
    const script = join(import.meta.dirname, "pairing-child.ts");
    const flags = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"];
    const children = parts.map((part) => {
      const child = spawn(process.execPath, [...flags, script, JSON.stringify({ ...common, ...part })], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      let out = "";
      child.stdout.on("data", (chunk) => (out += String(chunk)));
      return new Promise<unknown[]>((resolve, reject) => {
        child.once("close", (code) =>
          code === 0 ? resolve(JSON.parse(out) as unknown[]) : reject(new Error(`${code}`)),
        );
      });
    });
    return { outcomes: await Promise.all(children), peers: new PeersFile({ path: common.peers, me }) };
  }

  const keysFrom = (first: number, count: number) => Array.from({ length: count }, (_, n) => fakeKey(first + n));

  it("make the file together, and lose nothing of what each writes", async () => {
    const directory = newDirectory();
    const parts = [10, 30, 50, 70].map((first) => ({ act: "knock" as const, keys: keysFrom(first, 15), prefix: "x" }));
    const { outcomes } = await together(directory, parts);
    expect(outcomes.flat().filter((kept) => kept !== true)).toEqual([]);
    expect(opened(directory).pairing.read().pending).toHaveLength(60);
  });

  it.each([
    { acts: ["accept", "accept"], why: "two accept under other names" },
    { acts: ["accept", "reject"], why: "one accepts what the other rejects" },
  ] as const)("decide each request once: $why", async ({ acts }) => {
    const { pairing, directory } = opened();
    const keys = keysFrom(10, 25);
    for (const key of keys) pairing.update((state) => receiveKnock(state, knockOf(key), T0));
    const parts = acts.map((act, n) => ({ act, keys, prefix: `${"ab"[n]}-` }));
    const { outcomes, peers } = await together(directory, parts);
    const [first, second] = outcomes as [string[], string[]];
    const book = peers.current();
    if ("refused" in book) throw new Error(book.refused);
    for (const [n, key] of keys.entries()) {
      expect(
        [first[n], second[n]].filter((outcome) => outcome === "made"),
        `request ${n}`,
      ).toHaveLength(1);
      const winner = first[n] === "made" ? "a" : "b";
      const isIn = acts[winner === "a" ? 0 : 1] === "accept";
      expect(book.petnames.get(key), `request ${n}`).toBe(isIn ? `${winner}-${n}` : undefined);
    }
    const { pending, owed } = settle({ pairing, peers }, T0);
    expect(pending).toEqual([]);
    expect(owed.map(({ key }) => key).sort()).toEqual([...book.petnames.keys()].sort());
  });
});
