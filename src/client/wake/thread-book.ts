/** Which session this process runs, as its host's threads come and go: what rebinding.ts decides, kept by threads.ts. */

import { randomBytes } from "node:crypto";
import { parseSessionId, type SessionId } from "../../protocol/address.ts";
import type { Log } from "../tools/tool.ts";
import { rebind, type ThreadSource } from "./rebinding.ts";
import type { Threads } from "./threads.ts";

export interface ThreadBookOptions {
  /** The thread that the environment names: that of the host's beginning. */
  readonly thread?: string | undefined;
  /** Absent: nothing is kept across processes. */
  readonly threads?: Threads | undefined;
  /** Names our processes under one host: it has cleared its thread, and the next of them must know. */
  readonly run?: string | undefined;
  /** A person has named the session: it follows no thread. */
  readonly isPinned: boolean;
  readonly log: Log;
}

const SESSION_BYTES = 16;

export class ThreadBook {
  readonly #options: ThreadBookOptions;
  #thread: string | undefined;
  #session: SessionId | undefined;

  constructor(options: ThreadBookOptions) {
    this.#options = options;
    this.#thread = options.thread;
  }

  get isKnown(): boolean {
    return this.#thread !== undefined;
  }

  /** The session that is open. */
  get session(): SessionId | undefined {
    return this.#session;
  }

  /** The session that is to be opened; undefined: nothing names one. */
  toOpen(): SessionId | undefined {
    const { threads, run } = this.#options;
    // What the environment names may have been cleared since.
    const moved = run === undefined || this.#session ? undefined : threads?.sessionOf(runName(run));
    if (moved === undefined) return this.#thread === undefined ? undefined : this.#settle("startup", this.#thread);
    this.#thread = undefined;
    return moved;
  }

  /** The session that was opened. */
  opened(session: string): void {
    this.#session = parseSessionId(session);
    if (this.#thread !== undefined && this.#session) this.#keep(new Map([[this.#thread, this.#session]]));
  }

  /** The host says which thread runs. @returns true: the session is another one now */
  follow(source: ThreadSource, thread: string): boolean {
    const before = this.#session;
    const session = this.#settle(source, thread, before);
    this.#thread = thread;
    if (this.#options.isPinned) return false;
    const { run } = this.#options;
    if (run !== undefined && source !== "startup") this.#keep(new Map([[runName(run), session]]));
    const isMoved = before !== undefined && session !== before;
    if (isMoved) this.#session = undefined;
    return isMoved;
  }

  #settle(source: ThreadSource, to: string, running?: SessionId): SessionId {
    const kept = this.#options.threads?.sessionOf(to);
    const from = this.#thread;
    const fresh = parseSessionId(randomBytes(SESSION_BYTES).toString("hex"))!;
    const { keep, session } = rebind({
      source,
      to,
      fresh,
      ...(from !== undefined && { from }),
      ...(running !== undefined && { running }),
      ...(kept !== undefined && { kept }),
    });
    this.#keep(keep);
    return session;
  }

  /** A thread that could not be kept gets its own session again, which is right unless it was cleared. */
  #keep(bindings: ReadonlyMap<string, SessionId>): void {
    const { isPinned, threads, log } = this.#options;
    if (isPinned) return;
    try {
      threads?.keep(bindings);
    } catch (fault) {
      log("thread_not_kept", { error: String(fault) });
    }
  }
}

/** As no host names a thread. */
const runName = (run: string): string => `run ${run}`;
