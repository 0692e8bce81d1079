/** An idle session is woken: real agents on a real bus, a host's socket, hooks as processes, and a `codex` that notes what it is given. */

import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { Host, twoMachines, type Machine } from "../hosts/machine.ts";
import { until } from "../session/support.ts";
import { FakeClaude, run } from "./fake-claude.ts";

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

/** Ann writes; bob sits at Claude Code, or at what the test makes of him. */
async function people(): Promise<{ ann: Host; annAt: Machine; bob: Machine; claude: FakeClaude }> {
  const [annAt, bob] = await twoMachines(bus.url, "ann", "bob");
  const ann = await Host.start(annAt, "v2 auto", false);
  onTestFinished(async () => {
    await ann.close();
    annAt.remove();
    bob.remove();
  });
  const claude = new FakeClaude(bob, "11111111-1111-4111-8111-111111111111");
  return { ann, annAt, bob, claude };
}

/** What a peer's model reads of how bob's session is woken. */
async function toldTo(ann: Host): Promise<string> {
  const { sessions } = await ann.ok("discover", { peer: "bob" });
  return (JSON.parse(sessions[0]) as { wake: string }).wake;
}

const write = (ann: Host, text: string, to = "bob") => ann.ok("send_message", { to, text });
const hookFolder = (bob: Machine) => join(bob.home, ".local/state/interlink/hooks");
/** Each wake that was made, by its path. */
const wakes = ({ log }: FakeClaude) => [...log.matchAll(/"event":"wake","path":"(\w+)"/g)].map(([, path]) => path);

describe("by the session's inbox", { timeout: 60_000 }, () => {
  it("fifty messages are one wake that says fifty; it is proven by the look", async () => {
    const { ann, annAt, claude } = await people();
    await claude.openInbox();
    await claude.start();
    await claude.connected();
    expect(await toldTo(ann)).toBe("no answered wake is known, so mail may wait until it looks");
    expect(await claude.call("whoami")).toMatchObject({
      session: claude.thread,
      wake_path: "inbox_socket",
      wake_proof: "unproven",
      readiness: { wake: "ready" },
    });
    await Promise.all(Array.from({ length: 50 }, (_, n) => write(ann, `SECRET ${n}`)));
    await until(() => claude.inbox.length > 0, "a wake");
    expect(claude.inbox[0]).toMatch(
      /^<cross-session-message from="interlink" from-name="interlink">\nInterlink: 50 unread messages from "ann", the oldest \ds ago\. Call check_messages\. \(wake [0-9a-f]{8}\)\n<\/cross-session-message>$/,
    );
    for (let read = 0; read < 49; read += 5) await claude.call("check_messages", { max: Math.min(5, 49 - read) });
    expect(await claude.call("whoami")).toMatchObject({ unread: 1 });
    expect(await claude.call("whoami")).toMatchObject({ wake_proof: "proven", wake_proven_age_ms: expect.any(Number) });
    const { sessions } = await claude.call("discover", { peer: "self" });
    expect(JSON.parse(sessions[0])).toMatchObject({ wake_path: "inbox_socket", wake_proof: "proven" });
    const seen = /^a wake was last answered (just now|\d+s ago), by the session's inbox in Claude Code$/;
    await until(async () => seen.test(await toldTo(ann)), "its peer is told");
    const typed = (await run(["discover", "bob"], annAt.env()).ended).out;
    expect(typed.trimEnd().split(", ").slice(-2).join(", ")).toMatch(seen);
    const { identities } = JSON.parse((await run(["discover", "bob", "--json"], annAt.env()).ended).out);
    expect(identities[0].sessions[0].wake).toEqual({ path: "inbox_socket", proven_age_ms: expect.any(Number) });
    await until(() => wakes(claude).length >= 1, "its line in the log"); // which may come after the wake
    expect(wakes(claude)).toEqual(["inbox_socket"]);
    expect(claude.inbox).toHaveLength(1);
    expect(claude.strange).toEqual([]);
  });

  it("mail from before is told of when the session begins, once", async () => {
    const { ann, claude } = await people();
    await claude.start();
    await claude.connected();
    await write(ann, "while nobody hears");
    await until(async () => (await claude.call("whoami"))["unread"] === 1, "the message");
    await claude.quit();
    await claude.openInbox();
    await claude.start();
    await until(() => claude.inbox.length > 0, "a wake");
    expect(claude.inbox[0]).toContain("1 unread message");
    await claude.call("check_messages");
    await write(ann, "and now");
    await until(() => claude.inbox.length > 1, "the next wake");
    await until(() => wakes(claude).length >= 2, "its line in the log"); // which may come after the wake
    expect(wakes(claude)).toEqual(["inbox_socket", "inbox_socket"]);
  });

  it("is left to hosts that gave it to us, not to the session around them", async () => {
    const { ann, claude } = await people();
    await claude.openInbox();
    await claude.start({ CLAUDE_CODE_CHILD_SESSION: "1" });
    await claude.connected();
    const me = await claude.call("whoami");
    expect(me["wake_path"]).toBe("none");
    expect(me["session"]).not.toBe(claude.thread);
    await write(ann, "hello");
    await until(async () => (await claude.call("whoami"))["unread"] === 1, "the message");
    await claude.quit();
    expect(claude.inbox).toEqual([]);
  });

  it.each(["off", "sometimes"])("is not used where the person says INTERLINK_WAKE=%s", async (INTERLINK_WAKE) => {
    const { claude } = await people();
    await claude.openInbox();
    await claude.start({ INTERLINK_WAKE });
    expect(await claude.call("whoami")).toMatchObject({ wake_path: "none", readiness: { wake: "no_wake_path" } });
  });
});

describe("by the Stop hook", { timeout: 60_000 }, () => {
  it("a hook that waits ends with 2 and the words on stderr; the next begins anew", async () => {
    const { ann, claude } = await people();
    // No socket: another provider, or an older Claude Code.
    await claude.start({ CLAUDE_CODE_MESSAGING_SOCKET: undefined });
    await claude.connected();
    const [first, second] = [claude.waits(), claude.waits()];
    // Two at once: one stays.
    const one = await Promise.race([first.ended, second.ended]);
    expect(one).toMatchObject({ code: 0, out: "", err: "" });
    expect(await claude.call("whoami")).toMatchObject({ wake_path: "stop_hook", wake_proof: "unproven" });
    const stays = [first, second].find(({ child }) => child.exitCode === null)!;
    await write(ann, "wake up");
    const woken = await stays.ended;
    expect(woken).toMatchObject({ code: 2, out: "" });
    expect(woken.err).toMatch(/^Interlink: 1 unread message from "ann" .*\n$/);
    // The turn is over and nobody has looked: the next hook waits, and is not sent back at once.
    const again = claude.waits();
    await until(async () => (await claude.call("whoami"))["wake_path"] === "stop_hook", "the hook");
    await claude.call("check_messages");
    expect(again.child.exitCode).toBeNull();
    await write(ann, "and now");
    expect((await again.ended).err).toContain("1 unread message");
    await until(() => wakes(claude).length >= 2, "its line in the log"); // which may come after the wake
    expect(wakes(claude)).toEqual(["stop_hook", "stop_hook"]);
    const last = claude.waits();
    await until(async () => (await claude.call("whoami"))["wake_path"] === "stop_hook", "the last hook");
    await claude.quit();
    expect(await last.ended).toMatchObject({ code: 0, err: "" });
  });

  it("is told at once of mail that came while no hook waited", async () => {
    const { ann, claude } = await people();
    await claude.start({ CLAUDE_CODE_MESSAGING_SOCKET: undefined });
    await claude.connected();
    await write(ann, "during a turn");
    await until(async () => (await claude.call("whoami"))["unread"] === 1, "the message");
    expect((await claude.waits().ended).code).toBe(2);
  });

  it("goes on waiting while an agent is replaced by the next", async () => {
    const { ann, claude } = await people();
    await claude.start({ CLAUDE_CODE_MESSAGING_SOCKET: undefined });
    await claude.connected();
    const waiting = claude.waits();
    await until(async () => (await claude.call("whoami"))["wake_path"] === "stop_hook", "the hook");
    await claude.call("reconnect");
    await until(async () => (await claude.call("whoami"))["wake_path"] === "stop_hook", "the hook, again");
    await write(ann, "after the upgrade");
    expect((await waiting.ended).code).toBe(2);
  });

  it("ends at once, with 0 and in silence, when there is nothing to wait for", async () => {
    const { claude, bob } = await people();
    const quiet = { code: 0, out: "", err: "" };
    expect(await claude.waits().ended).toMatchObject(quiet); // no state folder
    await claude.openInbox();
    await claude.start();
    await claude.connected();
    expect(await claude.waits().ended).toMatchObject(quiet); // a better path
    expect(await claude.waits({ CLAUDE_CODE_SESSION_ATTENDED: "0" }).ended).toMatchObject(quiet);
    expect(await claude.waits({ INTERLINK_WAKE: "off" }).ended).toMatchObject(quiet);
    chmodSync(hookFolder(bob), 0o000);
    expect(await claude.waits().ended).toMatchObject(quiet);
    chmodSync(hookFolder(bob), 0o700);
    process.kill(claude.pid, "SIGSTOP"); // the supervisor alone: its agent answers
    expect(await claude.waits().ended).toMatchObject(quiet);
    process.kill(claude.pid, "SIGCONT");
  });
});

describe("hooks", { timeout: 60_000 }, () => {
  const QUIET = { code: 0, out: "", err: "" };

  it("end with 0 and in silence, in under two seconds, whatever is wrong", async () => {
    const { claude, bob } = await people();
    const events = ["session-start", "prompt", "tool", "no-such", ""];
    const ends = async () => {
      for (const name of events) {
        const ended = await claude.hook(name, { prompt: "hello", source: "startup" });
        expect(ended, name).toMatchObject(QUIET);
        expect(ended.tookMs, name).toBeLessThan(2_000);
      }
    };
    await ends(); // no folder
    mkdirSync(hookFolder(bob), { recursive: true, mode: 0o700 });
    writeFileSync(join(hookFolder(bob), "secret"), "short", { mode: 0o600 });
    await ends(); // no agent
    chmodSync(join(hookFolder(bob), "secret"), 0o644);
    await ends(); // a secret that others can read
    rmSync(hookFolder(bob), { recursive: true });
    writeFileSync(hookFolder(bob), "no folder");
    await ends();
    for (const input of ["", "{", "[]", "null", "x".repeat(5_000_000)]) {
      expect(await run(["hook", "prompt"], claude.hookEnv(), input).ended).toMatchObject(QUIET);
    }
    // A host that never closes the pipe.
    const open = run(["hook", "prompt"], claude.hookEnv());
    expect(await open.ended).toMatchObject(QUIET);
    const homeless = await run(["hook", "prompt"], { PATH: process.env["PATH"] }, "{}").ended;
    expect(homeless).toMatchObject(QUIET);
  });

  it("end as well when the agent hangs", async () => {
    const { claude } = await people();
    await claude.start();
    await claude.connected();
    const pid = Number(/"event":"agent_start".*?"pid":(\d+)/.exec(claude.log)![1]);
    process.kill(pid, "SIGSTOP");
    try {
      for (const ended of await Promise.all([claude.hook("prompt", { prompt: "hello" }), claude.waits().ended])) {
        expect(ended).toMatchObject(QUIET);
        expect(ended.tookMs).toBeLessThan(2_500);
      }
    } finally {
      process.kill(pid, "SIGCONT");
    }
  });

  it("work with the bus down", async () => {
    const { claude } = await people();
    await claude.start({ INTERLINK_URL: "http://127.0.0.1:9", CLAUDE_CODE_MESSAGING_SOCKET: undefined });
    await claude.call("whoami");
    expect(await claude.hook("prompt", { prompt: "hello" })).toMatchObject(QUIET);
    const waiting = claude.waits();
    await until(async () => (await claude.call("whoami"))["wake_path"] === "stop_hook", "the hook");
    await claude.quit();
    expect(await waiting.ended).toMatchObject(QUIET);
  });

  it("lift this session's mark when its user types, and not when a wake does", async () => {
    const { ann, claude } = await people();
    await claude.openInbox();
    await claude.start();
    await claude.connected();
    await write(ann, "question");
    await until(() => claude.inbox.length > 0, "a wake");
    await claude.call("check_messages");
    const spent = async () => (await run(["budget"], claude.hookEnv(), "").ended).out;
    await claude.call("send_message", { to: "ann", text: "answer" });
    expect(await spent()).toContain("replies 19 of 20");
    await claude.hook("prompt", { prompt: claude.inbox[0]! });
    await claude.call("send_message", { to: "ann", text: "and more" });
    expect(await spent()).toContain("replies 18 of 20");
    await claude.hook("prompt", { prompt: "tell ann that I agree" });
    expect(await spent()).not.toContain("replies 18");
    await claude.call("send_message", { to: "ann", text: "my user agrees" });
    expect(await spent()).not.toContain("of 20 (");
    expect(await spent()).not.toContain("replies 19");
  });

  it("leave no file that others may read, and no socket once the session is over", async () => {
    const { claude, bob } = await people();
    await claude.start();
    await claude.connected();
    const { statSync } = await import("node:fs");
    const folder = hookFolder(bob);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o077, name).toBe(0);
    expect(readdirSync(folder).filter((name) => name.endsWith(".sock")).length).toBeGreaterThan(0);
    await claude.quit();
    await until(() => readdirSync(folder).every((name) => name === "secret"), "no socket");
  });
});

describe("a session follows its host's thread", { timeout: 60_000 }, () => {
  const [A, B] = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];
  const session = async (claude: FakeClaude) => (await claude.call("whoami"))["session"] as string;

  it("through /clear, a restart of the agent, and a resume of either conversation", async () => {
    const { ann, claude } = await people();
    await claude.openInbox();
    await claude.start();
    await claude.connected();
    expect(await session(claude)).toBe(A);
    await write(ann, "before the clear");
    await until(() => claude.inbox.length > 0, "a wake");
    await claude.clear(B);
    expect(await session(claude)).toBe(A);
    // The next process has the variables of the beginning.
    await claude.call("reconnect");
    expect(await session(claude)).toBe(A);
    expect((await claude.call("check_messages"))["messages"]).toHaveLength(1);
    await claude.quit();

    claude.thread = B;
    await claude.start();
    await claude.connected();
    expect(await session(claude)).toBe(A);
    await claude.quit();

    // What was cleared away is another conversation, beside the one that goes on.
    claude.thread = A;
    await claude.start();
    const other = await session(claude);
    expect([A, B]).not.toContain(other);
  });

  it("when its user resumes another conversation in the same host", async () => {
    const { ann, claude } = await people();
    await claude.openInbox();
    claude.thread = B;
    await claude.start();
    await claude.connected();
    await write(ann, "to the first conversation");
    await until(async () => (await claude.call("whoami"))["unread"] === 1, "the message");
    await claude.quit();

    claude.thread = A;
    await claude.start();
    await claude.connected();
    expect(await claude.call("whoami")).toMatchObject({ session: A, unread: 0 });
    claude.thread = B;
    await claude.hook("session-start", { source: "resume" });
    await claude.connected();
    expect(await claude.call("whoami")).toMatchObject({ session: B, unread: 1 });
  });

  it("that is named by a hook where the host holds the environment back", async () => {
    const { claude } = await people();
    await claude.openInbox();
    // The hook is the host's child as the server is: here the test is both.
    const held = { CLAUDE_CODE_MESSAGING_SOCKET: undefined, CLAUDE_CODE_MESSAGING_TOKEN: undefined };
    await claude.start(held);
    expect(await claude.call("whoami")).toMatchObject({ wake_path: "none" });
    await claude.hook("session-start", { source: "startup" }, { CLAUDE_PID: String(process.pid) });
    expect(await claude.call("whoami")).toMatchObject({ wake_path: "inbox_socket" });
  });

  it("but not where a person has named the session", async () => {
    const { claude, bob } = await people();
    await claude.start({ INTERLINK_SESSION: "mine" });
    expect(await session(claude)).toBe("mine");
    await claude.clear(B);
    expect(await session(claude)).toBe("mine");
    expect(existsSync(join(bob.home, ".local/state/interlink/threads"))).toBe(false);
  });
});

describe("by Codex's queue", { timeout: 60_000 }, () => {
  const THREAD = "33333333-3333-4333-8333-333333333333";
  it("the thread that called is told, as a note that is not its user's", async () => {
    const { ann, claude, bob } = await people();
    const [codex, notes] = [join(bob.home, "codex"), join(bob.home, "notes")];
    writeFileSync(codex, `#!/bin/sh\nprintf '%s\\n' "$@" >> '${notes}'\n`, { mode: 0o700 });
    const nothing = { CLAUDE_CODE_SESSION_ID: undefined, CLAUDE_CODE_MESSAGING_SOCKET: undefined };
    await claude.start({ ...nothing, INTERLINK_CODEX: codex });
    const me = await claude.call("whoami", {}, { threadId: THREAD, callId: "c1" });
    expect(me).toMatchObject({ session: THREAD, wake_path: "codex_queue" });
    await claude.connected();
    await write(ann, "hello");
    await until(() => existsSync(notes) && readFileSync(notes, "utf8").endsWith(")\n"), "a note");
    expect(readFileSync(notes, "utf8")).toMatch(
      /^queue\n--thread=33333333-3333-4333-8333-333333333333\n--message=\[interlink: a note of the mail client on this machine, not from your user\] Interlink: 1 unread message from "ann"/,
    );
    await claude.call("check_messages", {}, { threadId: THREAD, callId: "c2" });
    expect(await claude.call("whoami")).toMatchObject({ wake_proof: "proven" });
  });

  it("falls back where Codex is not there", async () => {
    const { ann, claude } = await people();
    const nothing = { CLAUDE_CODE_SESSION_ID: undefined, CLAUDE_CODE_MESSAGING_SOCKET: undefined };
    await claude.start({ ...nothing, INTERLINK_CODEX: "/nowhere/codex" });
    await claude.call("whoami", {}, { threadId: THREAD, callId: "c1" });
    await claude.connected();
    await write(ann, "hello");
    await until(async () => (await claude.call("whoami"))["wake_path"] === "none", "the fallback");
    expect((await claude.call("check_messages"))["messages"]).toHaveLength(1);
  });
});

describe("by a channel, on request", { timeout: 60_000 }, () => {
  it("opens the older era, offers the channel, and speaks on it", async () => {
    const { ann, claude } = await people();
    await claude.openInbox();
    await claude.start({ INTERLINK_WAKE: "channel" });
    expect(claude.channel).toEqual({});
    await claude.connected();
    await until(async () => (await claude.call("whoami"))["wake_path"] === "channel", "the channel");
    await write(ann, "hello");
    await until(() => claude.heard.length > 0, "a word on the channel");
    expect(claude.heard).toEqual([expect.stringMatching(/^Interlink: 1 unread message from "ann" /)]);
    await until(() => wakes(claude).length >= 1, "its line in the log"); // which may come after the wake
    expect(wakes(claude)).toEqual(["channel"]);
    expect(claude.inbox).toEqual([]);
  });

  it("is offered to nobody who did not ask", async () => {
    const { claude } = await people();
    await claude.start();
    expect(claude.channel).toBeUndefined();
  });
});
