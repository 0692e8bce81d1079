/** `interlink-edge` as it is typed, and as a host starts it: real processes, each in a home of its own. */

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { describe, expect, it, onTestFinished } from "vitest";
import { fingerprint, parseKey } from "../../../src/protocol/address.ts";
import { readCommand } from "../../../src/client/cli/command-line.ts";
import { BUS_DEFAULT, readSettings, type Variables } from "../../../src/client/cli/settings.ts";
import { attest, type Terminal } from "../../../src/client/cli/terminal.ts";
import { openPairing } from "../../../src/client/state/open-pairing.ts";
import { pairingPath } from "../../../src/client/state/paths.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import { receiveKnock } from "../../../src/client/trust/pairing.ts";
import { NO_PAIRING } from "../../../src/client/trust/pairing-state.ts";
import { VERSION } from "../../../src/client/version.ts";
import { fakeKey, STRANGER } from "../../support/fake-agent.ts";
import { textOf, type Result } from "./clients.ts";

const BIN = join(import.meta.dirname, "../../../src/client/cli/bin.ts");
const NODE = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types", BIN];

/** A home of its own. */
function home(more: Record<string, string> = {}) {
  const HOME = mkdtempSync(join(tmpdir(), "interlink-cli-"));
  onTestFinished(() => rmSync(HOME, { recursive: true, force: true }));
  const folders = { XDG_CONFIG_HOME: join(HOME, "config"), XDG_STATE_HOME: join(HOME, "state") };
  // A port that nobody listens at.
  const env = { HOME, PATH: process.env["PATH"]!, ...folders, INTERLINK_URL: "http://127.0.0.1:9", ...more };
  return { HOME, env, sessions: join(folders.XDG_STATE_HOME, "interlink/sessions") };
}

async function type(env: Record<string, string>, ...args: string[]) {
  const child = spawn(process.execPath, [...NODE, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk) => (out += String(chunk)));
  child.stderr.on("data", (chunk) => (err += String(chunk)));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { out, err, code };
}

/** Lets a stranger have knocked at an identity, which then has it open as its sessions do. */
function knock(sessions: string, me: string, claimed_name: string, what: "knock" | "answer" = "knock") {
  const opened = openPairing({ directory: sessions, me: parseKey(me)!, nowMs: Date.now() });
  if ("refusal" in opened) throw new Error(opened.refusal);
  const { pairing } = opened;
  onTestFinished(() => pairing.close());
  pairing.update((before) => {
    const { state } = receiveKnock(before, { key: STRANGER.key, claimed_name, msg_id: "k1" }, Date.now());
    return { state: { ...state, pending: state.pending.map((request) => ({ ...request, what })) } };
  });
  return pairing;
}

describe("what is typed", () => {
  it.each([
    { args: ["mcp"], command: { run: "mcp" } },
    { args: ["key"], command: { run: "key" } },
    { args: ["--version"], command: { run: "version" } },
    { args: ["mcp", "-h"], command: { run: "help", of: "mcp" } },
    { args: ["pair", "list"], command: { run: "pair list" } },
    {
      args: ["pair", "accept", "F", "--as", "bob"],
      command: { run: "pair accept", request: "F", petname: "bob", yes: false },
    },
    {
      args: ["pair", "accept", "F", "--as=-x", "--yes"],
      command: { run: "pair accept", request: "F", petname: "-x", yes: true },
    },
    { args: ["pair", "reject", "F"], command: { run: "pair reject", request: "F", yes: false } },
    { args: ["peers", "list"], command: { run: "peers list" } },
    { args: ["peers", "add", "--", "-x", "K"], command: { run: "peers add", petname: "-x", key: "K", yes: false } },
    { args: ["peers", "remove", "bob", "--yes"], command: { run: "peers remove", peer: "bob", yes: true } },
    { args: ["budget"], command: { run: "budget" } },
    { args: ["budget", "lift"], command: { run: "budget lift", yes: false } },
    { args: ["budget", "lift", "bob", "--yes"], command: { run: "budget lift", peer: "bob", yes: true } },
  ])("$args is $command", ({ args, command }) => expect(readCommand(args)).toEqual(command));

  it.each([
    [[]],
    [["mcp", "now"]],
    [["pair"]],
    [["pair", "accept", "F"]],
    [["pair", "accept"]],
    [["pair", "list", "x"]],
    [["peers", "add", "bob"]],
    [["peers", "add", "bob", "K", "x"]],
    [["peers", "remove"]],
    [["budget", "show"]],
    [["budget", "lift", "bob", "x"]],
    [["--nope"]],
    [["nope"]],
  ])("%j is no command", (args) => expect(readCommand(args)).toHaveProperty("wrong"));
});

describe("what the environment says", () => {
  const read = (env: Variables) => readSettings({ HOME: "/nowhere", ...env }, "linux");
  it.each([
    { why: "nothing", env: {}, wanted: { bus: "http://127.0.0.1:9440", name: undefined, session: undefined } },
    {
      why: "set to nothing",
      env: { INTERLINK_URL: " ", INTERLINK_NAME: "" },
      wanted: { bus: BUS_DEFAULT, name: undefined },
    },
    { why: "several buses", env: { INTERLINK_URL: "https://a,https://b" }, wanted: { bus: "https://a,https://b" } },
    { why: "a host's thread", env: { CLAUDE_CODE_SESSION_ID: "h" }, wanted: { host: { thread: "h" } } },
    { why: "no word on waking", env: {}, wanted: { wake: "auto" } },
    { why: "a word on waking", env: { INTERLINK_WAKE: "channel" }, wanted: { wake: "channel" } },
    { why: "a word that is none: no leave", env: { INTERLINK_WAKE: "please" }, wanted: { wake: "off" } },
    {
      why: "a pinned one first",
      env: { CLAUDE_CODE_SESSION_ID: "h", INTERLINK_SESSION: "p" },
      wanted: { session: "p" },
    },
    {
      why: "the files",
      env: { INTERLINK_KEY: "/k", INTERLINK_PEERS: "/p" },
      wanted: { trust: { key: "/k", peers: "/p" } },
    },
  ])("$why", ({ env, wanted }) => expect(read(env)).toEqual(expect.objectContaining(clean(wanted))));

  it("names nothing that was not said", () => expect(read({ INTERLINK_NAME: " " })).not.toHaveProperty("name"));
});

/** Without what is undefined. */
function clean(wanted: object): object {
  return JSON.parse(JSON.stringify(wanted)) as object;
}

describe("a change of trust", () => {
  const key = fakeKey(9);
  const terminalOf = (isPerson: boolean, answer = "") => {
    const lines: string[] = [];
    const terminal: Terminal = {
      isPerson,
      out: (line) => void lines.push(line),
      err: (line) => void lines.push(line),
      ask: async () => answer,
    };
    return { terminal, lines };
  };

  it.each([
    { why: "a person says y", isPerson: true, answer: "y\n", yes: false, attested: true },
    { why: "a person says yes", isPerson: true, answer: " YES ", yes: false, attested: true },
    { why: "a person says nothing", isPerson: true, answer: "", yes: false, attested: false },
    { why: "a person says no", isPerson: true, answer: "no", yes: false, attested: false },
    { why: "--yes without a terminal", isPerson: false, answer: "", yes: true, attested: true },
    { why: "nobody there", isPerson: false, answer: "y", yes: false, attested: false },
  ])("$why: attested is $attested", async ({ isPerson, answer, yes, attested }) => {
    const { terminal, lines } = terminalOf(isPerson, answer);
    const operator = await attest(terminal, { key, shown: ["What?"], yes });
    expect(operator instanceof Operator).toBe(attested);
    expect(lines[0]).toBe("What?");
    if (operator) expect(() => Operator.check(operator, key)).not.toThrow();
  });
});

describe("the commands", { timeout: 30_000 }, () => {
  it("tell version and usage, and what is wrong", async () => {
    const { env } = home();
    const packed = JSON.parse(readFileSync(join(import.meta.dirname, "../../../package.json"), "utf8")) as object;
    expect(packed).toMatchObject({ version: VERSION });
    expect(await type(env, "--version")).toEqual({ out: `${VERSION}\n`, err: "", code: 0 });
    expect((await type(env, "--help")).out).toContain("interlink-edge pair accept");
    const wrong = await type(env, "pair", "acept");
    expect(wrong).toMatchObject({ out: "", code: 2 });
    expect(wrong.err).toContain("interlink-edge pair accept");
  });

  it("make a key once, and keep peers only with a person's word", async () => {
    const { env } = home();
    const first = await type(env, "key");
    const [key, print] = first.out.trim().split("  ");
    expect(print).toBe(fingerprint(parseKey(key!)!));
    expect(await type(env, "key")).toMatchObject({ out: first.out, err: "" });

    const bob = fakeKey(9);
    const unasked = await type(env, "peers", "add", "bob", bob);
    expect(unasked).toMatchObject({ out: "", code: 1 });
    expect(unasked.err).toContain("--yes");
    expect((await type(env, "peers", "list")).out).toBe("");
    expect(await type(env, "peers", "add", "bob", bob, "--yes")).toMatchObject({ code: 0 });
    expect((await type(env, "peers", "list")).out).toBe(`"bob"  ${fingerprint(bob)}  ${bob}\n`);
    expect(await type(env, "peers", "add", "bob", fakeKey(8), "--yes")).toMatchObject({ code: 1 });
    expect((await type(env, "peers", "remove", "bo", "--yes")).err).toContain('"bob"');
    expect(await type(env, "peers", "remove", fingerprint(bob), "--yes")).toMatchObject({ code: 0 });
    expect((await type(env, "peers", "list")).out).toBe("");
  });

  it("show, accept and reject those who knock, also while the session runs", async () => {
    const { env, sessions } = home();
    const [me] = (await type(env, "key")).out.split("  ");
    expect((await type(env, "pair", "list")).err).toContain("No pairing request waits.");
    // It stays open: a session runs.
    const pairing = knock(sessions, me!, "Mal\u001b[31m<b>");
    const listed = await type(env, "pair", "list");
    expect(listed.out).toMatch(
      new RegExp(`^${STRANGER.fingerprint}  "Mal\\\\u001b\\[31m\\\\u003cb\\\\u003e"  asks to pair`),
    );

    expect(await type(env, "pair", "accept", "AAAA-BBBB-CCCC-DDDD", "--as", "mal", "--yes")).toMatchObject({ code: 1 });
    expect(await type(env, "pair", "accept", STRANGER.fingerprint, "--as", "mal")).toMatchObject({ code: 1 });
    expect((await type(env, "peers", "list")).out).toBe("");
    expect(pairing.read()).toMatchObject({ pending: [{ key: STRANGER.key }], owed: [] });
    expect(await type(env, "pair", "accept", STRANGER.fingerprint, "--as", "mal", "--yes")).toMatchObject({ code: 0 });
    expect((await type(env, "peers", "list")).out).toBe(`"mal"  ${STRANGER.fingerprint}  ${STRANGER.key}\n`);
    expect(pairing.read()).toMatchObject({ pending: [], owed: [{ key: STRANGER.key, knock_id: "k1" }] });
    // Once: whoever decides later is told what was decided.
    for (const args of [
      ["accept", STRANGER.fingerprint, "--as", "eve"],
      ["reject", STRANGER.fingerprint],
    ]) {
      const late = await type(env, "pair", ...args, "--yes");
      expect(late).toMatchObject({ code: 1, err: expect.stringContaining('a peer already: "mal"') });
    }
  });

  it("reject one who answers our agent's knock, and say that it is that", async () => {
    const { env, sessions } = home();
    const [me] = (await type(env, "key")).out.split("  ");
    const pairing = knock(sessions, me!, "Mallory", "answer");
    const says = "said yes to your agent's request to pair";
    expect((await type(env, "pair", "list")).out).toContain(says);
    const rejected = await type(env, "pair", "reject", STRANGER.fingerprint, "--yes");
    expect(rejected).toMatchObject({ code: 0, err: expect.stringContaining(says) });
    expect(pairing.read()).toEqual(NO_PAIRING);
    expect((await type(env, "pair", "list")).out).toBe("");
    expect((await type(env, "pair", "reject", STRANGER.fingerprint, "--yes")).err).toMatch(/^No pairing request has/);
  });

  it("say where a file of pairing cannot be used", async () => {
    const { env, sessions } = home();
    const [me] = (await type(env, "key")).out.split("  ");
    knock(sessions, me!, "Mallory").close();
    const path = pairingPath(sessions, parseKey(me!)!);
    renameSync(path, `${path}.moved`);
    symlinkSync(`${path}.moved`, path);
    const refused = await type(env, "pair", "list");
    expect(refused).toMatchObject({ out: "", code: 1 });
    expect(refused.err).toContain("is not used (symlink)");
  });

  it("pass over the files of another identity", async () => {
    const { env, sessions } = home();
    await type(env, "key");
    knock(sessions, fakeKey(77), "Mallory").close();
    expect((await type(env, "pair", "list")).out).toBe("");
  });
});

describe("as a host starts it", { timeout: 15_000 }, () => {
  async function connect(env: Record<string, string>, mode: "auto" | "legacy" = "legacy") {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [...NODE, "mcp"],
      env,
      stderr: "pipe",
    });
    const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
    let errors = "";
    transport.stderr?.on("data", (chunk: Buffer) => (errors += String(chunk)));
    await client.connect(transport);
    onTestFinished(() => client.close());
    const call = async (name: string, args: Record<string, unknown> = {}) =>
      (await client.callTool({ name, arguments: args })) as Result;
    return { client, call, pid: () => transport.pid!, stderr: () => errors };
  }

  it.each(["legacy", "auto"] as const)("leaves no trace when it is only looked at: %s", async (mode) => {
    const { env, HOME } = home();
    const { client } = await connect(env, mode);
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names).toHaveLength(21); // those of a session, and the one that starts it anew
    expect(names).toContain("reconnect");
    await client.close();
    expect(readdirSync(HOME)).toEqual([]);
  });

  it("answers without a bus: who we are, who is trusted, and a message that waits on disk", async () => {
    const { env, sessions } = home({ INTERLINK_NAME: "laptop", INTERLINK_SESSION: "s-1" });
    await type(env, "peers", "add", "bob", fakeKey(9), "--yes");
    const { call, client } = await connect(env);
    const me = await call("whoami");
    expect(me.structuredContent).toMatchObject({ name: "laptop", session: "s-1", unread: 0 });
    expect(me.structuredContent!["connection"]).not.toBe("connected");
    const sent = await call("send_message", { to: "bob", text: "hi" });
    expect(sent.structuredContent, textOf(sent)).toMatchObject({ state: "pending", recipient: "unknown", to: "bob" });
    await client.close();

    const again = await connect(env);
    const { unsent } = (await again.call("list_pending")).structuredContent!;
    expect(unsent).toMatchObject([{ msg_id: sent.structuredContent!["msg_id"], state: "pending" }]);
    expect(readdirSync(sessions).filter((name) => /^s-1-.*\.db$/.test(name))).toHaveLength(1);
  });

  it("takes the host's id of the session, and says which other process has it", async () => {
    const { env } = home({ CLAUDE_CODE_SESSION_ID: "host-1" });
    const first = await connect(env);
    expect((await first.call("whoami")).structuredContent).toMatchObject({ session: "host-1" });
    const second = await connect(env);
    const refused = await second.call("whoami");
    expect(textOf(refused)).toMatch(/^not_started: .*another process runs this session/);
    // A call that comes while the other is ending waits for it, as for a host's probe.
    const waiting = second.call("whoami");
    await first.client.close();
    expect((await waiting).structuredContent).toMatchObject({ session: "host-1" });
    const log = second
      .stderr()
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as object);
    expect(log).toContainEqual(expect.objectContaining({ event: "not_started" }));
  });

  it("says what is wrong with its settings", async () => {
    const { env } = home({ INTERLINK_URL: "ftp://<x>" });
    const { call } = await connect(env);
    expect(textOf(await call("whoami"))).toMatch(/^not_started: .*INTERLINK_URL names "ftp:\/\/\\u003cx\\u003e"/);
  });

  it.each(["SIGINT", "SIGTERM", "stdin"] as const)("is down within 400 ms of %s", async (how) => {
    const { env, sessions } = home({ INTERLINK_SESSION: "s-1" });
    const child = spawn(process.execPath, [...NODE, "mcp"], { env, stdio: ["pipe", "pipe", "ignore"] });
    const answered = new Promise((resolve) => child.stdout.once("data", resolve));
    const params = { name: "whoami", arguments: {} };
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params })}\n`);
    await answered;
    expect(existsSync(sessions)).toBe(true);
    const closed = new Promise((resolve) => child.once("close", (code, signal) => resolve({ code, signal })));
    const startMs = performance.now();
    if (how === "stdin") child.stdin.end();
    else child.kill(how);
    expect(await closed).toEqual({ code: 0, signal: null });
    expect(performance.now() - startMs).toBeLessThan(400);
  });
});
