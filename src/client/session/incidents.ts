/** What happened and is to be told with the next tool result, once, and the latest if there is much. */

import type { Incident } from "./notices.ts";

const KEPT_MAX = 20;

export class Incidents {
  #kept: Incident[];

  constructor(kept: readonly Incident[]) {
    this.#kept = [...kept];
  }

  note(incident: Incident): void {
    // A disk that stays full is one piece of news.
    const isKnown = this.#kept.some((other) => JSON.stringify(other) === JSON.stringify(incident));
    if (!isKnown) this.#kept = [...this.#kept, incident].slice(-KEPT_MAX);
  }

  /** What became of a message was told by an answer of its own. */
  forget(msg_id: string): void {
    this.#kept = this.#kept.filter((incident) => incident.what !== "settled" || incident.msg_id !== msg_id);
  }

  /** All there is; the next call has none of it. */
  take(): Incident[] {
    return this.#kept.splice(0);
  }
}
