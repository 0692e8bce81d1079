/** The loop guard's buckets across restarts: a client that crashes in a loop must not get a new budget each time. */

import type { Database } from "./database.ts";

/** One bucket, as the loop guard has it. */
export interface Counter {
  readonly tokens: number;
  readonly at_ms: number;
  readonly dry: number;
}

export class CounterTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  read(): Map<string, Counter> {
    const rows = this.#database.all<Counter & { name: string }>("SELECT name, tokens, at_ms, dry FROM counter");
    return new Map(rows.map(({ name, tokens, at_ms, dry }) => [name, { tokens, at_ms, dry }]));
  }

  /** Makes the table what the map is: writes what differs, removes what is gone. */
  write(counters: ReadonlyMap<string, Counter>): void {
    this.#database.transaction(() => {
      const before = this.read();
      for (const [name, { tokens, at_ms, dry }] of counters) {
        const known = before.get(name);
        before.delete(name);
        if (known?.tokens === tokens && known.at_ms === at_ms && known.dry === dry) continue;
        this.#database.run(
          "INSERT OR REPLACE INTO counter (name, tokens, at_ms, dry) VALUES (?, ?, ?, ?)",
          name,
          tokens,
          at_ms,
          dry,
        );
      }
      for (const name of before.keys()) this.#database.run("DELETE FROM counter WHERE name = ?", name);
    });
  }
}
