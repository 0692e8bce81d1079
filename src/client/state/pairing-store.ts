/**
 * The pairing of one identity, in one SQLite file that all its sessions and commands on this machine have open: the
 * state that trust/pairing.ts decides on, and the knocks that were dealt with.
 *
 * SQLite lets one write at a time, and what a decision reads is what its transaction changes, so each decision is made
 * once, whoever makes it.
 */

import { prunePairing, type PairingState } from "../trust/pairing-state.ts";
import type { Database } from "./database.ts";
import { KnockTable } from "./knocks.ts";
import { MetaTable } from "./meta.ts";

const PARTS = ["pending", "sent", "owed"] as const;

export class PairingStore {
  readonly knocks: KnockTable;
  readonly meta: MetaTable;
  readonly #database: Database;

  /** Made by `openPairing`. */
  constructor(database: Database) {
    this.#database = database;
    this.knocks = new KnockTable(database);
    this.meta = new MetaTable(database);
  }

  /** As it is now, by whichever process; each part the oldest first. */
  read(): PairingState {
    const rows = this.#database.all<{ part: string; value: string }>("SELECT part, value FROM pairing ORDER BY key");
    const partOf = (part: string) =>
      rows.filter((row) => row.part === part).map(({ value }) => JSON.parse(value) as { readonly at_ms?: number });
    const sorted = PARTS.map((part) => [part, partOf(part).sort((a, b) => (a.at_ms ?? 0) - (b.at_ms ?? 0))]);
    return Object.fromEntries(sorted) as unknown as PairingState;
  }

  /** Reads, decides and writes as one: on disk when it returns. An answer without a state changes nothing. */
  update<Answer extends object>(decide: (state: PairingState) => Answer | (Answer & { state: PairingState })): Answer {
    return this.transaction(() => {
      const before = this.read();
      const answer = decide(before);
      if ("state" in answer) this.#write(before, answer.state);
      return answer;
    });
  }

  transaction<T>(work: () => T): T {
    return this.#database.transaction(work);
  }

  /** Lets go what is past its time, as of a clock that a bus has confirmed. @returns rows removed */
  prune(nowMs: number): number {
    this.update((state) => ({ state: prunePairing(state, nowMs) }));
    return this.knocks.prune(nowMs);
  }

  close(): void {
    this.#database.close();
  }

  #write(before: PairingState, after: PairingState): void {
    for (const part of PARTS) {
      const had = new Map(before[part].map((entry) => [entry.key, JSON.stringify(entry)]));
      for (const entry of after[part]) {
        const value = JSON.stringify(entry);
        if (had.get(entry.key) !== value) {
          this.#database.run(
            "INSERT OR REPLACE INTO pairing (part, key, value) VALUES (?, ?, ?)",
            part,
            entry.key,
            value,
          );
        }
        had.delete(entry.key);
      }
      for (const key of had.keys()) this.#database.run("DELETE FROM pairing WHERE part = ? AND key = ?", part, key);
    }
  }
}
