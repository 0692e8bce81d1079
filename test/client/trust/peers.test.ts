/** The peers: names that never move, a file that others write too, and the person that each change needs. */

import { execFile, spawn } from "node:child_process";
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Operator } from "../../../src/client/trust/operator.ts";
import {
  addPeer,
  emptyBook,
  formatPeers,
  parsePeers,
  removePeer,
  renamePeer,
  type PeerBook,
} from "../../../src/client/trust/peer-book.ts";
import { PeersFile } from "../../../src/client/trust/peers.ts";
import { nearNames, refusePetname, skeletonOf, warnOf } from "../../../src/client/trust/petname.ts";
import { stampOfFile } from "../../../src/client/trust/private-file.ts";
import { parseKey, type Key } from "../../../src/protocol/address.ts";
import { publicKeyOf } from "../../../src/protocol/signing.ts";
import vectors from "../../vectors/keys.json" with { type: "json" };

const run = promisify(execFile);
const me = parseKey(vectors.carol.public)!;
const alice = parseKey(vectors.alice.public)!;
const bob = parseKey(vectors.bob.public)!;

let directory: string;
let path: string;
let peers: PeersFile;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "trust-"));
  path = join(directory, "peers.json");
  peers = new PeersFile({ path, me });
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const by = (key: Key) => Operator.attest(key, "cli");
function book(text: string): PeerBook {
  const parsed = parsePeers(text, me);
  if ("refused" in parsed) throw new Error(parsed.refused);
  return parsed;
}
function current(): PeerBook {
  const now = peers.current();
  if ("refused" in now) throw new Error(now.refused);
  return now;
}
const listed = () => Object.fromEntries(current().keys);

describe("the book", () => {
  const two = book(JSON.stringify({ alice: { key: alice }, bob: { key: bob, may: ["x"], level: "notify" } }));

  it.each([
    {
      why: "a name never moves to another key",
      at: two,
      name: "alice",
      key: "new",
      refused: { refused: "petname_taken", key: alice },
    },
    { why: "a key has one name", at: two, name: "al", key: alice, refused: { refused: "key_known", petname: "alice" } },
    { why: "we are no peer of ours", at: two, name: "me", key: me, refused: { refused: "own_key" } },
    { why: "no key", at: two, name: "x", key: "abc", refused: { refused: "bad_key" } },
    {
      why: "a small-order key signs for anyone",
      at: two,
      name: "x",
      key: "A".repeat(43),
      refused: { refused: "bad_key" },
    },
    { why: "self is ours", at: two, name: "Self", key: "new", refused: { refused: "reserved_petname" } },
    { why: "self in other letters too", at: two, name: "ѕеlf", key: "new", refused: { refused: "reserved_petname" } },
    {
      why: "a key as a name is a lie about a key",
      at: two,
      name: vectors.carol.public,
      key: "new",
      refused: { refused: "reserved_petname" },
    },
    {
      why: "so is a fingerprint",
      at: two,
      name: "ABCD-EFGH-IJKL-MNOP",
      key: "new",
      refused: { refused: "reserved_petname" },
    },
    { why: "an invisible letter", at: two, name: "al\u200bice", key: "new", refused: { refused: "bad_petname" } },
    { why: "too long: 65 bytes", at: two, name: "a".repeat(65), key: "new", refused: { refused: "bad_petname" } },
    {
      why: "too long in bytes, not in letters",
      at: two,
      name: "я".repeat(33),
      key: "new",
      refused: { refused: "bad_petname" },
    },
    { why: "empty", at: two, name: "", key: "new", refused: { refused: "bad_petname" } },
    { why: "untrimmed looks like trimmed", at: two, name: "dave ", key: "new", refused: { refused: "bad_petname" } },
  ])("adds nobody: $why", async ({ at, name, key, refused }) => {
    const real = key === "new" ? await publicKeyOf(new Uint8Array(32).fill(9)) : key;
    expect(addPeer(at, name, real, me)).toEqual(refused);
  });

  it("adds one, and the same again without a change", async () => {
    const dave = await publicKeyOf(new Uint8Array(32).fill(9));
    const change = addPeer(two, "dave", dave, me);
    expect(change).toMatchObject({ changed: true, petname: "dave", key: dave });
    expect(addPeer(two, "alice", alice, me)).toMatchObject({ changed: false, book: two });
  });

  it("keeps what it does not know, in the original's spacing", () => {
    const change = renamePeer(two, "bob", "robert", bob, me);
    expect("book" in change && formatPeers(change.book)).toBe(
      `${JSON.stringify({ alice: { key: alice }, robert: { key: bob, may: ["x"], level: "notify" } }, null, 2)}\n`,
    );
  });

  it.each([
    {
      why: "onto another's name",
      from: "bob",
      to: "alice",
      key: bob,
      refused: { refused: "petname_taken", key: alice },
    },
    { why: "of nobody", from: "bib", to: "x", key: bob, refused: { refused: "unknown_petname", near: ["bob"] } },
    {
      why: "of a name that another key has by now",
      from: "bob",
      to: "x",
      key: alice,
      refused: { refused: "unknown_petname", near: ["bob"] },
    },
    { why: "to what is no name", from: "bob", to: "\n", key: bob, refused: { refused: "bad_petname" } },
  ])("renames nobody: $why", ({ from, to, key, refused }) => {
    expect(renamePeer(two, from, to, key, me)).toEqual(refused);
  });

  it("skips a bad entry, tells it, keeps it, and admits the others", () => {
    const text = JSON.stringify({
      "a\u202eb": { key: alice },
      self: { key: alice },
      x: { key: "nope" },
      y: null,
      me: { key: me },
      bob: { key: bob },
      rob: { key: bob },
      __proto: { key: 1 },
    }).replace("__proto", "__proto__");
    const read = book(text);
    expect([...read.petnames]).toEqual([[bob, "bob"]]);
    expect(read.skipped.map(({ name, why }) => [name, why])).toEqual([
      ["a\u202eb", "bad_petname"],
      ["self", "reserved_petname"],
      ["x", "bad_key"],
      ["y", "bad_key"],
      ["me", "own_key"],
      ["rob", "same_key"],
      ["__proto__", "bad_key"],
    ]);
    expect(JSON.parse(formatPeers(read))).toEqual(JSON.parse(text));
    // A person mends the name, which admits the key under one that can be shown.
    const mended = renamePeer(read, "a\u202eb", "ab", alice, me);
    expect("book" in mended && mended.book.petnames.get(alice)).toBe("ab");
  });

  it("ends the trust in a key, not only in one of its names", () => {
    const read = book(JSON.stringify({ bob: { key: bob }, rob: { key: bob }, alice: { key: alice } }));
    const change = removePeer(read, "bob", bob, me);
    expect("book" in change && [...change.book.keys.keys()]).toEqual(["alice"]);
    expect(removePeer(read, "bob", alice, me)).toMatchObject({ refused: "unknown_petname" });
  });

  it.each(["", "[]", "null", "{", '{"a":', "{}x", `${"[".repeat(99)}`, '\ufeff{"a":1}'])(
    "refuses what is no object: %j",
    (text) => {
      expect(parsePeers(text, me)).toEqual({ refused: "bad_peers_file" });
    },
  );

  it.each([
    {
      text: (a: Key, b: Key) => `{"al":{"key":"${a}"},"bob":{"key":"${b}"},"al":{"key":"${b}"}}`,
      at: ["al"],
      why: "a name",
    },
    { text: (a: Key) => `{"al":{"key":"${a}"},"\\u0061l":{"key":"${a}"}}`, at: ["al"], why: "in another spelling" },
    { text: (a: Key, b: Key) => `{"al":{"key":"${a}","key":"${b}"}}`, at: ["al", "key"], why: "two keys" },
    { text: (a: Key) => `{"al":{"key":"${a}","x":[0,{"y":1,"y":2}]}}`, at: ["al", "x", "1", "y"], why: "far inside" },
  ])("refuses a name that stands twice, and says which: $at, $why", ({ text, at }) => {
    expect(parsePeers(text(alice, bob), me)).toEqual({ refused: "repeated_name", at });
  });

  it("tells names apart that differ in case or look alike: each has its own key, and warns when one is added", () => {
    const read = book(JSON.stringify({ alice: { key: alice }, Alice: { key: bob } }));
    expect([...read.keys]).toEqual([
      ["alice", alice],
      ["Alice", bob],
    ]);
    const one = book(JSON.stringify({ alice: { key: alice } }));
    expect(addPeer(one, "Alice", bob, me)).toMatchObject({ warning: { looks_like: ["alice"] } });
  });

  it("is never wrong about whom it admits, whatever the file holds", () => {
    const entry = fc.oneof(fc.jsonValue(), fc.record({ key: fc.constantFrom(alice as string, bob, me, "x") }));
    fc.assert(
      fc.property(
        fc.dictionary(fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("self", "alice", "__proto__")), entry),
        (file) => {
          const parsed = parsePeers(JSON.stringify(file), me);
          if ("refused" in parsed) return; // nested deeper than is read at all
          expect(parsed.petnames.size).toBe(parsed.keys.size);
          for (const [key, name] of parsed.petnames) {
            expect(key).not.toBe(me);
            expect((file[name] as { key: string }).key).toBe(key);
            expect(refusePetname(name)).toBeUndefined();
          }
          expect(JSON.parse(formatPeers(parsed))).toEqual(JSON.parse(JSON.stringify(file)));
        },
      ),
    );
  });

  it("never lets a sequence of changes move a name to another key", () => {
    const name = fc.constantFrom("a", "b", "c", "self", "\u0430");
    const key = fc.constantFrom(alice, bob, me);
    const step = fc.oneof(
      fc.record({ act: fc.constant("add" as const), name, key, to: name }),
      fc.record({ act: fc.constant("rename" as const), name, key, to: name }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        let at = emptyBook();
        for (const { act, name, key, to } of steps) {
          const change = act === "add" ? addPeer(at, name, key, me) : renamePeer(at, name, to, key, me);
          if ("refused" in change) continue;
          for (const [known, owner] of change.book.keys) expect(at.keys.get(known) ?? owner).toBe(owner);
          at = change.book;
        }
      }),
    );
  });
});

describe("names that look alike", () => {
  it.each([
    { name: "аlice", like: ["alice"], mixed: true, why: "a Cyrillic а" },
    { name: "ALICE", like: ["alice"], mixed: false, why: "case" },
    { name: "a1ice", like: ["alice"], mixed: false, why: "a digit one" },
    { name: "älice", like: ["alice"], mixed: false, why: "an accent" },
    { name: "ａｌｉｃｅ", like: ["alice"], mixed: false, why: "full width" },
    { name: "modem", like: ["modern"], mixed: false, why: "rn for m" },
    { name: "build_box", like: ["build-box"], mixed: false, why: "another separator" },
    { name: "αβ-x", like: [], mixed: true, why: "Greek and Latin, like nobody" },
  ])("are warned of: $why", ({ name, like, mixed }) => {
    expect(warnOf(name, ["alice", "modern", "build-box", name])).toEqual({ looks_like: like, is_mixed: mixed });
  });

  it.each(["dave", "Алиса", "アリス", "alice-laptop"])("are not seen in %s", (name) => {
    expect(warnOf(name, ["alice", "bob"])).toBeUndefined();
  });

  it("come with the change", () => {
    const change = addPeer(book(JSON.stringify({ alice: { key: alice } })), "a1ice", bob, me);
    expect(change).toMatchObject({ changed: true, warning: { looks_like: ["alice"], is_mixed: false } });
  });

  it.each([
    { name: "alcie", near: ["alice"], why: "two letters swapped" },
    { name: "ali", near: ["alice"], why: "a beginning" },
    { name: "аlice", near: ["alice"], why: "the look of it" },
    { name: "bobb", near: ["bob"], why: "one letter more" },
    { name: "zz", near: [], why: "nothing like it" },
    { name: "", near: [], why: "nothing" },
  ])("are offered for $name: $why", ({ name, near }) => {
    expect(nearNames(name, ["bob", "alice", "build-server"])).toEqual(near);
  });

  it("never throw, whatever is typed", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => void [skeletonOf(text), nearNames(text, ["alice", text])]),
    );
  });
});

describe("the file", () => {
  it("is made at the first peer, readable by its owner alone, and the original's parser would read it", async () => {
    expect(listed()).toEqual({});
    expect(await peers.add("alice", alice, by(alice))).toMatchObject({ changed: true });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, "utf8")).toBe(`{\n  "alice": {\n    "key": "${alice}"\n  }\n}\n`);
    expect(readdirSync(directory).sort()).toEqual(["peers.json", "peers.json.lock"]);
    expect(statSync(`${path}.lock`)).toMatchObject({ size: 0, mode: 0o100600 });
    expect(peers.resolve("alice")).toBe(alice);
    expect(peers.resolve("alcie")).toEqual({ refused: "unknown_petname", near: ["alice"] });
  });

  it("is read again when another has changed it, however soon and by whatever way", async () => {
    await peers.add("alice", alice, by(alice));
    expect(listed()).toEqual({ alice });
    // In place, the same length, within the same tick of the clock.
    writeFileSync(path, readFileSync(path, "utf8").replace("alice", "alicf"));
    expect(listed()).toEqual({ alicf: alice });
    writeFileSync(`${path}.new`, JSON.stringify({ bob: { key: bob } }));
    renameSync(`${path}.new`, path);
    expect(listed()).toEqual({ bob });
    rmSync(path);
    expect(listed()).toEqual({});
  });

  it("is not trusted to be the same while its time is too young to show a change", () => {
    writeFileSync(path, "{}");
    const { ctimeMs } = statSync(path);
    expect(stampOfFile(path, ctimeMs + 1_900)).toBeUndefined();
    expect(stampOfFile(path, ctimeMs + 2_100)).toEqual(expect.any(String));
  });

  it("is not parsed again while it is unchanged", async () => {
    await peers.add("alice", alice, by(alice));
    peers = new PeersFile({ path, me, now: () => Date.now() + 10_000 });
    expect(current()).toBe(current());
  });

  it("of mode 644 is taken, as the original leaves it; writable by others it is refused, and the command mends it", async () => {
    writeFileSync(path, JSON.stringify({ alice: { key: alice } }));
    chmodSync(path, 0o644);
    expect(listed()).toEqual({ alice });
    chmodSync(path, 0o664);
    const refusal = peers.current();
    expect(refusal).toEqual({ refused: "loose_mode", path, mend: `chmod go-w '${path}'` });
    expect(await peers.add("bob", bob, by(bob))).toEqual(refusal);
    await run("sh", ["-c", (refusal as { mend: string }).mend]);
    expect(listed()).toEqual({ alice });
  });

  it("that is no text is refused and left alone: written again, its bytes would be lost", async () => {
    const bytes = Buffer.concat([Buffer.from(`{"al`), Buffer.from([0xff]), Buffer.from(`ce":{"key":"${alice}"}}`)]);
    writeFileSync(path, bytes, { mode: 0o600 });
    expect(peers.current()).toEqual({ refused: "not_text", path, mend: `cat -v '${path}'` });
    expect(await peers.add("bob", bob, by(bob))).toMatchObject({ refused: "not_text" });
    expect(readFileSync(path)).toEqual(bytes);
  });

  it("whose folder is a file is refused", async () => {
    const folder = join(directory, "file");
    writeFileSync(folder, "x");
    peers = new PeersFile({ path: join(folder, "peers.json"), me });
    const refusal = { refused: "wrong_kind", path: folder, mend: `ls -ld '${folder}'` };
    expect(peers.current()).toEqual(refusal);
    expect(await peers.add("bob", bob, by(bob))).toEqual(refusal);
  });

  it("is not followed through a link, nor is its lock", async () => {
    const victim = join(directory, "victim");
    writeFileSync(victim, "{}");
    symlinkSync(victim, path);
    expect(peers.current()).toMatchObject({ refused: "symlink", path });
    expect(await peers.add("alice", alice, by(alice))).toMatchObject({ refused: "symlink", path });
    rmSync(path);
    rmSync(`${path}.lock`);
    symlinkSync(victim, `${path}.lock`);
    expect(await peers.add("alice", alice, by(alice))).toMatchObject({ refused: "symlink", path: `${path}.lock` });
    expect(readFileSync(victim, "utf8")).toBe("{}");
  });

  it("that cannot be read admits nobody and is not overwritten", async () => {
    writeFileSync(path, "{ nonsense", { mode: 0o600 });
    const refusal = { refused: "bad_peers_file", path, mend: `\${EDITOR:-vi} '${path}'` };
    expect(peers.current()).toEqual(refusal);
    expect(await peers.add("alice", alice, by(alice))).toEqual(refusal);
    expect(readFileSync(path, "utf8")).toBe("{ nonsense");
  });

  it("that has a name twice admits nobody under it, and is not overwritten", async () => {
    const text = `{"alice":{"key":"${bob}"},"alice":{"key":"${alice}"}}`;
    writeFileSync(path, text, { mode: 0o600 });
    const refusal = { refused: "repeated_name", at: ["alice"], path, mend: `\${EDITOR:-vi} '${path}'` };
    expect(peers.current()).toEqual(refusal);
    expect(peers.resolve("alice")).toEqual(refusal);
    expect(await peers.remove("alice", alice, by(alice))).toEqual(refusal);
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  it("stays as it is when a change is refused", async () => {
    await peers.add("alice", alice, by(alice));
    const before = statSync(path, { bigint: true });
    expect(await peers.add("alice", bob, by(bob))).toMatchObject({ refused: "petname_taken" });
    expect(await peers.add("alice", alice, by(alice))).toMatchObject({ changed: false });
    expect(await peers.remove("bob", bob, by(bob))).toMatchObject({ refused: "unknown_petname" });
    expect(statSync(path, { bigint: true })).toMatchObject({ ino: before.ino, mtimeNs: before.mtimeNs });
  });

  it("renames and removes", async () => {
    await peers.add("alice", alice, by(alice));
    expect(await peers.rename("alice", "al", alice, by(alice))).toMatchObject({ changed: true, petname: "al" });
    expect(await peers.remove("al", alice, by(alice))).toHaveProperty("book");
    expect(readFileSync(path, "utf8")).toBe("{}\n");
  });

  it("changes by a person's word about that very key only", async () => {
    await expect(peers.add("alice", alice, by(bob))).rejects.toThrow("operator");
    await expect(peers.add("alice", alice, { via: "cli" } as Operator)).rejects.toThrow("operator");
    await expect(peers.remove("alice", alice, by(bob))).rejects.toThrow("operator");
    await expect(peers.rename("alice", "b", alice, by(bob))).rejects.toThrow("operator");
    // @ts-expect-error nobody makes one but by attest
    void (() => new Operator(alice, "cli"));
    // @ts-expect-error a look-alike is none
    void ((): Operator => ({ via: "cli" }));
  });

  const moduleOf = (name: string) => JSON.stringify(new URL(`../../../src/${name}`, import.meta.url).href);

  it("loses no peer when processes add at once, and each process many", async () => {
    const keys: Key[] = [];
    for (let i = 0; i < 24; i++) keys.push(await publicKeyOf(new Uint8Array(32).fill(i + 1)));
    const program = (mine: Key[], at: number) => `
      const { PeersFile } = await import(${moduleOf("client/trust/peers.ts")});
      const { Operator } = await import(${moduleOf("client/trust/operator.ts")});
      const peers = new PeersFile({ path: ${JSON.stringify(path)}, me: ${JSON.stringify(me)} });
      while (Date.now() < ${at});
      const done = await Promise.all(${JSON.stringify(mine)}.map((key) => peers.add("p-" + key, key, Operator.attest(key, "cli"))));
      console.log(done.every((outcome) => outcome.changed));`;
    const at = Date.now() + 1_500;
    const results = await Promise.all(
      [0, 1, 2, 3].map((i) =>
        run(process.execPath, ["--input-type=module", "-e", program(keys.slice(i * 6, i * 6 + 6), at)]),
      ),
    );
    expect(results.map(({ stdout }) => stdout.trim())).toEqual(["true", "true", "true", "true"]);
    expect(current().petnames.size).toBe(24);
    expect(readdirSync(directory).sort()).toEqual(["peers.json", "peers.json.lock"]);
  }, 30_000);

  it("is free again when the process that held it was killed", async () => {
    const holder = spawn(process.execPath, [
      "--input-type=module",
      "-e",
      `const { withFileLock } = await import(${moduleOf("client/trust/file-lock.ts")});
       await withFileLock(${JSON.stringify(`${path}.lock`)}, () => { console.log("held"); for (;;); });`,
    ]);
    await new Promise((resolve) => holder.stdout.once("data", resolve));
    const adding = peers.add("alice", alice, by(alice));
    const early = await Promise.race([adding, new Promise((resolve) => setTimeout(resolve, 200, "waiting"))]);
    expect(early).toBe("waiting");
    holder.kill("SIGKILL");
    expect(await adding).toMatchObject({ changed: true });
  }, 30_000);
});
