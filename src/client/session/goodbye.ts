/**
 * PURE. How a closing session takes leave of a peer, and how such a message is known.
 *
 * The wire has no mark for it: a goodbye is a plain message without a task, in the original's words, which name the
 * session. The words are signed, so it is they, and not the unsigned `reply_to`, that say whose route is to be forgotten;
 * a peer can only say it of its own sessions. The roster's signed `gone` says the same to whoever looks there.
 */

import { parseSessionId, type SessionId } from "../../protocol/address.ts";
import type { Message } from "../../protocol/message.ts";

const BEGINNING = "[interlink] I'm ending this session (";

/** The original's text, so that either client understands the other's. */
export function goodbyeText(session: SessionId): string {
  return `${BEGINNING}${session}) — goodbye. If you were waiting on me, stop; re-check discover before resuming.`;
}

/** What a message takes leave of. */
export interface Goodbye {
  readonly session: SessionId;
  /** It says that and no more. Else a peer has added words, and those are mail. */
  readonly isBare: boolean;
}

/** Undefined: it is no goodbye. */
export function readGoodbye({ kind, text, task_id }: Pick<Message, "kind" | "text" | "task_id">): Goodbye | undefined {
  if (kind !== "message" || task_id !== undefined || !text.startsWith(BEGINNING)) return undefined;
  const end = text.indexOf(")", BEGINNING.length);
  const session = end < 0 ? undefined : parseSessionId(text.slice(BEGINNING.length, end));
  return session === undefined ? undefined : { session, isBare: text === goodbyeText(session) };
}
