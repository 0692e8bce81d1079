/** PURE. What our files in the state folder are called, and whose each one is. */

import { createHash } from "node:crypto";
import { join } from "node:path";
import { parseSessionId, type Key, type SessionId } from "../../protocol/address.ts";

/** A longer session id is cut in a file's name; the digest tells the rest. */
export const SESSION_SHOWN_CHARS = 40;

/**
 * The file of a session: by key and id, so that neither two identities nor two sessions in one folder collide. A file
 * system may not tell upper from lower case, so the digest does.
 * @param bus of a further bus of the session, which has a file of its own: two may not share one
 */
export function sessionStatePath(directory: string, key: Key, session: SessionId, bus?: string): string {
  const whose = bus === undefined ? `${key}#${session}` : `${key}#${session} ${bus}`;
  return join(directory, `${session.slice(0, SESSION_SHOWN_CHARS)}-${digestOf(whose)}.db`);
}

/** Which buses a session was on, for the next process of it. @param keyPath of the identity that it began with */
export function busesPath(directory: string, keyPath: string, session: SessionId): string {
  return join(directory, `buses.${digestOf(`${keyPath}#${session}`)}.json`);
}

/** The file of an identity's pairing, beside its sessions'. The dot keeps it apart: no session id has one. */
export function pairingPath(directory: string, key: Key): string {
  return join(directory, `pairing.${digestOf(key)}.db`);
}

/** The file of an identity's budgets, named likewise. */
export function budgetPath(directory: string, key: Key): string {
  return join(directory, `budget.${digestOf(key)}.db`);
}

/** The session's id, or its beginning, in the name of its file; undefined: it is none. */
export function sessionShown(name: string): SessionId | undefined {
  const [, shown] = /^([A-Za-z0-9_-]{1,40})-[0-9a-f]{16}\.db$/.exec(name) ?? [];
  return shown === undefined ? undefined : parseSessionId(shown);
}

/** True if a file may be that of a session of this key: where its name has the whole id, it is one. */
export function isSessionFile(name: string, key: Key): boolean {
  const session = sessionShown(name);
  if (session === undefined) return false;
  return session.length === SESSION_SHOWN_CHARS || sessionStatePath("", key, session) === name;
}

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
