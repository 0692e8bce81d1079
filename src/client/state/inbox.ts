/**
 * Messages received, and which of them a model has had: the tables beside their queries.
 *
 * Invariant 1: an acked message survives `kill -9` of the client: a bus is acked only after `receive` returned.
 * Invariant 3: the same message never reaches the model twice: it is marked read in the transaction that takes it.
 */

import type { Key, SessionId } from "../../protocol/address.ts";
import { byteLength } from "../../protocol/text.ts";
import type { Message } from "../../protocol/message.ts";
import type { Database } from "./database.ts";
import { HISTORY_RETAIN_MS, SEEN_RETAIN_MS } from "./retention.ts";
import type { Sequence } from "./sequence.ts";

/** A message that the gate let in. */
export interface Arrival {
  readonly from: Key;
  readonly msg_id: string;
  /** The session that wrote it, where it says so. */
  readonly session?: SessionId;
  readonly text: string;
  readonly task_id?: string;
  readonly status?: NonNullable<Message["status"]>;
  readonly in_reply_to?: string;
  /** The sender's clock. */
  readonly ts: number;
  /** SHA-256 of the signed bytes, base64url: tells a redelivery from a reuse of the id. */
  readonly digest: string;
  /** False if `ts` was further ahead than clocks may be. */
  readonly clock_ok: boolean;
  /** Which bus brought it, by its local name. */
  readonly bus: string;
}

/** A message on disk. */
export interface InboxMessage extends Arrival {
  /** Order of arrival in this session, over both directions. */
  readonly seq: number;
  readonly received_at_ms: number;
  /** Absent: no model has had it. */
  readonly read_at_ms?: number;
}

/** `duplicate`: the same bytes came before · `conflict`: other bytes came under this id, and stay. */
export type Newness = "new" | "duplicate" | "conflict";

/** What is known of an unread message without its text. */
export interface UnreadOfPeer {
  readonly from: Key;
  readonly count: number;
  readonly oldest_at_ms: number;
}

export interface Taken {
  readonly messages: readonly InboxMessage[];
  /** Unread messages that found no room. */
  readonly left: number;
}

export interface InboxRow {
  seq: number;
  sender: Key;
  msg_id: string;
  session: SessionId | null;
  text: Uint8Array;
  task_id: string | null;
  status: InboxMessage["status"] | null;
  in_reply_to: string | null;
  ts: number;
  received_at_ms: number;
  digest: string;
  clock_ok: number;
  bus: string;
  read_at_ms: number | null;
}

const COLUMNS =
  "seq, sender, msg_id, session, text, task_id, status, in_reply_to, ts, received_at_ms, digest, clock_ok, bus, read_at_ms";

const encoder = new TextEncoder();
/** Not fatal: a byte that the disk has spoilt shows as U+FFFD, and keeps no other message from being read. */
const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

export class InboxTable {
  readonly #database: Database;
  readonly #sequence: Sequence;

  constructor(database: Database, sequence: Sequence) {
    this.#database = database;
    this.#sequence = sequence;
  }

  /** Stores a message unless its id is known. Runs in its caller's transaction. */
  add(arrival: Arrival, nowMs: number): Newness {
    const newness = this.remember(arrival, nowMs);
    if (newness === "new") this.#insert(arrival, nowMs);
    return newness;
  }

  /** Remembers an id without its message: of one that is no mail, so that it is not heard twice. */
  remember({ from, msg_id, digest }: Arrival, nowMs: number): Newness {
    const known = this.#database.first<{ digest: string }>(
      "SELECT digest FROM seen WHERE sender = ? AND msg_id = ?",
      from,
      msg_id,
    );
    if (known) return known.digest === digest ? "duplicate" : "conflict";
    this.#database.run(
      "INSERT INTO seen (sender, msg_id, digest, at_ms) VALUES (?, ?, ?, ?)",
      from,
      msg_id,
      digest,
      nowMs,
    );
    return "new";
  }

  /** How many no model has had. */
  unreadCount(): number {
    return this.#database.first<{ n: number }>("SELECT count(*) AS n FROM inbox WHERE read_at_ms IS NULL")!.n;
  }

  /** Who has written what is unread, the longest waiting first; marks nothing, and carries no peer's text. */
  unreadByPeer(): UnreadOfPeer[] {
    return this.#database
      .all<{ sender: Key; n: number; oldest: number }>(
        `SELECT sender, count(*) AS n, min(received_at_ms) AS oldest FROM inbox
         WHERE read_at_ms IS NULL GROUP BY sender ORDER BY min(seq)`,
      )
      .map(({ sender, n, oldest }) => ({ from: sender, count: n, oldest_at_ms: oldest }));
  }

  /** The oldest unread messages, marking nothing: for a list without texts, or a person. */
  unread(max: number): InboxMessage[] {
    return this.#select("read_at_ms IS NULL ORDER BY seq LIMIT ?", max);
  }

  /**
   * Takes the oldest unread messages for a model and marks them read, in one transaction. They also count as
   * handed over until {@link confirmHanded}: a crash in between leaves them in {@link handed}, to be told of.
   * @param maxBytes UTF-8 bytes of all texts together; the first message is given whatever its size
   */
  takeUnread({ max, maxBytes }: { max: number; maxBytes: number }, nowMs: number): Taken {
    return this.#database.transaction(() => {
      const messages: InboxMessage[] = [];
      let bytes = 0;
      for (const message of this.unread(max)) {
        bytes += byteLength(message.text);
        if (messages.length > 0 && bytes > maxBytes) break;
        messages.push(this.#markRead(message, nowMs));
      }
      return { messages, left: this.unreadCount() };
    });
  }

  /** Takes one message for a model: marked read if it was not. @returns undefined: there is none of that number */
  takeOne(seq: number, nowMs: number): InboxMessage | undefined {
    return this.#database.transaction(() => {
      const [message] = this.#select("seq = ?", seq);
      return message?.read_at_ms === undefined && message ? this.#markRead(message, nowMs) : message;
    });
  }

  /** The answer that carried these went out: they are not told of after a restart. */
  confirmHanded(seqs: readonly number[]): void {
    this.#database.run("DELETE FROM handed WHERE seq IN (SELECT value FROM json_each(?))", JSON.stringify(seqs));
  }

  /** The answer that carried these never went out: they are unread, as if nobody had taken them. */
  giveBack(seqs: readonly number[]): void {
    const list = JSON.stringify(seqs);
    const given = "SELECT value FROM json_each(?)";
    this.#database.run(
      `UPDATE inbox SET read_at_ms = NULL WHERE seq IN (${given}) AND seq IN (SELECT seq FROM handed)`,
      list,
    );
    this.confirmHanded(seqs);
  }

  /**
   * Messages that were taken by a call whose answer may never have reached the model. They are read, and are not given
   * again: a notice names them, and the history shows them.
   */
  handed(): InboxMessage[] {
    return this.#select("seq IN (SELECT seq FROM handed) ORDER BY seq");
  }

  /** Messages whose id begins so, at most `max`, the newest first: one is found, more are ambiguous. Marks nothing. */
  find(idPrefix: string, max = 8): InboxMessage[] {
    // An upper bound in place of LIKE: ids are ASCII, and `_` is one of their characters.
    return this.#select("msg_id >= ? AND msg_id < ? ORDER BY seq DESC LIMIT ?", idPrefix, `${idPrefix}\u007f`, max);
  }

  /** All messages above a number, at most `max`, in their order. Marks nothing. */
  after(seq: number, max: number): InboxMessage[] {
    return this.#select("seq > ? ORDER BY seq LIMIT ?", seq, max);
  }

  /** What a model has had of one peer, the newest first, below `beforeSeq`. */
  readOf(peer: Key, beforeSeq: number, max: number): InboxMessage[] {
    return this.#select(
      "sender = ? AND seq < ? AND read_at_ms IS NOT NULL ORDER BY seq DESC LIMIT ?",
      peer,
      beforeSeq,
      max,
    );
  }

  /** Lets go what is past its time: ids that no bus can bring again, and old messages that were read. */
  prune(nowMs: number): number {
    return (
      // An id stays as long as its message: an unread one may be older than any that a bus can bring.
      this.#database.run(
        `DELETE FROM seen WHERE at_ms <= ?
         AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.sender = seen.sender AND inbox.msg_id = seen.msg_id)`,
        nowMs - SEEN_RETAIN_MS,
      ) +
      this.#database.run(
        "DELETE FROM inbox WHERE read_at_ms IS NOT NULL AND max(read_at_ms, received_at_ms) <= ? AND seq NOT IN (SELECT seq FROM handed)",
        nowMs - HISTORY_RETAIN_MS,
      )
    );
  }

  #insert(arrival: Arrival, nowMs: number): void {
    const { from, msg_id, digest } = arrival;
    this.#database.run(
      `INSERT INTO inbox (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)`,
      this.#sequence.next(),
      from,
      msg_id,
      arrival.session ?? null,
      encoder.encode(arrival.text),
      arrival.task_id ?? null,
      arrival.status ?? null,
      arrival.in_reply_to ?? null,
      arrival.ts,
      nowMs,
      digest,
      arrival.clock_ok ? 1 : 0,
      arrival.bus,
    );
  }

  #markRead(message: InboxMessage, nowMs: number): InboxMessage {
    this.#database.run("UPDATE inbox SET read_at_ms = ? WHERE seq = ?", nowMs, message.seq);
    this.#database.run("INSERT INTO handed (seq) VALUES (?)", message.seq);
    return { ...message, read_at_ms: nowMs };
  }

  #select(where: string, ...values: readonly (string | number)[]): InboxMessage[] {
    return this.#database.all<InboxRow>(`SELECT ${COLUMNS} FROM inbox WHERE ${where}`, ...values).map(toMessage);
  }
}

function toMessage(row: InboxRow): InboxMessage {
  return {
    seq: row.seq,
    from: row.sender,
    msg_id: row.msg_id,
    ...(row.session === null ? {} : { session: row.session }),
    text: decoder.decode(row.text),
    ...(row.task_id === null ? {} : { task_id: row.task_id }),
    ...(row.status ? { status: row.status } : {}),
    ...(row.in_reply_to === null ? {} : { in_reply_to: row.in_reply_to }),
    ts: row.ts,
    received_at_ms: row.received_at_ms,
    digest: row.digest,
    clock_ok: row.clock_ok === 1,
    bus: row.bus,
    ...(row.read_at_ms === null ? {} : { read_at_ms: row.read_at_ms }),
  };
}
