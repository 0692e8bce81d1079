/** The supervisor as a process over processes: what ends, what starts, and what is left behind. */

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { INITIALIZE, isAlive, META, startHost, until } from "./host.ts";

const QUICK = { backoffBaseMs: 5, backoffMaxMs: 20 };
const noticesOf = (result: Record<string, any>): string[] => result["structuredContent"]?.notices ?? [];
const textOf = (result: Record<string, any>): string =>
  result["content"].map(({ text }: { text: string }) => text).join("\n");

describe("a process that ends", { timeout: 30_000 }, () => {
  it.each([
    {
      how: "by SIGKILL",
      end: { signal: "SIGKILL" as const },
      notice: "the agent process ended (killed by SIGKILL) and another was started",
    },
    { how: "with exit 1", end: { code: 1 }, notice: "the agent process ended (exit 1) and another was started" },
    {
      how: "with exit 0 that nobody asked for",
      end: { code: 0 },
      notice: "the agent process ended (exit 0) and another was started",
    },
    { how: "with exit 75", end: { code: 75 }, notice: "the agent process handed over to a new one" },
  ])("$how is followed by another, told once", async ({ end, notice }) => {
    const host = startHost({ limits: QUICK });
    expect(textOf(await host.call("read"))).toBe("1.0.0:read");
    const before = host.agent();
    if ("signal" in end) process.kill(before, end.signal);
    else
      host.send({
        id: "x",
        method: "tools/call",
        params: { name: "write", arguments: { do: "exit", code: end.code }, _meta: META },
      });
    await until(() => host.starts().length === 2, "a second start");
    const told = await host.call("read");
    expect(noticesOf(told)).toEqual([`${notice}; it was asked to rejoin its session`]);
    expect(textOf(told)).toContain(`Notice: ${notice}`);
    expect(noticesOf(await host.call("read"))).toEqual([]);
    if (!("signal" in end)) {
      const { result } = await host.answer("x");
      expect(result).toMatchObject({ isError: true, structuredContent: { error: { code: "outcome_unknown" } } });
    }
  });

  it("leaves the session, the key and what arrived to the next, in a file that is gone once it is up", async () => {
    const host = startHost({ limits: QUICK });
    await host.call("read", { threadId: "no" });
    await host.ask("tools/call", { name: "read", arguments: {}, _meta: { ...META, threadId: "thread-1" } });
    const [first] = host.starts();
    process.kill(first!.pid, "SIGKILL");
    await until(() => host.starts().length === 2, "a second start");
    await host.call("read");
    const second = host.starts()[1]!;
    const { session, state_key } = first!.handoff!;
    expect(first!.handoff).toMatchObject({ generation: 1, rejoin: false, threads: [], arrived: [] });
    expect(first!.handoff).not.toHaveProperty("reason");
    expect(second.handoff).toMatchObject({
      generation: 2,
      session,
      state_key,
      rejoin: true,
      reason: "SIGKILL",
      threads: ["thread-1"],
    });
    expect(Buffer.from(String(state_key), "base64url")).toHaveLength(32);
    for (const { path } of [first!, second]) expect(existsSync(path!)).toBe(false);
    host.input.end();
    await host.closed;
    expect(readdirSync(host.dir).filter((name) => name.startsWith("interlink-"))).toEqual([]);
  });

  it("six times in short order opens the breaker: tools stay listed, calls say what to do, and it heals by itself", async () => {
    const host = startHost({ limits: { ...QUICK, openMs: 1_500 } });
    host.die(true);
    await host.ask("server/discover", { _meta: META });
    await until(() => host.starts().length === 6, "six starts");
    const refused = await host.call("write");
    expect(refused).toMatchObject({ isError: true, structuredContent: { error: { code: "agent_down" } } });
    expect(textOf(refused)).toMatch(
      /^agent_down: The agent process ended too often \(the last time: exit 1\), so nothing was done, and it is tried again in 1s\. .*call reconnect/,
    );
    const { tools } = (await host.ask("tools/list", { _meta: META }))["result"];
    expect(tools.length).toBeGreaterThan(10); // the built-in list
    expect(host.starts()).toHaveLength(6);
    host.die(false);
    await until(() => host.starts().length === 7, "the trial");
    await until(
      () => host.messages.length > 0 && host.notes().some(({ method }) => method !== undefined),
      "the greeting",
    );
    expect(textOf(await host.call("read"))).toContain("1.0.0:read");
    expect(isAlive(host.pid)).toBe(true);
  });

  it.each([-86_400_000, -3_600_000, 3_600_000, 86_400_000])(
    "too often heals in its time, though the clock is set by %d ms and calls come meanwhile",
    async (byMs) => {
      const host = startHost({ limits: { ...QUICK, endsMax: 1, openMs: 1_000 } });
      host.die(true);
      await host.ask("server/discover", { _meta: META });
      await until(() => host.errors().includes('"is":"broken"'), "the breaker");
      host.die(false);
      host.setClock(byMs);
      const refused = await host.call("write");
      expect(textOf(refused)).toMatch(/^agent_down: .*it is tried again in (0|1)s\. /);
      await until(() => host.starts().length === 3, "the trial");
      expect(textOf(await host.call("read"))).toContain("1.0.0:read");
    },
  );

  it("reconnect tries at once while the breaker is open, and one more crash opens it again", async () => {
    const host = startHost({ limits: { ...QUICK, endsMax: 1, openMs: 60_000 } });
    host.die(true);
    await host.ask("server/discover", { _meta: META });
    await until(() => host.errors().includes('"is":"broken"'), "the breaker");
    expect(await host.call("reconnect")).toMatchObject({ isError: true });
    expect(host.starts()).toHaveLength(3);
    host.die(false);
    const { structuredContent } = await host.call("reconnect");
    expect(structuredContent).toMatchObject({ start: 4, version: "1.0.0" });
    expect(textOf(await host.call("read"))).toContain("1.0.0:read");
  });

  it("reconnect ends one that hangs; a call that it has is not done twice", async () => {
    const host = startHost({ limits: QUICK });
    host.send({ id: "hangs", method: "tools/call", params: { name: "write", arguments: { do: "hang" }, _meta: META } });
    await until(() => host.notes().some(({ name }) => name === "write"), "the call");
    const before = host.agent();
    expect((await host.call("reconnect"))["structuredContent"]).toMatchObject({ start: 2 });
    expect(isAlive(before)).toBe(false);
    expect((await host.answer("hangs"))["result"]).toMatchObject({ isError: true });
    expect(host.notes().filter(({ name }) => name === "write")).toHaveLength(1);
    // It was asked for, so there is nothing to tell.
    expect(noticesOf(await host.call("read"))).toEqual([]);
    expect(host.notes().some(({ what }) => what === "stdin_end")).toBe(false); // no goodbye
  });
});

describe("an upgrade on disk", { timeout: 30_000 }, () => {
  it("takes effect when the process hands over: the banner says from what to what, and other tools are told", async () => {
    const host = startHost();
    await host.ask("initialize", INITIALIZE);
    host.send({ method: "notifications/initialized" });
    await host.ask("tools/list");
    await until(
      () => host.messages.some(({ method }) => method === "notifications/tools/list_changed"),
      "the stub's own tools",
    );
    await host.ask("tools/list");
    const call = async (name: string, args: object = {}) =>
      (await host.ask("tools/call", { name, arguments: args }))["result"];
    expect(textOf(await call("read"))).toBe("1.0.0:read");
    host.pack.install("2.0.0", ["read", "fresh"]);
    expect(await call("write", { do: "exit", code: 75 })).toMatchObject({ isError: true });
    const told = await call("read");
    expect(textOf(told)).toContain("2.0.0:read");
    expect(noticesOf(told)).toEqual([
      "the agent process handed over to a new one; version 1.0.0 was replaced by 2.0.0; it was asked to rejoin its session",
    ]);
    const { tools } = (await host.ask("tools/list"))["result"];
    const names = (tools as { name: string }[]).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(["read", "fresh", "write", "reconnect"]));
    expect(await call("write")).toMatchObject({ isError: true, structuredContent: { error: { code: "tool_gone" } } });
    expect(textOf(await call("fresh"))).toBe("2.0.0:fresh");
    expect(host.starts().map(({ args, version }) => [version, args])).toEqual([
      ["1.0.0", ["agent"]],
      ["2.0.0", ["agent"]],
    ]);
    // What it answered is kept for the next start of that version, for this user alone.
    expect(JSON.parse(readFileSync(host.answers, "utf8"))).toMatchObject({ version: "2.0.0" });
    expect(statSync(host.answers).mode & 0o777).toBe(0o600);
  });

  it("that is half done is waited out", async () => {
    const host = startHost({ limits: { ...QUICK, backoffBaseMs: 100, backoffMaxMs: 5_000 } });
    await host.call("read");
    host.pack.remove();
    process.kill(host.agent(), "SIGKILL");
    await until(() => host.errors().includes('"code":1'), "a start that found nothing");
    host.pack.install("3.0.0");
    expect(textOf(await host.call("read"))).toContain("3.0.0:read");
  });
});

describe("the end", { timeout: 30_000 }, () => {
  it.each(["SIGINT", "SIGTERM", "stdin"] as const)("by %s takes the process along within 400 ms", async (how) => {
    const host = startHost();
    await host.call("read");
    const agent = host.agent();
    const startMs = performance.now();
    if (how === "stdin") host.input.end();
    else host.kill(how);
    expect(await host.closed).toEqual({ code: 0, signal: null });
    expect(performance.now() - startMs).toBeLessThan(400);
    expect(isAlive(agent)).toBe(false);
    expect(host.notes().at(-1)!.what).toBe("stdin_end");
  });

  it("by a signal to the whole group, as of some hosts, starts nothing anew", async () => {
    const host = startHost({ isGroup: true });
    await host.call("read");
    const startMs = performance.now();
    process.kill(-host.pid, "SIGTERM");
    expect(await host.closed).toEqual({ code: 0, signal: null });
    expect(performance.now() - startMs).toBeLessThan(400);
    expect(host.starts()).toHaveLength(1);
    expect(isAlive(host.agent())).toBe(false);
  });

  it("takes a process along that is stopped and hears nothing", async () => {
    const host = startHost();
    await host.call("read");
    const agent = host.agent();
    process.kill(agent, "SIGSTOP");
    const startMs = performance.now();
    host.input.end();
    await host.closed;
    expect(performance.now() - startMs).toBeLessThan(500);
    await until(() => !isAlive(agent), "its end");
  });

  it("by SIGKILL of the supervisor: the process sees its input end, and ends", async () => {
    const host = startHost();
    await host.call("read");
    const agent = host.agent();
    host.kill("SIGKILL");
    await host.closed;
    await until(() => !isAlive(agent), "the stub's end");
    expect(host.notes().at(-1)!.what).toBe("stdin_end");
  });

  it("by the host's closing what it reads", async () => {
    const host = startHost();
    await host.call("read");
    host.output.destroy();
    host.send({ id: "x", method: "ping", params: {} });
    for (let tries = 0; tries < 3; tries++)
      host.send({ id: `y${tries}`, method: "tools/list", params: { _meta: META } });
    expect((await host.closed).code).toBe(0);
    expect(isAlive(host.agent())).toBe(false);
  });

  it("before anything valid was said has started nothing", async () => {
    const host = startHost();
    host.write("garbage");
    host.write(
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"9"}}}',
    );
    await until(() => host.messages.length === 2, "two refusals");
    expect(host.messages.map(({ error }) => error.code)).toEqual([-32_700, -32_022]);
    host.input.write('{"half a line');
    host.input.end();
    await host.closed;
    expect(host.starts()).toEqual([]);
    expect(host.messages).toHaveLength(2);
  });
});

describe("the pipe", { timeout: 30_000 }, () => {
  it("carries nothing but messages: what a process prints besides is dropped, and its call answered", async () => {
    const host = startHost();
    expect(textOf(await host.call("read", { do: "noise" }))).toBe("1.0.0:read");
    expect(host.errors()).toContain("child_line");
  });

  it("carries large lines whole in both directions, and refuses one that is too long", async () => {
    const host = startHost();
    const padding = "p".repeat(2_000_000);
    const result = await host.call("read", { do: "big", chars: 3_000_000, padding });
    expect(textOf(result)).toHaveLength(3_000_000);
    host.write(`{"jsonrpc":"2.0","id":99,"method":"tools/list","params":{"x":"${"x".repeat(8_400_000)}"}}`);
    await until(() => host.messages.find(({ error }) => error?.code === -32_600), "a refusal");
    expect(textOf(await host.call("read"))).toBe("1.0.0:read");
  });

  it("a line of a process beyond the limit ends that process, since nobody knows whose answer it was", async () => {
    const host = startHost({ limits: QUICK });
    const result = await host.call("write", { do: "big", chars: 9_000_000 });
    expect(result).toMatchObject({ isError: true, structuredContent: { error: { code: "outcome_unknown" } } });
    expect(textOf(await host.call("read"))).toContain("1.0.0:read");
  });

  it("is read no faster than the process reads: what waits is bounded, and all of it arrives in order", async () => {
    const host = startHost();
    await host.call("read");
    const agent = host.agent();
    process.kill(agent, "SIGSTOP");
    const padding = "p".repeat(1_000_000);
    const ids = Array.from({ length: 40 }, (_, index) => `big-${index}`);
    for (const id of ids)
      host.send({ id, method: "tools/call", params: { name: "read", arguments: { padding }, _meta: META } });
    // The host's own writes pile up on its side.
    await until(() => host.input.writableLength > 10_000_000, "backpressure");
    process.kill(agent, "SIGCONT");
    for (const id of ids) await host.answer(id);
    expect(host.messages.map(({ id }) => id).filter((id) => String(id).startsWith("big"))).toEqual(ids);
  });
});
