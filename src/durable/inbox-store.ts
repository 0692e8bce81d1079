/**
 * Messages, and what is remembered of them: the tables beside their queries.
 *
 * Invariant 2: a message leaves an inbox only by ack, expiry or (if so configured) eviction, and each
 * leaves a receipt.
 */

import type { Key, SessionId } from "../protocol/address.ts";
import type { Limits } from "../protocol/constants.ts";
import { byteLength } from "../protocol/text.ts";
import type { Entry, Receipt } from "./calls.ts";
import { admit, type Inbox, type Verdict } from "./inbox-policy.ts";
import { InboxTallies } from "./inbox-tallies.ts";
import type { Sql } from "./meter.ts";
import { NoticeStore } from "./notice-store.ts";

export const INBOX_TABLES = `
  CREATE TABLE message (
    inbox TEXT NOT NULL,
    seq INTEGER NOT NULL,
    route TEXT NOT NULL,
    sender TEXT NOT NULL,
    msg_id TEXT NOT NULL,
    ts INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (inbox, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE receipt (
    sender TEXT NOT NULL,
    msg_id TEXT NOT NULL,
    route TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (sender, msg_id, route)
  ) STRICT, WITHOUT ROWID;
`;

/** A message that waits. */
export interface Waiting extends Record<string, SqlStorageValue> {
  seq: number;
  at_ms: number;
  payload: string;
}

interface Leaving extends Record<string, SqlStorageValue> {
  inbox: Inbox;
  route: string;
  sender: string;
  msg_id: string;
  ts: number;
  bytes: number;
}

const LEAVING = "inbox, route, sender, msg_id, ts, bytes";

export class InboxStore {
  readonly #sql: Sql;
  readonly #limits: Limits;
  readonly #overflow: "refuse" | "evict";
  readonly #tallies: InboxTallies;
  /** What its clients must be told beside their mail. */
  readonly notices: NoticeStore;

  constructor(sql: Sql, limits: Limits, overflow: "refuse" | "evict") {
    this.#sql = sql;
    this.#limits = limits;
    this.#overflow = overflow;
    this.#tallies = new InboxTallies(sql);
    this.notices = new NoticeStore(sql);
  }

  /**
   * Decides on an entry and, if it is admitted, stores it: two rows, and those that eviction costs.
   * @param inbox whose bounds it is asked of and where it comes to lie; its ids go by the route that it was sent to
   */
  enqueue(inbox: Inbox, entry: Entry, nextSeq: () => number, nowMs: number): Exclude<Verdict, { verdict: "evict" }> {
    const bytes = byteLength(entry.payload);
    const arrival = { sender: entry.sender, bytes, digest: entry.digest, knownDigest: this.#knownDigest(entry) };
    for (;;) {
      const verdict = admit(arrival, this.#tallies.of(inbox), this.#tallies.inUse(), this.#limits, this.#overflow);
      if (verdict.verdict === "evict") {
        this.#evictOldest(inbox, verdict.from, nextSeq(), nowMs);
        continue;
      }
      if (verdict.verdict === "admit") this.#insert(inbox, entry, bytes, nextSeq(), nowMs);
      return verdict;
    }
  }

  /**
   * The oldest messages of an inbox above `afterSeq`, at most `max` and about `maxBytes` (at least one).
   * `nextSeq`: the first one that found no room, if one did not.
   */
  waiting(inbox: Inbox, max: number, maxBytes: number, afterSeq = 0): { rows: Waiting[]; nextSeq?: number } {
    if (this.#tallies.isKnownEmpty(inbox)) return { rows: [] };
    const rows: Waiting[] = [];
    let bytes = 0;
    const cursor = this.#sql.exec<Waiting & { bytes: number }>(
      "SELECT seq, at_ms, payload, bytes FROM message WHERE inbox = ? AND seq > ? ORDER BY seq LIMIT ?",
      inbox,
      afterSeq,
      max + 1,
    );
    for (const row of cursor) {
      bytes += row.bytes;
      if (rows.length === max || (rows.length > 0 && bytes > maxBytes)) return { rows, nextSeq: row.seq };
      rows.push(row);
    }
    return { rows };
  }

  /** How many messages wait in an inbox. */
  count(inbox: Inbox): number {
    return this.#tallies.of(inbox).messages;
  }

  /** Removes exactly these; numbers that are not there (any more) are passed over. */
  ack(inbox: Inbox, seqs: readonly number[], nowMs: number): number {
    const cursor = this.#sql.exec<Leaving>(
      `DELETE FROM message WHERE inbox = ? AND seq IN (SELECT value FROM json_each(?)) RETURNING ${LEAVING}`,
      inbox,
      JSON.stringify(seqs),
    );
    return this.#acked(inbox, cursor.toArray(), Math.max(0, ...seqs), nowMs);
  }

  /** Removes all up to a number. */
  ackThrough(inbox: Inbox, seq: number, nowMs: number): number {
    const cursor = this.#sql.exec<Leaving>(
      `DELETE FROM message WHERE inbox = ? AND seq <= ? RETURNING ${LEAVING}`,
      inbox,
      seq,
    );
    return this.#acked(inbox, cursor.toArray(), seq, nowMs);
  }

  /** How many wait up to a number. */
  countThrough(inbox: Inbox, seq: number): number {
    if (this.#tallies.isKnownEmpty(inbox)) return 0;
    return this.#sql
      .exec<{ n: number }>("SELECT count(*) AS n FROM message WHERE inbox = ? AND seq <= ?", inbox, seq)
      .one().n;
  }

  /** Gives all mail of the identity's own inbox to one session; its order and ids stay. */
  claim(session: SessionId): void {
    if (this.count("") === 0) return;
    this.#sql.exec("UPDATE message SET inbox = ? WHERE inbox = ''", session);
    this.#tallies.forget();
  }

  /** Lets messages past their time go, each with a receipt. */
  expire(seq: number, nowMs: number): void {
    const rows = this.#sql
      .exec<Leaving>(
        `DELETE FROM message WHERE at_ms <= ? RETURNING ${LEAVING}`,
        nowMs - this.#limits.MESSAGE_RETAIN_MS,
      )
      .toArray();
    this.#lost(rows, "expired", seq, nowMs);
  }

  /** Forgets ids whose message left so long ago that no retry of it would be accepted. */
  prune(nowMs: number): void {
    this.#sql.exec("DELETE FROM receipt WHERE state != 'stored' AND at_ms <= ?", nowMs - this.#limits.DEDUPE_RETAIN_MS);
    this.notices.prune(nowMs - this.#limits.DEDUPE_RETAIN_MS);
  }

  /** What became of a sender's messages, by id. An id sent to several routes is `stored` while any copy is. */
  receipts(sender: Key, msgIds: readonly string[]): Map<string, Receipt> {
    const cursor = this.#sql.exec<Receipt & Record<string, SqlStorageValue>>(
      `SELECT msg_id, state, at_ms FROM receipt
       WHERE sender = ? AND msg_id IN (SELECT value FROM json_each(?)) ORDER BY state = 'stored', at_ms`,
      sender,
      JSON.stringify(msgIds),
    );
    return new Map(cursor.toArray().map((row) => [row.msg_id, row]));
  }

  /** The instants that the next alarm depends on. */
  oldest(): { messageAtMs: number | undefined; receiptAtMs: number | undefined } {
    const row = this.#sql
      .exec<{ message: number | null; receipt: number | null }>(
        `SELECT (SELECT min(at_ms) FROM message) AS message,
                (SELECT min(at_ms) FROM receipt WHERE state != 'stored') AS receipt`,
      )
      .one();
    return { messageAtMs: row.message ?? undefined, receiptAtMs: row.receipt ?? undefined };
  }

  /** All that waits in all inboxes. */
  total(): { count: number; oldestAtMs: number | undefined } {
    const row = this.#sql
      .exec<{ count: number; oldest: number | null }>("SELECT count(*) AS count, min(at_ms) AS oldest FROM message")
      .one();
    return { count: row.count, oldestAtMs: row.oldest ?? undefined };
  }

  /** The largest number in use. */
  lastSeq(): number {
    return this.#tallies.scan().lastSeq;
  }

  #knownDigest({ sender, msgId, session }: Entry): string | undefined {
    return this.#sql
      .exec<{ digest: string }>(
        "SELECT digest FROM receipt WHERE sender = ? AND msg_id = ? AND route = ?",
        sender,
        msgId,
        session ?? "",
      )
      .toArray()[0]?.digest;
  }

  #insert(inbox: Inbox, entry: Entry, bytes: number, seq: number, nowMs: number): void {
    const route = entry.session ?? "";
    this.#sql.exec(
      "INSERT INTO message (inbox, seq, route, sender, msg_id, ts, at_ms, bytes, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
      inbox,
      seq,
      route,
      entry.sender,
      entry.msgId,
      entry.ts,
      nowMs,
      bytes,
      entry.payload,
    );
    this.#sql.exec(
      "INSERT INTO receipt (sender, msg_id, route, digest, state, at_ms) VALUES (?, ?, ?, ?, 'stored', ?)",
      entry.sender,
      entry.msgId,
      route,
      entry.digest,
      nowMs,
    );
    this.#tallies.entered(inbox, entry.sender, bytes);
  }

  #evictOldest(inbox: Inbox, sender: string, seq: number, nowMs: number): void {
    const rows = this.#sql
      .exec<Leaving>(
        `DELETE FROM message WHERE inbox = ? AND seq = (SELECT min(seq) FROM message WHERE inbox = ? AND sender = ?)
         RETURNING ${LEAVING}`,
        inbox,
        inbox,
        sender,
      )
      .toArray();
    this.#lost(rows, "evicted", seq, nowMs);
  }

  #acked(inbox: Inbox, rows: readonly Leaving[], throughSeq: number, nowMs: number): number {
    for (const row of rows) this.#settle(row, "acked", nowMs);
    this.notices.heard(inbox, throughSeq);
    return rows.length;
  }

  #lost(rows: readonly Leaving[], state: "expired" | "evicted", seq: number, nowMs: number): void {
    for (const row of rows) {
      this.#settle(row, state, nowMs);
      this.notices.lost(row.inbox, seq, row.ts);
    }
  }

  /** A row has left: its receipt says how, and its inbox counts one less. */
  #settle({ inbox, bytes, sender, msg_id, route }: Leaving, state: Receipt["state"], nowMs: number): void {
    this.#tallies.left(inbox, sender, bytes);
    this.#sql.exec(
      "UPDATE receipt SET state = ?, at_ms = ? WHERE sender = ? AND msg_id = ? AND route = ?",
      state,
      nowMs,
      sender,
      msg_id,
      route,
    );
  }
}
