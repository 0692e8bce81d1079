/**
 * Opens a file of ours: who may read it, no schema of the future, and a broken file set aside. One process at a time
 * does so, and it alone has the file until it lets go of the lock. Nothing is ever deleted or truncated here.
 */

import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  statSync,
  type Stats,
} from "node:fs";
import { dirname } from "node:path";
import { Database, SQLITE, sqliteCode } from "./database.ts";
import { migrate, readSchema, type Schema } from "./schema.ts";
import { lockSession, type SessionLock } from "./session-lock.ts";
import { isWhole } from "./wholeness.ts";

/** Why a file is not opened. */
export type StateRefusal =
  /** Another process has it: for a session's file, it runs that session. */
  | { readonly refusal: "in_use"; readonly path: string }
  /** A later version of this client wrote it; `found` and `known` are schema steps. */
  | { readonly refusal: "newer_schema"; readonly path: string; readonly found: number; readonly known: number }
  /** Something stands there that we did not make and will not follow or write to. */
  | { readonly refusal: "unsafe_path"; readonly path: string; readonly why: UnsafePath };

export type UnsafePath = "symlink" | "not_a_file" | "not_a_directory" | "foreign_owner" | "foreign_lock";

export interface OpenFile {
  readonly database: Database;
  readonly lock: SessionLock;
  /** Where a file went that could not be read. */
  readonly setAside?: string;
}

export interface OpenRequest {
  readonly path: string;
  readonly schema: Schema;
  readonly nowMs: number;
  /** Of this process, where the system has one: directory and files must be its own. */
  readonly uid?: number | undefined;
  /** How long another may have it before it counts as in use. */
  readonly lockWaitMs?: number;
}

export function openFile({ path, schema, nowMs, uid, lockWaitMs }: OpenRequest): OpenFile | StateRefusal {
  const lockPath = `${path}.lock`;
  const unsafe = makePrivate(dirname(path), [path, lockPath], uid) ?? strangerBeside(path);
  if (unsafe) return { refusal: "unsafe_path", ...unsafe };
  const lock = lockSession(lockPath, lockWaitMs);
  if (lock === "in_use") return { refusal: "in_use", path };
  if (lock === "not_ours") return { refusal: "unsafe_path", path: lockPath, why: "foreign_lock" };
  try {
    const first = openDatabase(path, schema);
    if (first !== "broken") return finish(first, lock, path, schema);
    // The log first: a new file must never meet the log of the old one.
    const setAside = `${path}.broken-${nowMs}`;
    for (const suffix of ["-wal", "-shm", ""]) moveAside(`${path}${suffix}`, `${setAside}${suffix}`);
    createPrivate(path);
    const second = openDatabase(path, schema);
    if (second === "broken") throw new Error("a new state file cannot be read back");
    return { ...finish(second, lock, path, schema), setAside };
  } catch (fault) {
    lock.release();
    throw fault;
  }
}

function finish(
  opened: Database | number,
  lock: SessionLock,
  path: string,
  { steps }: Schema,
): OpenFile | StateRefusal {
  if (opened instanceof Database) return { database: opened, lock };
  lock.release();
  return { refusal: "newer_schema", path, found: opened, known: steps.length };
}

/** @returns the database, brought to our schema; the step of a newer one, untouched; or that it is no database of ours */
function openDatabase(path: string, schema: Schema): Database | number | "broken" {
  const database = new Database(path);
  let isRead = false;
  try {
    // Others may hold the file for a moment.
    database.exec("PRAGMA busy_timeout = 5000");
    const { step, isOurs } = readSchema(database, schema);
    if (step > schema.steps.length && isOurs) {
      database.close();
      return step;
    }
    if (!isOurs || !isWhole(database, path, step, schema)) {
      database.close();
      return "broken";
    }
    isRead = true;
    // FULL: in WAL mode less would lose the last commits with the power, after the bus was acked.
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF");
    migrate(database, step, schema);
    return database;
  } catch (fault) {
    database.close();
    const code = sqliteCode(fault);
    if (code === SQLITE.notADatabase || code === SQLITE.corrupt) return "broken";
    // What cannot be made sense of is the file's fault while we only read; later it may be a step of ours.
    if (code === SQLITE.error && !isRead) return "broken";
    // Its header names a format that none may write; else the disk refuses, and that is for a person.
    if (code === SQLITE.readOnly && isWritable(path) && isWritable(dirname(path))) return "broken";
    throw fault;
  }
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Directory 0700 and files 0600, all ours and none a symlink; or what stands in the way. */
function makePrivate(
  directory: string,
  files: readonly string[],
  uid: number | undefined,
): { path: string; why: UnsafePath } | undefined {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  } catch (fault) {
    const { code } = fault as NodeJS.ErrnoException;
    if (code === "EEXIST" || code === "ENOTDIR") return { path: directory, why: "not_a_directory" };
    throw fault;
  }
  const found = statSync(directory);
  if (uid !== undefined && found.uid !== uid) return { path: directory, why: "foreign_owner" };
  tighten(directory, found, 0o700);
  for (const path of files) {
    createPrivate(path);
    const file = lstatSync(path);
    if (file.isSymbolicLink()) return { path, why: "symlink" };
    if (!file.isFile()) return { path, why: "not_a_file" };
    if (uid !== undefined && file.uid !== uid) return { path, why: "foreign_owner" };
    tighten(path, file, 0o600);
  }
  return undefined;
}

/** What SQLite would open beside the file; it makes these itself. */
const BESIDE = ["-wal", "-shm", "-journal"];

function strangerBeside(path: string): { path: string; why: UnsafePath } | undefined {
  for (const beside of BESIDE.map((suffix) => `${path}${suffix}`)) {
    const file = lstatSync(beside, { throwIfNoEntry: false });
    if (file?.isSymbolicLink()) return { path: beside, why: "symlink" };
    if (file && !file.isFile()) return { path: beside, why: "not_a_file" };
  }
  return undefined;
}

/** Makes the file before SQLite does, which would give it the umask's rights. An existing one is not even opened:
 * closing it again would drop the locks that this process holds on it. */
function createPrivate(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== "EEXIST") throw fault;
  }
}

/** Rights that others have are taken from them: the content is this user's alone. On Windows it changes nothing. */
function tighten(path: string, found: Stats, mode: number): void {
  if ((found.mode & 0o077) !== 0) chmodSync(path, mode);
}

function moveAside(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== "ENOENT") throw fault;
  }
}
