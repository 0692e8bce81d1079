/** A server as a child process on loopback: started, waited for, and ended however the harness ends. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { connect } from "node:net";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { endWithParent, hasExited, isFree } from "../../scripts/local-bus.ts";
import { processTree } from "./process-stats.ts";

const PORT_MIN = 10_000;
const PORT_COUNT = 10_000;
const START_MAX_MS = 60_000;
/** More than `npm start` gives to what it runs. */
const STOP_MAX_MS = 10_000;
const POLL_MS = 10;
const OUTPUT_MAX_CHARS = 16_384;

export interface ServerOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly port: number;
  /** What ends it in order. */
  readonly signal: NodeJS.Signals;
}

export class ServerProcess {
  readonly port: number;
  #child: ChildProcess;
  #signal: NodeJS.Signals;
  #output = "";

  private constructor(options: ServerOptions) {
    this.port = options.port;
    this.#signal = options.signal;
    this.#child = spawn(options.command, options.args, {
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding("utf8").on("data", (chunk: string) => {
        this.#output = (this.#output + chunk).slice(-OUTPUT_MAX_CHARS);
      });
    }
    this.#child.on("error", (error) => (this.#output += String(error)));
    endWithParent(this.#child);
  }

  /** Starts it and waits until its port takes connections. @throws with what it printed, if it does not */
  static async start(options: ServerOptions): Promise<ServerProcess> {
    const server = new ServerProcess(options);
    const deadline = Date.now() + START_MAX_MS;
    while (!(await acceptsConnections(options.port))) {
      if (server.#hasEnded || Date.now() > deadline) {
        await server.stop();
        throw new Error(`${options.command} did not start:\n${server.#output}`);
      }
      await delay(POLL_MS);
    }
    return server;
  }

  /** It and what it started. */
  pids(): number[] {
    return this.#child.pid === undefined ? [] : processTree(this.#child.pid);
  }

  async stop(): Promise<void> {
    if (this.#hasEnded) return;
    const exited = once(this.#child, "exit");
    this.#child.kill(this.#signal);
    const late = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MAX_MS);
    await exited;
    clearTimeout(late);
  }

  get #hasEnded(): boolean {
    return this.#child.pid === undefined || hasExited(this.#child);
  }
}

/** A loopback port that nothing listens on, below the range that systems lend to outgoing connections. */
export async function findFreePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries++) {
    const port = PORT_MIN + Math.floor(Math.random() * PORT_COUNT);
    if (await isFree(port)) return port;
  }
  throw new Error("found no free port");
}

/** Path of a program, or undefined. Debian puts servers into sbin, which a user's PATH lacks. */
export function findProgram(name: string): string | undefined {
  for (const dir of [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"]) {
    const path = join(dir, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // not here
    }
  }
  return undefined;
}

/** What a program prints, for its version. */
export async function outputOf(command: string, args: readonly string[]): Promise<string> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "ignore"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  await once(child, "close");
  return text.trim();
}

function acceptsConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const answer = (accepts: boolean): void => {
      socket.destroy();
      resolve(accepts);
    };
    socket.once("connect", () => answer(true)).once("error", () => answer(false));
  });
}
