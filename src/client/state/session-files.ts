/** The files of an identity's sessions, looked into from beside: whoever runs a session is neither asked nor disturbed. */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Key } from "../../protocol/address.ts";
import { Database } from "./database.ts";
import { InboxTable } from "./inbox.ts";
import { OutboxTable } from "./outbox-table.ts";
import { isSessionFile } from "./paths.ts";
import { readSchema, SESSION_SCHEMA } from "./schema.ts";
import { Sequence } from "./sequence.ts";
import { lockSession } from "./session-lock.ts";
import { TaskTable } from "./tasks.ts";

export interface SessionFile {
  /** The session's id, or its beginning where it is long. */
  readonly session: string;
  readonly path: string;
}

/** A session's file, to be read. */
export interface SessionLook {
  readonly inbox: Pick<InboxTable, "unreadCount" | "unreadByPeer" | "unread" | "after">;
  readonly outbox: Pick<OutboxTable, "pendingCount" | "after">;
  readonly tasks: Pick<TaskTable, "open">;
}

/** @param directory of the sessions' files */
export function sessionFiles(directory: string, key: Key): SessionFile[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory)
    .filter((name) => isSessionFile(name, key))
    .sort()
    .map((name) => ({ session: name.replace(/-[0-9a-f]{16}\.db$/, ""), path: join(directory, name) }));
}

/** True if a process runs the session. It is asked by its lock, which is let go at once. */
export function isRunning({ path }: SessionFile): boolean {
  if (!existsSync(`${path}.lock`)) return false;
  const lock = lockSession(`${path}.lock`, 0);
  if (typeof lock !== "string") lock.release();
  return lock === "in_use";
}

/** Looks into a file. @returns undefined where another version wrote it, or it is none of ours: its session sees to that */
export function lookInto<T>({ path }: SessionFile, look: (file: SessionLook) => T): T | undefined {
  let database: Database | undefined;
  try {
    database = new Database(path);
    database.exec("PRAGMA busy_timeout = 2000; PRAGMA query_only = ON");
    const { step, isOurs } = readSchema(database, SESSION_SCHEMA);
    if (!isOurs || step !== SESSION_SCHEMA.steps.length) return undefined;
    if (SESSION_SCHEMA.spoilt !== undefined && database.first(SESSION_SCHEMA.spoilt)) return undefined;
    const sequence = new Sequence(database);
    const inbox = new InboxTable(database, sequence);
    return look({ inbox, outbox: new OutboxTable(database, sequence), tasks: new TaskTable(database) });
  } catch (fault) {
    if (fault instanceof Error && "errcode" in fault) return undefined;
    throw fault;
  } finally {
    database?.close();
  }
}
