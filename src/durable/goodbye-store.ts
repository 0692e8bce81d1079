/**
 * Signed goodbyes on their way to peers: an outbox, because a call to another object may fail after
 * the session that wrote them is gone for good.
 */

import type { Key } from "../protocol/address.ts";
import type { Goodbye } from "./calls.ts";
import type { Sql } from "./meter.ts";

export const GOODBYE_TABLE = `
  CREATE TABLE goodbye (
    id INTEGER PRIMARY KEY,
    recipient TEXT NOT NULL,
    entry TEXT NOT NULL,
    due_at_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL
  ) STRICT;
`;

/** The first retry waits this long, each further one twice as long. */
export const GOODBYE_RETRY_MS = 5_000;
/** With doubling the last try is 85 minutes after the first; past it the peer learns by presence alone. */
const ATTEMPTS_MAX = 10;

export interface Pending {
  readonly id: number;
  readonly goodbye: Goodbye;
}

export class GoodbyeStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  add(goodbyes: readonly Goodbye[], nowMs: number): void {
    for (const { to, entry } of goodbyes) {
      this.#sql.exec(
        "INSERT INTO goodbye (recipient, entry, due_at_ms, attempts) VALUES (?, ?, ?, 0)",
        to,
        JSON.stringify(entry),
        nowMs,
      );
    }
  }

  /** Those to send now, at most one group. */
  due(nowMs: number, limit: number): Pending[] {
    return this.#sql
      .exec<{ id: number; recipient: Key; entry: string }>(
        "SELECT id, recipient, entry FROM goodbye WHERE due_at_ms <= ? ORDER BY id LIMIT ?",
        nowMs,
        limit,
      )
      .toArray()
      .map((row) => ({ id: row.id, goodbye: { to: row.recipient, entry: JSON.parse(row.entry) } }));
  }

  /** Marks an attempt before it is made, so that a crash in it does not repeat at once for ever. */
  attempt(ids: readonly number[], nowMs: number): void {
    for (const id of ids) {
      this.#sql.exec(
        "UPDATE goodbye SET due_at_ms = ? + (? << attempts), attempts = attempts + 1 WHERE id = ?",
        nowMs,
        GOODBYE_RETRY_MS,
        id,
      );
    }
  }

  /** The attempt failed: it is due again later, or was the last. */
  failed(id: number): void {
    this.#sql.exec("DELETE FROM goodbye WHERE id = ? AND attempts >= ?", id, ATTEMPTS_MAX);
  }

  /** The peer's object has answered, with yes or no. */
  settle(id: number): void {
    this.#sql.exec("DELETE FROM goodbye WHERE id = ?", id);
  }

  nextDueAtMs(): number | undefined {
    return this.#sql.exec<{ at: number | null }>("SELECT min(due_at_ms) AS at FROM goodbye").one().at ?? undefined;
  }
}
