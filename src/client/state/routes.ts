/** Which session of a peer we last talked with, so that an answer goes where the question came from. */

import type { Key, SessionId } from "../../protocol/address.ts";
import type { Database } from "./database.ts";

export class RouteTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** The session that a talk with this peer is with; undefined: none. */
  sticky(peer: Key): SessionId | undefined {
    return this.#database.first<{ session: SessionId }>("SELECT session FROM route WHERE peer = ?", peer)?.session;
  }

  /** A talk with this session goes on: it wrote, or was written to by name. */
  stick(peer: Key, session: SessionId, nowMs: number): void {
    this.#database.run("INSERT OR REPLACE INTO route (peer, session, at_ms) VALUES (?, ?, ?)", peer, session, nowMs);
  }

  /**
   * A session said goodbye, or the peer was removed.
   * @param session absent: whichever it was. A goodbye of another session than the remembered one changes nothing.
   */
  unstick(peer: Key, session?: SessionId): void {
    if (session === undefined) this.#database.run("DELETE FROM route WHERE peer = ?", peer);
    else this.#database.run("DELETE FROM route WHERE peer = ? AND session = ?", peer, session);
  }

  /** All peers with a remembered session: those whom a goodbye of ours should reach. */
  all(): { peer: Key; session: SessionId; at_ms: number }[] {
    return this.#database
      .all<{ peer: Key; session: SessionId; at_ms: number }>(
        "SELECT peer, session, at_ms FROM route ORDER BY at_ms DESC",
      )
      .map((row) => ({ ...row }));
  }
}
