/** Which single-use tokens were used, until their time window has passed. */

import type { Nonce } from "./calls.ts";
import type { Sql } from "./meter.ts";

export const NONCE_TABLE = `
  CREATE TABLE nonce (nonce TEXT PRIMARY KEY, expires_at_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`;

export class NonceStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Remembers a nonce; false if it was known. One row written. */
  use({ nonce, expiresAtMs }: Nonce): boolean {
    const cursor = this.#sql.exec(
      "INSERT INTO nonce (nonce, expires_at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING 1",
      nonce,
      expiresAtMs,
    );
    return cursor.toArray().length === 1;
  }

  prune(nowMs: number): void {
    this.#sql.exec("DELETE FROM nonce WHERE expires_at_ms <= ?", nowMs);
  }

  /** When the last of them may go, so that one sweep takes them all. */
  latestExpiry(): number | undefined {
    return this.#sql.exec<{ at: number | null }>("SELECT max(expires_at_ms) AS at FROM nonce").one().at ?? undefined;
  }
}
