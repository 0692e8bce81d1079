/** What happened to the processes, put once into the next result that a model reads. */

import { restartNotice, type EndFacts } from "../tools/render-lifecycle.ts";
import { resultLine, withNotices } from "./banner.ts";
import type { Response } from "./frame.ts";

/** Notices that wait for a result; an open breaker keeps them well below. */
const NOTICES_MAX = 16;

export class News {
  #ended: EndFacts[] = [];
  #notices: string[] = [];
  #told: string | undefined;
  /** The version of the process that answered last. */
  version: string | undefined;

  add(notice: string): void {
    this.#notices = [...this.#notices, notice].slice(-NOTICES_MAX);
  }

  /** A process ended; it is told when another has answered. */
  ended(facts: EndFacts): void {
    this.#ended.push(facts);
  }

  /** A process has answered. */
  greeted(): void {
    const [from, to] = [this.#told, this.version];
    this.#told = to;
    for (const [index, facts] of this.#ended.entries()) {
      // The change of version is told once, of the last.
      const isLast = index === this.#ended.length - 1;
      const versions = isLast ? { ...(from !== undefined && { from }), ...(to !== undefined && { to }) } : {};
      this.add(restartNotice(facts, versions));
    }
    this.#ended = [];
  }

  /** The line of a tool's result, with the news if there are any and it takes them. */
  into({ id, result }: Response, line: Uint8Array): Uint8Array {
    const noted = result && this.#notices.length > 0 ? withNotices(result, this.#notices) : undefined;
    if (!noted) return line;
    this.#notices = [];
    return resultLine(id, noted);
  }
}
