/**
 * Knocks and their answers, both ways. Never mail: a stranger's words reach no model, only a name reaches the human.
 *
 * One row a peer, direction and kind, so a stranger who knocks for ever takes one place, and KNOCKS_KEPT_MAX bounds
 * those with many keys. The row stays after it was handled, so that a redelivery does not knock again.
 */

import type { Key, SessionId } from "../../protocol/address.ts";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import type { Database } from "./database.ts";
import { KNOCKS_KEPT_MAX } from "./retention.ts";

export interface Knock {
  /** `in`: it came to us. `out`: we made it. */
  readonly direction: "in" | "out";
  readonly peer: Key;
  readonly kind: "pair_request" | "pair_accept";
  /** What the knocker calls itself; for the human's eyes alone. */
  readonly name: string;
  readonly msg_id: string;
  readonly session?: SessionId;
  readonly bus: string;
  /** The signer's clock. */
  readonly ts: number;
}

export interface KeptKnock extends Knock {
  readonly at_ms: number;
  /** Absent: the human, or the pairing, has not dealt with it. */
  readonly handled_at_ms?: number;
}

type KnockRow = Omit<KeptKnock, "session" | "handled_at_ms"> & {
  session: SessionId | null;
  handled_at_ms: number | null;
};

const COLUMNS = "direction, peer, kind, name, msg_id, session, bus, ts, at_ms, handled_at_ms";

export class KnockTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Keeps a knock; a newer one of the same peer replaces the older. May run in its caller's transaction.
   * @returns `duplicate`: this one, or a newer, is kept · `full`: too many wait for the human; it is not kept
   */
  add(knock: Knock, nowMs: number): "new" | "duplicate" | "full" {
    const { direction, peer, kind } = knock;
    const kept = this.#database.first<{ msg_id: string; ts: number; handled_at_ms: number | null }>(
      "SELECT msg_id, ts, handled_at_ms FROM knock WHERE direction = ? AND peer = ? AND kind = ?",
      direction,
      peer,
      kind,
    );
    if (kept && (kept.msg_id === knock.msg_id || kept.ts > knock.ts)) return "duplicate";
    const takesPlace = direction === "in" && !(kept && kept.handled_at_ms === null);
    if (takesPlace && this.waiting(nowMs).length >= KNOCKS_KEPT_MAX) return "full";
    this.#database.run(
      `INSERT OR REPLACE INTO knock (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)`,
      direction,
      peer,
      kind,
      knock.name,
      knock.msg_id,
      knock.session ?? null,
      knock.bus,
      knock.ts,
      nowMs,
    );
    return "new";
  }

  /** What came and waits, the oldest first: requests for the human, answers for the pairing. */
  waiting(nowMs: number): KeptKnock[] {
    return this.#database
      .all<KnockRow>(
        `SELECT ${COLUMNS} FROM knock WHERE direction = 'in' AND handled_at_ms IS NULL AND at_ms > ? ORDER BY at_ms, peer`,
        nowMs - DEFAULT_LIMITS.KNOCK_RETAIN_MS,
      )
      .map(toKnock);
  }

  /** Our own knock at a peer that is still open; an answer without one is to be ignored. */
  made(peer: Key, nowMs: number): KeptKnock | undefined {
    const row = this.#database.first<KnockRow>(
      `SELECT ${COLUMNS} FROM knock
       WHERE direction = 'out' AND peer = ? AND kind = 'pair_request' AND handled_at_ms IS NULL AND at_ms > ?`,
      peer,
      nowMs - DEFAULT_LIMITS.MESSAGE_RETAIN_MS,
    );
    return row && toKnock(row);
  }

  /** Accepted, rejected or ignored. @returns false: there was none that waited */
  handle(direction: Knock["direction"], peer: Key, kind: Knock["kind"], nowMs: number): boolean {
    const changed = this.#database.run(
      "UPDATE knock SET handled_at_ms = ? WHERE direction = ? AND peer = ? AND kind = ? AND handled_at_ms IS NULL",
      nowMs,
      direction,
      peer,
      kind,
    );
    return changed > 0;
  }

  /** Lets go what nobody can answer or redeliver any more. */
  prune(nowMs: number): number {
    return this.#database.run("DELETE FROM knock WHERE at_ms <= ?", nowMs - DEFAULT_LIMITS.DEDUPE_RETAIN_MS);
  }
}

function toKnock({ session, handled_at_ms, ...row }: KnockRow): KeptKnock {
  return {
    ...row,
    ...(session === null ? {} : { session }),
    ...(handled_at_ms === null ? {} : { handled_at_ms }),
  };
}
