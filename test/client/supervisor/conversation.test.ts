/** What host and process say to each other through the supervisor, line by line, without a process. */

import { describe, expect, it } from "vitest";
import type { Answers, Tool } from "../../../src/client/supervisor/answers.ts";
import { REPEATS_MAX } from "../../../src/client/supervisor/calls.ts";
import { Conversation } from "../../../src/client/supervisor/conversation.ts";
import { CAPABILITIES_META, VERSION_META } from "../../../src/client/supervisor/era.ts";
import { callKeyOf } from "../../../src/client/tools/host-call.ts";
import type { Down, EndFacts } from "../../../src/client/tools/render-lifecycle.ts";

const META = { [VERSION_META]: "2026-07-28", [CAPABILITIES_META]: {} };
const PREFIX = "own-";
const KILLED: EndFacts = { code: null, signal: "SIGKILL", isHandoff: false };
const PARAMS = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } };

const toolOf = (name: string, readOnlyHint = false): Tool => ({ name, annotations: { readOnlyHint } });
const TOOLS = [toolOf("send_message"), toolOf("check_messages"), toolOf("add_peer"), toolOf("whoami", true)];
const answersOf = (version: string, tools: readonly Tool[] = TOOLS): Answers => ({
  version,
  initialize: { capabilities: {}, serverInfo: { name: "interlink", version } },
  discover: { supportedVersions: ["2026-07-28"], capabilities: {}, _meta: infoOf(version) },
  tools,
  list: { ttlMs: 1, _meta: infoOf(version) },
});
const infoOf = (version: string) => ({ "io.modelcontextprotocol/serverInfo": { name: "interlink", version } });

type Line = Record<string, any>;

/** A conversation whose two ends are lists, with a process that greets back. */
function talk() {
  const toHost: Line[] = [];
  const toChild: Line[] = [];
  const [rawHost, rawChild]: [string[], string[]] = [[], []];
  const learned: Answers[] = [];
  let down: Down | undefined;
  const asked: string[] = [];
  let generation = 0;
  const said = (line: Uint8Array) => JSON.parse(Buffer.from(line).toString()) as Line;
  const conversation = new Conversation(answersOf("1"), PREFIX, {
    toHost: (line) => void (toHost.push(said(line)), rawHost.push(Buffer.from(line).toString())),
    toChild: (line) => void (toChild.push(said(line)), rawChild.push(Buffer.from(line).toString())),
    want: () => {
      if (generation === 0 && !down) conversation.started(++generation);
    },
    reconnect: () => void asked.push("reconnect"),
    ready: () => void asked.push("ready"),
    down: () => down,
    learned: (answers) => void learned.push(answers),
    log: () => {},
  });
  const take = <T>(list: T[]) => list.splice(0);
  return {
    conversation,
    rawHost,
    rawChild,
    learned,
    asked,
    host: (line: object | string) =>
      conversation.fromHost(Buffer.from(typeof line === "string" ? line : JSON.stringify({ jsonrpc: "2.0", ...line }))),
    child: (line: object | string) =>
      conversation.fromChild(
        Buffer.from(typeof line === "string" ? line : JSON.stringify({ jsonrpc: "2.0", ...line })),
      ),
    heard: () => take(toHost),
    /** What the process got, and its answers to the supervisor's own questions. */
    got(version = "1", tools: readonly Tool[] = TOOLS): Line[] {
      const others: Line[] = [];
      for (let lines = take(toChild); lines.length > 0; lines = take(toChild)) {
        for (const line of lines) {
          if (!String(line["id"]).startsWith(PREFIX)) others.push(line);
          else {
            const answers = answersOf(version, tools);
            const result =
              line["method"] === "initialize"
                ? { protocolVersion: "2025-06-18", ...answers.initialize }
                : line["method"] === "server/discover"
                  ? answers.discover
                  : line["method"] === "tools/list"
                    ? { tools, ...("_meta" in line["params"] && answers.list) }
                    : {};
            others.push({ own: line["method"] });
            this.child({ id: line["id"], result });
          }
        }
      }
      return others;
    },
    peek: () => take(toChild),
    die: (facts: EndFacts | undefined = KILLED) => conversation.ended(facts),
    restart: () => conversation.started(++generation),
    breakDown: (isBroken: boolean) => (down = isBroken ? { last: KILLED, leftMs: 42_000 } : undefined),
  };
}

const call = (id: number | string, name: string, meta: object = {}, args: object = {}) => ({
  id,
  method: "tools/call",
  params: { name, arguments: args, _meta: { ...META, ...meta } },
});
const legacyCall = (id: number, name: string, meta: object = {}) => ({
  id,
  method: "tools/call",
  params: { name, arguments: {}, _meta: meta },
});
const text = (body: string) => ({ content: [{ type: "text", text: body }], structuredContent: { body } });

/** An older client that has greeted, with its process. */
function legacy() {
  const it = talk();
  it.host({ id: 0, method: "initialize", params: PARAMS });
  it.host({ method: "notifications/initialized" });
  it.got();
  it.heard();
  return it;
}

describe("first answers", () => {
  it("come before the process has said a word, in both eras, and open it", () => {
    const { host, heard, peek } = talk();
    host({ id: 1, method: "server/discover", params: { _meta: META } });
    host({ id: 2, method: "tools/list", params: { _meta: META } });
    const [discover, list] = heard();
    expect(discover).toMatchObject({ id: 1, result: { supportedVersions: ["2026-07-28"] } });
    expect(list!["result"]).toMatchObject({ ttlMs: 1, resultType: "complete" });
    expect(list!["result"].tools.map(({ name }: Tool) => name)).toEqual([
      ...TOOLS.map(({ name }) => name),
      "reconnect",
    ]);
    expect(peek().map(({ method }) => method)).toEqual(["server/discover"]);

    const older = talk();
    older.host({ id: 1, method: "initialize", params: PARAMS });
    expect(older.heard()[0]).toMatchObject({ id: 1, result: { protocolVersion: "2025-06-18", capabilities: {} } });
    expect(older.peek()[0]).toMatchObject({ method: "initialize", params: PARAMS });
  });

  it.each([
    { why: "garbage", line: "what", code: -32_700 },
    { why: "a batch", line: "[]", code: -32_600 },
    {
      why: "a claim of a revision that nobody speaks",
      line: JSON.stringify({ jsonrpc: "2.0", ...call(1, "x", { [VERSION_META]: "2027-01-01" }) }),
      code: -32_022,
    },
  ])("$why is told what is wrong, and starts nothing", ({ line, code }) => {
    const { host, heard, peek } = talk();
    host(line);
    expect(heard()).toMatchObject([{ error: { code } }]);
    expect(peek()).toEqual([]);
  });

  it("a stray error is not answered, so that two ends cannot answer each other for ever", () => {
    const { host, heard } = talk();
    host({ id: null, error: { code: -32_700, message: "Parse error" } });
    expect(heard()).toEqual([]);
  });
});

describe("calls", () => {
  it("go on with the bytes that came, and come back so, once the process has greeted", () => {
    const it = talk();
    it.host(
      `{ "id" : 7,"jsonrpc":"2.0", "method":"tools/call","params":{"name":"whoami","arguments":{"n":1.0e2},"_meta":${JSON.stringify(META)}}}`,
    );
    expect(it.rawChild).toHaveLength(1); // the greeting alone
    it.got();
    expect(it.rawChild.at(-1)).toContain(
      `{ "id" : 7,"jsonrpc":"2.0", "method":"tools/call","params":{"name":"whoami","arguments":{"n":1.0e2}`,
    );
    it.child(`{"result" : {"content":[]},"jsonrpc":"2.0","id":7 }`);
    expect(it.rawHost).toEqual([`{"result" : {"content":[]},"jsonrpc":"2.0","id":7 }`]);
  });

  it('tell 1 from "1", and refuse an id that is in use', () => {
    const { host, heard, ...it } = talk();
    host(call(1, "whoami"));
    host(call("1", "whoami"));
    host(call(1, "whoami"));
    expect(heard()).toMatchObject([{ id: 1, error: { code: -32_600 } }]);
    it.got();
    it.child({ id: "1", result: text("b") });
    it.child({ id: 1, result: text("a") });
    expect(heard().map(({ id }) => id)).toEqual(["1", 1]);
  });

  it.each([
    { why: "reads are asked again", name: "whoami", isAgain: true },
    { why: "a message is, for it has a key", name: "send_message", isAgain: true },
    { why: "mail that was taken is, for the process takes it back", name: "check_messages", isAgain: true },
    { why: "a change of trust is not", name: "add_peer", isAgain: false },
    { why: "what nobody knows is not", name: "new_tool", isAgain: false },
  ])("that a process died with: $why", ({ name, isAgain }) => {
    const it = talk();
    it.host(call(1, name));
    const [first] = it.got().filter(({ method }) => method === "tools/call");
    it.die();
    const told = it.heard();
    it.restart();
    const again = it.got().filter(({ method }) => method === "tools/call");
    if (isAgain) {
      expect(told).toEqual([]);
      // The same key: the store knows it.
      expect(again).toEqual([first]);
    } else {
      expect(told).toMatchObject([
        { id: 1, result: { isError: true, structuredContent: { error: { code: "outcome_unknown" } } } },
      ]);
      expect(again).toEqual([]);
    }
  });

  it("that waited are sent to the next process, whatever they are", () => {
    const it = talk();
    it.host(call(1, "add_peer"));
    it.peek(); // it dies before it greets
    it.die();
    it.restart();
    expect(it.heard()).toEqual([]);
    expect(it.got()).toContainEqual(expect.objectContaining({ id: 1, method: "tools/call" }));
  });

  it("that end each process that has them are given up", () => {
    const it = talk();
    it.host(call(1, "whoami"));
    for (let tries = 1; tries <= REPEATS_MAX; tries++) {
      expect(it.got()).toContainEqual(expect.objectContaining({ id: 1 }));
      it.die();
      it.restart();
    }
    expect(it.heard()).toMatchObject([{ id: 1, result: { isError: true } }]);
  });

  it("with an answer of the operator's are never made twice", () => {
    const it = talk();
    it.host({
      ...call(1, "send_message"),
      params: { ...call(1, "send_message").params, requestState: "s", inputResponses: {} },
    });
    it.got();
    it.die();
    expect(it.heard()).toMatchObject([{ id: 1, result: { isError: true } }]);
  });

  it("keep the key of the host, and get one where it has none, another each", () => {
    const it = talk();
    it.host(call(1, "send_message", { "claudecode/toolUseId": "toolu_1" }));
    it.host(call(2, "send_message"));
    it.host(call(3, "send_message"));
    const keys = it.got().flatMap(({ params, method }) => (method === "tools/call" ? [callKeyOf(params._meta)] : []));
    expect(keys[0]).toBe("claude:toolu_1");
    expect(keys[1]).toMatch(/^supervisor:/);
    expect(new Set(keys).size).toBe(3);
  });

  it("wait while one that takes mail is unanswered, since a further call says that its answer has come", () => {
    const it = talk();
    it.host(call(1, "check_messages"));
    it.host(call(2, "send_message"));
    it.host({ id: 3, method: "resources/list", params: { _meta: META } });
    const ids = () => it.got().flatMap(({ id }) => (id === undefined ? [] : [id]));
    expect(ids()).toEqual([1, 3]);
    it.child({ id: 1, result: text("mail") });
    expect(ids()).toEqual([2]);
  });

  it("that took mail are remembered by what came out", () => {
    const it = talk();
    it.host(call(1, "check_messages"));
    it.got();
    const messages = ["m1", "m2"].map((msg_id) => JSON.stringify({ msg_id, body: "x" }));
    it.child({ id: 1, result: { content: [], structuredContent: { messages, left: 0 } } });
    it.host(call(2, "check_messages"));
    it.got();
    it.die();
    expect(it.conversation.remembered.arrived).toEqual(["m1", "m2"]);
  });
});

describe("a host that cancels", () => {
  const cancel = (requestId: number) => ({ method: "notifications/cancelled", params: { requestId } });

  it("what waits, hears no more of it, and no process gets it", () => {
    const it = talk();
    it.host(call(1, "add_peer"));
    it.host(cancel(1));
    expect(it.got().filter(({ id }) => id === 1)).toEqual([]);
    expect(it.heard()).toEqual([]);
  });

  it("what a process has, which is told; it is not asked again, and a late answer goes nowhere", () => {
    const it = talk();
    it.host(call(1, "whoami"));
    it.got();
    it.host(cancel(1));
    expect(it.got()).toMatchObject([{ method: "notifications/cancelled", params: { requestId: 1 } }]);
    it.child({ id: 1, result: text("late") });
    it.die();
    it.restart();
    expect(it.got().filter(({ id }) => id === 1)).toEqual([]);
    expect(it.heard()).toEqual([]);
  });

  it("mail that is being taken is told that it was read, for the answer goes nowhere", () => {
    const it = talk();
    it.host(call(1, "check_messages"));
    it.got();
    it.host(cancel(1));
    expect(it.got()).toEqual([]);
    it.child({
      id: 1,
      result: { content: [], structuredContent: { messages: [JSON.stringify({ msg_id: "m" })], left: 0 } },
    });
    it.host(call(2, "whoami"));
    it.got();
    it.child({ id: 2, result: text("me") });
    expect(it.heard()).toMatchObject([
      { id: 2, result: { structuredContent: { notices: [expect.stringContaining("1 messages were marked read")] } } },
    ]);
  });
});

describe("a new process", () => {
  it("of an older client is greeted as the first was, before anything else", () => {
    const it = legacy();
    it.host({ id: 1, method: "resources/subscribe", params: { uri: "interlink://inbox" } });
    it.host({ id: 2, method: "logging/setLevel", params: { level: "info" } });
    it.got();
    for (const id of [1, 2]) it.child({ id, result: {} });
    it.host(legacyCall(3, "whoami"));
    it.got();
    it.die();
    it.restart();
    const order = it.got().map(({ own, method }) => own ?? method);
    expect(order).toEqual([
      "initialize",
      "notifications/initialized",
      "logging/setLevel",
      "resources/subscribe",
      "tools/call",
    ]);
  });

  it("of a modern client gets its open listens under their ids, and its acknowledgement is no news", () => {
    const it = talk();
    const listen = {
      id: "listen:0",
      method: "subscriptions/listen",
      params: { _meta: META, notifications: { toolsListChanged: true } },
    };
    const acknowledgement = {
      method: "notifications/subscriptions/acknowledged",
      params: { _meta: { "io.modelcontextprotocol/subscriptionId": "listen:0" } },
    };
    it.host(listen);
    expect(it.got()).toContainEqual(expect.objectContaining({ id: "listen:0" }));
    it.child(acknowledgement);
    expect(it.heard()).toHaveLength(1);
    // A process that ends in good order closes it; the host does not see that.
    it.child({ id: "listen:0", result: { resultType: "complete" } });
    it.die({ code: 75, signal: null, isHandoff: true });
    it.restart();
    expect(it.got()).toContainEqual(expect.objectContaining({ id: "listen:0" }));
    it.child(acknowledgement);
    expect(it.heard()).toEqual([]);
    it.host({ method: "notifications/cancelled", params: { requestId: "listen:0" } });
    it.die();
    it.restart();
    expect(it.got().filter(({ id }) => id === "listen:0")).toEqual([]);
  });

  it("is told of in the next good result, once, in both places", () => {
    const it = talk();
    it.host(call(1, "whoami"));
    it.got();
    it.child({ id: 1, result: text("a") });
    it.heard();
    it.die();
    it.restart();
    it.got("2");
    for (const [id, result] of [
      [2, { isError: true, content: [] }],
      [3, { resultType: "input_required", inputRequests: {} }],
      [4, text("b")],
      [5, text("c")],
    ] as const) {
      it.host(call(id, "whoami"));
      it.got();
      it.child({ id, result });
    }
    const [refusal, question, good, next] = it.heard().map(({ result }) => result);
    const notice =
      "the agent process ended (killed by SIGKILL) and another was started; version 1 was replaced by 2; it was asked to rejoin its session";
    expect(refusal).toEqual({ isError: true, content: [] });
    expect(question).toEqual({ resultType: "input_required", inputRequests: {} });
    expect(good).toEqual({
      content: [
        { type: "text", text: "b" },
        { type: "text", text: `Notice: ${notice}` },
      ],
      structuredContent: { body: "b", notices: [notice] },
    });
    expect(next).toEqual(text("c"));
  });

  it("with other tools is told to a host that has listed them; one that vanished stays listed and is refused", () => {
    const it = legacy();
    it.host({ id: 1, method: "tools/list" });
    it.got();
    expect(it.heard()).toHaveLength(1);
    it.die();
    it.restart();
    const others = [toolOf("send_message"), toolOf("brand_new")];
    it.got("2", others);
    expect(it.heard()).toEqual([{ jsonrpc: "2.0", method: "notifications/tools/list_changed" }]);
    expect(it.learned.at(-1)).toMatchObject({ version: "2", tools: others });
    it.host({ id: 2, method: "tools/list" });
    const [list] = it.heard();
    expect(list!["result"].tools.map(({ name }: Tool) => name)).toEqual([
      "send_message",
      "brand_new",
      "check_messages",
      "add_peer",
      "whoami",
      "reconnect",
    ]);
    it.got("2", others);
    it.host(legacyCall(3, "whoami"));
    expect(it.got("2", others)).toEqual([]);
    expect(it.heard()).toMatchObject([
      { id: 3, result: { isError: true, structuredContent: { error: { code: "tool_gone" } } } },
    ]);
  });

  it("with no tools at all is not believed", () => {
    const it = legacy();
    it.host({ id: 1, method: "tools/list" });
    it.got("1", []);
    expect(it.learned).toEqual([]);
    expect(it.heard()).toHaveLength(1);
  });

  it("after a probe that became an older client is greeted for that", () => {
    const it = talk();
    it.host({ id: 1, method: "server/discover", params: { _meta: META } });
    it.host({ id: 2, method: "initialize", params: PARAMS });
    expect(it.got().map(({ own }) => own)).toEqual(["server/discover", "initialize"]);
    expect(it.heard().map(({ id }) => id)).toEqual([1, 2]);
    expect(it.asked).toEqual(["ready"]);
  });
});

describe("a question to the operator", () => {
  it("has an id of its own, is withdrawn when its process dies, and a late answer finds nobody", () => {
    const it = legacy();
    it.host(legacyCall(1, "add_peer"));
    it.got();
    it.child({ id: 0, method: "elicitation/create", params: { message: "?" } });
    const [question] = it.heard();
    expect(question).toMatchObject({ method: "elicitation/create", params: { message: "?" } });
    it.die();
    expect(it.heard()).toMatchObject([
      { method: "notifications/cancelled", params: { requestId: question!["id"] } },
      { id: 1, result: { isError: true } },
    ]);
    it.restart();
    it.got();
    it.child({ id: 0, method: "elicitation/create", params: { message: "again?" } });
    const [again] = it.heard();
    expect(again!["id"]).not.toBe(question!["id"]);
    it.host({ id: question!["id"], result: { action: "accept" } });
    expect(it.got()).toEqual([]);
    it.host({ id: again!["id"], result: { action: "decline" } });
    expect(it.got()).toEqual([{ jsonrpc: "2.0", id: 0, result: { action: "decline" } }]);
  });

  it("that the process withdraws is withdrawn by its id", () => {
    const it = legacy();
    it.child({ id: 0, method: "elicitation/create", params: {} });
    const [question] = it.heard();
    it.child({ method: "notifications/cancelled", params: { requestId: 0, reason: "r" } });
    expect(it.heard()).toMatchObject([{ params: { requestId: question!["id"], reason: "r" } }]);
  });
});

describe("while nothing is started", () => {
  it("tools are listed, and each call is answered with what to do", () => {
    const it = talk();
    it.host(call(1, "whoami"));
    it.peek();
    it.die();
    it.breakDown(true);
    it.conversation.refuseQueue();
    it.host(call(2, "send_message"));
    it.host({ id: 3, method: "resources/list", params: { _meta: META } });
    it.host({ id: 4, method: "tools/list", params: { _meta: META } });
    const [queued, later, other, list] = it.heard();
    for (const answer of [queued, later]) {
      expect(answer!["result"]).toMatchObject({ isError: true, structuredContent: { error: { code: "agent_down" } } });
      expect(answer!["result"].content[0].text).toMatch(/nothing was done, and it is tried again in 42s\. .*reconnect/);
    }
    expect(other).toMatchObject({ id: 3, error: { code: -32_603 } });
    expect(list!["result"].tools).toHaveLength(5);
  });

  it("a message that a process had before is not said not to be written", () => {
    const it = talk();
    it.host(call(1, "send_message"));
    it.got();
    it.die();
    it.breakDown(true);
    it.conversation.refuseQueue();
    expect(it.heard()).toMatchObject([
      { id: 1, result: { structuredContent: { error: { code: "outcome_unknown" } } } },
    ]);
  });

  it("reconnect asks for a start, and is answered when the process has greeted, or cannot be had", () => {
    const it = talk();
    it.host(call(1, "reconnect"));
    expect(it.asked).toEqual(["reconnect"]);
    it.got("7");
    expect(it.heard()).toMatchObject([{ id: 1, result: { structuredContent: { start: 1, version: "7" } } }]);
    it.host(call(2, "reconnect"));
    it.die(undefined);
    it.breakDown(true);
    it.conversation.refuseQueue();
    expect(it.heard()).toMatchObject([{ id: 2, result: { isError: true } }]);
  });
});
