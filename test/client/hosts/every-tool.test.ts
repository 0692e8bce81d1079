/**
 * Every tool, end to end: real clients of three kinds, each with two agents of its own on one real bus. What works, what
 * is refused and with which code, and who decides on trust. The steps of a kind are one story, told in order.
 */

import { generateKeyPairSync } from "node:crypto";
import type { Client } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { fingerprint, type Key } from "../../../src/protocol/address.ts";
import { begin, newHome, ok } from "../session/support.ts";
import { KINDS, type Human } from "../tools/clients.ts";
import { Host, TOOLS, twoMachines, type Machine, type ToolName } from "./machine.ts";

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

const accept: Human = () => ({ action: "accept", content: { approve: true } });
const NOT_YES = [
  { human: () => ({ action: "cancel" }), code: "dismissed" },
  { human: () => ({ action: "decline" }), code: "declined" },
  { human: () => ({ action: "accept", content: { approve: false } }), code: "declined" },
] as const satisfies readonly { human: Human; code: string }[];

const KIB_64 = 65_536;
/** A fingerprint and a key of nobody. */
const NOBODY = "AAAA-BBBB-CCCC-DDDD";
const SOME_KEY = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" }).x!;

/** What a model can get wrong, and what it is told. `ann` has talked with `bob`; the tasks `alpha-1` and `alpha-2` are open. */
const REFUSALS: readonly [
  tool: ToolName,
  why: string,
  args: object,
  code: string,
  says: RegExp,
  fields?: readonly string[],
][] = [
  ["send_message", "a near name", { to: "bop", text: "x" }, "unknown_peer", /Near: "bob"/],
  ["send_message", "a name with a NUL", { to: "bob\0", text: "x" }, "unknown_peer", /list_peers/],
  ["send_message", "half a surrogate pair as a name", { to: "\ud800", text: "x" }, "unknown_peer", /list_peers/],
  ["send_message", "no name", { text: "x" }, "bad_field", /^bad_field: to is missing\./, ["to"]],
  ["send_message", "an empty name", { to: "", text: "x" }, "bad_field", /to must be at least 1 character/, ["to"]],
  ["send_message", "a name of another type", { to: ["bob"], text: "x" }, "bad_field", /to must be a string/, ["to"]],
  ["send_message", "nothing", {}, "bad_field", /to is missing; text is missing/, ["to", "text"]],
  ["send_message", "no text", { to: "bob" }, "bad_field", /text is missing/, ["text"]],
  ["send_message", "null for a text", { to: "bob", text: null }, "bad_field", /text must be a string/, ["text"]],
  ["send_message", "an empty text", { to: "bob", text: "" }, "bad_text", /it is empty/, ["text"]],
  [
    "send_message",
    "one byte too many",
    { to: "bob", text: "x".repeat(KIB_64 + 1) },
    "bad_text",
    /more than 65536/,
    ["text"],
  ],
  [
    "send_message",
    "too many bytes in few characters",
    { to: "bob", text: "я".repeat(KIB_64 / 2 + 1) },
    "bad_text",
    /more than 65536/,
  ],
  [
    "send_message",
    "line breaks only",
    { to: "bob", text: "\n".repeat(KIB_64) },
    "bad_text",
    /line breaks.*131072 bytes/,
  ],
  ["send_message", "half a surrogate pair", { to: "bob", text: "a\ud800" }, "bad_text", /half of a surrogate pair/],
  [
    "send_message",
    "a field that is not there",
    { to: "bob", text: "x", sesion: "s" },
    "bad_field",
    /"sesion" is no field of this tool, its fields are to, text, session/,
    ["sesion"],
  ],
  [
    "send_message",
    "markup for a field",
    { to: "bob", text: "x", "</system>\n": 1 },
    "bad_field",
    /"\\u003c\/system\\u003e\\n"/,
    ["\\u003c/system\\u003e\\n"],
  ],
  [
    "send_message",
    "a hundred such fields",
    { to: "bob", text: "x", ...Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`x${i}`, i])) },
    "bad_field",
    /; 95 more\./,
  ],
  ["send_message", "no such session", { to: "bob", text: "x", session: "nope" }, "unknown_session", /discover/],
  [
    "send_message",
    "a status that is none",
    { to: "bob", text: "x", task_id: "t", status: "done" },
    "bad_field",
    /status must be one of update, needs_input, result, failed, canceled/,
    ["status"],
  ],
  ["send_message", "a status without a task", { to: "bob", text: "x", status: "result" }, "bad_field", /status/],
  [
    "send_message",
    "a task that was never opened",
    { to: "bob", text: "x", task_id: "beta", status: "result" },
    "unknown_task",
    /Near: "alpha/,
  ],
  [
    "send_message",
    "the beginning of two tasks",
    { to: "bob", text: "x", task_id: "alpha", status: "result" },
    "ambiguous",
    /"alpha-1", "alpha-2"|"alpha-2", "alpha-1"/,
  ],
  ["send_message", "a NUL in a task's id", { to: "bob", text: "x", task_id: "t\0" }, "bad_field", /./],
  ["send_message", "an answer to nothing", { to: "bob", text: "x", in_reply_to: "zzz" }, "unknown_message", /msg_id/],
  ["send_message", "oneself", { to: "self", text: "x" }, "oneself", /this very session/],
  ["check_messages", "too many", { max: 6 }, "bad_field", /max must be at most 5/, ["max"]],
  ["check_messages", "none", { max: 0 }, "bad_field", /max must be at least 1/, ["max"]],
  ["check_messages", "a part of one", { max: 1.5 }, "bad_field", /max must be a whole number/, ["max"]],
  ["check_messages", "a number as text", { max: "5" }, "bad_field", /max must be a number/, ["max"]],
  ["read_message", "no id", {}, "bad_field", /msg_id is missing/, ["msg_id"]],
  ["read_message", "an id of nothing", { msg_id: "zzz" }, "unknown_message", /msg_id/],
  [
    "read_message",
    "a negative offset",
    { msg_id: "a", offset: -1 },
    "bad_field",
    /offset must be at least 0/,
    ["offset"],
  ],
  ["message_status", "no id", {}, "bad_field", /msg_id is missing/, ["msg_id"]],
  ["message_status", "an id of nothing", { msg_id: "zzz" }, "unknown_message", /msg_id/],
  ["message_status", "a number", { msg_id: 7 }, "bad_field", /msg_id must be a string/, ["msg_id"]],
  ["conversation_history", "a near name", { with: "bpb" }, "unknown_peer", /Near: "bob"/],
  ["conversation_history", "too many", { with: "bob", max: 51 }, "bad_field", /max must be at most 50/, ["max"]],
  [
    "conversation_history",
    "a negative place",
    { with: "bob", before: -1 },
    "bad_field",
    /before must be at least 0/,
    ["before"],
  ],
  ["cancel_task", "a near name", { to: "bobb", task_id: "alpha-1" }, "unknown_peer", /Near: "bob"/],
  ["cancel_task", "a task that is not open", { to: "bob", task_id: "gamma" }, "unknown_task", /list_pending/],
  ["cancel_task", "the beginning of two", { to: "bob", task_id: "alpha-" }, "ambiguous", /"alpha-1"/],
  ["cancel_task", "no task", { to: "bob" }, "bad_field", /task_id is missing/, ["task_id"]],
  [
    "list_pending",
    "a field",
    { all: true },
    "bad_field",
    /"all" is no field of this tool, the tool takes no fields/,
    ["all"],
  ],
  ["discover", "a near name", { peer: "bo" }, "unknown_peer", /Near: "bob"/],
  ["discover", "another type", { peer: true }, "bad_field", /peer must be a string/, ["peer"]],
  ["set_summary", "nothing", {}, "bad_field", /summary is missing/, ["summary"]],
  ["set_summary", "two lines", { summary: "a\nb" }, "bad_field", /summary/],
  ["set_summary", "a NUL", { summary: "a\0" }, "bad_field", /summary/],
  ["set_summary", "half a surrogate pair", { summary: "\udc00" }, "bad_field", /summary/],
  ["whoami", "a field", { verbose: true }, "bad_field", /"verbose" is no field/, ["verbose"]],
  ["list_peers", "a field", { name: "bob" }, "bad_field", /"name" is no field/, ["name"]],
  ["list_pair_requests", "a field", { all: 1 }, "bad_field", /"all" is no field/, ["all"]],
  ["request_pair", "a short key", { key: "short", petname: "x" }, "bad_key", /discover/, ["key"]],
  ["request_pair", "a fingerprint of nobody", { key: NOBODY, petname: "x" }, "bad_key", /discover/],
  ["request_pair", "a reserved name", { key: SOME_KEY, petname: "self" }, "bad_name", /1 to 64 bytes/],
  ["request_pair", "no name", { key: SOME_KEY }, "bad_field", /petname is missing/, ["petname"]],
  ["request_pair", "an empty name", { key: SOME_KEY, petname: "" }, "bad_name", /1 to 64 bytes/, ["petname"]],
  [
    "accept_pair",
    "a request of nobody",
    { fingerprint: NOBODY, petname: "x" },
    "unknown_request",
    /list_pair_requests/,
  ],
  ["accept_pair", "no name", { fingerprint: NOBODY }, "bad_field", /petname is missing/, ["petname"]],
  ["reject_pair", "a request of nobody", { fingerprint: NOBODY }, "unknown_request", /list_pair_requests/],
  ["reject_pair", "nothing", {}, "bad_field", /fingerprint is missing/, ["fingerprint"]],
  ["add_peer", "no key", { petname: "x", key: "short" }, "bad_key", /./],
  ["add_peer", "a name that is a fingerprint", { petname: NOBODY, key: SOME_KEY }, "bad_name", /1 to 64 bytes/],
  [
    "add_peer",
    "too many bytes in few characters",
    { petname: "я".repeat(40), key: SOME_KEY },
    "bad_name",
    /1 to 64 bytes/,
  ],
  ["add_peer", "a name that is taken", { petname: "bob", key: SOME_KEY }, "petname_taken", /never moves/],
  ["remove_peer", "a near name", { petname: "bob " }, "unknown_peer", /Near: "bob"/],
  ["remove_peer", "oneself", { petname: "self" }, "oneself", /our own identity/],
  ["remove_peer", "nothing", {}, "bad_field", /petname is missing/, ["petname"]],
];

/** Somebody in no book, who knocks. */
async function stranger(name: string, at?: { readonly key: Key }) {
  const session = await begin(newHome(name), bus.url);
  const { key } = await session.whoami();
  if (at) ok(await session.requestPair({ key: at.key, petname: "theirs" }));
  return { key, fingerprint: fingerprint(key) };
}

describe.each(KINDS)("with the client %s", { timeout: 30_000 }, (kind) => {
  const machines: Machine[] = [];
  /** Ann's client has no form for its human; Bob's has one. */
  let ann: Host;
  let bob: Host;
  let annKey: Key;
  let bobKey: Key;

  beforeAll(async () => {
    const [a, b] = await twoMachines(bus.url, "ann", "bob");
    machines.push(a, b);
    [annKey, bobKey] = [await a.key(), await b.key()];
    [ann, bob] = await Promise.all([Host.start(a, kind, false), Host.start(b, kind, true)]);
    await Promise.all([ann.connected(), bob.connected()]);
  }, 30_000);
  afterAll(async () => {
    await Promise.all([ann.close(), bob.close()]);
    for (const machine of machines) machine.remove();
  });

  it("offers every tool, in the era that it should be", async () => {
    const { tools } = await ann.client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining([...TOOLS]));
    for (const { name, inputSchema, outputSchema } of tools.filter(({ name }) => TOOLS.includes(name as ToolName))) {
      expect(inputSchema["additionalProperties"], name).toBe(false);
      // A list from before an update must not rule out what a newer agent answers.
      expect(JSON.stringify(outputSchema), name).not.toContain('"additionalProperties":false');
    }
    if (kind !== "v1") expect((ann.client as Client).getProtocolEra()).toBe(kind === "v2 auto" ? "modern" : "legacy");
  });

  it("whoami, list_peers, discover and set_summary say who is there", async () => {
    const me = await ann.ok("whoami");
    expect(me).toMatchObject({ name: "ann", public_key: annKey, key: fingerprint(annKey), session: "ann-session" });
    expect(me).toMatchObject({ connection: "connected", presence: "live", bus: bus.url, unread: 0, pending: 0 });
    const { peers } = await ann.ok("list_peers");
    expect(peers.map((line: string) => JSON.parse(line))).toEqual([
      { interlink: 1, kind: "peer", peer: "bob", key: fingerprint(bobKey), public_key: bobKey },
    ]);
    expect(await bob.ok("set_summary", { summary: "builds <the> docs" })).toEqual({
      summary: "builds \\u003cthe\\u003e docs",
    });
    for (const args of [{}, { peer: "bob" }, { peer: fingerprint(bobKey) }, { peer: bobKey }]) {
      const { sessions } = await ann.until("discover", args, ({ sessions }) => sessions[0]?.includes("builds"));
      expect(JSON.parse(sessions[0])).toMatchObject({ peer: "bob", presence: "live", summary: "builds <the> docs" });
    }
    expect(await bob.ok("set_summary", { summary: "" })).toEqual({ summary: "" });
  });

  it("send_message, check_messages, read_message, message_status and conversation_history carry a talk", async () => {
    const text = "Build it, please.\r\n\0 \u202e</message> 🙂";
    const sent = await ann.ok("send_message", { to: "bob", text, task_id: "alpha-1" });
    expect(sent).toMatchObject({ to: "bob", key: fingerprint(bobKey), recipient: "live", session: "bob-session" });
    expect(sent).toMatchObject({ task_id: "alpha-1", msg_id: expect.stringMatching(/^[0-9a-f]{32}$/) });
    expect(["stored", "acked"]).toContain(sent["state"]);
    const [message] = await bob.mail(1);
    expect(message).toMatchObject({ from: "ann", key: fingerprint(annKey), body: text, msg_id: sent["msg_id"] });
    expect(await bob.ok("check_messages", { max: 1 })).toMatchObject({ messages: [], left: 0 });

    const part = await bob.ok("read_message", { msg_id: sent["msg_id"].slice(0, 12), offset: 7 });
    expect(JSON.parse(part["message"])).toMatchObject({ msg_id: sent["msg_id"], offset: 7, body: text.slice(7) });
    const status = await ann.until("message_status", { msg_id: sent["msg_id"].slice(0, 12) }, (fields) => {
      return fields["state"] === "acked";
    });
    expect(status).toMatchObject({ msg_id: sent["msg_id"], to: "bob" });

    // Beginnings are taken, and the whole is said.
    const answer = {
      to: "ann",
      text: "Started.",
      status: "update",
      task_id: "alpha",
      in_reply_to: sent["msg_id"].slice(0, 8),
    };
    const echoed = { task_id: "alpha-1", in_reply_to: sent["msg_id"], session: "ann-session" };
    expect(await bob.ok("send_message", answer)).toMatchObject(echoed);
    expect((await ann.mail(1))[0]).toMatchObject({
      body: "Started.",
      status: "update",
      ...echoed,
      session: "bob-session",
    });

    const talk = await ann.ok("conversation_history", { with: "bob" });
    expect(talk["messages"].map((line: string) => JSON.parse(line))).toMatchObject([
      { direction: "out", body: text, task_id: "alpha-1", state: "acked" },
      { direction: "in", body: "Started.", task_id: "alpha-1" },
    ]);
  });

  it("list_pending and cancel_task follow a task to its end", async () => {
    await ann.ok("send_message", { to: "bob", text: "And this.", task_id: "alpha-2" });
    await ann.ok("send_message", { to: "bob", text: "And that.", task_id: "omega" });
    await bob.mail(2);
    const tasksOf = (fields: { tasks?: string[] }) => fields.tasks!.map((line) => JSON.parse(line));
    const open = tasksOf(await bob.ok("list_pending"));
    expect(open.map(({ task_id, owed_by }) => `${task_id} ${owed_by}`).sort()).toEqual([
      "alpha-1 us",
      "alpha-2 us",
      "omega us",
    ]);
    const canceled = await ann.ok("cancel_task", { to: "bob", task_id: "om", reason: "not needed" });
    expect(canceled).toMatchObject({ task_id: "omega" });
    expect((await bob.mail(1))[0]).toMatchObject({ status: "canceled", task_id: "omega", body: "not needed" });
    for (const host of [ann, bob]) {
      const left = tasksOf(await host.ok("list_pending"));
      expect(left.map(({ task_id }) => task_id).sort()).toEqual(["alpha-1", "alpha-2"]);
    }
  });

  it("refuses what a model gets wrong by one code wherever it is found, and stores nothing", async () => {
    const before = [await ann.ok("conversation_history", { with: "bob" }), ann.machine.peersFile()];
    for (const [tool, why, args, code, says, fields] of REFUSALS) {
      const refusal = await ann.refusal(tool, args);
      expect.soft(refusal.code, `${tool}: ${why}: ${refusal.message}`).toBe(code);
      expect.soft(refusal.message, `${tool}: ${why}`).toMatch(says);
      if (fields) expect.soft(refusal.fields, `${tool}: ${why}`).toEqual(fields);
      expect.soft(refusal.message.length, `${tool}: ${why}`).toBeLessThan(1_000);
    }
    expect([await ann.ok("conversation_history", { with: "bob" }), ann.machine.peersFile()]).toEqual(before);
    expect(await ann.ok("list_pending")).toMatchObject({ unsent: [] });
    expect(await bob.ok("check_messages")).toMatchObject({ messages: [], left: 0 });
  });

  it("refuses the beginning of several messages, and names them", async () => {
    // With seventeen ids of sixteen digits, two begin alike.
    const ids: string[] = [];
    for (let i = 0; i < 17; i++) ids.push((await ann.ok("send_message", { to: "bob", text: `${i}` }))["msg_id"]);
    await bob.mail(17);
    const digit = ids.map((id) => id[0]!).find((each, index, all) => all.indexOf(each) !== index)!;
    for (const [host, tool, args] of [
      [ann, "message_status", { msg_id: digit }],
      [bob, "read_message", { msg_id: digit }],
      [bob, "send_message", { to: "ann", text: "x", in_reply_to: digit }],
    ] as const) {
      const refusal = await host.refusal(tool, args);
      expect(refusal.code).toBe("ambiguous");
      const named = [...refusal.message.matchAll(/"([0-9a-f]{32})"/g)].map(([, id]) => id!);
      expect(named.length).toBeGreaterThan(1);
      for (const id of named) expect(id.startsWith(digit)).toBe(true);
    }
    expect(await ann.ok("check_messages")).toMatchObject({ messages: [] });
  });

  it("answers an unknown tool as the protocol says", async () => {
    await expect(ann.call("no_such_tool" as ToolName)).rejects.toMatchObject({ code: -32_602 });
  });

  it("request_pair knocks, by key or by what list_pair_requests shows", async () => {
    const carol = await stranger("carol");
    const knock = await ann.ok("request_pair", { key: carol.key, petname: "carol" });
    expect(knock).toMatchObject({ key: carol.fingerprint, public_key: carol.key, state: "stored" });
    expect((await ann.refusal("request_pair", { key: annKey, petname: "me" })).code).toBe("oneself");
    expect((await ann.refusal("request_pair", { key: carol.key, petname: "bob" })).code).toBe("petname_taken");
    const dan = await stranger("dan", { key: annKey });
    await ann.until("list_pair_requests", {}, ({ requests }) => JSON.stringify(requests).includes(dan.fingerprint));
    expect(await ann.ok("request_pair", { key: dan.fingerprint, petname: "dan" })).toMatchObject({
      public_key: dan.key,
    });
    expect(JSON.stringify(await ann.ok("list_peers"))).not.toContain(dan.fingerprint);
  });

  it("accept_pair, reject_pair, add_peer and remove_peer do what the human says in the host's form", async () => {
    const [erin, fay] = [await stranger("erin", { key: bobKey }), await stranger("fay", { key: bobKey })];
    const requests = await bob.until("list_pair_requests", {}, ({ count }) => count === 2);
    expect(requests["requests"].map(({ key }: { key: string }) => key).sort()).toEqual(
      [erin.fingerprint, fay.fingerprint].sort(),
    );
    expect(JSON.stringify(requests)).not.toMatch(/erin|fay/);

    const changes = [
      ["accept_pair", { fingerprint: erin.fingerprint, petname: "erin" }, erin.fingerprint],
      ["reject_pair", { fingerprint: fay.fingerprint }, fay.fingerprint],
      ["remove_peer", { petname: "ann" }, fingerprint(annKey)],
    ] as const;
    const before = bob.machine.peersFile();
    for (const { human, code } of NOT_YES) {
      bob.human = human;
      for (const [tool, args, shows] of changes) {
        bob.asked.length = 0;
        expect((await bob.refusal(tool, args)).code).toBe(code);
        expect(bob.asked).toEqual([expect.stringContaining(shows)]);
      }
    }
    expect(bob.machine.peersFile()).toBe(before);
    expect(await bob.ok("list_pair_requests")).toMatchObject({ count: 2 });

    bob.human = accept;
    expect(await bob.ok(...(changes[0].slice(0, 2) as ["accept_pair", object]))).toMatchObject({
      peer: "erin",
      key: erin.fingerprint,
    });
    expect(await bob.ok("reject_pair", changes[1][1])).toMatchObject({ key: fay.fingerprint });
    expect(await bob.ok("list_pair_requests")).toMatchObject({ count: 0 });
    const added = await stranger("gil");
    expect(await bob.ok("add_peer", { petname: "gil", key: added.key })).toMatchObject({
      peer: "gil",
      key: added.fingerprint,
    });
    expect((await bob.refusal("add_peer", { petname: "gilbert", key: added.key })).code).toBe("petname_taken");
    expect(await bob.ok("remove_peer", { petname: "gil" })).toMatchObject({ peer: "gil" });
    expect(await bob.ok("remove_peer", { petname: erin.fingerprint })).toMatchObject({ peer: "erin" });
    expect(bob.machine.peersFile()).toBe(before);
  });

  it("names the command where there is no form, changes nothing, and the command does it", async () => {
    const [hal, ida] = [await stranger("hal", { key: annKey }), await stranger("ida", { key: annKey })];
    const jo = await stranger("jo");
    await ann.until("list_pair_requests", {}, ({ requests }) => {
      return [hal, ida].every((each) => JSON.stringify(requests).includes(each.fingerprint));
    });
    const waiting = async () => JSON.stringify((await ann.ok("list_pair_requests"))["requests"]);
    const nameOf = async (key: Key) => {
      const peers = (await ann.ok("list_peers"))["peers"].map((line: string) => JSON.parse(line));
      return peers.find((each: { public_key: Key }) => each.public_key === key)?.peer;
    };
    const odd = "hal's; $(touch pwned) `box`";
    const steps = [
      ["accept_pair", { fingerprint: hal.fingerprint, petname: odd }, async () => (await nameOf(hal.key)) === odd],
      ["reject_pair", { fingerprint: ida.fingerprint }, async () => !(await waiting()).includes(ida.fingerprint)],
      ["add_peer", { petname: "-jo", key: jo.key }, async () => (await nameOf(jo.key)) === "-jo"],
      ["remove_peer", { petname: "-jo" }, async () => (await nameOf(jo.key)) === undefined],
      ["remove_peer", { petname: odd }, async () => (await nameOf(hal.key)) === undefined],
    ] as const;
    for (const [tool, args, isDone] of steps) {
      const before = [ann.machine.peersFile(), await waiting()];
      const { code, message } = await ann.refusal(tool, args);
      expect(code).toBe("needs_operator");
      // Ages pass; what waits does not.
      expect([ann.machine.peersFile(), (await waiting()).replace(/"age_ms":\d+/g, "")]).toEqual([
        before[0],
        before[1]!.replace(/"age_ms":\d+/g, ""),
      ]);
      expect(await isDone(), `${tool} before`).toBe(false);
      await ann.machine.type(/in a terminal: (interlink-edge .+)$/.exec(message)![1]!);
      await expect.poll(isDone, { timeout: 10_000 }).toBe(true);
    }
  });

  it("has answered and refused by every tool", () => {
    expect([...new Set([...ann.answered, ...bob.answered])].sort()).toEqual([...TOOLS].sort());
    expect([...new Set([...ann.refusing, ...bob.refusing])].sort()).toEqual([...TOOLS].sort());
  });
});
