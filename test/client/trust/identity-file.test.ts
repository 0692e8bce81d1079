/** The key file, on a real file system: formats, modes, links, and processes that come at once. */

import { execFile } from "node:child_process";
import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { geteuid } from "node:process";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { configDirectory, trustPaths } from "../../../src/client/trust/config-directory.ts";
import {
  loadIdentity,
  openIdentity,
  type IdentityRefusal,
  type OpenedIdentity,
} from "../../../src/client/trust/identity-file.ts";
import { keyBytes } from "../../../src/protocol/address.ts";
import { decodeBase64url } from "../../../src/protocol/base64url.ts";
import { messageBytes } from "../../../src/protocol/canonical.ts";
import { sign } from "../../../src/protocol/signing.ts";
import { verifySignature } from "../../../src/protocol/signature.ts";
import keys from "../../vectors/keys.json" with { type: "json" };
import messages from "../../vectors/messages.json" with { type: "json" };

const run = promisify(execFile);
let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "trust-"));
  path = join(directory, "interlink", "id.key");
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const modeOf = (file: string) => statSync(file).mode & 0o777;
const opened = async (): Promise<OpenedIdentity> => {
  const result = await openIdentity(path);
  if ("refused" in result) throw new Error(result.refused);
  return result;
};
function put(text: string, mode = 0o600): void {
  mkdirSync(join(directory, "interlink"), { recursive: true, mode: 0o700 });
  writeFileSync(path, text, { mode });
  chmodSync(path, mode);
}

describe("the key file", () => {
  it("is made in the original's format, readable by its owner alone, and nothing is left beside it", async () => {
    const { identity, created } = await opened();
    expect(created).toBe(true);
    expect(readFileSync(path, "utf8")).toMatch(/^[A-Za-z0-9_-]{43}\n$/);
    expect(modeOf(path)).toBe(0o600);
    expect(modeOf(join(directory, "interlink"))).toBe(0o700);
    expect(readdirSync(join(directory, "interlink"))).toEqual(["id.key"]);
    expect(await opened()).toMatchObject({ created: false, identity: { key: identity.key } });
  });

  it.each(Object.entries(keys))("of the original is loaded: %s", async (_name, { seed, public: key }) => {
    put(`${seed}\n`);
    const { identity } = await opened();
    expect(identity.key).toBe(key);
    const bytes = new Uint8Array(100).fill(7);
    expect(identity.sign(bytes)).toBe(await sign(bytes, decodeBase64url(seed, 32)!));
    expect(await verifySignature(bytes, identity.sign(bytes), identity.key)).toBe(true);
  });

  it("gives signatures that the vectors of another language hold", async () => {
    put(keys.alice.seed);
    const { identity } = await opened();
    const ofAlice = (messages as any[]).filter(({ signer, valid }) => signer === "alice" && valid === true);
    expect(ofAlice.length).toBeGreaterThan(0);
    for (const { wire } of ofAlice) expect(identity.sign(messageBytes(wire))).toBe(wire.sig);
  });

  it("shows no secret where an identity is printed", async () => {
    put(keys.alice.seed);
    const { identity } = await opened();
    expect(JSON.stringify(identity)).toBe(JSON.stringify({ key: keys.alice.public }));
    expect(keyBytes(identity.key)).toHaveLength(32);
  });

  const broken: { why: string; text: string }[] = [
    { why: "empty, and stays so", text: "" },
    { why: "cut off", text: keys.alice.seed.slice(0, 20) },
    { why: "padded: another spelling of a key", text: `${keys.alice.seed}=` },
    { why: "trailing bits set: another spelling of a key", text: `${keys.alice.seed.slice(0, -1)}t` },
    { why: "two keys", text: `${keys.alice.seed}\n${keys.bob.seed}\n` },
    { why: "a PEM", text: "-----BEGIN PRIVATE KEY-----\n" },
  ];
  it.each(broken)("is refused and left alone if it is $why", async ({ text }) => {
    put(text);
    expect(await openIdentity(path)).toEqual({
      refused: "bad_key_file",
      path,
      mend: `mv -i '${path}' '${path}.broken'`,
    });
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  it("is refused and left alone if it is no text", () => {
    put(keys.alice.seed);
    const bytes = Buffer.from([0xff, 0xfe, ...Buffer.from(keys.alice.seed)]);
    writeFileSync(path, bytes);
    expect(loadIdentity(path)).toMatchObject({ refused: "bad_key_file" });
    expect(readFileSync(path)).toEqual(bytes);
  });

  it.each([0o644, 0o640, 0o604, 0o660, 0o777, 0o601])(
    "of mode %o is refused, and the command mends it",
    async (mode) => {
      put(keys.alice.seed, mode);
      const refusal = (await openIdentity(path)) as IdentityRefusal;
      expect(refusal).toEqual({ refused: "loose_mode", path, mend: `chmod 600 '${path}'` });
      await run("sh", ["-c", refusal.mend]);
      expect((await opened()).identity.key).toBe(keys.alice.public);
    },
  );

  it("that only its owner can read is taken", async () => {
    put(keys.alice.seed, 0o400);
    expect((await opened()).identity.key).toBe(keys.alice.public);
  });

  it("is not looked for behind a link, and the command mends it", async () => {
    const victim = join(directory, "elsewhere.key");
    writeFileSync(victim, keys.alice.seed, { mode: 0o600 });
    mkdirSync(join(directory, "interlink"), { mode: 0o700 });
    symlinkSync(victim, path);
    const refusal = (await openIdentity(path)) as IdentityRefusal;
    expect(refusal).toMatchObject({ refused: "symlink", path });
    await run("sh", ["-c", refusal.mend]);
    expect((await opened()).identity.key).toBe(keys.alice.public);
  });

  it("is not created behind a dangling link", async () => {
    mkdirSync(join(directory, "interlink"), { mode: 0o700 });
    symlinkSync(join(directory, "nowhere"), path);
    expect(await openIdentity(path)).toMatchObject({ refused: "symlink" });
    expect(readdirSync(directory)).toEqual(["interlink"]);
  });

  it("is no folder and no pipe, which would hold us for ever", async () => {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    expect(await openIdentity(path)).toMatchObject({ refused: "wrong_kind" });
    rmSync(path, { recursive: true });
    await run("mkfifo", [path]);
    expect(await openIdentity(path)).toMatchObject({ refused: "wrong_kind" });
  });

  it("is not in a folder where others may write", async () => {
    put(keys.alice.seed);
    const folder = join(directory, "interlink");
    chmodSync(folder, 0o775);
    expect(await openIdentity(path)).toEqual({ refused: "loose_mode", path: folder, mend: `chmod go-w '${folder}'` });
    chmodSync(folder, 0o1777);
    expect(await openIdentity(path)).toMatchObject({ refused: "shared_directory", path: folder });
  });

  it.runIf(geteuid?.() === 0)("of another user is refused", async () => {
    put(keys.alice.seed);
    chownSync(path, 12_345, 12_345);
    expect(await openIdentity(path)).toEqual({ refused: "foreign_owner", path, mend: `sudo chown 0 '${path}'` });
    chownSync(join(directory, "interlink"), 12_345, 12_345);
    expect(await openIdentity(path)).toMatchObject({ refused: "shared_directory" });
  });

  it("quotes a path in its command", async () => {
    path = join(directory, "it's", "id.key");
    mkdirSync(join(directory, "it's"), { mode: 0o700 });
    writeFileSync(path, keys.alice.seed, { mode: 0o644 });
    await run("sh", ["-c", ((await openIdentity(path)) as IdentityRefusal).mend]);
    expect((await opened()).identity.key).toBe(keys.alice.public);
  });

  it("is absent to who only loads", () => {
    expect(loadIdentity(path)).toBeUndefined();
  });

  it("is read again while another process is writing it", async () => {
    put("");
    const waiting = opened();
    setTimeout(() => writeFileSync(path, keys.bob.seed), 60);
    expect(await waiting).toMatchObject({ created: false, identity: { key: keys.bob.public } });
  });

  it("is one, when many processes come at once", async () => {
    const module = new URL("../../../src/client/trust/identity-file.ts", import.meta.url).href;
    // All wait for one moment, so that they meet at the creation and not at their own start.
    const program = `
      const { openIdentity } = await import(${JSON.stringify(module)});
      while (Date.now() < ${Date.now() + 1_500});
      const { identity, created } = await openIdentity(${JSON.stringify(path)});
      console.log(JSON.stringify({ key: identity.key, created }));`;
    const results = await Promise.all(
      Array.from({ length: 8 }, () => run(process.execPath, ["--input-type=module", "-e", program])),
    );
    const answers = results.map(({ stdout }) => JSON.parse(stdout) as { key: string; created: boolean });
    expect(new Set(answers.map(({ key }) => key)).size).toBe(1);
    expect(answers.filter(({ created }) => created)).toHaveLength(1);
    expect(readdirSync(join(directory, "interlink"))).toEqual(["id.key"]);
  }, 30_000);

  it("may have another name too: a hard link is the same file", async () => {
    put(keys.alice.seed);
    linkSync(path, join(directory, "backup.key"));
    expect((await opened()).identity.key).toBe(keys.alice.public);
  });
});

describe("where it is", () => {
  it("is the original's folder if that is there, whatever XDG says", () => {
    const original = join(directory, ".config", "interlink");
    mkdirSync(original, { recursive: true });
    expect(configDirectory({ HOME: directory })).toBe(original);
    expect(configDirectory({ USERPROFILE: directory })).toBe(original);
    expect(trustPaths({ HOME: directory })).toEqual({
      key: join(original, "id.key"),
      peers: join(original, "peers.json"),
    });
  });

  it("is what a variable says", () => {
    const env = { HOME: directory, INTERLINK_KEY: "/k", INTERLINK_PEERS: "/p" };
    expect(trustPaths(env)).toEqual({ key: "/k", peers: "/p" });
  });

  it("is else the system's custom", async () => {
    const module = new URL("../../../src/client/trust/config-directory.ts", import.meta.url).href;
    const program = `const { configDirectory } = await import(${JSON.stringify(module)}); console.log(configDirectory(process.env));`;
    const ask = async (env: Record<string, string>) =>
      (
        await run(process.execPath, ["--input-type=module", "-e", program], {
          env: { PATH: process.env["PATH"]!, ...env },
        })
      ).stdout.trim();
    expect(await ask({ HOME: directory, XDG_CONFIG_HOME: join(directory, "xdg") })).toBe(
      process.platform === "linux" ? join(directory, "xdg", "interlink") : expect.stringContaining("interlink"),
    );
  });
});
