/**
 * How a new process is brought to where the host believes it to be, all under ids that the host has not chosen, and what else
 * the supervisor asks of a process on its own behalf.
 *
 * ```
 *   opening, modern:  server/discover ─┐
 *   legacy:           initialize ──────┼──▶ [notifications/initialized, subscriptions] ──▶ [tools/list] ──▶ greeted
 *   bare:             ping ────────────┘
 * ```
 * The tools are asked for only if the host has asked: that settles the era for the process, and a probe must not.
 */

import type { Era } from "./era.ts";
import type { Id, Params, Request } from "./frame.ts";

/** What is asked of the process, and what its answer renews. */
export type Question = "hello" | "initialize" | "discover" | "tools" | "nothing";

/** The first thing that a process is asked, by which it settles into the era. */
export function helloOf(era: Era): { readonly method: string; readonly params?: Params } {
  switch (era.at) {
    case "legacy":
      return { method: "initialize", params: era.initialize };
    case "bare":
      return { method: "ping" };
    case "opening":
    case "modern":
      return { method: "server/discover", params: { _meta: era.claim ?? {} } };
  }
}

/** The list of tools, as the host would ask for it. */
export function listOf(era: Era): { readonly method: string; readonly params: Params } {
  return { method: "tools/list", params: era.at === "modern" ? { _meta: era.claim } : {} };
}

/** A process as the conversation knows it. */
export class Greeting {
  readonly generation: number;
  readonly #prefix: string;
  readonly #asked = new Map<Id, Question>();
  #count = 0;
  /** The era, or the `initialize`, that it was greeted for. */
  #for: unknown;
  /** `hello`: the first answer is awaited; `list`: the tools are. */
  stage: "hello" | "list" | "done" = "hello";

  /** @param prefix of ids that no host can guess */
  constructor(generation: number, prefix: string) {
    this.generation = generation;
    this.#prefix = prefix;
  }

  /** True if it was greeted as this era wants it. */
  isFor(era: Era): boolean {
    return this.#for === markOf(era);
  }

  /** Begins the greeting; one for another era that is not answered yet counts no more. */
  hello(era: Era): Request {
    this.#for = markOf(era);
    this.stage = "hello";
    for (const [id, question] of this.#asked) if (question === "hello") this.#asked.set(id, "nothing");
    const { method, params = {} } = helloOf(era);
    return this.ask("hello", method, params);
  }

  ask(question: Question, method: string, params: Params): Request {
    const id = `${this.#prefix}${this.generation}-${++this.#count}`;
    this.#asked.set(id, question);
    return { kind: "request", id, method, params };
  }

  /** @returns undefined: it is no answer to us */
  answered(id: Id): Question | undefined {
    const question = this.#asked.get(id);
    this.#asked.delete(id);
    return question;
  }
}

function markOf(era: Era): unknown {
  if (era.at === "legacy") return era.initialize;
  return era.at === "bare" ? "ping" : "discover";
}
