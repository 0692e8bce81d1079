/** The files of an identity's sessions, on all of its buses, looked into from beside: whoever runs a session is neither asked nor disturbed. */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Key } from "../../protocol/address.ts";
import { Database } from "./database.ts";
import { InboxTable } from "./inbox.ts";
import { OutboxTable } from "./outbox-table.ts";
import { MetaTable } from "./meta.ts";
import { ownerIn, type Owner } from "./owner.ts";
import { SESSION_SHOWN_CHARS, sessionShown, sessionStatePath } from "./paths.ts";
import { readSchema, SESSION_SCHEMA } from "./schema.ts";
import { Sequence } from "./sequence.ts";
import { lockSession } from "./session-lock.ts";
import { TaskTable } from "./tasks.ts";

export interface SessionFile {
  /** The session's id, or its beginning where it is long. */
  readonly session: string;
  readonly path: string;
  /** As the file says; absent: an earlier version made it, and its name tells whose it is. */
  readonly owner?: Owner;
  /** Those that have known it. */
  readonly buses: readonly string[];
}

/** The sessions' files of a folder. */
export interface SessionFilesHere {
  readonly ours: readonly SessionFile[];
  /** Of other identities. */
  readonly others: readonly (SessionFile & { readonly owner: Owner })[];
  /** Nobody can say whose: another version made it, or it is damaged. */
  readonly unknown: readonly SessionFile[];
}

/** A session's file, to be read. */
export interface SessionLook {
  readonly inbox: Pick<InboxTable, "unreadCount" | "unreadByPeer" | "unread" | "after">;
  readonly outbox: Pick<OutboxTable, "pendingCount" | "after">;
  readonly tasks: Pick<TaskTable, "open">;
}

/** Each is looked into. @param directory of the sessions' files */
export function sessionFilesHere(directory: string, key: Key): SessionFilesHere {
  const [ours, unknown]: [SessionFile[], SessionFile[]] = [[], []];
  const others: (SessionFile & { readonly owner: Owner })[] = [];
  for (const name of existsSync(directory) ? readdirSync(directory).sort() : []) {
    const session = sessionShown(name);
    if (session === undefined) continue;
    const path = join(directory, name);
    const { owner, buses } = aboutItself(path);
    const file = { session, path, buses };
    // A file under another's name is a copy, or spoilt.
    if (owner && sessionStatePath("", owner.key, owner.session, owner.bus) === name) {
      if (owner.key === key) ours.push({ ...file, owner });
      else others.push({ ...file, owner });
    } else if (session.length < SESSION_SHOWN_CHARS && sessionStatePath("", key, session) === name) ours.push(file);
    else unknown.push(file);
  }
  return { ours, others, unknown };
}

/** Those of one identity. */
export function sessionFiles(directory: string, key: Key): readonly SessionFile[] {
  return sessionFilesHere(directory, key).ours;
}

/** True if a process runs the session. It is asked by its lock, which is let go at once. */
export function isRunning({ path }: SessionFile): boolean {
  if (!existsSync(`${path}.lock`)) return false;
  const lock = lockSession(`${path}.lock`, 0);
  if (typeof lock !== "string") lock.release();
  return lock === "in_use";
}

/** Looks into a file. @returns undefined where another version wrote it, or it is none of ours: its session sees to that */
export function lookInto<T>(file: HasPath, look: (file: SessionLook) => T): T | undefined {
  return readBeside(file, (database, step) => {
    if (step !== SESSION_SCHEMA.steps.length) return undefined;
    if (SESSION_SCHEMA.spoilt !== undefined && database.first(SESSION_SCHEMA.spoilt)) return undefined;
    const sequence = new Sequence(database);
    const inbox = new InboxTable(database, sequence);
    return look({ inbox, outbox: new OutboxTable(database, sequence), tasks: new TaskTable(database) });
  });
}

type HasPath = Pick<SessionFile, "path">;

/** What a file of any version says of itself. */
function aboutItself(path: string): { readonly owner?: Owner | undefined; readonly buses: readonly string[] } {
  const said = readBeside({ path }, (database) => {
    const meta = new MetaTable(database);
    return { owner: ownerIn(meta), buses: meta.buses() };
  });
  return said ?? { buses: [] };
}

function readBeside<T>({ path }: HasPath, read: (database: Database, step: number) => T | undefined): T | undefined {
  let database: Database | undefined;
  try {
    database = new Database(path);
    database.exec("PRAGMA busy_timeout = 2000; PRAGMA query_only = ON");
    const { step, isOurs } = readSchema(database, SESSION_SCHEMA);
    return isOurs ? read(database, step) : undefined;
  } catch (fault) {
    if (fault instanceof Error && "errcode" in fault) return undefined;
    throw fault;
  } finally {
    database?.close();
  }
}
