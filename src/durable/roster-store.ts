/**
 * Sessions and tombstones: the tables beside their queries.
 *
 * Invariant 4: an older announcement never replaces a newer one, nor revives a closed session.
 */

import type { Key, SessionId } from "../protocol/address.ts";
import type { Limits } from "../protocol/constants.ts";
import type { Said } from "./calls.ts";
import type { Sql } from "./meter.ts";

export const ROSTER_TABLES = `
  CREATE TABLE session (
    session_id TEXT PRIMARY KEY,
    ts INTEGER NOT NULL,
    seen_at_ms INTEGER NOT NULL,
    connected INTEGER NOT NULL,
    announcement TEXT NOT NULL,
    public TEXT
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE tombstone (
    session_id TEXT PRIMARY KEY,
    ts INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    sig TEXT,
    was_public INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
`;

/** A step of its own; before it, nobody said what wakes a session. */
export const WAKE_COLUMN = "ALTER TABLE session ADD COLUMN wake TEXT;";

export interface SessionRow extends Record<string, SqlStorageValue> {
  session_id: SessionId;
  /** Of the announcement: the fence. */
  ts: number;
  seen_at_ms: number;
  /** 1 while a socket of it is known to be open. */
  connected: number;
  /** JSON of the announcement for contacts. */
  announcement: string;
  /** JSON of the one shown to all, or null: hidden. */
  public: string | null;
  /** JSON of the lease of what wakes it, past or not, or null: nothing was said of it. */
  wake: string | null;
}

export interface TombstoneRow extends Record<string, SqlStorageValue> {
  session_id: SessionId;
  ts: number;
  at_ms: number;
  /** Null where the original's unsigned shape closed it. */
  sig: string | null;
  was_public: number;
}

/** When a session was last heard on what is open to it, which no row can follow; undefined if nothing is open. */
export type Heard = (session: SessionId) => number | undefined;

export class RosterStore {
  readonly #sql: Sql;
  readonly #limits: Limits;
  readonly #heard: Heard;
  /** The rows of sessions in memory: each send asks for one, and there are at most SESSIONS_MAX. */
  #rows: Map<SessionId, SessionRow> | undefined;
  /** Signs of life that are newer than their row; see {@link touch}. */
  readonly #seenAtMs = new Map<SessionId, number>();

  constructor(sql: Sql, limits: Limits, heard: Heard) {
    this.#sql = sql;
    this.#limits = limits;
    this.#heard = heard;
  }

  session(id: SessionId): SessionRow | undefined {
    const row = this.#all().get(id);
    return row && this.#withSeen(row);
  }

  /** Sessions that are not gone by age, whether or not the alarm has run; freshest first. */
  sessions(nowMs: number): SessionRow[] {
    return [...this.#all().values()]
      .map((row) => this.#withSeen(row))
      .filter((row) => nowMs - row.seen_at_ms < this.#limits.AWAY_RETAIN_MS)
      .sort((a, b) => b.seen_at_ms - a.seen_at_ms);
  }

  /** Writes a session; one row. */
  put(id: SessionId, { announcement, public: shown, wake }: Said, isConnected: boolean, nowMs: number): void {
    const row: SessionRow = {
      session_id: id,
      ts: announcement.ts,
      seen_at_ms: nowMs,
      connected: isConnected ? 1 : 0,
      announcement: JSON.stringify(announcement),
      public: shown ? JSON.stringify(shown) : null,
      wake: wake ? JSON.stringify(wake) : null,
    };
    this.#sql.exec(
      `INSERT OR REPLACE INTO session (session_id, ts, seen_at_ms, connected, announcement, public, wake)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      row.session_id,
      row.ts,
      row.seen_at_ms,
      row.connected,
      row.announcement,
      row.public,
      row.wake,
    );
    this.#all().set(id, row);
    this.#seenAtMs.set(id, nowMs);
  }

  /** A socket of the session opened or closed; one row, none if it is not announced. */
  setConnected(id: SessionId, isConnected: boolean, seenAtMs: number): void {
    if (isConnected) this.dropGone(id, seenAtMs);
    this.remember(id, seenAtMs);
    const row = this.#all().get(id);
    if (row) this.#update({ ...row, connected: isConnected ? 1 : 0, seen_at_ms: Math.max(row.seen_at_ms, seenAtMs) });
  }

  /**
   * Sockets that were open when the bus stopped are gone, and with them when they were last heard. Nobody
   * knows how long ago that was, so they were heard now: such a session is kept too long, never too short.
   */
  repairConnected(isOpen: (id: SessionId) => boolean, nowMs: number): void {
    for (const { session_id, connected } of this.#all().values()) {
      if (connected === 1 && !isOpen(session_id)) this.setConnected(session_id, false, nowMs);
    }
  }

  remove(id: SessionId): void {
    this.#sql.exec("DELETE FROM session WHERE session_id = ?", id);
    this.#all().delete(id);
    this.#seenAtMs.delete(id);
  }

  /** What is gone by age is gone, also before a late alarm: only an announcement brings it back, no other sign of life. */
  dropGone(id: SessionId, nowMs: number): void {
    const row = this.#all().get(id);
    if (row && nowMs - this.#withSeen(row).seen_at_ms >= this.#limits.AWAY_RETAIN_MS) this.remove(id);
  }

  /**
   * A sign of life of a session that may or may not be announced. It costs a row only when the stored
   * one is a heartbeat old, so that after an eviction an age is at most that much too large.
   */
  touch(id: SessionId, nowMs: number): void {
    this.dropGone(id, nowMs);
    const row = this.#all().get(id);
    if (!row || this.#withSeen(row).seen_at_ms >= nowMs) return;
    this.#seenAtMs.set(id, nowMs);
    if (row.seen_at_ms <= nowMs - this.#limits.HEARTBEAT_MS) this.#update({ ...row, seen_at_ms: nowMs });
  }

  /** A sign of life whose row is on its way: known from now on, so that nobody reads an older one meanwhile. */
  remember(id: SessionId, seenAtMs: number): void {
    if (seenAtMs > (this.#seenAtMs.get(id) ?? 0)) this.#seenAtMs.set(id, seenAtMs);
  }

  tombstone(id: SessionId, nowMs: number): TombstoneRow | undefined {
    const deadline = nowMs - this.#limits.AWAY_RETAIN_MS;
    return this.#sql
      .exec<TombstoneRow>("SELECT * FROM tombstone WHERE session_id = ? AND at_ms > ?", id, deadline)
      .toArray()[0];
  }

  tombstones(nowMs: number): TombstoneRow[] {
    return this.#sql
      .exec<TombstoneRow>("SELECT * FROM tombstone WHERE at_ms > ?", nowMs - this.#limits.AWAY_RETAIN_MS)
      .toArray();
  }

  bury(tombstone: TombstoneRow): void {
    this.#sql.exec(
      `INSERT INTO tombstone (session_id, ts, at_ms, sig, was_public) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (session_id) DO UPDATE SET ts = excluded.ts, at_ms = excluded.at_ms, sig = excluded.sig,
         was_public = excluded.was_public`,
      tombstone.session_id,
      tombstone.ts,
      tombstone.at_ms,
      tombstone.sig,
      tombstone.was_public,
    );
  }

  unbury(id: SessionId): void {
    this.#sql.exec("DELETE FROM tombstone WHERE session_id = ?", id);
  }

  /**
   * Drops what is gone by age, and tombstones past their time. A session that was heard on its socket is
   * written down as heard: only here, so that an idle one costs a row in three days.
   */
  expire(nowMs: number): void {
    const deadline = nowMs - this.#limits.AWAY_RETAIN_MS;
    const silent = [...this.#all().values()].filter((row) => row.seen_at_ms <= deadline);
    for (const row of silent) {
      const { session_id, seen_at_ms } = this.#withSeen(row);
      if (seen_at_ms <= deadline) this.remove(session_id);
      else this.#update({ ...row, seen_at_ms });
    }
    this.#sql.exec("DELETE FROM tombstone WHERE at_ms <= ?", deadline);
  }

  /** The instants that the next alarm depends on. */
  oldest(): { seenAtMs: number | undefined; buriedAtMs: number | undefined } {
    const row = this.#sql
      .exec<{ seen: number | null; buried: number | null }>(
        "SELECT (SELECT min(seen_at_ms) FROM session) AS seen, (SELECT min(at_ms) FROM tombstone) AS buried",
      )
      .one();
    return { seenAtMs: row.seen ?? undefined, buriedAtMs: row.buried ?? undefined };
  }

  /** Writes down the presence of a session; its announcement stays. */
  #update(row: SessionRow): void {
    this.#sql.exec(
      "UPDATE session SET connected = ?, seen_at_ms = ? WHERE session_id = ?",
      row.connected,
      row.seen_at_ms,
      row.session_id,
    );
    this.#all().set(row.session_id, row);
  }

  #all(): Map<SessionId, SessionRow> {
    this.#rows ??= new Map(
      this.#sql
        .exec<SessionRow>("SELECT * FROM session")
        .toArray()
        .map((row) => [row.session_id, row]),
    );
    return this.#rows;
  }

  #withSeen(row: SessionRow): SessionRow {
    const { session_id: id, seen_at_ms } = row;
    return { ...row, seen_at_ms: Math.max(seen_at_ms, this.#seenAtMs.get(id) ?? 0, this.#heard(id) ?? 0) };
  }
}

/** A signed tombstone as a roster shows it. */
export function goneEntry(pubkey: Key, row: TombstoneRow & { sig: string }) {
  return { pubkey, session_id: row.session_id, ts: row.ts, sig: row.sig, at_ms: row.at_ms };
}
