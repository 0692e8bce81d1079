/** What the hosts' tests share: where their packages are, a bus and a model offline, two people, and how a host is spoken to. */

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, inject, onTestFinished } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { Host, twoMachines, type Machine } from "../client/hosts/machine.ts";
import { until } from "../client/session/support.ts";
import { ModelStub, type Model, type Say } from "./model-stub.ts";

const PACKAGES = join(import.meta.dirname, "../../node_modules/.cache/hosts/node_modules");
export const PLUGIN = join(import.meta.dirname, "../../plugin");
export const LAUNCH = join(import.meta.dirname, "../../src/client/cli/launch.ts");

/** A host's program, or undefined where its package is not installed for this machine. */
export function programOf(host: "claude" | "codex"): string | undefined {
  const path = {
    claude: `@anthropic-ai/claude-code-${process.platform}-${process.arch}/claude`,
    codex: `@openai/codex-${process.platform}-${process.arch}/vendor/${tripleOf()}/bin/codex`,
  }[host];
  const program = join(PACKAGES, path);
  return existsSync(program) ? program : undefined;
}

function tripleOf(): string {
  const cpu = process.arch === "arm64" ? "aarch64" : "x86_64";
  return process.platform === "darwin" ? `${cpu}-apple-darwin` : `${cpu}-unknown-linux-musl`;
}

/** Why a host's tests are skipped. */
export const INSTALL =
  "npm install --prefix node_modules/.cache/hosts --no-save @anthropic-ai/claude-code@2.1.332 @openai/codex@0.171.0";

/** A bus and an obedient model for all tests of a file; there once its first begins. */
export function offline(): { readonly bus: LocalBus; readonly model: ModelStub } {
  const stage = {} as { bus: LocalBus; model: ModelStub };
  beforeAll(async () => {
    stage.bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
    stage.model = await ModelStub.start(obedient);
  });
  afterAll(async () => {
    await stage.model.stop();
    await stage.bus.stop();
  });
  return stage;
}

/** With the plugin's and the servers' `node`. */
export const PATH_WITH_NODE = `${dirname(process.execPath)}:${process.env["PATH"]}`;
/** What Claude Code takes for a key. */
export const CLAUDE_KEY = "sk-offline-0123456789abcdef";

/** Claude Code with a model on loopback, and with nobody else. */
export function claudeEnv({ url }: ModelStub): Record<string, string> {
  return {
    PATH: PATH_WITH_NODE,
    TERM: "xterm-256color",
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: CLAUDE_KEY,
    DISABLE_AUTOUPDATER: "1",
    // Every tool can be called without a search for it.
    ENABLE_TOOL_SEARCH: "false",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  };
}

/** A host that is spoken to in lines of JSON; gone with its test. */
export class LineHost {
  readonly lines: Record<string, any>[] = [];
  err = "";
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;

  constructor(program: string, args: readonly string[], options: { cwd: string; env: Record<string, string> }) {
    this.#child = spawn(program, args, { ...options, stdio: "pipe" });
    let text = "";
    this.#child.stdout!.on("data", (chunk) => {
      const parts = (text + String(chunk)).split("\n");
      text = parts.pop()!;
      this.lines.push(...parts.filter(Boolean).map((line) => JSON.parse(line) as Record<string, any>));
    });
    this.#child.stderr!.on("data", (chunk) => (this.err += String(chunk)));
    this.#closed = new Promise((resolve) => this.#child.once("close", resolve));
    onTestFinished(() => this.quit());
  }

  write(line: object): void {
    this.#child.stdin!.write(`${JSON.stringify(line)}\n`);
  }

  async quit(): Promise<void> {
    this.#child.stdin!.end();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 5_000);
    await this.#closed;
    clearTimeout(timer);
  }
}

/** The turns that a wake has begun. */
export function wakesOf({ turns }: ModelStub): string[] {
  return turns.map(({ text }) => text).filter((text) => /\(wake [0-9a-f]{8}\)/.test(text));
}

/** Ann has a plain client, bob a real host. */
export async function people(bus: string): Promise<{ ann: Host; bob: Machine }> {
  const [annAt, bob] = await twoMachines(bus, "ann", "bob");
  const ann = await Host.start(annAt, "v2 auto", false);
  onTestFinished(async () => {
    await ann.close();
    annAt.remove();
    bob.remove();
  });
  const isThere = async () => (await ann.call("whoami")).structuredContent?.["presence"] === "live";
  await until(isThere, "ann's presence");
  return { ann, bob };
}

/** `CALL tool {json}END` in a prompt calls that tool; a wake is followed by a look, and a ping by a pong. */
export const obedient: Model = ({ text, isToolResult, tools }) => {
  const call = (name: string, input: object): Say => {
    const tool = tools.find((each) => each.endsWith(`__${name}`));
    return tool === undefined ? `there is no ${name}` : { tool, input };
  };
  if (isToolResult) return /body\W+ping/.test(text) ? call("send_message", { to: "ann", text: "pong" }) : "done";
  if (/Interlink: \d+ unread message.* Call check_messages\. \(wake [0-9a-f]+\)/.test(text))
    return call("check_messages", {});
  const [, name, input] = /CALL (\w+) (\{.*\})END/.exec(text) ?? [];
  return name === undefined ? "ok" : call(name, JSON.parse(input!) as object);
};
