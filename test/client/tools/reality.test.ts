/** When the session begins: raw frames of both eras, on a clock that the test moves. */

import { PassThrough } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { REAL_AFTER_MS } from "../../../src/client/tools/reality.ts";
import { notStarted, type Failure } from "../../../src/client/tools/render-refusal.ts";
import { serveTools } from "../../../src/client/tools/server.ts";
import { FakeAgent, NOW_MS } from "../../support/fake-agent.ts";

const REVISION = "2026-07-28";
const meta = (revision: string) => ({
  "io.modelcontextprotocol/protocolVersion": revision,
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
});
const modern = (method: string, params: object = {}, revision = REVISION) => ({
  method,
  params: { ...params, _meta: meta(revision) },
});
const legacy = (method: string, params?: object) => ({ method, ...(params && { params }) });

const initialize = legacy("initialize", {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "test", version: "1" },
});
const discover = modern("server/discover");
const whoami = { name: "whoami", arguments: {} };

/** A pipe with a host's end, and a clock. */
function open(failing: () => Promise<Failure | undefined> = async () => undefined) {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const calls: string[] = [];
  const errors: string[] = [];
  const agent = new FakeAgent({}, (call) => calls.push(call));
  let nowMs = NOW_MS;
  let opened = 0;
  let timers: { atMs: number; run: () => void }[] = [];
  const server = serveTools({
    open: async () => {
      opened++;
      return (await failing()) ?? agent;
    },
    version: "0.0.0",
    stateKey: Buffer.alloc(32, 7),
    timers: {
      now: () => nowMs,
      setTimeout: (run, delayMs) => {
        const timer = { atMs: nowMs + delayMs, run };
        timers.push(timer);
        return timer;
      },
      clearTimeout: (timer) => (timers = timers.filter((other) => other !== timer)),
    },
    log: (event, facts) => errors.push(`${event} ${JSON.stringify(facts)}`),
    input,
    output,
  });
  onTestFinished(() => server.close(300));
  let text = "";
  output.on("data", (chunk) => (text += String(chunk)));
  let id = 0;
  return {
    server,
    input,
    agent,
    begun: () => calls.filter((call) => call === "begin").length,
    waiting: () => timers.length,
    opened: () => opened,
    calls,
    errors,
    /** Writes a request and waits for its answer; a listen has none. */
    async ask(frame: { method: string }, isAnswered = true) {
      const own = ++id;
      input.write(`${JSON.stringify({ jsonrpc: "2.0", id: own, ...frame })}\n`);
      // By time: a seal is checked on another thread, whose turns are not ours.
      const untilMs = performance.now() + 4_000;
      for (let turns = 0; performance.now() < untilMs; turns++) {
        await turn();
        const answers = text
          .split("\n")
          .filter(Boolean)
          .map((line) => JSON.parse(line) as Record<string, any>);
        const answer = answers.find((message) => message["id"] === own);
        if (answer || (!isAnswered && turns > 20)) return answer;
      }
      throw new Error(`no answer to ${frame.method}`);
    },
    async pass(ms: number) {
      nowMs += ms;
      const due = timers.filter(({ atMs }) => atMs <= nowMs);
      timers = timers.filter(({ atMs }) => atMs > nowMs);
      for (const { run } of due) run();
      await turn();
    },
  };
}

describe("a session is real", () => {
  it.each([
    { why: "legacy", frames: [initialize, legacy("tools/call", whoami)] },
    { why: "modern", frames: [modern("tools/call", whoami)] },
    { why: "modern, after a probe", frames: [discover, modern("tools/call", whoami)] },
    { why: "legacy, after a probe", frames: [discover, initialize, legacy("tools/call", whoami)] },
  ])("at the first call of a tool, once: $why", async ({ frames }) => {
    const { ask, begun, pass } = open();
    for (const frame of frames.slice(0, -1)) await ask(frame);
    expect(begun()).toBe(0);
    expect(await ask(frames.at(-1)!)).toHaveProperty("result");
    expect(begun()).toBe(1);
    await ask(frames.at(-1)!);
    await pass(REAL_AFTER_MS * 2);
    expect(begun()).toBe(1);
  });

  it.each([
    { why: "initialize", frames: [initialize] },
    { why: "initialize and a list", frames: [initialize, legacy("tools/list")] },
    { why: "a modern list", frames: [modern("tools/list")] },
    { why: "a probe and a modern list", frames: [discover, modern("tools/list")] },
    { why: "a probe and initialize", frames: [discover, initialize] },
  ])("three seconds after the era was settled, and not before: $why", async ({ frames }) => {
    const { ask, begun, pass } = open();
    for (const frame of frames) await ask(frame);
    await pass(REAL_AFTER_MS - 1);
    expect(begun()).toBe(0);
    await pass(1);
    expect(begun()).toBe(1);
  });

  it("three seconds after a modern client listens, which the SDK answers by itself", async () => {
    const { ask, begun, pass } = open();
    await ask(discover);
    await ask(modern("subscriptions/listen", { notifications: { toolsListChanged: true } }), false);
    await pass(REAL_AFTER_MS);
    expect(begun()).toBe(1);
  });

  it.each([
    { why: "nothing", frames: [] },
    { why: "a probe", frames: [discover] },
    { why: "several probes", frames: [discover, discover] },
    { why: "a probe, and a claim that no server knows", frames: [discover, modern("tools/list", {}, "2027-01-01")] },
    { why: "a claim that no server knows", frames: [modern("tools/list", {}, "2027-01-01")] },
  ])("never after $why", async ({ frames }) => {
    const { ask, begun, opened, pass } = open();
    for (const frame of frames) await ask(frame);
    await pass(REAL_AFTER_MS * 100);
    expect(begun()).toBe(0);
    // No file, and no lock that the next process would find.
    expect(opened()).toBe(0);
  });

  it("never when the host has left before", async () => {
    const { ask, begun, pass, input, server, waiting } = open();
    await ask(initialize);
    await ask(legacy("tools/list"));
    input.end();
    await server.closed;
    await pass(REAL_AFTER_MS);
    expect([begun(), waiting()]).toEqual([0, 0]);
  });
});

describe("the agent", () => {
  it("is opened by the first who needs it, and once", async () => {
    const { ask, opened } = open();
    await ask(initialize);
    await ask(legacy("tools/list"));
    expect(opened()).toBe(0);
    await Promise.all([ask(legacy("tools/call", whoami)), ask(legacy("tools/call", whoami))]);
    expect(opened()).toBe(1);
  });

  it("that could not be opened is told as a refusal, tried again by the next call, and begun then", async () => {
    let isInTheWay = true;
    const { ask, opened, begun } = open(async () => (isInTheWay ? notStarted("in use <x>") : undefined));
    await ask(initialize);
    const refused = await ask(legacy("tools/call", whoami));
    const message = "not_started: This session could not be opened: in use \\u003cx\\u003e. Tell your operator.";
    expect(refused!["result"]).toMatchObject({
      isError: true,
      content: [{ text: message }],
      structuredContent: { error: { code: "not_started", message } },
    });
    const { contents } = (await ask(legacy("resources/read", { uri: "interlink://inbox" })))!["result"];
    expect(JSON.parse(contents[0].text)).toMatchObject({ error: { code: "not_started" } });
    expect(begun()).toBe(0);
    isInTheWay = false;
    await ask(legacy("tools/call", whoami));
    expect(begun()).toBe(1);
    expect(opened()).toBeGreaterThanOrEqual(3);
  });

  it("says goodbye when the server is closed, and is closed too if it was still opening", async () => {
    const whole = open();
    await whole.ask(initialize);
    await whole.ask(legacy("tools/call", whoami));
    await whole.server.close(300);
    expect(whole.calls).toEqual(["begin", "close"]);

    let release = () => {};
    const slow = open(async () => {
      await new Promise<void>((resolve) => (release = resolve));
      return undefined;
    });
    await slow.ask(initialize);
    void slow.ask(legacy("tools/call", whoami)).catch(() => {});
    await turn();
    await slow.server.close(300);
    expect(slow.calls).toEqual([]);
    release();
    await turn();
    expect(slow.calls.at(-1)).toBe("close");
  });
});

describe("an operator's answer", () => {
  const accept = (more: object = {}) => {
    const frame = modern("tools/call", {
      name: "remove_peer",
      arguments: { petname: "alice" },
      ...more,
    });
    frame.params._meta["io.modelcontextprotocol/clientCapabilities"] = { elicitation: {} };
    return frame;
  };
  const inputResponses = { decision: { action: "accept", content: { approve: true } } };

  it("counts for nothing without the seal of a question", async () => {
    const { ask } = open();
    const answer = await ask(accept({ inputResponses }));
    expect(answer!["result"].content[0].text).toMatch(/^changed: /);
  });

  it("counts for nothing with a seal of another key or another question", async () => {
    const { ask } = open();
    const forged = await ask(accept({ inputResponses, requestState: "v1.e30.AAAA" }));
    expect(forged!["error"].code).toBe(-32_602);
    const question = await ask(accept());
    const { requestState } = question!["result"];
    expect(requestState).toBeTypeOf("string");
    const other = accept({ inputResponses, requestState });
    (other.params as Record<string, unknown>)["name"] = "reject_pair";
    (other.params as Record<string, unknown>)["arguments"] = { fingerprint: "AAAA-BBBB" };
    const answer = await ask(other);
    expect(answer!["result"].content[0].text).toMatch(/^(changed|unknown_request): /);
    const fitting = await ask(accept({ inputResponses, requestState }));
    expect(fitting!["result"].structuredContent.feedback).toMatch(/^The operator removed "alice"/);
  });
});

describe("a call that throws", () => {
  it.each([
    { when: "while it is served", isClosed: false, event: "tool_fault" },
    { when: "since its session was closed beneath it", isClosed: true, event: "tool_cut" },
  ])("$when is told in the log as $event", async ({ isClosed, event }) => {
    const { server, agent, ask, errors, input } = open();
    await ask(initialize);
    const asked = Promise.withResolvers<void>();
    const thrown = Promise.withResolvers<never>();
    agent.whoami = () => {
      asked.resolve();
      return thrown.promise;
    };
    input.write(`${JSON.stringify({ jsonrpc: "2.0", id: "x", ...legacy("tools/call", whoami) })}\n`);
    await asked.promise;
    if (isClosed) await server.close(300);
    thrown.reject(new Error("no session is open"));
    while (errors.length === 0) await turn();
    expect(errors).toEqual([expect.stringMatching(`^${event} .*no session is open`)]);
  });
});
