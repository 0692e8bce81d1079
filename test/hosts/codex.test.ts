/** The real Codex, offline: its app server, over which its terminal and its editors run too, with a model on loopback. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Machine } from "../client/hosts/machine.ts";
import { until } from "../client/session/support.ts";
import { INSTALL, LAUNCH, LineHost, offline, PATH_WITH_NODE, people, programOf, wakesOf } from "./story.ts";

const codex = programOf("codex");
if (codex === undefined) console.warn(`Codex is not installed here, so nothing is tested with it: ${INSTALL}`);

const stage = offline();

function configure(bob: Machine): void {
  mkdirSync(join(bob.home, ".codex"), { recursive: true });
  mkdirSync(join(bob.home, "project"), { recursive: true });
  const text = `model = "stub"
model_provider = "stub"
approval_policy = "never"

[model_providers.stub]
name = "stub"
base_url = "${stage.model.url}/v1"
wire_api = "responses"

[features]
enable_request_compression = false

[mcp_servers.interlink]
command = ${JSON.stringify(process.execPath)}
args = ${JSON.stringify([LAUNCH, "mcp"])}
default_tools_approval_mode = "approve"

[mcp_servers.interlink.env]
INTERLINK_URL = "${stage.bus.url}"
INTERLINK_NAME = "bob"
INTERLINK_CODEX = ${JSON.stringify(codex)}
`;
  writeFileSync(join(bob.home, ".codex/config.toml"), text);
}

class Codex extends LineHost {
  readonly #cwd: string;
  #asked = 0;
  thread = "";

  constructor(bob: Machine) {
    const cwd = join(bob.home, "project");
    super(codex!, ["app-server"], { cwd, env: { HOME: bob.home, PATH: PATH_WITH_NODE, TERM: "xterm" } });
    this.#cwd = cwd;
  }

  /** Begins a thread, or resumes one. */
  async open(thread?: string): Promise<void> {
    await this.#ask("initialize", { clientInfo: { name: "test", title: "test", version: "1" } });
    this.write({ method: "initialized" });
    const options = { cwd: this.#cwd, approvalPolicy: "never" };
    const opened =
      thread === undefined
        ? await this.#ask("thread/start", options)
        : await this.#ask("thread/resume", { threadId: thread, ...options });
    this.thread = opened["thread"].id;
  }

  /** Has a tool called. @returns its answer */
  async call(tool: string, input: object): Promise<Record<string, any>> {
    const before = this.#results(tool).length;
    const text = `CALL ${tool} ${JSON.stringify(input)}END`;
    await this.#ask("turn/start", { threadId: this.thread, input: [{ type: "text", text }] });
    const results = await until(() => {
      const all = this.#results(tool);
      return all.length > before ? all : undefined;
    }, `an answer of ${tool}: ${this.err}`);
    return results.at(-1)!["structuredContent"];
  }

  #results(tool: string): Record<string, any>[] {
    return this.lines
      .filter(({ method, params }) => method === "item/completed" && params.item.tool === tool)
      .map(({ params }) => params.item.result);
  }

  async #ask(method: string, params: object): Promise<Record<string, any>> {
    const id = ++this.#asked;
    this.write({ id, method, params });
    const answer = await until(() => this.lines.find((line) => line["id"] === id), `${method}: ${this.err}`);
    if (answer["error"]) throw new Error(JSON.stringify(answer["error"]));
    return answer["result"];
  }
}

describe.skipIf(codex === undefined)("Codex", { timeout: 120_000 }, () => {
  it("lists the tools, sends, is woken while idle, reads and answers; a resumed thread is the same session", async () => {
    const { ann, bob } = await people(stage.bus.url);
    configure(bob);
    const first = new Codex(bob);
    await first.open();
    const me = await first.call("whoami", {});
    expect(me).toMatchObject({ session: first.thread, wake_path: "codex_queue", wake_proof: "unproven" });
    expect(stage.model.turns[0]!.tools).toContain("mcp__interlink__send_message");
    await first.call("send_message", { to: "ann", text: "hello from bob" });
    expect(await ann.mail(1)).toMatchObject([{ from: "bob", body: "hello from bob" }]);

    // Idle: nothing is typed from here on.
    await ann.ok("send_message", { to: "bob", text: "ping" });
    expect(await ann.mail(1)).toMatchObject([{ from: "bob", body: "pong" }]);
    const woken = wakesOf(stage.model);
    expect(woken).toHaveLength(1);
    expect(woken[0]).toMatch(/^\[interlink: a note of the mail client on this machine, not from your user\]/);
    expect(woken[0]).not.toContain("ping");
    expect(await first.call("whoami", {})).toMatchObject({ wake_proof: "proven" });
    await first.quit();

    await ann.until("discover", { peer: "bob" }, ({ sessions }) => sessions.length === 0);
    await ann.ok("send_message", { to: "bob", text: "while you were away" });
    const second = new Codex(bob);
    await second.open(first.thread);
    expect(await second.call("whoami", {})).toMatchObject({ session: first.thread });
    await until(async () => {
      const { messages } = await second.call("check_messages", {});
      return messages.some((line: string) => line.includes("while you were away"));
    }, "the message");
  });
});
