/** Who takes part: people with a machine each, and the sessions that a host of theirs runs, as real MCP clients of real agents. */

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { PROJECT_DIR, type Variables } from "../local-bus.ts";

const run = promisify(execFile);
const BIN = join(PROJECT_DIR, "src/client/cli/bin.ts");
const SHORT_TIME = pathToFileURL(join(import.meta.dirname, "short-time.ts")).href;
/** The agent process is started with the same flags. */
const NODE_ARGS = ["--disable-warning=ExperimentalWarning", `--import=${SHORT_TIME}`, BIN];

/** How long to wait for what must come, and how often to look. */
const WAIT_MAX_MS = 10_000;
const LOOK_MS = 50;

/** What a tool answered: the text that a model reads, and the same as fields. */
export interface Answer {
  readonly text: string;
  readonly fields: Readonly<Record<string, any>>;
  readonly isRefusal: boolean;
}

/** One person, their key and their trust. */
export class Person {
  readonly name: string;
  readonly #env: Readonly<Record<string, string>>;

  /** @param home an empty folder @param vars the limits that the bus was started with */
  constructor(name: string, { home, url, vars }: { home: string; url: string; vars: Variables }) {
    this.name = name;
    const { PATH = "" } = process.env;
    this.#env = { PATH, HOME: home, TMPDIR: home, ...vars, INTERLINK_URL: url, INTERLINK_NAME: name };
  }

  /**
   * Types a command at their shell, as an answer named it.
   * @returns what was typed, and what the terminal shows
   */
  async type(command: string): Promise<{ readonly typed: string; readonly shown: string }> {
    // There is no terminal to ask at, so the yes is typed ahead.
    const typed = `${command} --yes`;
    const words = typed.split(" ").slice(1);
    const { stdout, stderr } = await run(process.execPath, [...NODE_ARGS, ...words], { env: this.#env });
    return { typed, shown: stderr + stdout };
  }

  /** A session of theirs that nothing runs yet. */
  session(id: string): Session {
    return new Session(`${this.name}/${id}`, { ...this.#env, INTERLINK_SESSION: id });
  }
}

/** One agent as its host has it. */
export class Session {
  /** `alice/laptop` */
  readonly label: string;
  readonly #client = new Client({ name: "demo", version: "1" });
  readonly #transport: StdioClientTransport;
  /** Of the agent processes beneath the supervisor, the newest last. */
  readonly #agents: number[] = [];
  #supervisor = 0;
  #asleep: ChildProcess | undefined;

  constructor(label: string, env: Record<string, string>) {
    this.label = label;
    const args = [...NODE_ARGS, "mcp"];
    this.#transport = new StdioClientTransport({ command: process.execPath, args, env, stderr: "pipe" });
    // Its log, as a host keeps it.
    createInterface({ input: this.#transport.stderr as Readable }).on("line", (line) => {
      const [, pid] = /"event":"agent_start".*"pid":(\d+)/.exec(line) ?? [];
      if (pid !== undefined) this.#agents.push(Number(pid));
    });
  }

  /** The host starts it, and it has reached the bus. */
  async start(): Promise<void> {
    await this.#client.connect(this.#transport);
    this.#supervisor = this.#transport.pid!;
    const isThere = ({ fields }: Answer) => fields["connection"] === "connected" && fields["reason"] === undefined;
    await this.until("whoami", {}, isThere);
  }

  async call(name: string, args: Record<string, unknown> = {}): Promise<Answer> {
    const result = await this.#client.callTool({ name, arguments: args });
    const texts = result.content.flatMap((part) => (part.type === "text" ? [part.text] : []));
    const fields = (result.structuredContent ?? {}) as Answer["fields"];
    return { text: texts.join("\n"), fields, isRefusal: result.isError === true };
  }

  /** Calls again and again. @throws if the answer does not come that is waited for */
  async until(name: string, args: Record<string, unknown>, isThere: (answer: Answer) => boolean): Promise<Answer> {
    const deadline = Date.now() + WAIT_MAX_MS;
    for (;;) {
      const answer = await this.call(name, args);
      if (isThere(answer)) return answer;
      if (Date.now() > deadline) throw new Error(`${this.label} waited in vain; ${name} says: ${answer.text}`);
      await delay(LOOK_MS);
    }
  }

  /** Stops all its processes where they stand, as a closed lid does. */
  sleep(): void {
    const pids = [this.#supervisor, this.#agents.at(-1)!];
    for (const pid of pids) process.kill(pid, "SIGSTOP");
    // A stopped process sees no closed pipe, so it would outlive us if we were killed: then a shell wakes it.
    const script = 'trap "" HUP INT TERM; read -r awake || kill -s CONT "$@"';
    const guard = spawn("/bin/sh", ["-c", script, "sh", ...pids.map(String)], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    guard.on("error", () => {});
    guard.stdin!.on("error", () => {});
    this.#asleep = guard;
  }

  wake(): void {
    if (this.#asleep === undefined) return;
    for (const pid of this.running()) process.kill(pid, "SIGCONT");
    this.#asleep.stdin!.end("awake\n");
    this.#asleep = undefined;
  }

  /** Kills the agent process, and lets the supervisor live. */
  crash(): void {
    process.kill(this.#agents.at(-1)!, "SIGKILL");
  }

  /** The host closes the pipe, and waits until what it started is gone. */
  async close(): Promise<void> {
    this.wake();
    await this.#client.close();
  }

  /** Its processes that still run. */
  running(): number[] {
    return [this.#supervisor, ...this.#agents].filter(isRunning);
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
