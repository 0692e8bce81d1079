/** The operator's tool against a real bus: a key, an invite, a newcomer, the counters. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { askBus, makeKey, readKey } from "../../scripts/invite.ts";
import { PROJECT_DIR, startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { Agent } from "../support/agent.ts";

const HOUR = 3_600_000;

let dir: string;
let bus: LocalBus;
let adminFile: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "interlink-invite-"));
  adminFile = join(dir, "admin.key");
  const { out } = await invite("--new-key", adminFile);
  bus = await startBus({
    bundle: inject("bundle"),
    vars: { ADMISSION: "join", ADMIN_KEYS: out.trim(), LOG: "faults" },
  });
});
afterAll(async () => {
  await bus.stop();
  await rm(dir, { recursive: true, force: true });
});

async function run(script: string, ...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const child = spawn(process.execPath, [script, ...args], { stdio: ["ignore", "pipe", "pipe"], cwd: PROJECT_DIR });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  return { code, out, err };
}

function invite(...args: string[]) {
  return run("scripts/invite.ts", ...args);
}

const seedIn = async (path: string) => (await readFile(path, "utf8")).trim();

describe("a new key", () => {
  it("is in a file of its owner's alone, and only its public half is shown", async () => {
    const path = join(dir, "new.key");
    const { code, out, err } = await invite("--new-key", path);
    expect(code).toBe(0);
    const mode = (await stat(path)).mode & 0o777;
    expect(mode.toString(8)).toBe("600");
    const seed = await seedIn(path);
    expect(seed).toMatch(/^[\w-]{43}$/);
    expect(out).toMatch(/^[\w-]{43}\n$/);
    expect(out + err).not.toContain(seed);
    expect((await invite("--key", path)).out).toBe(out);
  });

  it("never replaces a file", async () => {
    const before = await seedIn(adminFile);
    const { code, out, err } = await invite("--new-key", adminFile);
    expect({ code, out, err }).toEqual({ code: 1, out: "", err: expect.stringContaining("exists") });
    expect(await seedIn(adminFile)).toBe(before);
  });
});

describe("a key file is refused", () => {
  it.each([0o640, 0o604, 0o620, 0o610])("if others have any right to it (%o)", async (mode) => {
    const path = join(dir, `mode-${mode}`);
    await makeKey(path);
    await chmod(path, mode);
    await expect(readKey(path)).rejects.toThrow(/can be read by others/);
    const { code, out } = await invite("--key", path, "--url", bus.url);
    expect({ code, out }).toEqual({ code: 1, out: "" });
  });

  it.each([
    ["nothing", ""],
    ["too little", "AAAA"],
    ["another spelling", `${"A".repeat(42)}B`],
    ["two lines", `${"A".repeat(43)}\n${"A".repeat(43)}`],
  ])("if it holds %s", async (name, content) => {
    const path = join(dir, name);
    await writeFile(path, content, { mode: 0o600 });
    await expect(readKey(path)).rejects.toThrow(/holds no key/);
  });

  it("if it is not there", async () => {
    expect(await invite("--key", join(dir, "none"))).toMatchObject({ code: 1, out: "" });
  });
});

describe("an invite", () => {
  it("lets one key in, and no second one", async () => {
    const before = Date.now();
    const { code, out, err } = await invite("--key", adminFile, "--url", bus.url, "--ttl", "2h");
    expect({ code, out }).toEqual({ code: 0, out: expect.stringMatching(/^[\w-]{43}\n$/) });
    const expiresAtMs = Date.parse(/\d{4}-\S+Z/.exec(err)![0]);
    expect(expiresAtMs).toBeGreaterThanOrEqual(before + 2 * HOUR);
    expect(expiresAtMs).toBeLessThanOrEqual(Date.now() + 2 * HOUR);
    expect(out + err).not.toContain(await seedIn(adminFile));

    const [guest, other] = [await Agent.create({ url: bus.url }), await Agent.create({ url: bus.url })];
    expect(await guest.announce("s")).toMatchObject({ status: 403, body: { error: "not_admitted" } });
    expect(await guest.join(out.trim())).toMatchObject({ status: 200, body: { admitted: true } });
    expect((await guest.announce("s")).status).toBe(202);
    expect(await other.join(out.trim())).toMatchObject({ status: 403, body: { error: "join_denied" } });
  });

  it.each(["25h", "0s", "1", "h", "-1h", "1.5h", "2d"])("of %s is none", async (ttl) => {
    const { code, out, err } = await invite("--key", adminFile, "--url", bus.url, `--ttl=${ttl}`);
    expect({ code, out, err }).toEqual({ code: 1, out: "", err: expect.stringContaining("--ttl") });
  });

  it("is for admin keys to give", async () => {
    const path = join(dir, "nobody.key");
    await makeKey(path);
    const { code, out, err } = await invite("--key", path, "--url", bus.url);
    expect({ code, out, err }).toEqual({ code: 1, out: "", err: expect.stringMatching(/403 not_owner[^]*ADMIN_KEYS/) });
  });
});

describe("a URL", () => {
  it.each([
    ["http://bus.example", "in the clear"],
    ["ws://127.0.0.1:1", "in the clear"],
    ["https://bus.example/path", "origin"],
    ["https://user@bus.example", "origin"],
    ["bus.example", "origin"],
  ])("%s is refused before anything is signed", async (url, says) => {
    const { code, err } = await invite("--key", adminFile, "--url", url);
    expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining(says) });
  });

  it("that is not one of the bus's own is told as such", async () => {
    const seed = await readKey(adminFile);
    const { port } = bus;
    const elsewhere = await startBus({ bundle: inject("bundle"), vars: { AUDIENCE: "https://bus.example" } });
    try {
      await expect(askBus({ url: elsewhere.url, seed }, "GET", "/stats")).rejects.toThrow(/bad_signature[^]*AUDIENCE/);
    } finally {
      await elsewhere.stop();
    }
    await expect(askBus({ url: `http://localhost:${port}`, seed }, "GET", "/stats")).resolves.toBeDefined();
  });
});

it.each([-HOUR, HOUR])("mends a clock that is off by %d ms", async (offsetMs) => {
  const asker = { url: bus.url, seed: await readKey(adminFile), now: () => Date.now() + offsetMs };
  expect(await askBus(asker, "POST", "/invite", { ttl_ms: 1_000 })).toMatchObject({ token: expect.any(String) });
});

it("counts over all pages, each identity once", async () => {
  const seed = await readKey(adminFile);
  const { identities: before } = await askBus<{ identities: number }>(
    { url: bus.url, seed },
    "GET",
    "/stats?limit=200",
  );
  const COUNT = 70; // three pages
  const guests = await Promise.all(
    Array.from({ length: COUNT }, async () => {
      const { token } = await askBus<{ token: string }>({ url: bus.url, seed }, "POST", "/invite", { ttl_ms: HOUR });
      const guest = await Agent.create({ url: bus.url });
      await guest.join(token);
      expect((await guest.announce("s")).status).toBe(202);
      return guest;
    }),
  );
  await guests[0]!.send(guests[0]!.route("s"), "to myself");
  const { code, out } = await invite("--key", adminFile, "--url", bus.url, "--stats");
  expect(code).toBe(0);
  const stats = JSON.parse(out);
  expect(stats).toMatchObject({ identities: before + COUNT, queued: 1, isolate: { refusals: expect.any(Object) } });
  expect(stats.sessions_live).toBeGreaterThanOrEqual(COUNT);
  expect(stats).not.toHaveProperty("cursor");
  for (const guest of guests) guest.close();
});

it("is told what is missing", async () => {
  expect(await invite()).toMatchObject({ code: 1, err: expect.stringContaining("--new-key FILE") });
  expect(await invite("--nonsense")).toMatchObject({ code: 1, err: expect.stringContaining("--nonsense") });
  expect(await invite("--help")).toMatchObject({ code: 0, out: expect.stringContaining("--stats") });
});

describe("docs/DEPLOY.md", () => {
  it("shows two agents that run as they are written", async () => {
    const markdown = await readFile(join(PROJECT_DIR, "docs/DEPLOY.md"), "utf8");
    const [, program] = /```ts\n([^]*?)```/.exec(markdown)!;
    const path = join(dir, "two-agents.ts");
    const source = program!.replaceAll('from "./', `from "${PROJECT_DIR}/`); // it is meant to lie in the checkout
    await writeFile(path, source);
    const tokens = [
      (await invite("--key", adminFile, "--url", bus.url)).out.trim(),
      (await invite("--key", adminFile, "--url", bus.url)).out.trim(),
    ];
    const { code, out, err } = await run(path, bus.url, ...tokens);
    expect({ code, err }, out).toEqual({ code: 0, err: "" });
    expect(out).toContain("hello");
  });
});
