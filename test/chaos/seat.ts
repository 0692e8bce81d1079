/**
 * One session as its host runs it, a real MCP client over a real `interlink-edge mcp`, which may be killed and stopped, and
 * started again under the same id.
 */

import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";

const BIN = join(PROJECT_DIR, "src/client/cli/bin.ts");
const PRELOAD = pathToFileURL(join(import.meta.dirname, "preload.ts")).href;
/** The agent process is started with the same flags. */
export const NODE_ARGS = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"];
/** A call waits for as long as its processes are stopped: a host that gave up would not hear what it had marked as read. */
const CALL_MAX_MS = 600_000;
const LOOK_MS = 50;

/** What a tool answered. */
export interface Answer {
  readonly fields: Readonly<Record<string, any>>;
  /** Of a refusal. */
  readonly code: string | undefined;
  readonly notices: readonly string[];
}

interface Life {
  readonly client: Client;
  readonly supervisor: number;
}

export type Part = "agent" | "supervisor" | "tree";

export class Seat {
  /** The session's id: `ann-in`. */
  readonly id: string;
  /** Whose it is. */
  readonly person: string;
  /** False while nobody is to start it. */
  isWanted = true;
  /** Its faults are no wonder for the rest of the run. */
  isDiskFull = false;
  /** What nobody did to it: ends of its own, faults in its log. */
  readonly oddities: string[] = [];
  /** An agent process ended in good order or by a fault of its own, so it may have said goodbye. */
  onMayHaveLeft: () => void = () => {};
  readonly #env: Readonly<Record<string, string>>;
  readonly #log: string;
  readonly #agents: number[] = [];
  #life: Life | undefined;

  constructor({ id, person, env, log }: { id: string; person: string; env: Record<string, string>; log: string }) {
    this.id = id;
    this.person = person;
    this.#env = { ...env, INTERLINK_SESSION: id };
    this.#log = log;
  }

  get isUp(): boolean {
    return this.#life !== undefined;
  }

  /** The newest agent process. */
  get agent(): number | undefined {
    return this.#agents.findLast(isRunning);
  }

  /** Starts it where it is wanted and not there. @returns true if it was started just now */
  async sit(): Promise<boolean> {
    if (this.#life || !this.isWanted) {
      if (!this.#life) await delay(LOOK_MS);
      return false;
    }
    const args = [...NODE_ARGS, `--import=${PRELOAD}`, BIN, "mcp"];
    const transport = new StdioClientTransport({
      command: process.execPath,
      args,
      env: { ...this.#env },
      stderr: "pipe",
    });
    createInterface({ input: transport.stderr as Readable }).on("line", (line) => this.#hear(line));
    const client = new Client({ name: "chaos", version: "1" });
    let life: Life | undefined;
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the SDK has one callback
    client.onclose = () => {
      if (this.#life !== life || !life) return;
      this.#life = undefined;
      if (this.isWanted) this.oddities.push("its supervisor ended by itself");
    };
    try {
      const connected = client.connect(transport, { timeout: CALL_MAX_MS });
      // Known as soon as it runs: it may be killed before it has answered.
      connected.catch(() => {});
      while (transport.pid === null) await Promise.race([connected, delay(1)]);
      life = { client, supervisor: transport.pid };
      this.#life = life;
      await connected;
      return true;
    } catch {
      if (this.#life === life) this.#life = undefined;
      await delay(LOOK_MS);
      return false;
    }
  }

  /** @throws if it ended before it answered: whether it was done is not known */
  async call(name: string, args: Record<string, unknown> = {}): Promise<Answer> {
    if (!this.#life) throw new Error(`${this.id} is not there`);
    const result = await this.#life.client.callTool({ name, arguments: args }, { timeout: CALL_MAX_MS });
    const fields = (result.structuredContent ?? {}) as Answer["fields"];
    const code = result.isError === true ? String(fields["error"]?.code ?? "fault") : undefined;
    return { fields, code, notices: (fields["notices"] as string[] | undefined) ?? [] };
  }

  /** Kills a part of it. The host starts it anew once it is wanted. */
  kill(part: Part): void {
    const { supervisor } = this.#life ?? {};
    // The agent first: one whose supervisor is gone would say goodbye.
    if (part !== "supervisor") signal(this.agent, "SIGKILL");
    if (part === "agent") return;
    this.isWanted = false;
    this.#life = undefined;
    signal(supervisor, "SIGKILL");
  }

  /** Stops a part where it stands. @returns what wakes it; so does our own end, however it comes */
  stop(part: Part): () => void {
    const pids = [part === "agent" ? undefined : this.#life?.supervisor, this.agent].filter((pid) => pid !== undefined);
    return stopped(pids);
  }

  /** The host closes the pipe. */
  async close(): Promise<void> {
    this.isWanted = false;
    const life = this.#life;
    this.#life = undefined;
    await life?.client.close();
  }

  #hear(line: string): void {
    appendFileSync(this.#log, `${this.id} ${line}\n`);
    const [, pid] = /"event":"agent_start".*"pid":(\d+)/.exec(line) ?? [];
    if (pid !== undefined) this.#agents.push(Number(pid));
    if (/"event":"agent_exit"/.test(line) && !/"signal":"SIGKILL"/.test(line)) {
      this.onMayHaveLeft();
      if (this.isWanted && !/"signal":"SIG/.test(line)) this.#note(line);
    }
    if (/"event":"(?:tool_)?fault"/.test(line)) this.#note(line);
  }

  #note(line: string): void {
    // Where it could not write, it may fault; it is to lose nothing, and that the history shows.
    if (!this.isDiskFull) this.oddities.push(line);
  }
}

/** Stops processes. @returns what lets them go on */
export function stopped(pids: readonly number[]): () => void {
  for (const pid of pids) signal(pid, "SIGSTOP");
  // A stopped process sees no closed pipe, so it would outlive us if we were killed: then a shell wakes it.
  const script = 'trap "" HUP INT TERM; read -r awake || kill -s CONT "$@"';
  const guard = spawn("/bin/sh", ["-c", script, "sh", ...pids.map(String)], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  guard.on("error", () => {});
  guard.stdin.on("error", () => {});
  return () => {
    for (const pid of pids) signal(pid, "SIGCONT");
    guard.stdin.end("awake\n");
  };
}

export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function signal(pid: number | undefined, name: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(pid, name);
  } catch {
    // it has ended meanwhile
  }
}
