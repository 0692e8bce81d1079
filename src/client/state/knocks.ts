/**
 * The last knock of each stranger that our operator was shown: a bus may bring it again, to another of our sessions too,
 * and once it is decided it must not knock anew.
 *
 * One row a key, so a stranger who knocks for ever takes one place; those with many keys are bounded by what may wait.
 */

import type { Key } from "../../protocol/address.ts";
import type { Database } from "./database.ts";
import { SEEN_RETAIN_MS } from "./retention.ts";

export interface Knock {
  readonly key: Key;
  readonly msg_id: string;
  /** The signer's clock. */
  readonly ts: number;
}

export class KnockTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** True if this very knock is the last of its key. */
  knows(key: Key, msg_id: string): boolean {
    return this.#last(key)?.msg_id === msg_id;
  }

  /**
   * False for what came before, and for what its signer has made a newer one of. Signed later under the same id it is
   * new: the original's clients keep the id of a knock that nobody answered.
   */
  isNew({ key, msg_id, ts }: Knock): boolean {
    const last = this.#last(key);
    return !last || last.ts < ts || (last.ts === ts && last.msg_id !== msg_id);
  }

  keep({ key, msg_id, ts }: Knock, nowMs: number): void {
    this.#database.run(
      "INSERT OR REPLACE INTO knock (key, msg_id, ts, at_ms) VALUES (?, ?, ?, ?)",
      key,
      msg_id,
      ts,
      nowMs,
    );
  }

  /** Lets go what no bus can bring again. */
  prune(nowMs: number): number {
    return this.#database.run("DELETE FROM knock WHERE at_ms <= ?", nowMs - SEEN_RETAIN_MS);
  }

  #last(key: Key): { readonly msg_id: string; readonly ts: number } | undefined {
    return this.#database.first<{ msg_id: string; ts: number }>("SELECT msg_id, ts FROM knock WHERE key = ?", key);
  }
}
