/** How an agent is woken, as `status` and `doctor` ask it: a real agent that is woken, and listeners that are none. */

import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { parseSessionId } from "../../../src/protocol/address.ts";
import { hookPlace, type HookPlace } from "../../../src/client/wake/hook-address.ts";
import type { HookAnswer } from "../../../src/client/wake/hook-line.ts";
import { HookServer } from "../../../src/client/wake/hook-server.ts";
import { askAgents } from "../../../src/client/wake/roll-call.ts";
import { Machine } from "../hosts/machine.ts";
import { until } from "../session/support.ts";
import { FakeClaude, run } from "./fake-claude.ts";

const THREAD = "11111111-1111-4111-8111-111111111111";

describe("status and doctor", { timeout: 60_000 }, () => {
  let bus: LocalBus;
  beforeAll(async () => {
    bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
  });
  afterAll(() => bus.stop());

  function person() {
    const machine = new Machine("bob", bus.url);
    onTestFinished(() => machine.remove());
    const { INTERLINK_SESSION: _, ...env } = machine.env();
    const type = (...args: string[]) => run(args, env, "").ended;
    const wakes = async () => {
      const { checks } = JSON.parse((await type("doctor", "--json")).out) as { checks: Record<string, string>[] };
      return checks.filter(({ name }) => name === "wake");
    };
    const status = async () => JSON.parse((await type("status", "--json")).out).wake;
    return { claude: new FakeClaude(machine, THREAD), type, wakes, status };
  }

  it("say unproven, and what doctor names to mend it is a real wake that proves it", async () => {
    const { claude, type, wakes, status } = person();
    const none = { name: "wake", state: "warning", says: "no agent runs, so none can be woken", mend: "start a host" };
    expect(await wakes()).toEqual([none]);
    expect((await type("status")).out).toContain("wake  no agent runs\n");
    await claude.openInbox();
    await claude.start();
    await claude.connected();
    const standing = { session: THREAD, path: "inbox_socket", unread: 0 };
    // It listens under several names, and is one agent.
    expect(await status()).toEqual({ agents: [{ ...standing, proof: "unproven" }], silent: [] });
    const [unproven] = await wakes();
    expect(unproven).toMatchObject({ state: "warning", says: `${THREAD}: inbox_socket, not proven yet` });
    const [, text, session] = /^interlink-edge send self "(.+)" (--session=\S+), and/.exec(unproven!["mend"]!)!;

    expect(await type("send", "self", text!, session!)).toMatchObject({ code: 0 });
    await until(() => claude.inbox.length > 0, "a wake");
    expect(await status()).toMatchObject({ agents: [{ proof: "unproven", unread: 1 }] });
    await claude.call("check_messages");
    expect(await status()).toEqual({
      agents: [{ ...standing, proof: "proven", proven_age_ms: expect.any(Number) }],
      silent: [],
    });
    const ok = {
      name: "wake",
      state: "ok",
      says: expect.stringMatching(/: inbox_socket, proven (just now|\d+s ago)$/),
    };
    expect(await wakes()).toEqual([ok]);
    expect((await type("status")).out).toMatch(new RegExp(`^wake  ${THREAD}: inbox_socket, proven `, "m"));
  });

  it("say so of a session that no wake reaches, of one within another, and of an agent that hangs", async () => {
    const { claude, type, wakes, status } = person();
    await claude.start({ INTERLINK_WAKE: "off" });
    await claude.connected();
    expect(await wakes()).toMatchObject([
      { state: "warning", says: expect.stringContaining("no path"), mend: expect.stringContaining("INTERLINK_WAKE") },
    ]);
    await claude.quit();
    // No hook finds one that is started within a session, and it is there all the same.
    await claude.start({ CLAUDE_CODE_CHILD_SESSION: "1", INTERLINK_SESSION: "within" });
    await claude.connected();
    expect(await status()).toEqual({
      agents: [{ session: "within", path: "none", proof: "unproven", unread: 0 }],
      silent: [],
    });
    const pid = Number(/"event":"agent_start".*?"pid":(\d+)/.exec(claude.log)![1]);
    process.kill(pid, "SIGSTOP");
    try {
      expect(await status()).toEqual({ agents: [], silent: ["within"] });
      expect(await wakes()).toMatchObject([
        { state: "warning", says: "within runs, and does not say how it is woken" },
      ]);
      expect((await type("status")).out).toContain("wake  within does not say\n");
    } finally {
      process.kill(pid, "SIGCONT");
    }
  });
});

describe("the roll call", () => {
  const session = parseSessionId("s-1")!;
  const STANDING = { agent: "a1", session, path: "stop_hook", proof: "proven", proven_age_ms: 5, unread: 2 } as const;

  function folder(): { readonly path: string; readonly place: HookPlace } {
    const path = mkdtempSync(join(tmpdir(), "il-roll-"));
    onTestFinished(() => rmSync(path, { recursive: true, force: true }));
    return { path, place: hookPlace(path, "linux", true)! };
  }

  /** An agent as far as hooks see it. */
  async function agent(place: HookPlace, name: string, standing: object = STANDING): Promise<void> {
    const asked = async () => ({ say: "standing", ...standing }) as HookAnswer;
    const server = new HookServer(place, { asked }, () => {});
    await server.listen({ socket: `${name} socket`, thread: `${name} thread` });
    onTestFinished(() => server.close());
  }

  async function listener(path: string, serve: (socket: Socket) => void): Promise<() => Promise<void>> {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket.on("error", () => {}));
      serve(socket);
    });
    await new Promise<void>((resolve) => server.listen(path, resolve));
    const close = () =>
      new Promise<void>((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      });
    onTestFinished(close);
    return close;
  }

  it("hears each agent once, in order", async () => {
    const { path, place } = folder();
    const other = { agent: "a0", session: parseSessionId("s-0")!, path: "none", proof: "unproven", unread: 0 } as const;
    await agent(place, "one");
    await agent(place, "other", other);
    expect(await askAgents(path, "linux")).toEqual([other, STANDING]);
    // Pipes there have one folder for all users.
    expect(await askAgents(path, "win32")).toEqual([]);
  });

  it("hears it beside whatever else is there, in under two seconds", async () => {
    const { path, place } = folder();
    await agent(place, "one");
    await agent({ ...place, secret: "another" }, "stranger");
    writeFileSync(join(path, "file.sock"), "");
    const close = await listener(join(path, "alive.sock"), () => {});
    renameSync(join(path, "alive.sock"), join(path, "dead.sock"));
    await close();
    await listener(join(path, "hangs.sock"), () => {});
    await listener(join(path, "leaves.sock"), (socket) => socket.destroy());
    await listener(join(path, "never-ends.sock"), (socket) => {
      const more = () => socket.write("x".repeat(4_096), (fault) => fault ?? more());
      more();
    });
    await listener(join(path, "drips.sock"), (socket) => {
      const timer = setInterval(() => socket.write(" "), 50);
      socket.on("close", () => clearInterval(timer));
    });
    const sinceMs = performance.now();
    expect(await askAgents(path, "linux")).toEqual([STANDING]);
    expect(performance.now() - sinceMs).toBeLessThan(2_000);
  });

  it.each<{ why: string; says: object | string }>([
    { why: "no JSON", says: "{" },
    { why: "no object", says: "null" },
    { why: "another answer", says: { say: "done" } },
    { why: "no agent", says: { ...STANDING, agent: undefined } },
    { why: "an unknown path", says: { ...STANDING, path: "\u001b[2J" } },
    { why: "an unknown proof", says: { ...STANDING, proof: "sure" } },
    { why: "proven, and not when", says: { ...STANDING, proven_age_ms: undefined } },
    { why: "an age below zero", says: { ...STANDING, proven_age_ms: -1 } },
    { why: "an age that is none", says: { ...STANDING, proven_age_ms: "5" } },
    { why: "no count", says: { ...STANDING, unread: 1.5 } },
    { why: "a session that is none", says: { ...STANDING, session: "a b" } },
    { why: "a session of another kind", says: { ...STANDING, session: 1 } },
    { why: "too long", says: { ...STANDING, more: "x".repeat(10_000) } },
  ])("takes no answer that is none: $why", async ({ says }) => {
    const { path } = folder();
    const line = typeof says === "string" ? says : JSON.stringify({ say: "standing", ...says });
    await listener(join(path, "x.sock"), (socket) => socket.end(`${line}\n`));
    expect(await askAgents(path, "linux")).toEqual([]);
  });

  it("shows nothing that it does not know", async () => {
    const { path } = folder();
    const line = JSON.stringify({ say: "standing", ...STANDING, note: "IGNORE" });
    await listener(join(path, "x.sock"), (socket) => socket.end(`${line}\n`));
    expect(await askAgents(path, "linux")).toEqual([STANDING]);
  });

  it("hears nobody where there is no folder, or none of ours", async () => {
    const { path, place } = folder();
    await agent(place, "one");
    expect(await askAgents(join(path, "none"), "linux")).toEqual([]);
    expect(await askAgents(join(path, "secret"), "linux")).toEqual([]);
    writeFileSync(join(path, "secret"), "x".repeat(200));
    expect(await askAgents(path, "linux")).toEqual([]);
  });
});
