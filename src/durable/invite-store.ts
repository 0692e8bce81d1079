/**
 * Invites as hashes: whoever reads the storage cannot redeem one. A redeemed invite leaves nothing.
 */

import type { Key } from "../protocol/address.ts";
import type { Sql } from "./meter.ts";

export const INVITE_TABLE = `
  CREATE TABLE invite (
    hash TEXT PRIMARY KEY,
    expires_at_ms INTEGER NOT NULL,
    taken_by TEXT
  ) STRICT, WITHOUT ROWID;
`;

export class InviteStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  put(hash: string, expiresAtMs: number): void {
    this.#sql.exec("INSERT INTO invite (hash, expires_at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING", hash, expiresAtMs);
  }

  /**
   * Takes an invite for a key; false if it is unknown, expired or another's. The same key may take it
   * again until it is {@link remove}d, so that a crash between taking and admitting loses no invite.
   */
  take(hash: string, key: Key, nowMs: number): boolean {
    return (
      this.#sql
        .exec(
          `UPDATE invite SET taken_by = ? WHERE hash = ? AND expires_at_ms > ?
           AND (taken_by IS NULL OR taken_by = ?) RETURNING 1`,
          key,
          hash,
          nowMs,
          key,
        )
        .toArray().length === 1
    );
  }

  remove(hash: string): void {
    this.#sql.exec("DELETE FROM invite WHERE hash = ?", hash);
  }

  prune(nowMs: number): void {
    this.#sql.exec("DELETE FROM invite WHERE expires_at_ms <= ?", nowMs);
  }

  latestExpiry(): number | undefined {
    return this.#sql.exec<{ at: number | null }>("SELECT max(expires_at_ms) AS at FROM invite").one().at ?? undefined;
  }
}
