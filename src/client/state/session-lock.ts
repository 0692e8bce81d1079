/**
 * One process a session: a lock that the system releases when its holder dies, however it dies.
 *
 * It stands on a file of its own beside the session's: so the session's file may still be read by others (a
 * hook that counts the unread), and the lock also covers the moment in which a broken file is set aside.
 * SQLite takes it, because its file locks are the same on every system and Node has none.
 */

import { Database, SQLITE, sqliteCode } from "./database.ts";

/** A held lock. */
export interface SessionLock {
  release(): void;
}

/**
 * Two that start together can each see the other half-way, and SQLite then turns both away; trying again for this long
 * lets one of them in. Whoever holds the lock for longer than that runs the session.
 */
const LOCK_WAIT_MS = 200;

/** What SQLite says of a file that it did not make. */
const NOT_OURS: ReadonlySet<number | undefined> = new Set([
  SQLITE.notADatabase,
  SQLITE.corrupt,
  SQLITE.error,
  SQLITE.readOnly,
]);

/**
 * Takes the lock, or says after a wait that another has it.
 * @param path of the lock's file, made where there is none, and never removed: removing it would race with the next
 * @param waitMs blocks the process; longer only for a lock that nobody holds for long
 * @returns `in_use` while another process, running or stopped, holds it; `not_ours` if the file is something else
 */
export function lockSession(path: string, waitMs = LOCK_WAIT_MS): SessionLock | "in_use" | "not_ours" {
  const file = new Database(path);
  try {
    // The journal in memory, for nothing is ever written.
    file.exec(`PRAGMA busy_timeout = ${waitMs}; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE`);
  } catch (fault) {
    file.close();
    const code = sqliteCode(fault);
    if (code === SQLITE.busy || code === SQLITE.locked) return "in_use";
    if (NOT_OURS.has(code)) return "not_ours";
    throw fault;
  }
  return { release: () => file.close() };
}
