/** The answers that are given at once, and what the host has been told by them. */

import { initializeResult, learn, listed, revisionsOf, type Answers, type Tool } from "./answers.ts";
import type { Era } from "./era.ts";
import { isRecord, type Params } from "./frame.ts";

export class Catalogue {
  #answers: Answers;
  /** The tools as the host was told them last; undefined: it has not asked. */
  #told: readonly Tool[] | undefined;

  constructor(answers: Answers) {
    this.#answers = answers;
  }

  get answers(): Answers {
    return this.#answers;
  }

  /** True once the host has asked for the tools. */
  get isTold(): boolean {
    return this.#told !== undefined;
  }

  get revisions(): readonly string[] {
    return revisionsOf(this.#answers.discover);
  }

  /** The tools that say of themselves that they only read. */
  get readers(): ReadonlySet<string> {
    const reads = ({ annotations }: Tool) => isRecord(annotations) && annotations["readOnlyHint"] === true;
    return new Set(this.#answers.tools.filter(reads).map(({ name }) => name));
  }

  answer(what: "initialize" | "discover" | "tools", params: Params, era: Era): Params {
    if (what === "initialize") return initializeResult(this.#answers, params);
    if (what === "discover") return this.#answers.discover;
    this.#told = listed(this.#answers, this.#told ?? []);
    return { tools: this.#told, ...(era.at === "modern" && this.#answers.list) };
  }

  /** True if the host was told of a tool that the process does not have. */
  isGone(tool: string): boolean {
    const named = ({ name }: Tool) => name === tool;
    return this.#told?.some(named) === true && !this.#answers.tools.some(named);
  }

  /** What a process has said. @returns what is news: to the disk, and to a host that was told otherwise */
  learn(what: "initialize" | "discover" | "tools", result: Params): { isNew: boolean; isListChanged: boolean } {
    const before = this.#answers;
    this.#answers = learn(before, what, result);
    const isChanged = (told: readonly Tool[]) => JSON.stringify(listed(this.#answers, told)) !== JSON.stringify(told);
    return {
      isNew: this.#answers !== before,
      isListChanged: what === "tools" && this.#told !== undefined && isChanged(this.#told),
    };
  }
}
