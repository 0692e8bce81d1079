/**
 * What hosts' hooks say and are told: lines at an agent, a host's event at the hook.
 *
 * An agent does what a line with its secret asks, and lets go of whoever says anything else; a hook ends with 0, at once, and
 * prints a line for the model or nothing.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import * as fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { tellAgent } from "../../src/client/cli/hook.ts";
import { readSettings } from "../../src/client/cli/settings.ts";
import { addressesOf, hookPlace, type HookPlace } from "../../src/client/wake/hook-address.ts";
import {
  LINE_MAX_CHARS,
  readAnswer,
  readRequest,
  type HookAnswer,
  type HookRequest,
} from "../../src/client/wake/hook-line.ts";
import { HookServer } from "../../src/client/wake/hook-server.ts";
import { fuzzed, near, promptly, SLOW } from "./inputs.ts";

const SECRET = "the-secret";
const REQUESTS: readonly HookRequest[] = [
  { ask: "bind", source: "resume", thread: "t1", socket: "/tmp/x.sock", token: "tok" },
  { ask: "bind", source: "clear", thread: "t2" },
  { ask: "human" },
  { ask: "word" },
  { ask: "wait" },
];
const ANSWERS: readonly object[] = [
  { say: "done" },
  { say: "no", why: "off" },
  { say: "armed" },
  { say: "tell", text: "1 message" },
  { say: "standing", agent: "a", session: "s1", path: "stop_hook", proof: "proven", proven_age_ms: 5, unread: 2 },
];

describe("a line", () => {
  it("asks what it says, with the secret alone, or nothing", SLOW, () => {
    const lines = REQUESTS.map((request) => JSON.stringify({ ...request, secret: SECRET }));
    fc.assert(
      fc.property(near(...lines), (line) => {
        const request = promptly(() => readRequest(line, SECRET));
        if (!request) return;
        expect(JSON.parse(line)).toMatchObject({ secret: SECRET, ask: request.ask });
        expect(readRequest(JSON.stringify({ ...request, secret: SECRET }), SECRET)).toEqual(request);
        expect(readRequest(line, `${SECRET}x`)).toBeUndefined();
      }),
      fuzzed(2),
    );
  });

  it("answers what it says, or nothing", SLOW, () => {
    fc.assert(
      fc.property(near(...ANSWERS.map((answer) => JSON.stringify(answer))), (line) => {
        const answer = promptly(() => readAnswer(line));
        if (answer) expect(readAnswer(JSON.stringify(answer))).toEqual(answer);
      }),
      fuzzed(2),
    );
  });
});

describe("an agent and its hooks", () => {
  let dir = "";
  let place: HookPlace;
  let server: HookServer;
  const names = { pid: "4711" };
  const asked: HookRequest[] = [];
  const logged: string[] = [];
  let says: HookAnswer = { say: "done" };

  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), "il-fuzz-"));
    place = hookPlace(dir, process.platform, true)!;
    const ears = {
      asked: (request: HookRequest) => {
        asked.push(request);
        return Promise.resolve(says);
      },
    };
    server = new HookServer(place, ears, (what) => logged.push(what));
    await server.listen(names);
  });
  beforeEach(() => void asked.splice(0));
  afterAll(() => {
    server.close();
    rmSync(dir, { recursive: true, force: true });
  });

  /** Says it and hears the end. */
  const say = (text: string): Promise<string> =>
    new Promise((resolve) => {
      const socket = connect(addressesOf(place, names)[0]!);
      let heard = "";
      socket.setEncoding("utf8").on("data", (chunk: string) => (heard += chunk));
      socket.on("error", () => {}); // it may let go before all was said
      socket.once("close", () => resolve(heard));
      socket.end(text);
    });

  it("hears a line with its secret, and lets go of anything else", SLOW, async () => {
    const lines = REQUESTS.map((request) => `${JSON.stringify({ ...request, secret: place.secret })}\n`);
    await fc.assert(
      fc.asyncProperty(near(...lines), async (text) => {
        const before = asked.length;
        const line = text.split("\n", 1)[0]!;
        const isLine = text.includes("\n") || text.length > LINE_MAX_CHARS;
        const request = isLine && text.includes("\n") ? readRequest(line.toWellFormed(), place.secret) : undefined;
        const heard = await say(text);
        if (request && line.length <= LINE_MAX_CHARS) {
          expect(asked.slice(before)).toEqual([request]);
          expect(heard).toBe('{"say":"done"}\n');
        } else if (!request) {
          expect(asked.slice(before)).toEqual([]);
          expect(heard).toBe("");
        }
      }),
      fuzzed(),
    );
    expect(logged).toEqual([]);
    expect(await say(lines[2]!)).toBe('{"say":"done"}\n');
  });

  it("end with 0 and a line for the model or nothing, whatever the host writes", SLOW, async () => {
    const settings = { ...readSettings({}, process.platform), hooks: dir, host: names };
    const events = [
      { session_id: "t1", source: "startup", hook_event_name: "SessionStart" },
      { session_id: "t1", prompt: "do it", hook_event_name: "UserPromptSubmit" },
      { session_id: "t1", tool_name: "Bash", tool_input: { command: "ls" } },
    ].map((event) => JSON.stringify(event));
    const hooks = fc.constantFrom("session-start" as const, "prompt" as const, "tool" as const);
    const answers = fc.constantFrom<HookAnswer>({ say: "done" }, { say: "tell", text: 'say "hi"\u001b[2J\n' });
    await fc.assert(
      fc.asyncProperty(hooks, near(...events), answers, fc.boolean(), async (hook, text, answer, isTorn) => {
        says = answer;
        const bytes = Buffer.from(text);
        const middle = Math.floor(bytes.length / 2); // torn within a character, may be
        const input = Readable.from(isTorn ? [bytes.subarray(0, middle), bytes.subarray(middle)] : [bytes]);
        const printed: string[] = [];
        const beganMs = performance.now();
        expect(await tellAgent(hook, settings, input, { out: (line) => printed.push(line) })).toBe(0);
        expect(performance.now() - beganMs).toBeLessThan(4_000);
        expect(printed.length).toBeLessThanOrEqual(answer.say === "tell" ? 1 : 0);
        for (const line of printed) {
          expect(line).not.toContain("\n");
          expect(JSON.parse(line)).toMatchObject({
            hookSpecificOutput: { additionalContext: says.say === "tell" && says.text },
          });
        }
      }),
      fuzzed(0.5),
    );
    expect(logged).toEqual([]);
  });
});
