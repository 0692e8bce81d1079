/**
 * The MCP Inspector's CLI, as developers of hosts use it, in both eras: the schemas are portable, and every tool answers and
 * refuses. Each call starts an agent of its own, of one session, and ends it.
 */

import { execFile, fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { fingerprint } from "../../../src/protocol/address.ts";
import { begin, newHome, ok } from "../session/support.ts";
import type { Seen } from "./inspector-child.ts";
import { Host, TOOLS, twoMachines, type Fields, type Machine, type ToolName } from "./machine.ts";

const run = promisify(execFile);
const LAUNCHER = join(
  import.meta.dirname,
  "../../../node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js",
);
/** What the CLI ends with when a tool answered with an error. */
const TOOL_ERROR = 5;

/** The story of one era, a file of its own, since each call takes a second. */
export function tellInspector(era: "legacy" | "modern"): void {
  const options = { timeout: 120_000 };
  let bus: LocalBus;
  /** The Inspector's own home, in which it is to leave nothing. */
  const home = mkdtempSync(join(tmpdir(), "interlink-inspector-"));
  const env = { PATH: process.env["PATH"]!, HOME: home };
  let machines: readonly Machine[];
  let child: ChildProcess;
  let bob: Host;
  const answered = new Set<string>();
  const refusing = new Set<string>();

  beforeAll(async () => {
    bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
    machines = await twoMachines(bus.url, "ann", "bob");
    child = fork(join(import.meta.dirname, "inspector-child.ts"), {
      env,
      execArgv: ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"],
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    const isReady = once(child, "message");
    bob = await Host.start(machines[1]!, era === "legacy" ? "v2 legacy" : "v2 auto", false);
    await Promise.all([bob.connected(), isReady]);
  }, 30_000);
  afterAll(async () => {
    child.disconnect();
    await bob.close();
    await bus.stop();
    for (const machine of machines) machine.remove();
    rmSync(home, { recursive: true, force: true });
  });

  /** The arguments that a developer types, and the agent that they look at. */
  function typed(...args: string[]): string[] {
    const { command, args: program, env: agent } = machines[0]!.program();
    const variables = Object.entries(agent).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
    return ["--protocol-era", era, "--format", "json", ...args, ...variables, "--", command, ...program];
  }

  async function inspect(...args: string[]): Promise<Seen> {
    child.send(typed(...args));
    const [seen] = (await once(child, "message")) as [Seen];
    return seen;
  }

  const call = (tool: ToolName, args: object) =>
    inspect("--method", "tools/call", "--tool-name", tool, "--tool-args-json", JSON.stringify(args));

  async function answer(tool: ToolName, args: object = {}): Promise<Fields> {
    const seen = await call(tool, args);
    expect(seen.code, `${tool}: ${seen.stdout} ${seen.stderr}`).toBe(0);
    const { isError, structuredContent } = JSON.parse(seen.stdout).result;
    expect(isError ?? false).toBe(false);
    answered.add(tool);
    return structuredContent;
  }

  async function refusal(tool: ToolName, args: object): Promise<string> {
    const seen = await call(tool, args);
    expect(seen.code, `${tool}: ${seen.stdout} ${seen.stderr}`).toBe(TOOL_ERROR);
    const { content, structuredContent } = JSON.parse(seen.stdout).result;
    expect(content[0].text).toContain(structuredContent.error.message);
    refusing.add(tool);
    return structuredContent.error.code;
  }

  it("finds every tool, and nothing in their schemas that some host could not take", options, async () => {
    // The program itself, as it is typed.
    const { stdout, stderr } = await run(
      process.execPath,
      [LAUNCHER, "--cli", ...typed("--method", "tools/list", "--strict")],
      { env },
    );
    const { tools } = JSON.parse(stdout).result;
    expect(tools.map(({ name }: { name: string }) => name)).toEqual(expect.arrayContaining([...TOOLS]));
    // Not a warning either; ours are not among what it prints of the agent's log.
    expect(stderr.split("\n").filter((line) => /portab|schema|warn|error/i.test(line))).toEqual([]);
  });

  it("lists and reads the inbox", options, async () => {
    const listed = await inspect("--method", "resources/list");
    expect(JSON.parse(listed.stdout).result.resources).toMatchObject([{ uri: "interlink://inbox" }]);
    const read = await inspect("--method", "resources/read", "--uri", "interlink://inbox");
    const [content] = JSON.parse(read.stdout).result.contents;
    expect(JSON.parse(content.text)).toEqual({ unread: 0, pending: 0 });
  });

  it("calls every tool", options, async () => {
    const bobKey = await machines[1]!.key();
    expect(await answer("whoami")).toMatchObject({ name: "ann", session: "ann-session" });
    expect(JSON.parse((await answer("list_peers"))["peers"][0])).toMatchObject({ peer: "bob", public_key: bobKey });
    expect(await answer("set_summary", { summary: "looks" })).toMatchObject({ summary: "looks" });
    expect(JSON.stringify(await answer("discover", { peer: "bob" }))).toContain("bob-session");
    const sent = await answer("send_message", { to: "bob", text: "hello", task_id: "look" });
    expect(sent).toMatchObject({ to: "bob", recipient: "live", task_id: "look" });
    // A goodbye follows each call, so it is not alone.
    await bob.until("check_messages", {}, (fields) => JSON.stringify(fields["messages"]).includes("hello"));
    await bob.ok("send_message", { to: "ann", text: "here", in_reply_to: sent["msg_id"] });
    // It was written when no agent was there, and is there at the first call of the next one.
    const { messages } = await answer("check_messages", { max: 5 });
    const mail = JSON.parse(messages[0]);
    expect(mail).toMatchObject({ from: "bob", body: "here", in_reply_to: sent["msg_id"] });
    expect(JSON.parse((await answer("read_message", { msg_id: mail.msg_id, offset: 2 }))["message"])).toMatchObject({
      body: "re",
    });
    expect(await answer("message_status", { msg_id: sent["msg_id"] })).toMatchObject({ state: "acked" });
    expect((await answer("conversation_history", { with: "bob", max: 2 }))["messages"]).toHaveLength(2);
    expect((await answer("list_pending"))["tasks"]).toHaveLength(1);
    expect(await answer("cancel_task", { to: "bob", task_id: "look" })).toMatchObject({ task_id: "look" });
    const eve = await begin(newHome("eve"), bus.url);
    const { key } = await eve.whoami();
    expect(await answer("request_pair", { key, petname: "eve" })).toMatchObject({ state: "stored", public_key: key });

    const fay = await begin(newHome("fay"), bus.url);
    const { key: fays } = await fay.whoami();
    ok(await fay.requestPair({ key: await machines[0]!.key(), petname: "ann" }));
    const requests = await answer("list_pair_requests");
    expect(requests).toMatchObject({ count: 1, requests: [{ key: fingerprint(fays) }] });
    // The CLI has no form, so trust is for the commands that these name.
    expect(await refusal("accept_pair", { fingerprint: fingerprint(fays), petname: "fay" })).toBe("needs_operator");
    expect(await refusal("reject_pair", { fingerprint: fingerprint(fays) })).toBe("needs_operator");
    expect(await refusal("add_peer", { petname: "fay", key: fays })).toBe("needs_operator");
    expect(await refusal("remove_peer", { petname: "bob" })).toBe("needs_operator");
  });

  it("is refused by every tool", options, async () => {
    for (const [tool, args, code] of [
      ["send_message", { to: "bop", text: "x" }, "unknown_peer"],
      ["check_messages", { max: 6 }, "bad_field"],
      ["read_message", { msg_id: "zzz" }, "unknown_message"],
      ["message_status", { msg_id: "zzz" }, "unknown_message"],
      ["conversation_history", { with: "nobody" }, "unknown_peer"],
      ["cancel_task", { to: "bob", task_id: "none" }, "unknown_task"],
      ["list_pending", { all: true }, "bad_field"],
      ["discover", { peer: "nobody" }, "unknown_peer"],
      ["set_summary", { summary: "two\nlines" }, "bad_field"],
      ["whoami", { verbose: true }, "bad_field"],
      ["list_peers", { all: true }, "bad_field"],
      ["request_pair", { key: "short", petname: "x" }, "bad_key"],
      ["list_pair_requests", { all: true }, "bad_field"],
    ] as const) {
      expect(await refusal(tool, args), tool).toBe(code);
    }
    expect([...refusing].sort()).toEqual([...TOOLS].sort());
    expect([...TOOLS].filter((tool) => !answered.has(tool))).toEqual([
      "accept_pair",
      "reject_pair",
      "add_peer",
      "remove_peer",
    ]);
  });

  it("leaves nothing in the home of whoever runs it", () => {
    expect(readdirSync(home)).toEqual([]);
  });
}
