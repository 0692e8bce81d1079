/**
 * What an inbox's client must be told beside its mail: what was lost, and what was pushed to it before.
 */

import type { Inbox } from "./inbox-policy.ts";
import type { Sql } from "./meter.ts";

export const NOTICE_TABLES = `
  CREATE TABLE gap (
    inbox TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    count INTEGER NOT NULL,
    oldest_ts INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE pushed (
    inbox TEXT PRIMARY KEY,
    through INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
`;

/** Messages that left without an ack, and that the client is not known to have been told of. */
export interface Gap {
  /** Between the numbers of what was stored before the last loss and after it. */
  seq: number;
  count: number;
  oldest_ts: number;
}

export class NoticeStore {
  readonly #sql: Sql;
  /** Both tables in memory: they are asked at each push, and hardly ever hold a row. */
  #kept: { readonly gaps: Map<Inbox, Gap>; readonly pushed: Map<Inbox, number> } | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** One more message was lost; `seq` is above all that was stored before. */
  lost(inbox: Inbox, seq: number, ts: number): void {
    this.#add(inbox, { seq, count: 1, oldest_ts: ts });
  }

  gap(inbox: Inbox): Gap | undefined {
    return this.#all().gaps.get(inbox);
  }

  /** The client acked something stored after the loss, and so handed out with the word of it: it has heard. */
  heard(inbox: Inbox, throughSeq: number): void {
    const gap = this.gap(inbox);
    if (gap && gap.seq < throughSeq) this.#forget(inbox);
  }

  /** What was lost in the identity's own inbox is told to the session that comes to own it. */
  claim(inbox: Inbox): void {
    const lost = this.gap("");
    if (!lost) return;
    this.#forget("");
    this.#add(inbox, lost);
  }

  /** A socket that is gone had pushed up to here. */
  notePushed(inbox: Inbox, through: number): void {
    const { pushed } = this.#all();
    if (through <= this.pushedThrough(inbox)) return;
    this.#sql.exec(
      `INSERT INTO pushed (inbox, through) VALUES (?, ?)
       ON CONFLICT (inbox) DO UPDATE SET through = excluded.through`,
      inbox,
      through,
    );
    pushed.set(inbox, through);
  }

  /** Up to where messages of an inbox are known to have been pushed before; 0 if nothing is known. */
  pushedThrough(inbox: Inbox): number {
    return this.#all().pushed.get(inbox) ?? 0;
  }

  /** The largest number that any notice speaks of. */
  lastSeq(): number {
    const { gaps, pushed } = this.#all();
    return Math.max(0, ...[...gaps.values()].map(({ seq }) => seq), ...pushed.values());
  }

  /** Drops notices of inboxes that hold nothing, losses once they are as old as `deadline`. */
  prune(deadline: number): void {
    const isEmpty = "inbox NOT IN (SELECT inbox FROM message)";
    this.#sql.exec(`DELETE FROM gap WHERE ${isEmpty} AND oldest_ts <= ?`, deadline);
    this.#sql.exec(`DELETE FROM pushed WHERE ${isEmpty}`);
    this.#kept = undefined;
  }

  #add(inbox: Inbox, lost: Gap): void {
    const known = this.gap(inbox);
    const gap = {
      seq: Math.max(lost.seq, known?.seq ?? 0),
      count: lost.count + (known?.count ?? 0),
      oldest_ts: Math.min(lost.oldest_ts, known?.oldest_ts ?? Infinity),
    };
    this.#sql.exec(
      "INSERT OR REPLACE INTO gap (inbox, seq, count, oldest_ts) VALUES (?, ?, ?, ?)",
      inbox,
      gap.seq,
      gap.count,
      gap.oldest_ts,
    );
    this.#all().gaps.set(inbox, gap);
  }

  #forget(inbox: Inbox): void {
    this.#sql.exec("DELETE FROM gap WHERE inbox = ?", inbox);
    this.#all().gaps.delete(inbox);
  }

  #all(): { readonly gaps: Map<Inbox, Gap>; readonly pushed: Map<Inbox, number> } {
    if (this.#kept) return this.#kept;
    const rows = this.#sql
      .exec<{ inbox: Inbox; through: number | null; seq: number; count: number; oldest_ts: number }>(
        `SELECT inbox, NULL AS through, seq, count, oldest_ts FROM gap
         UNION ALL SELECT inbox, through, 0, 0, 0 FROM pushed`,
      )
      .toArray();
    const kept = { gaps: new Map<Inbox, Gap>(), pushed: new Map<Inbox, number>() };
    for (const { inbox, through, seq, count, oldest_ts } of rows) {
      if (through === null) kept.gaps.set(inbox, { seq, count, oldest_ts });
      else kept.pushed.set(inbox, through);
    }
    this.#kept = kept;
    return kept;
  }
}
