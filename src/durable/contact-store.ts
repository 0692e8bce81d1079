/**
 * Whom an identity admits, and who asks to be: the contact list and the pending knocks.
 *
 * Invariant 5: only contacts fill an inbox; strangers can only knock, once at a time and in a table of
 * their own, so that no stranger displaces mail.
 */

import type { Key } from "../protocol/address.ts";
import type { Limits } from "../protocol/constants.ts";
import type { Entry, Receipt } from "./calls.ts";
import type { Inbox } from "./inbox-policy.ts";
import type { Waiting } from "./inbox-store.ts";
import type { Sql } from "./meter.ts";

export const CONTACT_TABLES = `
  CREATE TABLE contacts (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    ts INTEGER NOT NULL,
    keys TEXT NOT NULL
  ) STRICT;
  CREATE TABLE knock (
    sender TEXT NOT NULL,
    kind TEXT NOT NULL,
    msg_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    inbox TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    acked_at_ms INTEGER,
    payload TEXT NOT NULL,
    PRIMARY KEY (sender, kind)
  ) STRICT, WITHOUT ROWID;
`;

interface KnockRow extends Record<string, SqlStorageValue> {
  msg_id: string;
  digest: string;
  at_ms: number;
  acked_at_ms: number | null;
}

export class ContactStore {
  readonly #sql: Sql;
  readonly #limits: Limits;
  /** The list in memory: it is asked at each send and changes rarely. */
  #contacts: { ts: number; keys: ReadonlySet<string> } | undefined;
  /** True if a knock may wait: it is asked at each push, and the answer is nearly always no. Undefined: look. */
  #hasPending: boolean | undefined;

  constructor(sql: Sql, limits: Limits) {
    this.#sql = sql;
    this.#limits = limits;
  }

  /** The published list, or undefined if none ever was. */
  list(): { ts: number; keys: ReadonlySet<string> } | undefined {
    if (!this.#contacts) {
      const row = this.#sql.exec<{ ts: number; keys: string }>("SELECT ts, keys FROM contacts").toArray()[0];
      if (row) this.#contacts = { ts: row.ts, keys: new Set(JSON.parse(row.keys) as string[]) };
    }
    return this.#contacts;
  }

  /** Replaces the list: one row, however long it is. */
  publish(keys: readonly Key[], ts: number): void {
    this.#sql.exec(
      `INSERT INTO contacts (one, ts, keys) VALUES (1, ?, ?)
       ON CONFLICT (one) DO UPDATE SET ts = excluded.ts, keys = excluded.keys`,
      ts,
      JSON.stringify(keys),
    );
    this.#contacts = { ts, keys: new Set(keys) };
  }

  /**
   * Takes a knock, one row. An acked one stays until its time, so that a retry after the ack is still a
   * duplicate, and makes room for the sender's next.
   */
  knock(
    inbox: Inbox,
    entry: Entry,
    seq: number,
    nowMs: number,
  ): "admit" | "duplicate" | "msg_id_conflict" | "knock_limit" {
    const deadline = nowMs - this.#limits.KNOCK_RETAIN_MS;
    const known = this.#sql
      .exec<KnockRow>(
        "SELECT msg_id, digest, at_ms, acked_at_ms FROM knock WHERE sender = ? AND kind = ? AND at_ms > ?",
        entry.sender,
        entry.kind,
        deadline,
      )
      .toArray()[0];
    if (known?.msg_id === entry.msgId) return known.digest === entry.digest ? "duplicate" : "msg_id_conflict";
    if (known && known.acked_at_ms === null) return "knock_limit";
    if (this.#pending(deadline) >= this.#limits.KNOCKS_MAX) return "knock_limit";
    this.#sql.exec(
      `INSERT INTO knock (sender, kind, msg_id, digest, inbox, seq, at_ms, acked_at_ms, payload)
       VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?)
       ON CONFLICT (sender, kind) DO UPDATE SET msg_id = excluded.msg_id, digest = excluded.digest,
         inbox = excluded.inbox, seq = excluded.seq, at_ms = excluded.at_ms, acked_at_ms = NULL, payload = excluded.payload`,
      entry.sender,
      entry.kind,
      entry.msgId,
      entry.digest,
      inbox,
      seq,
      nowMs,
      entry.payload,
    );
    this.#hasPending = true;
    return "admit";
  }

  /** What became of a sender's latest knocks. */
  receipts(sender: Key): Map<string, Receipt> {
    const rows = this.#sql
      .exec<KnockRow>("SELECT msg_id, digest, at_ms, acked_at_ms FROM knock WHERE sender = ?", sender)
      .toArray();
    return new Map(
      rows.map(({ msg_id, at_ms, acked_at_ms }) => [
        msg_id,
        { msg_id, state: acked_at_ms === null ? "stored" : "acked", at_ms: acked_at_ms ?? at_ms },
      ]),
    );
  }

  /** Pending knocks for an inbox, oldest first. There are at most a few, so no limit is asked for. */
  waiting(inbox: Inbox, nowMs: number, afterSeq = 0): Waiting[] {
    if (!this.#mayPend()) return [];
    return this.#sql
      .exec<Waiting>(
        `SELECT seq, at_ms, payload FROM knock
         WHERE inbox = ? AND acked_at_ms IS NULL AND at_ms > ? AND seq > ? ORDER BY seq`,
        inbox,
        nowMs - this.#limits.KNOCK_RETAIN_MS,
        afterSeq,
      )
      .toArray();
  }

  ack(inbox: Inbox, seqs: readonly number[], nowMs: number): number {
    return this.#ack(inbox, nowMs, "seq IN (SELECT value FROM json_each(?))", JSON.stringify(seqs));
  }

  ackThrough(inbox: Inbox, seq: number, nowMs: number): number {
    return this.#ack(inbox, nowMs, "seq <= ?", seq);
  }

  countThrough(inbox: Inbox, seq: number, nowMs: number): number {
    if (!this.#mayPend()) return 0;
    return this.#sql
      .exec<{ n: number }>(
        "SELECT count(*) AS n FROM knock WHERE inbox = ? AND acked_at_ms IS NULL AND seq <= ? AND at_ms > ?",
        inbox,
        seq,
        nowMs - this.#limits.KNOCK_RETAIN_MS,
      )
      .one().n;
  }

  /** Gives the knocks of the identity's own inbox to one session. */
  claim(inbox: Inbox): void {
    if (this.#mayPend()) this.#sql.exec("UPDATE knock SET inbox = ? WHERE inbox = ''", inbox);
  }

  expire(nowMs: number): void {
    this.#sql.exec("DELETE FROM knock WHERE at_ms <= ?", nowMs - this.#limits.KNOCK_RETAIN_MS);
  }

  /** What the next alarm depends on. */
  oldestKnockAtMs(): number | undefined {
    return this.#sql.exec<{ at: number | null }>("SELECT min(at_ms) AS at FROM knock").one().at ?? undefined;
  }

  lastSeq(): number {
    return this.#sql.exec<{ seq: number | null }>("SELECT max(seq) AS seq FROM knock").one().seq ?? 0;
  }

  #ack(inbox: Inbox, nowMs: number, which: string, value: SqlStorageValue): number {
    if (!this.#mayPend()) return 0;
    this.#hasPending = undefined;
    return this.#sql
      .exec(
        `UPDATE knock SET acked_at_ms = ? WHERE inbox = ? AND acked_at_ms IS NULL AND at_ms > ? AND ${which} RETURNING 1`,
        nowMs,
        inbox,
        nowMs - this.#limits.KNOCK_RETAIN_MS,
        value,
      )
      .toArray().length;
  }

  /** Says yes for one that has just run out; the statement that follows knows better. */
  #mayPend(): boolean {
    this.#hasPending ??= this.#pending(0) > 0;
    return this.#hasPending;
  }

  #pending(deadline: number): number {
    return this.#sql
      .exec<{ n: number }>("SELECT count(*) AS n FROM knock WHERE acked_at_ms IS NULL AND at_ms > ?", deadline)
      .one().n;
  }
}
