/**
 * Which keys a directory shard lists: those that have an object, and whether one shows itself to all.
 *
 * At most LISTED_MAX of them. A listing is only how an identity is found and counted: its object, its mail and its
 * alarm stand without one, so what gives way here loses nothing that anyone was promised.
 */

import type { Key } from "../protocol/address.ts";
import type { Limits } from "../protocol/constants.ts";
import type { Sql } from "./meter.ts";

export const LISTED_TABLE = `CREATE TABLE listed (key TEXT PRIMARY KEY, is_shown INTEGER NOT NULL) STRICT, WITHOUT ROWID;`;

export class ListedStore {
  readonly #sql: Sql;
  readonly #limits: Pick<Limits, "LISTED_MAX">;
  /** How many are listed, and shown: counted once per instance, since a count reads every row. */
  #counts: { listed: number; shown: number } | undefined;

  constructor(sql: Sql, limits: Pick<Limits, "LISTED_MAX">) {
    this.#sql = sql;
    this.#limits = limits;
  }

  /**
   * Lists a key, one row. Where the shard is full, a shown one takes the place of a hidden one, ghosts among them, which
   * only the operator's counters miss; a hidden one, or one more where all are shown, is not listed.
   * @returns `evicted` if that took another off
   */
  put(key: Key, isShown: boolean): "listed" | "evicted" | "full" {
    const known = this.#sql.exec<{ is_shown: number }>("SELECT is_shown FROM listed WHERE key = ?", key).toArray()[0];
    if (known) {
      this.#sql.exec("UPDATE listed SET is_shown = ? WHERE key = ?", Number(isShown), key);
      if (this.#counts) this.#counts.shown += Number(isShown) - known.is_shown;
      return "listed";
    }
    const counts = this.#count();
    const over = counts.listed + 1 - this.#limits.LISTED_MAX; // more than one where the variable was lowered
    if (over > 0) {
      if (!isShown || counts.listed - counts.shown < over) return "full";
      this.#evictHidden(over, key);
      counts.listed -= over;
    }
    this.#sql.exec("INSERT INTO listed (key, is_shown) VALUES (?, ?)", key, Number(isShown));
    counts.listed++;
    counts.shown += Number(isShown);
    return over > 0 ? "evicted" : "listed";
  }

  remove(key: Key): void {
    const gone = this.#sql
      .exec<{ is_shown: number }>("DELETE FROM listed WHERE key = ? RETURNING is_shown", key)
      .toArray()[0];
    if (!gone || !this.#counts) return;
    this.#counts.listed--;
    this.#counts.shown -= gone.is_shown;
  }

  /** True where a hidden key would not be listed any more, so that what is counted over the listed may not be all. */
  isFull(): boolean {
    return this.#count().listed >= this.#limits.LISTED_MAX;
  }

  /** Keys above `after`, in order. */
  page(after: string, limit: number, isShown: boolean): Key[] {
    return this.#sql
      .exec<{ key: Key }>(
        "SELECT key FROM listed WHERE key > ? AND is_shown >= ? ORDER BY key LIMIT ?",
        after,
        Number(isShown),
        limit,
      )
      .toArray()
      .map((row) => row.key);
  }

  /** From the newcomer's place on: keys are random, so none is always first to go, and no search reads the same rows again. */
  #evictHidden(count: number, from: Key): void {
    const hidden = (where: string, left: number) =>
      this.#sql
        .exec(
          `DELETE FROM listed WHERE key IN (SELECT key FROM listed WHERE is_shown = 0 AND ${where} ORDER BY key LIMIT ?) RETURNING 1`,
          from,
          left,
        )
        .toArray().length;
    const above = hidden("key > ?", count);
    if (above < count) hidden("key < ?", count - above);
  }

  #count(): { listed: number; shown: number } {
    this.#counts ??= this.#sql
      .exec<{ listed: number; shown: number }>(
        "SELECT count(*) AS listed, coalesce(sum(is_shown), 0) AS shown FROM listed",
      )
      .one();
    return this.#counts;
  }
}
