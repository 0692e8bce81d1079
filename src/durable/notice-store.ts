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
export interface Gap extends Record<string, SqlStorageValue> {
  /** Between the numbers of what was stored before the last loss and after it. */
  seq: number;
  count: number;
  oldest_ts: number;
}

export class NoticeStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** One more message was lost; `seq` is above all that was stored before. */
  lost(inbox: Inbox, seq: number, ts: number): void {
    this.#add(inbox, { seq, count: 1, oldest_ts: ts });
  }

  gap(inbox: Inbox): Gap | undefined {
    return this.#sql.exec<Gap>("SELECT seq, count, oldest_ts FROM gap WHERE inbox = ?", inbox).toArray()[0];
  }

  /** The client acked something stored after the loss, and so handed out with the word of it: it has heard. */
  heard(inbox: Inbox, throughSeq: number): void {
    this.#sql.exec("DELETE FROM gap WHERE inbox = ? AND seq < ?", inbox, throughSeq);
  }

  /** What was lost in the identity's own inbox is told to the session that comes to own it. */
  claim(inbox: Inbox): void {
    const lost = this.gap("");
    if (!lost) return;
    this.#sql.exec("DELETE FROM gap WHERE inbox = ''");
    this.#add(inbox, lost);
  }

  /** A socket that is gone had pushed up to here. */
  notePushed(inbox: Inbox, through: number): void {
    this.#sql.exec(
      `INSERT INTO pushed (inbox, through) VALUES (?, ?)
       ON CONFLICT (inbox) DO UPDATE SET through = max(through, excluded.through)`,
      inbox,
      through,
    );
  }

  /** Up to where messages of an inbox are known to have been pushed before; 0 if nothing is known. */
  pushedThrough(inbox: Inbox): number {
    const row = this.#sql.exec<{ through: number }>("SELECT through FROM pushed WHERE inbox = ?", inbox).toArray()[0];
    return row?.through ?? 0;
  }

  /** The largest number that any notice speaks of. */
  lastSeq(): number {
    const row = this.#sql
      .exec<{ last: number | null }>(
        "SELECT max(seq) AS last FROM (SELECT max(seq) AS seq FROM gap UNION ALL SELECT max(through) FROM pushed)",
      )
      .one();
    return row.last ?? 0;
  }

  #add(inbox: Inbox, { seq, count, oldest_ts }: Gap): void {
    this.#sql.exec(
      `INSERT INTO gap (inbox, seq, count, oldest_ts) VALUES (?, ?, ?, ?)
       ON CONFLICT (inbox) DO UPDATE SET seq = max(seq, excluded.seq), count = count + excluded.count,
         oldest_ts = min(oldest_ts, excluded.oldest_ts)`,
      inbox,
      seq,
      count,
      oldest_ts,
    );
  }

  /** Drops notices of inboxes that hold nothing, losses once they are as old as `deadline`. */
  prune(deadline: number): void {
    const isEmpty = "inbox NOT IN (SELECT inbox FROM message)";
    this.#sql.exec(`DELETE FROM gap WHERE ${isEmpty} AND oldest_ts <= ?`, deadline);
    this.#sql.exec(`DELETE FROM pushed WHERE ${isEmpty}`);
  }
}
