/** The real Codex, offline: its app server, over which its terminal and its editors run too, with a model on loopback. */

import { spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import type { Machine } from "../client/hosts/machine.ts";
import { until } from "../client/session/support.ts";
import { ModelStub } from "./model-stub.ts";
import { INSTALL, LAUNCH, obedient, people, programOf } from "./story.ts";

const codex = programOf("codex");
if (codex === undefined) console.warn(`Codex is not installed here, so nothing is tested with it: ${INSTALL}`);

let bus: LocalBus;
let model: ModelStub;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
  model = await ModelStub.start(obedient);
});
afterAll(async () => {
  await model.stop();
  await bus.stop();
});

function configure(bob: Machine): void {
  mkdirSync(join(bob.home, ".codex"), { recursive: true });
  mkdirSync(join(bob.home, "project"), { recursive: true });
  const text = `model = "stub"
model_provider = "stub"
approval_policy = "never"

[model_providers.stub]
name = "stub"
base_url = "${model.url}/v1"
wire_api = "responses"

[features]
enable_request_compression = false

[mcp_servers.interlink]
command = ${JSON.stringify(process.execPath)}
args = ${JSON.stringify([LAUNCH, "mcp"])}
default_tools_approval_mode = "approve"

[mcp_servers.interlink.env]
INTERLINK_URL = "${bus.url}"
INTERLINK_NAME = "bob"
INTERLINK_CODEX = ${JSON.stringify(codex)}
`;
  writeFileSync(join(bob.home, ".codex/config.toml"), text);
}

class Codex {
  readonly child: ChildProcess;
  readonly #cwd: string;
  readonly #lines: Record<string, any>[] = [];
  readonly #closed: Promise<unknown>;
  #asked = 0;
  #err = "";
  thread = "";

  constructor(bob: Machine) {
    this.#cwd = join(bob.home, "project");
    const env = { HOME: bob.home, PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`, TERM: "xterm" };
    this.child = spawn(codex!, ["app-server"], { cwd: this.#cwd, env, stdio: "pipe" });
    let text = "";
    this.child.stdout!.on("data", (chunk) => {
      text += String(chunk);
      const lines = text.split("\n");
      text = lines.pop()!;
      this.#lines.push(...lines.filter(Boolean).map((line) => JSON.parse(line) as Record<string, any>));
    });
    this.child.stderr!.on("data", (chunk) => (this.#err += String(chunk)));
    this.#closed = new Promise((resolve) => this.child.once("close", resolve));
    onTestFinished(() => this.quit());
  }

  async quit(): Promise<void> {
    this.child.stdin!.end();
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 5_000);
    await this.#closed;
    clearTimeout(timer);
  }

  /** Begins a thread, or resumes one. */
  async open(thread?: string): Promise<void> {
    await this.#ask("initialize", { clientInfo: { name: "test", title: "test", version: "1" } });
    this.child.stdin!.write(`${JSON.stringify({ method: "initialized" })}\n`);
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
    }, `an answer of ${tool}: ${this.#err}`);
    return results.at(-1)!["structuredContent"];
  }

  #results(tool: string): Record<string, any>[] {
    return this.#lines
      .filter(({ method, params }) => method === "item/completed" && params.item.tool === tool)
      .map(({ params }) => params.item.result);
  }

  async #ask(method: string, params: object): Promise<Record<string, any>> {
    const id = ++this.#asked;
    this.child.stdin!.write(`${JSON.stringify({ id, method, params })}\n`);
    const answer = await until(() => this.#lines.find((line) => line["id"] === id), `${method}: ${this.#err}`);
    if (answer["error"]) throw new Error(JSON.stringify(answer["error"]));
    return answer["result"];
  }
}

describe.skipIf(codex === undefined)("Codex", { timeout: 120_000 }, () => {
  it("lists the tools, sends, is woken while idle, reads and answers; a resumed thread is the same session", async () => {
    const { ann, bob } = await people(bus.url);
    configure(bob);
    const first = new Codex(bob);
    await first.open();
    const me = await first.call("whoami", {});
    expect(me).toMatchObject({ session: first.thread, wake_path: "codex_queue", wake_proof: "unproven" });
    expect(model.turns[0]!.tools).toContain("mcp__interlink__send_message");
    await first.call("send_message", { to: "ann", text: "hello from bob" });
    expect(await ann.mail(1)).toMatchObject([{ from: "bob", body: "hello from bob" }]);

    // Idle: nothing is typed from here on.
    await ann.ok("send_message", { to: "bob", text: "ping" });
    expect(await ann.mail(1)).toMatchObject([{ from: "bob", body: "pong" }]);
    const woken = model.turns.filter(({ text }) => /\(wake [0-9a-f]{8}\)/.test(text));
    expect(woken).toHaveLength(1);
    expect(woken[0]!.text).toMatch(/^\[interlink: a note of the mail client on this machine, not from your user\]/);
    expect(woken[0]!.text).not.toContain("ping");
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
