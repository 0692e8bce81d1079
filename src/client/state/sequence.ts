/** One order over what was received and what was written. Held in memory: the lock makes this process the only writer. */

import type { Database } from "./database.ts";

export class Sequence {
  #last: number;

  constructor(database: Database) {
    this.#last = database.first<{ last: number }>(
      "SELECT max(coalesce((SELECT max(seq) FROM inbox), 0), coalesce((SELECT max(seq) FROM outbox), 0)) AS last",
    )!.last;
  }

  /** The next number; one that a rolled back transaction drew stays unused. */
  next(): number {
    return ++this.#last;
  }
}
