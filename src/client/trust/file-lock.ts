/**
 * One writer at a time among processes.
 *
 * Node has no file locks of its own, and a lock file that is only there or not must be judged stale by a guess,
 * which two waiting processes can make at once. SQLite takes the kernel's byte-range locks, and those end with
 * the process however it ends, so nothing is ever stale. The file stays empty: nothing is stored in it.
 *
 * The name is that of the original's lock, which is empty too. Where a system's two kinds of lock see each other
 * (BSD, macOS, Windows) it waits for us and we for it; Linux keeps them apart, and there a change that it makes
 * in the very moment of ours can still be lost, as it is between two editors.
 */

import { lstatSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { quote, type FileRefusal } from "./private-file.ts";

/** Another process holds the lock for longer than we wait; nothing was done. */
export interface LockRefusal {
  readonly refused: "locked";
  readonly path: string;
}

/** How long to wait for the lock. Holders need milliseconds; one that needs seconds is stopped or on a dead disk. */
const WAIT_MAX_MS = 5_000;
const RETRY_MIN_MS = 5;
/** Spread, so that many who wait do not return together. */
const RETRY_SPREAD_MS = 20;

const SQLITE_BUSY = 5;

/**
 * Runs `act` while no other process does so for the same path.
 * @param act synchronous: what is held across an await can be forgotten
 * @throws what `act` throws; the lock is released
 */
export async function withFileLock<T>(path: string, act: () => T): Promise<T | LockRefusal | FileRefusal> {
  const refusal = ensureLockFile(path);
  if (refusal) return refusal;
  const database = new DatabaseSync(path);
  try {
    for (let waited = 0; ;) {
      if (tryLock(database)) break;
      if (waited >= WAIT_MAX_MS) return { refused: "locked", path };
      const pause = RETRY_MIN_MS + Math.random() * RETRY_SPREAD_MS;
      await sleep(pause);
      waited += pause;
    }
    try {
      return act();
    } finally {
      database.exec("ROLLBACK");
    }
  } finally {
    database.close();
  }
}

/**
 * Creates the file ourselves, since SQLite would follow a link and let others read. An existing one is only looked
 * at, never opened: to close another descriptor of it would drop the locks that this process holds.
 */
function ensureLockFile(path: string): FileRefusal | undefined {
  try {
    writeFileSync(path, "", { flag: "wx", mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  const stats = lstatSync(path);
  const mend = `rm -i ${quote(path)}`;
  if (stats.isSymbolicLink()) return { refused: "symlink", path, mend };
  return stats.isFile() ? undefined : { refused: "wrong_kind", path, mend };
}

function tryLock(database: DatabaseSync): boolean {
  try {
    database.exec("BEGIN EXCLUSIVE");
    return true;
  } catch (error) {
    // The low byte is the code, the others say more of it.
    if ((Number((error as { errcode?: unknown }).errcode) & 0xff) === SQLITE_BUSY) return false;
    throw error;
  }
}
