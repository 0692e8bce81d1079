/**
 * PURE. Which session of ours a host's thread has. Peers write to the session; the host names its threads anew when its
 * user clears the conversation, and goes back to old names when they resume one.
 *
 * | the host says    | the thread before keeps | the new thread gets       | why |
 * |------------------|-------------------------|---------------------------|-----|
 * | the same thread  | its session             | –                         | |
 * | cleared, compact | nothing: a fresh one    | the session that runs     | it is the same agent to its peers, with mail under way |
 * | resumed, started | its session             | its own, or that of its id | each conversation has its peers |
 */

import { createHash } from "node:crypto";
import { parseSessionId, type SessionId } from "../../protocol/address.ts";

/** Why a host says which thread runs. */
export type ThreadSource = "startup" | "resume" | "clear" | "compact";

export interface ThreadChange {
  readonly source: ThreadSource;
  /** The thread before; absent: none was known. */
  readonly from?: string;
  readonly to: string;
  /** The session that runs; absent: none does yet. */
  readonly running?: SessionId;
  /** What was kept for the new thread. */
  readonly kept?: SessionId;
  /** An id that nobody has. */
  readonly fresh: SessionId;
}

/** What is to be kept, and the session that is to run. */
export interface Rebinding {
  readonly keep: ReadonlyMap<string, SessionId>;
  readonly session: SessionId;
}

export function rebind({ source, from, to, running, kept, fresh }: ThreadChange): Rebinding {
  const isSame = from === to;
  const goesOn = source === "clear" || source === "compact";
  if (running !== undefined && (isSame || goesOn || from === undefined)) {
    // A thread that was left behind by a clear must not find the session of the one that goes on.
    const left = from !== undefined && !isSame ? [[from, fresh] as const] : [];
    // A session that began before its thread was known goes on, unless the thread has one.
    if (from === undefined && !goesOn && kept !== undefined && kept !== running) {
      return { keep: new Map(), session: kept };
    }
    return { keep: new Map([...left, [to, running]]), session: running };
  }
  const session = kept ?? sessionOfThread(to);
  return { keep: new Map([[to, session]]), session };
}

/** The session of a thread that never had one: the host's own id, where it is one of ours, else what stands for it. */
export function sessionOfThread(thread: string): SessionId {
  const digest = createHash("sha256").update(thread).digest("hex").slice(0, 32);
  return parseSessionId(thread) ?? parseSessionId(digest)!;
}
