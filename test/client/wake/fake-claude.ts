/**
 * Claude Code as far as a wake sees it: a socket that takes what sessions are sent, the variables that its servers and its
 * hooks get, and hooks that are real processes.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { attach, type Result } from "../tools/clients.ts";
import type { Machine } from "../hosts/machine.ts";
import { until } from "../session/support.ts";

const BIN = join(import.meta.dirname, "../../../src/client/cli/bin.ts");
export const NODE_ARGS = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types", BIN];

/** How a process ended, and what it said. */
export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
  readonly tookMs: number;
}

export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
}

/** Starts a command of ours; it ends with the test. */
export function run(args: readonly string[], env: NodeJS.ProcessEnv, input?: string): Running {
  const sinceMs = performance.now();
  const child = spawn(process.execPath, [...NODE_ARGS, ...args], { env, stdio: "pipe" });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk) => (out += String(chunk)));
  child.stderr.on("data", (chunk) => (err += String(chunk)));
  child.stdin.on("error", () => {});
  if (input !== undefined) child.stdin.end(input);
  const ended = new Promise<Ended>((resolve) => {
    child.on("close", (code) => resolve({ code, out, err, tookMs: performance.now() - sinceMs }));
  });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  return { child, ended };
}

export class FakeClaude {
  readonly machine: Machine;
  readonly #dir = mkdtempSync(join(tmpdir(), "interlink-claude-"));
  readonly socket = join(this.#dir, "inbox.sock");
  /** The texts that the session was sent. */
  readonly inbox: string[] = [];
  /** What came that Claude would not take. */
  readonly strange: string[] = [];
  /** What its channel brought. */
  readonly heard: string[] = [];
  thread: string;
  #server: Server | undefined;
  #attached: Awaited<ReturnType<typeof attach>> | undefined;

  constructor(machine: Machine, thread: string) {
    this.machine = machine;
    this.thread = thread;
    onTestFinished(async () => {
      await this.quit();
      await this.closeInbox();
      rmSync(this.#dir, { recursive: true, force: true });
    });
  }

  async openInbox(): Promise<void> {
    const server = createServer((socket) => {
      let text = "";
      socket.on("data", (chunk) => (text += String(chunk)));
      socket.on("error", () => {});
      socket.on("end", () => {
        for (const line of text.split("\n").filter(Boolean)) this.#take(line);
        socket.end();
      });
    });
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(this.socket, resolve));
  }

  #take(line: string): void {
    const { type, token, message, priority } = JSON.parse(line) as Record<string, any>;
    if (type === "auth" && token === "the token") return;
    if (type === "user" && message?.role === "user" && priority === "next") this.inbox.push(message.content);
    else this.strange.push(line);
  }

  async closeInbox(): Promise<void> {
    await new Promise((resolve) => (this.#server ? this.#server.close(resolve) : resolve(undefined)));
    this.#server = undefined;
  }

  /** What a hook gets. @param some instead of it */
  hookEnv(some: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
    return {
      ...this.serverEnv(),
      CLAUDE_CODE_CHILD_SESSION: "1",
      CLAUDE_CODE_SESSION_ID: this.thread,
      CLAUDE_CODE_SESSION_ATTENDED: "1",
      ...some,
    };
  }

  serverEnv(): Record<string, string> {
    const { INTERLINK_SESSION: _, ...env } = this.machine.env();
    return {
      ...env,
      CLAUDECODE: "1",
      CLAUDE_CODE_SESSION_ID: this.thread,
      CLAUDE_CODE_MESSAGING_SOCKET: this.socket,
      CLAUDE_CODE_MESSAGING_TOKEN: "the token",
    };
  }

  /** Starts its server. @param some of its variables, undefined: held back */
  async start(some: Record<string, string | undefined> = {}): Promise<void> {
    const env = Object.fromEntries(
      Object.entries({ ...this.serverEnv(), ...some }).filter(
        (entry): entry is [string, string] => entry[1] !== undefined,
      ),
    );
    this.#attached = await attach("v2 auto", { command: process.execPath, args: [...NODE_ARGS, "mcp"], env });
    // What its SDK has no handler for.
    this.#attached.client.fallbackNotificationHandler = async ({ method, params }) => {
      if (method === "notifications/claude/channel") this.heard.push(String(params?.["content"]));
    };
  }

  /** The channel that the server offers. */
  get channel(): unknown {
    return this.#attached!.client.getServerCapabilities()?.experimental?.["claude/channel"];
  }

  /** Ends its server, as when its user leaves. */
  async quit(): Promise<void> {
    await this.#attached?.client.close();
    this.#attached = undefined;
  }

  get log(): string {
    return this.#attached!.stderr();
  }

  /** Of the process that it started. */
  get pid(): number {
    return this.#attached!.pid();
  }

  async call(name: string, args: object = {}, meta?: object): Promise<Record<string, any>> {
    const result: Result = await this.#attached!.call(name, args, meta);
    if (result.isError) throw new Error(result.content[0]!.text);
    return result.structuredContent!;
  }

  async connected(): Promise<void> {
    await until(async () => (await this.call("whoami"))["presence"] === "live", "presence");
  }

  /** One hook, to its end. */
  hook(name: string, event: object, some: NodeJS.ProcessEnv = {}): Promise<Ended> {
    const input = JSON.stringify({ session_id: this.thread, ...event });
    return run(["hook", name], this.hookEnv(some), input).ended;
  }

  /** The Stop hook. */
  waits(some: NodeJS.ProcessEnv = {}): Running {
    return run(["wait"], this.hookEnv(some), "{}");
  }

  /** The user clears the conversation. */
  async clear(thread: string): Promise<void> {
    this.thread = thread;
    await this.hook("session-start", { source: "clear" });
  }
}
