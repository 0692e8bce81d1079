/**
 * The host's requests that are not answered yet: which wait for a process, which one has, and what becomes of them when it
 * dies. In the order in which they came.
 */

import { keyOf, type Id, type Request } from "./frame.ts";
import type { Repeat } from "./retry.ts";

/** A request that ended this many processes is taken for their cause. */
export const REPEATS_MAX = 3;

export interface Call {
  readonly id: Id;
  readonly method: string;
  /** Of a `tools/call`. */
  readonly tool?: string;
  readonly repeat: Repeat;
  /** As it is sent, without its end. */
  readonly line: Uint8Array;
  isSent: boolean;
  /** How many processes have had it. */
  tries: number;
  /** The host no longer waits for it. */
  isCancelled: boolean;
}

export class Calls {
  readonly #open = new Map<string, Call>();
  #queuedBytes = 0;

  add({ id, method, params }: Request, line: Uint8Array, repeat: Repeat): void {
    const tool = method === "tools/call" && typeof params["name"] === "string" ? params["name"] : undefined;
    const call = { id, method, repeat, line, isSent: false, tries: 0, isCancelled: false };
    this.#open.set(keyOf(id), tool === undefined ? call : { ...call, tool });
    this.#queuedBytes += line.length;
  }

  has(id: Id): boolean {
    return this.#open.has(keyOf(id));
  }

  /** Bytes that wait. */
  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  /**
   * Those that are to be sent now. While one that takes mail is unanswered no other tool is called: a further call says to the
   * session that the answer before it has arrived, and that would not be known.
   */
  *sendable(): Generator<Call> {
    let isTaking = false;
    for (const call of this.#open.values()) {
      if (call.isSent) isTaking ||= call.repeat === "taking";
      else if (call.tool === undefined || !isTaking) {
        call.isSent = true;
        call.tries++;
        this.#queuedBytes -= call.line.length;
        isTaking ||= call.repeat === "taking";
        yield call;
      }
    }
  }

  /** It was answered. @returns undefined: nobody asked */
  settle(id: Id): Call | undefined {
    const key = keyOf(id);
    const call = this.#open.get(key);
    if (call) this.#forget(key, call);
    return call;
  }

  /**
   * The host no longer waits for it.
   * @returns `forward`: the process should know · `kept`: its answer is still awaited, for it takes mail · `done`
   */
  cancel(id: Id): "forward" | "kept" | "done" {
    const key = keyOf(id);
    const call = this.#open.get(key);
    if (!call) return "done";
    if (call.isSent && call.repeat === "taking") {
      call.isCancelled = true;
      return "kept";
    }
    this.#forget(key, call);
    return call.isSent ? "forward" : "done";
  }

  /** The process died. What may be repeated waits again. @returns those whose outcome is not known */
  died(): Call[] {
    const unknown: Call[] = [];
    for (const [key, call] of this.#open) {
      if (!call.isSent) continue;
      const isFree = call.repeat !== "never" && call.tries < REPEATS_MAX;
      if (isFree && !call.isCancelled) {
        call.isSent = false;
        this.#queuedBytes += call.line.length;
        continue;
      }
      this.#forget(key, call);
      // What it took is taken back by the next process.
      if (!call.isCancelled) unknown.push(call);
    }
    return unknown;
  }

  /** None is sent for now. @returns those that waited */
  refuse(): Call[] {
    const waiting = [...this.#open].filter(([, call]) => !call.isSent);
    for (const [key, call] of waiting) this.#forget(key, call);
    return waiting.map(([, call]) => call);
  }

  #forget(key: string, call: Call): void {
    this.#open.delete(key);
    if (!call.isSent) this.#queuedBytes -= call.line.length;
  }
}
