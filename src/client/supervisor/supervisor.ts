/**
 * The process that the host started: it keeps the pipe while agent processes come and go beneath it. It ends only when the
 * host closes the pipe or asks it to.
 *
 * What is decided is decided in child-life.ts, era.ts and conversation.ts; here are the pipes, the processes and the timers.
 */

import { randomBytes } from "node:crypto";
import type { Readable, Writable } from "node:stream";
import { REAL_AFTER_MS } from "../tools/reality.ts";
import type { Down, EndFacts } from "../tools/render-lifecycle.ts";
import type { Log } from "../tools/tool.ts";
import { loadAnswers, saveAnswers } from "./answer-cache.ts";
import { withChannel } from "./answers.ts";
import { faultLine } from "./banner.ts";
import { EXIT_HANDOFF, NO_CHILD, step, type Child, type Exit, type Happening } from "./child-life.ts";
import { AgentProcess, type Program } from "./child-process.ts";
import { Conversation } from "./conversation.ts";
import { CODES, readFrame } from "./frame.ts";
import { dropHandoff, leaveHandoff } from "./handoff.ts";
import { LINE_MAX_BYTES, LineReader } from "./lines.ts";
import { RESTART_LIMITS, type RestartLimits } from "./restart-budget.ts";

export interface SupervisorOptions {
  readonly program: Program;
  /** Path of the kept answers. */
  readonly answers: string;
  readonly input: Readable;
  readonly output: Writable;
  readonly log: Log;
  /** The host is to have a channel. */
  readonly isChannel?: boolean;
  /** Settles when the process was asked to end. */
  readonly ended: Promise<unknown>;
  readonly limits?: RestartLimits;
}

/** Calls that wait for a process; beyond this the host is not read. */
const QUEUE_MAX_BYTES = 2 * LINE_MAX_BYTES;
const STATE_KEY_BYTES = 32;
const ID_BYTES = 16;

/** No wait here outlives the process, so none is kept by the system's clock, which may be set. */
const nowMs = (): number => performance.now();

/** Serves until the host closes the pipe or asks us to end; no process of ours is left when it returns. */
export async function supervise(options: SupervisorOptions): Promise<void> {
  const supervisor = new Supervisor(options);
  await Promise.race([supervisor.left, options.ended]);
  await supervisor.close();
}

class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #limits: RestartLimits;
  readonly #conversation: Conversation;
  readonly #session = randomBytes(ID_BYTES).toString("hex");
  readonly #stateKey = randomBytes(STATE_KEY_BYTES).toString("base64url");
  /** Settles when the host has closed its end. */
  readonly left: Promise<unknown>;
  #child: Child = NO_CHILD;
  #process: AgentProcess | undefined;
  #handoff: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #readyAtMs: number | undefined;
  #reason: string | undefined;
  #last: EndFacts | undefined;
  #isReal = false;
  #closed: (() => void) | undefined;

  constructor(options: SupervisorOptions) {
    const { input, output, log } = options;
    this.#options = options;
    this.#limits = options.limits ?? RESTART_LIMITS;
    const kept = loadAnswers(options.answers);
    const answers = options.isChannel === true ? withChannel(kept) : kept;
    this.#conversation = new Conversation(answers, `i-${randomBytes(ID_BYTES).toString("hex")}-`, {
      toHost: (line) => this.#toHost(line),
      toChild: (line) => {
        if (this.#process?.write(line) === false) input.pause();
      },
      want: () => this.#happen({ what: "wanted" }),
      reconnect: () => {
        this.#reason = "reconnect";
        this.#happen({ what: "reconnect" });
      },
      ready: () => {
        this.#readyAtMs = nowMs();
        this.#dropHandoff();
        this.#happen({ what: "ready" });
      },
      down: () => this.#down(),
      learned: (learned) => {
        // Those with a channel are for this host alone.
        if (options.isChannel === true) return;
        try {
          saveAnswers(options.answers, learned);
        } catch (fault) {
          log("answers_not_kept", { error: String(fault) });
        }
      },
      log,
    });
    const reader = new LineReader({
      line: (line) => {
        this.#heed(line);
        if (this.#conversation.queuedBytes() > QUEUE_MAX_BYTES) input.pause();
      },
      tooLong: () => this.#toHost(faultLine(null, { code: CODES.invalidRequest, message: "The line is too long" })),
    });
    this.left = new Promise((resolve) => {
      for (const event of ["end", "close", "error"] as const) input.once(event, resolve);
      output.once("error", resolve);
    });
    output.on("error", () => {});
    output.on("drain", () => this.#process?.resume());
    input.on("data", (chunk: Buffer) => reader.push(chunk));
  }

  /** Ends the process beneath, which says goodbye first. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => (this.#closed = resolve));
    this.#happen({ what: "close" });
    await closed;
    this.#dropHandoff();
  }

  #happen(happening: Happening): void {
    const { child, deeds } = step(this.#child, happening, nowMs(), this.#limits);
    if (child.life !== this.#child.life)
      this.#options.log("agent", { is: child.life.at, generation: child.generation });
    this.#child = child;
    this.#arm();
    for (const deed of deeds) {
      if (deed === "spawn") this.#spawn();
      else if (deed === "kill") this.#process?.kill();
      else if (deed === "end") this.#process?.end();
      else this.#conversation.refuseQueue();
    }
    if (child.life.at === "closed") this.#closed?.();
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const { life } = this.#child;
    if (!("dueAtMs" in life)) return;
    this.#timer = setTimeout(() => this.#happen({ what: "due" }), Math.max(0, life.dueAtMs - nowMs()));
  }

  #spawn(): void {
    const { program } = this.#options;
    const { generation } = this.#child;
    try {
      this.#leaveHandoff(generation);
    } catch (fault) {
      // Without it the session is another one; that is told by whoami, and is better than none.
      this.#options.log("handoff_not_left", { error: String(fault) });
    }
    const env = { ...program.env, INTERLINK_HANDOFF: this.#handoff };
    this.#readyAtMs = undefined;
    const started = this.#start({ ...program, env });
    if (!started) return;
    this.#process = started;
    this.#options.log("agent_start", { generation, pid: started.pid });
    this.#conversation.started(generation);
  }

  #start(program: Program): AgentProcess | undefined {
    try {
      const started = new AgentProcess(program, {
        line: (line) => this.#safely(() => this.#conversation.fromChild(line)),
        tooLong: () => {
          this.#options.log("child_line", { why: "too_long" });
          started.kill();
        },
        drain: () => this.#resumeHost(),
        exited: (exit) => this.#exited(exit),
      });
      return started;
    } catch (fault) {
      // Not now: the step that started it is not over.
      setImmediate(() => this.#exited({ code: null, signal: null, error: String(fault) }));
      return undefined;
    }
  }

  /** A line of the host. One that brings out a fault of ours must not end the pipe. */
  #heed(line: Buffer): void {
    if (this.#safely(() => this.#conversation.fromHost(line))) return;
    const frame = readFrame(line);
    if (frame.kind !== "request") return;
    this.#toHost(faultLine(frame.id, { code: CODES.internal, message: "A fault of this client" }));
  }

  #safely(act: () => void): boolean {
    try {
      act();
      return true;
    } catch (fault) {
      this.#options.log("fault", { error: fault instanceof Error ? fault.stack : String(fault) });
      return false;
    }
  }

  #exited(exit: Exit): void {
    const isAsked = this.#child.life.at === "stopping" && this.#child.life.why === "asked";
    const isClosing = this.#child.life.at === "closing";
    const { log } = this.#options;
    log("agent_exit", { ...exit, generation: this.#child.generation });
    this.#process = undefined;
    const livedMs = this.#readyAtMs === undefined ? 0 : nowMs() - this.#readyAtMs;
    // A process that lived so long with a host that has said what it speaks has announced itself.
    this.#isReal ||=
      this.#conversation.remembered.hasCalled || (this.#conversation.isSettled && livedMs >= REAL_AFTER_MS);
    if (!isAsked) this.#reason = exit.error ?? exit.signal ?? `exit ${exit.code}`;
    this.#last = { ...exit, isHandoff: exit.code === EXIT_HANDOFF };
    // A host that is leaving is told nothing.
    if (!isClosing) this.#conversation.ended(isAsked ? undefined : this.#last);
    this.#dropHandoff();
    this.#happen({ what: "exited", exit });
    this.#resumeHost();
  }

  #leaveHandoff(generation: number): void {
    const { arrived, threads } = this.#conversation.remembered;
    this.#handoff = leaveHandoff({
      generation,
      session: this.#session,
      state_key: this.#stateKey,
      rejoin: this.#isReal,
      arrived,
      threads,
      ...(this.#reason !== undefined && { reason: this.#reason }),
    });
  }

  #dropHandoff(): void {
    if (this.#handoff !== undefined) dropHandoff(this.#handoff);
    this.#handoff = undefined;
  }

  #down(): Down | undefined {
    const { life } = this.#child;
    if (life.at !== "broken" || !this.#last) return undefined;
    return { last: this.#last, leftMs: life.dueAtMs - nowMs() };
  }

  #toHost(line: Uint8Array): void {
    const { output } = this.#options;
    if (output.destroyed || output.writableEnded) return;
    output.write(line);
    if (!output.write("\n")) this.#process?.pause();
  }

  #resumeHost(): void {
    if (this.#conversation.queuedBytes() <= QUEUE_MAX_BYTES) this.#options.input.resume();
  }
}
