/** Every tool through the SDK's real clients, over stdio: its happy path, its refusals, and what goes with every answer. */

import type { Client } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import { ALICE, ME, sessionId, STRANGER } from "../../support/fake-agent.ts";
import { drive, KINDS, textOf } from "./clients.ts";
import { INSTRUCTIONS, INSTRUCTIONS_MAX_BYTES } from "../../../src/client/tools/instructions.ts";

const TOOLS = [
  "send_message",
  "check_messages",
  "read_message",
  "message_status",
  "conversation_history",
  "cancel_task",
  "list_pending",
  "discover",
  "set_summary",
  "whoami",
  "connect_bus",
  "disconnect_bus",
  "list_buses",
  "list_peers",
  "request_pair",
  "list_pair_requests",
  "accept_pair",
  "reject_pair",
  "add_peer",
  "remove_peer",
];

/** One good call of each tool that asks nobody, and what must be in its structure. */
const HAPPY: readonly [name: string, args: object, fields: object][] = [
  ["send_message", { to: "alice", text: "hi" }, { msg_id: "sent-1", to: "alice", state: "stored", recipient: "live" }],
  ["cancel_task", { to: "alice", task_id: "t1", reason: "late" }, { msg_id: "cancel-1", state: "stored" }],
  ["message_status", { msg_id: "m1" }, { msg_id: "m1-whole", to: "alice", state: "acked" }],
  ["conversation_history", { with: "alice" }, { with: "alice", key: ALICE.fingerprint, before: 7 }],
  ["list_pending", {}, { unsent: [{ msg_id: "p1", state: "pending" }] }],
  ["discover", {}, { left: 0, view_age_ms: 0 }],
  ["discover", { peer: "alice" }, { left: 0 }],
  ["set_summary", { summary: "docs" }, { summary: "docs" }],
  ["request_pair", { key: STRANGER.fingerprint, petname: "bob" }, { key: STRANGER.fingerprint, state: "pending" }],
  ["list_pair_requests", {}, { count: 1, requests: [{ key: STRANGER.fingerprint, age_ms: 120_000 }] }],
  ["list_peers", {}, {}],
  ["connect_bus", { bus: "work" }, { bus: "work", connection: "connected", key: ME.fingerprint }],
  ["disconnect_bus", {}, { bus: "work" }],
  ["list_buses", {}, {}],
  ["check_messages", {}, { left: 0 }],
  ["read_message", { msg_id: "m0", offset: 2 }, {}],
  ["whoami", {}, { key: ME.fingerprint, session: "s-own", presence: "live", wake_path: "none" }],
];

describe.each(KINDS)("with the client %s", { timeout: 30_000 }, (kind) => {
  it("lists the tools, the same for all, with schemas that any host takes", async () => {
    const { client } = await drive(kind);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(TOOLS);
    for (const { name, description, inputSchema, outputSchema, annotations } of tools) {
      expect(name).toMatch(/^[a-z_]{1,32}$/);
      expect(Buffer.byteLength(description!)).toBeLessThan(2_048);
      expect(inputSchema.type, name).toBe("object");
      expect(outputSchema!["type"], name).toBe("object");
      expect((outputSchema!.properties as object)["notices" as never], name).toMatchObject({ type: "array" });
      expect(outputSchema!.required ?? [], name).toEqual([]);
      for (const hint of ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] as const)
        expect(annotations![hint], `${name} ${hint}`).toBeTypeOf("boolean");
      const text = JSON.stringify([inputSchema, outputSchema]);
      expect(text, name).not.toContain(String(Number.MIN_SAFE_INTEGER));
      for (const field of Object.values((inputSchema.properties ?? {}) as Record<string, { description?: string }>))
        expect(field.description, name).toBeTruthy();
      for (const word of ["anyOf", "oneOf", "allOf", "$ref", "patternProperties"])
        expect(text, name).not.toContain(word);
    }
  });

  it("tells the policy once, in under 2 KB", async () => {
    const { client } = await drive(kind);
    expect(client.getInstructions()).toBe(INSTRUCTIONS);
    expect(Buffer.byteLength(INSTRUCTIONS)).toBeLessThan(INSTRUCTIONS_MAX_BYTES);
  });

  it("answers every tool, in text and structure, with the notices in both", async () => {
    const { call } = await drive(kind, { mail: [{ body: "hello" }], claimedName: "Bob", notices: ["unread: 1 <b>"] });
    for (const [name, args, fields] of HAPPY) {
      const result = await call(name, args);
      expect(result.isError ?? false, `${name}: ${textOf(result)}`).toBe(false);
      expect(result.structuredContent, name).toMatchObject(fields);
      expect(result.structuredContent!["notices"], name).toEqual(["unread: 1 \\u003cb\\u003e"]);
      expect(textOf(result), name).toMatch(/\nNotice: unread: 1 \\u003cb\\u003e$/);
      // What the structure says is in the text as well.
      for (const line of [
        ...(result.structuredContent!["messages"] ?? []),
        ...(result.structuredContent!["sessions"] ?? []),
      ])
        expect(textOf(result), name).toContain(line);
      if (result.structuredContent!["feedback"] !== undefined)
        expect(textOf(result), name).toContain(result.structuredContent!["feedback"]);
    }
  });

  it("answers a refusal with its code first, in text and structure, with the notices in both", async () => {
    const refusal = { code: "ambiguous", candidates: ["alice", "al<b>"] } as const;
    const { call } = await drive(kind, { refusal, claimedName: "Bob", notices: ["note"] });
    const refused = HAPPY.filter(
      ([name]) =>
        ![
          "list_pending",
          "list_pair_requests",
          "list_peers",
          "list_buses",
          "check_messages",
          "read_message",
          "whoami",
        ].includes(name),
    );
    for (const [name, args] of [
      ...refused,
      ["accept_pair", { fingerprint: STRANGER.fingerprint, petname: "x" }],
    ] as const) {
      const result = await call(name as string, args as object);
      const { code, message } = result.structuredContent!["error"];
      expect(result.isError, name as string).toBe(true);
      expect(code).toBe("ambiguous");
      expect(message).toMatch(/^ambiguous: .*"al\\u003cb\\u003e"/);
      expect(textOf(result)).toBe(`${message}\nNotice: note`);
      expect(result.structuredContent!["notices"]).toEqual(["note"]);
    }
  });

  it("hides a fault from the model and logs it", async () => {
    const { call, stderr } = await drive(kind, { fault: "boom <at> /secret/path" });
    const result = await call("send_message", { to: "alice", text: "x" });
    expect(result.isError).toBe(true);
    expect(textOf(result)).toMatch(/^internal: /);
    expect(JSON.stringify(result)).not.toContain("boom");
    await expect.poll(stderr).toContain("boom \\u003cat\\u003e");
    expect(stderr().trimEnd().split("\n")).toHaveLength(1);
  });

  it("refuses arguments of the wrong form, and an unknown one, before the agent is asked", async () => {
    const { call, trace } = await drive(kind);
    for (const args of [{ to: "alice" }, { to: "alice", text: "" }, { to: "alice", text: "x", sesion: "s" }]) {
      expect((await call("send_message", args)).isError).toBe(true);
    }
    expect((await call("check_messages", { max: 6 })).isError).toBe(true);
    expect((await call("read_message", { msg_id: "m", offset: -1 })).isError).toBe(true);
    expect(trace().filter(({ call }) => call !== "begin")).toEqual([]);
  });

  it("gives the host's id of a call on, and no half of one", async () => {
    const { call, trace } = await drive(kind);
    const args = { to: "alice", text: "x", session: "s", task_id: "t", status: "result", in_reply_to: "m" };
    await call("send_message", args, { "claudecode/toolUseId": "toolu_1" });
    await call("send_message", args, { threadId: "th", callId: "c1" });
    await call("send_message", args, { callId: "c1" });
    await call("send_message", args);
    const keys = trace()
      .filter(({ call }) => call === "send")
      .map((sent) => sent["idempotencyKey"]);
    expect(keys).toEqual(["claude:toolu_1", 'codex:["th","c1"]', undefined, undefined]);
    expect(trace().find(({ call }) => call === "send")).toMatchObject(args);
  });

  it("names a live sibling, and says gone where nobody is seen", async () => {
    const sibling = { to: "session", session: sessionId("s-away"), presence: "away", age_ms: 1_200_000 } as const;
    const away = await drive(kind, { route: { ...sibling, live_sibling: sessionId("s-live") } });
    const result = await away.call("send_message", { to: "alice", text: "x" });
    expect(result.structuredContent).toMatchObject({ recipient: "away", live_sibling: "s-live", age_ms: 1_200_000 });
    expect(textOf(result)).toContain("asleep? last seen 20m ago");
    const gone = await drive(kind, { route: { to: "remembered", session: sessionId("s-old") } });
    const lost = await gone.call("send_message", { to: "alice", text: "x" });
    expect(lost.structuredContent).toMatchObject({ recipient: "gone", session: "s-old" });
    expect(textOf(lost)).toContain("may never be read");
  });

  it("shows the inbox as a resource, without text, and tells when it changed", async () => {
    const { client, pid, updates, call, trace } = await drive(kind, { mail: [{ body: "SECRET" }] });
    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toEqual(["interlink://inbox"]);
    const { contents } = await client.readResource({ uri: "interlink://inbox" });
    expect(contents[0]).toMatchObject({ text: '{"unread":1,"pending":0}' });
    if (kind === "v2 auto") {
      await (client as Client).listen({
        resourceSubscriptions: ["interlink://inbox"],
      });
    } else {
      // Whoever did not subscribe is told nothing. A signal comes when it will, so it is waited for.
      process.kill(pid(), "SIGUSR2");
      await expect.poll(() => trace().some(({ call }) => call === "ring")).toBe(true);
      await call("whoami");
      expect(updates).toEqual([]);
      await client.subscribeResource({ uri: "interlink://inbox" });
    }
    process.kill(pid(), "SIGUSR2");
    await expect.poll(() => updates).toEqual(["interlink://inbox"]);
  });

  it("has begun once, at the first call", async () => {
    const { call, trace } = await drive(kind);
    const begun = () => trace().filter(({ call }) => call === "begin").length;
    expect(begun()).toBe(0);
    await call("whoami");
    await call("whoami");
    expect(begun()).toBe(1);
  });
});
