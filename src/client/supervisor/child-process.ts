/** One agent process: found anew at each start, its lines, and its end. */

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import type { Exit } from "./child-life.ts";
import { LineReader } from "./lines.ts";

/** What to run. */
export interface Program {
  /** Path of Node. */
  readonly node: string;
  /** Its own flags, as the supervisor has them. */
  readonly flags: readonly string[];
  /** Path of the client as it was typed, which may be a link that an upgrade changes. */
  readonly script: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface ChildEvents {
  line(line: Buffer): void;
  /** A line was longer than any answer: what it answers is not known. */
  tooLong(): void;
  /** It takes bytes again. */
  drain(): void;
  /** It is gone, and all that it wrote was read. Once. */
  exited(exit: Exit): void;
}

/** After its exit, for the pipe to be read to its end; longer, and somebody else holds it open. */
const DRAIN_MAX_MS = 1_000;
/** A process that does not see the end of its input in this time is sent a signal, */
const TERM_AFTER_MS = 150;
/** and after this killed: the first of the hosts to kill does so 500 ms after it asked. */
const KILL_AFTER_MS = 350;

export class AgentProcess {
  readonly #child: ChildProcess;
  readonly #input: Writable | null;
  readonly #output: Readable | null;
  readonly #timers: NodeJS.Timeout[] = [];
  #isOver = false;
  #isEnding = false;

  constructor({ node, flags, script, env }: Program, events: ChildEvents) {
    // Both are looked up now: an upgrade may have moved them since the last start.
    const path = existsSync(script) ? realpathSync(script) : script;
    // A debugger's port belongs to the supervisor.
    const own = flags.filter((flag) => !flag.startsWith("--inspect"));
    this.#child = spawn(existsSync(node) ? node : "node", [...own, path, "agent"], {
      env: { ...env },
      stdio: ["pipe", "pipe", "inherit"],
      windowsHide: true,
    });
    this.#input = this.#child.stdin;
    this.#output = this.#child.stdout;
    // What a dead process wrote is no word of the next one's.
    const reader = new LineReader({
      line: (line) => void (this.#isOver || events.line(line)),
      tooLong: () => void (this.#isOver || events.tooLong()),
    });
    this.#output?.on("data", (chunk: Buffer) => reader.push(chunk));
    this.#input?.on("drain", events.drain);
    // It died; its exit says so.
    this.#input?.on("error", () => {});
    this.#output?.on("error", () => {});
    const over = (exit: Exit) => {
      if (this.#isOver) return;
      this.#isOver = true;
      for (const timer of this.#timers) clearTimeout(timer);
      events.exited(exit);
    };
    this.#child.once("error", ({ message }) => {
      if (this.#child.pid === undefined) over({ code: null, signal: null, error: message });
    });
    this.#child.once("exit", (code, signal) => {
      this.resume();
      // A host that leaves waits for no more answers.
      this.#after(this.#isEnding ? 0 : DRAIN_MAX_MS, () => over({ code, signal }));
    });
    this.#child.once("close", (code, signal) => over({ code, signal }));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** @returns false: it is full; more is kept in memory until `drain` */
  write(line: Uint8Array): boolean {
    if (!this.#input || this.#input.destroyed || this.#input.writableEnded) return true;
    this.#input.write(line);
    return this.#input.write("\n");
  }

  /** Reads no more of it until `resume`. */
  pause(): void {
    this.#output?.pause();
  }

  resume(): void {
    this.#output?.resume();
  }

  /** Asks it to say goodbye and end, and sees to it that it does. */
  end(): void {
    this.#isEnding = true;
    this.#input?.end();
    this.resume();
    this.#after(TERM_AFTER_MS, () => this.#child.kill("SIGTERM"));
    this.#after(KILL_AFTER_MS, () => this.kill());
  }

  /** Ends it without a word: its session stays, for the next one. */
  kill(): void {
    this.#child.kill("SIGKILL");
    this.resume();
  }

  #after(ms: number, act: () => void): void {
    if (!this.#isOver) this.#timers.push(setTimeout(act, ms));
  }
}
