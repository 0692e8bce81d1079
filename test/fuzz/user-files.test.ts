/**
 * What lies in the user's folder, and what a person pastes: peers.json, buses.json, id.key, a handoff, an invite.
 *
 * Each is read whole or refused with a word; reading writes nothing, and nor does a change that was refused. An entry of the
 * peers that admits nobody is told, and stays as it is through every change.
 */

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import * as fc from "fast-check";
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { parseBusUrl } from "../../src/client/bus/bus-url.ts";
import { dropHandoff, leaveHandoff, takeHandoff, type Handoff } from "../../src/client/supervisor/handoff.ts";
import { readBuses } from "../../src/client/trust/buses-file.ts";
import { loadIdentity, openIdentity } from "../../src/client/trust/identity-file.ts";
import { formatInvite, INVITE_PREFIX, parseInvite } from "../../src/client/trust/invite-text.ts";
import { Operator } from "../../src/client/trust/operator.ts";
import { formatPeers, parsePeers } from "../../src/client/trust/peer-book.ts";
import { PeersFile } from "../../src/client/trust/peers.ts";
import { parseKey, parseSessionId, type Key } from "../../src/protocol/address.ts";
import { publicKeyOf } from "../../src/protocol/signing.ts";
import vectors from "../vectors/keys.json" with { type: "json" };
import { busUrl } from "../client/bus/support.ts";
import { changed, changes, fuzzed, near, nearBytes, promptly, SLOW } from "./inputs.ts";

const me = parseKey(vectors.carol.public)!;
const alice = parseKey(vectors.alice.public)!;
const bob = parseKey(vectors.bob.public)!;
const bytesOf = (value: unknown) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value, null, 2));
const WORD = /^[a-z_]+$/;

let directory = "";
beforeEach(() => {
  const made = mkdtempSync(join(tmpdir(), "interlink-fuzz-"));
  directory = made;
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
});

/** Puts bytes in a file's place. */
function put(name: string, bytes: Uint8Array): string {
  const path = join(directory, name);
  writeFileSync(path, bytes, { mode: 0o600 });
  return path;
}

/** The text, or undefined where it is none. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

describe("peers.json", () => {
  const PEERS = {
    alice: { key: alice, level: "notify" },
    bob: { key: bob, may: ["x", { y: [1, null] }] },
    "al\u0456ce": { key: alice },
    "": { key: bob },
    broken: { key: "AAAA" },
    me: 7,
  };
  let dave: Key;
  beforeAll(async () => {
    dave = parseKey(await publicKeyOf(new Uint8Array(32).fill(4)))!;
  });

  it(
    "is refused, or each entry admits somebody or is told; a change leaves the others as they were",
    SLOW,
    async () => {
      await fc.assert(
        fc.asyncProperty(nearBytes(bytesOf(PEERS)), async (bytes) => {
          const path = put("peers.json", bytes);
          const peers = new PeersFile({ path, me });
          const book = promptly(() => peers.current());
          expect(readFileSync(path)).toEqual(bytes);
          if ("refused" in book) {
            expect(book.refused).toMatch(WORD);
          } else {
            expect(textOf(bytes), "text").toBeDefined();
            expect(book.petnames.size + book.skipped.length).toBe(book.entries.size);
            for (const [key, name] of book.petnames) {
              expect(parseKey(key)).toBe(key);
              expect(key).not.toBe(me);
              expect(book.keys.get(name)).toBe(key);
            }
            expect(parsePeers(formatPeers(book), me)).toMatchObject({ petnames: book.petnames, skipped: book.skipped });
          }
          const done = await peers.add("dave", dave, Operator.attest(dave, "cli"));
          expect(readdirSync(directory).filter((name) => name.endsWith(".tmp"))).toEqual([]);
          if ("refused" in done) return void expect(readFileSync(path)).toEqual(bytes);
          const { dave: added, ...others } = JSON.parse(readFileSync(path, "utf8"));
          expect(added).toMatchObject({ key: dave });
          expect(others).toEqual(JSON.parse(JSON.stringify(JSON.parse(textOf(bytes)!))));
        }),
        fuzzed(0.5),
      );
    },
  );
});

describe("buses.json", () => {
  const BUSES = {
    work: { url: "https://a.example, https://b.example", key: "work.key", profile: "private" },
    home: { url: "https://bus.example" },
    local: { url: "http://127.0.0.1:9440" },
  };

  it("is refused with a word, or each entry is a bus at an origin that may be dialled", SLOW, () => {
    fc.assert(
      fc.property(nearBytes(bytesOf(BUSES)), (bytes) => {
        const path = put("buses.json", bytes);
        const buses = promptly(() => readBuses(path));
        expect(readFileSync(path)).toEqual(bytes);
        if ("refused" in buses) {
          if (buses.refused === "bad_buses_file") expect(buses.why).toMatch(WORD);
          return void expect(buses.refused).toMatch(WORD);
        }
        expect([...buses.keys()]).toEqual(Object.keys(JSON.parse(textOf(bytes)!)));
        for (const { urls, profile } of buses.values()) {
          expect(urls.length).toBeGreaterThan(0);
          for (const { origin } of urls)
            expect(parseBusUrl(origin, { allowPrivate: profile === "private" })).toMatchObject({ origin });
        }
      }),
      fuzzed(),
    );
  });
});

describe("id.key", () => {
  it("is refused and left alone, or is the key that its bytes are", SLOW, async () => {
    const seeds = [vectors.alice.seed, `${vectors.bob.seed}\n`];
    await fc.assert(
      fc.asyncProperty(nearBytes(...seeds.map(bytesOf)), async (bytes) => {
        const path = put("id.key", bytes);
        const loaded = promptly(() => loadIdentity(path));
        expect(readFileSync(path)).toEqual(bytes);
        if (loaded === undefined) throw new Error("the file is there");
        if ("refused" in loaded)
          return void expect(["bad_key_file", "too_large", "not_text"]).toContain(loaded.refused);
        const seed = Buffer.from(bytes.toString("utf8").trim(), "base64url");
        expect(seed.toString("base64url")).toBe(bytes.toString("utf8").trim());
        expect(loaded.key).toBe(await publicKeyOf(seed));
      }),
      fuzzed(),
    );
  });

  it("is never made anew where there is one", SLOW, async () => {
    await fc.assert(
      fc.asyncProperty(nearBytes(bytesOf(vectors.alice.seed)), async (bytes) => {
        fc.pre(bytes.length > 0); // what is empty may be another's, half written: it is waited for
        const path = put("id.key", bytes);
        const opened = await openIdentity(path);
        if (!("refused" in opened)) expect(opened.created).toBe(false);
        expect(readFileSync(path)).toEqual(bytes);
      }),
      fuzzed(0.2),
    );
  });
});

describe("a handoff", () => {
  const HANDOFF: Handoff = {
    generation: 2,
    reason: "exit 75",
    session: "s-1",
    state_key: Buffer.alloc(32, 7).toString("base64url"),
    rejoin: true,
    arrived: ["m1", "m2"],
    threads: ["t"],
  };

  it("is whole or none, and gone in either case", SLOW, () => {
    fc.assert(
      fc.property(nearBytes(bytesOf(HANDOFF)), (bytes) => {
        const path = leaveHandoff(HANDOFF);
        writeFileSync(path, bytes);
        try {
          const taken = promptly(() => takeHandoff(path));
          if (taken && "refused" in taken) return void expect(["too_large", "not_text"]).toContain(taken.refused);
          expect(existsSync(dirname(path))).toBe(false);
          if (!taken) return;
          expect(Number.isSafeInteger(taken.generation)).toBe(true);
          expect(parseSessionId(taken.session)).toBe(taken.session);
          expect(Buffer.from(taken.state_key, "base64url")).toHaveLength(32);
          expect([...taken.arrived, ...taken.threads].every((text) => typeof text === "string")).toBe(true);
        } finally {
          dropHandoff(path);
        }
      }),
      fuzzed(0.5),
    );
  });

  it("in whose place is a folder, or whose folder is a file, is refused", SLOW, () => {
    const folder = join(directory, "handoff.json");
    mkdirSync(folder);
    expect(takeHandoff(folder)).toMatchObject({ refused: "wrong_kind" });
    expect(existsSync(folder)).toBe(true);
    expect(takeHandoff(join(put("file", bytesOf("x")), "handoff.json"))).toMatchObject({ refused: "wrong_kind" });
  });
});

describe("an invite", () => {
  const invite = {
    bus: busUrl("https://bus.example"),
    token: Buffer.alloc(32, 5).toString("base64url"),
    key: alice,
    name: "\u00e4lice",
    secret: Buffer.alloc(16, 6).toString("base64url"),
  };
  const whole = formatInvite(invite);
  const json = Buffer.from(whole.slice(INVITE_PREFIX.length), "base64url").subarray(0, -4).toString("utf8");

  const judge = (text: string) => {
    const read = promptly(() => parseInvite(text));
    if ("refused" in read) {
      const words = ["not_an_invite", "damaged", "newer_version", "bad_content", "bad_bus"];
      return void expect(words).toContain(read.refused);
    }
    expect(parseInvite(formatInvite(read))).toEqual(read);
    return read;
  };

  it("is refused, or says what the inviter said", SLOW, () => {
    fc.assert(
      fc.property(near(whole), (text) => {
        const read = judge(text);
        if (read) expect(formatInvite(read)).toBe(whole);
      }),
      fuzzed(),
    );
  });

  it("is judged also by its content where its checksum is right: anybody can make one", SLOW, () => {
    fc.assert(
      fc.property(changes, (all) => {
        const bytes = Buffer.from(changed(json, all));
        const check = createHash("sha256").update("interlink-invite-v1\0").update(bytes).digest().subarray(0, 4);
        judge(INVITE_PREFIX + Buffer.concat([bytes, check]).toString("base64url"));
      }),
      fuzzed(),
    );
  });
});
