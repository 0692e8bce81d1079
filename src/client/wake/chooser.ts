/**
 * PURE. By which path an idle host is woken: one at a time, the others are fallbacks. A host that is told by two ways has
 * two turns for one message.
 *
 * | path         | is there when                                        | before the next because |
 * |--------------|------------------------------------------------------|-------------------------|
 * | inbox_socket | Claude Code gave its socket, and takes what we write | no process waits, a busy session reads it between two tool calls, both eras |
 * | stop_hook    | a Stop hook of Claude Code waits for us              | a process a turn, and only while the session is idle |
 * | channel      | asked for, and the connection is of the older era    | the host may drop it in silence; so only on request |
 * | codex_queue  | Codex has called in a thread                         | it is a message of nobody's in the thread, so it must be framed |
 * | resource     | the client listens to the inbox, or subscribed to it | known hosts note it, and begin no turn |
 * | none         |                                                      | notices and check_messages: mail waits until the agent looks |
 *
 * | a path that               | then                      | why |
 * |---------------------------|---------------------------|-----|
 * | was switched off          | none, whatever is there   | a person said so |
 * | refused what we wrote     | is passed over            | until the host binds it again |
 * | was not answered twice    | comes after all others    | it may be held back by the host; it is still better than nothing |
 * | was asked for (a channel) | comes before all others   | so that it can be tried where others work too |
 */

export const WAKE_PATHS = ["inbox_socket", "stop_hook", "channel", "codex_queue", "resource"] as const;
export type WakePathName = (typeof WAKE_PATHS)[number];

/** What the person wants: what there is, nothing, or a channel. */
export type WakeWish = "auto" | "off" | "channel";

/** What is known of one path. */
export interface PathFacts {
  /** It could be used now. */
  readonly isThere: boolean;
  /** What was written there last did not get through. */
  readonly hasFailed: boolean;
  /** Wakes in a row that nobody looked after. */
  readonly unanswered: number;
}

export type WakeFacts = Readonly<Record<WakePathName, PathFacts>>;

/** So many wakes without a look, and the others go first. */
export const UNANSWERED_MAX = 2;

export interface Choice {
  /** Absent: mail waits until the agent looks. */
  readonly active?: WakePathName;
  readonly fallbacks: readonly WakePathName[];
}

export function chooseWakePath(wish: WakeWish, facts: WakeFacts): Choice {
  if (wish === "off") return { fallbacks: [] };
  const isAsked = (path: WakePathName) => path === "channel" && wish === "channel";
  const usable = WAKE_PATHS.filter((path) => {
    if (path === "channel" && !isAsked(path)) return false;
    return facts[path].isThere && !facts[path].hasFailed;
  });
  const rankOf = (path: WakePathName): number => (facts[path].unanswered >= UNANSWERED_MAX ? 2 : isAsked(path) ? 0 : 1);
  // A stable sort: within a rank the order of the table holds.
  const [active, ...fallbacks] = [...usable].sort((a, b) => rankOf(a) - rankOf(b));
  return active === undefined ? { fallbacks: [] } : { active, fallbacks };
}
