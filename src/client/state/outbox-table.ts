/**
 * Messages written, each with its signed bytes and its life: the table beside its queries. What a life becomes is
 * decided by session/outbox-policy.ts; here it is only kept.
 */

import type { Key } from "../../protocol/address.ts";
import type { Message } from "../../protocol/message.ts";
import type { Life } from "../session/outbox-policy.ts";
import type { Database } from "./database.ts";
import { HISTORY_RETAIN_MS } from "./retention.ts";
import type { Sequence } from "./sequence.ts";

/** A message on its way, or long arrived. */
export interface Outgoing {
  /** Its place in this session's order of both directions. */
  readonly seq: number;
  readonly msg_id: string;
  readonly peer: Key;
  /** Where it is addressed: `key#session`, or the bare key. */
  readonly route: string;
  readonly kind: Message["kind"];
  /** The signed message as JSON; each try sends exactly this. */
  readonly payload: string;
  /** The message's own time. */
  readonly ts: number;
  readonly created_at_ms: number;
  readonly life: Life;
}

type OutboxRow = Omit<Outgoing, "life"> & { life: string };

const COLUMNS = "seq, msg_id, peer, route, kind, payload, ts, created_at_ms, life";

export class OutboxTable {
  readonly #database: Database;
  readonly #sequence: Sequence;

  constructor(database: Database, sequence: Sequence) {
    this.#database = database;
    this.#sequence = sequence;
  }

  /** Keeps a new message. A `msg_id` that is there already throws: ask {@link get} first. */
  add(message: Omit<Outgoing, "seq" | "created_at_ms">, nowMs: number): Outgoing {
    const seq = this.#sequence.next();
    const { msg_id, peer, route, kind, payload, ts, life } = message;
    this.#database.run(
      `INSERT INTO outbox (${COLUMNS}, queue, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      seq,
      msg_id,
      peer,
      route,
      kind,
      payload,
      ts,
      nowMs,
      JSON.stringify(life),
      // A knock may wait for hours at a bus that has one; mail to that peer has nothing to wait for.
      kind === "message" ? route : `knock ${route}`,
      life.state,
    );
    return { seq, created_at_ms: nowMs, ...message };
  }

  get(msg_id: string): Outgoing | undefined {
    return this.#select("msg_id = ?", msg_id)[0];
  }

  /** Messages whose id begins so, at most `max`, the newest first: one is found, more are ambiguous. */
  find(idPrefix: string, max = 8): Outgoing[] {
    return this.#select("msg_id >= ? AND msg_id < ? ORDER BY seq DESC LIMIT ?", idPrefix, `${idPrefix}\u007f`, max);
  }

  setLife(msg_id: string, life: Life): void {
    this.#database.run(
      "UPDATE outbox SET state = ?, life = ? WHERE msg_id = ?",
      life.state,
      JSON.stringify(life),
      msg_id,
    );
  }

  /** The first pending message of each queue; those behind it wait until it has left `pending`. */
  heads(): Outgoing[] {
    return this.#select("seq IN (SELECT min(seq) FROM outbox WHERE state = 'pending' GROUP BY queue) ORDER BY seq");
  }

  /** Pending messages written at or before an instant. */
  pendingBefore(ts: number): Outgoing[] {
    return this.#select("state = 'pending' AND ts <= ? ORDER BY seq", ts);
  }

  /** All pending messages, at most `max`, the oldest first. */
  pending(max: number): Outgoing[] {
    return this.#select("state = 'pending' ORDER BY seq LIMIT ?", max);
  }

  pendingCount(): number {
    return this.#database.first<{ n: number }>("SELECT count(*) AS n FROM outbox WHERE state = 'pending'")!.n;
  }

  /** Messages that some bus holds, written after an instant, at most `max` above `afterSeq`. */
  stored(createdAfterMs: number, afterSeq: number, max: number): Outgoing[] {
    return this.#select(
      "state = 'stored' AND seq > ? AND created_at_ms > ? ORDER BY seq LIMIT ?",
      afterSeq,
      createdAfterMs,
      max,
    );
  }

  /** All messages above a number, at most `max`, in their order. */
  after(seq: number, max: number): Outgoing[] {
    return this.#select("seq > ? ORDER BY seq LIMIT ?", seq, max);
  }

  /** What was written to one peer, the newest first, below `beforeSeq`. */
  writtenTo(peer: Key, beforeSeq: number, max: number): Outgoing[] {
    return this.#select("peer = ? AND seq < ? ORDER BY seq DESC LIMIT ?", peer, beforeSeq, max);
  }

  /** Lets go what is past its time; what is pending stays. */
  prune(nowMs: number): number {
    return this.#database.run(
      "DELETE FROM outbox WHERE state != 'pending' AND created_at_ms <= ?",
      nowMs - HISTORY_RETAIN_MS,
    );
  }

  #select(where: string, ...values: readonly (string | number)[]): Outgoing[] {
    return this.#database
      .all<OutboxRow>(`SELECT ${COLUMNS} FROM outbox WHERE ${where}`, ...values)
      .map((row) => ({ ...row, life: JSON.parse(row.life) as Life }));
  }
}
