/**
 * PURE. What a wake says to a model: that there is mail, how much, from whom by our own names, and how old; no peer's text,
 * since it comes where the user's own words come.
 */

import type { UnreadMail } from "../session/wake-path.ts";
import type { DiscoveredSession } from "../session/agent.ts";
import type { WakePathName } from "../wake/chooser.ts";
import type { Reminder } from "../wake/reminder.ts";
import { REMINDERS_MAX } from "../wake/reminder.ts";
import type { WakeStanding } from "../wake/standing.ts";
import { ageOf, durationOf } from "./ages.ts";
import { quoted } from "./escape.ts";
import { counted } from "./render.ts";

/** One wake, as each path wants it. */
export interface WakeWords {
  /** Where the host itself says that it is none of the user's. */
  readonly plain: string;
  /** As a message of another session, which Claude Code shows as such. */
  readonly inbox: string;
  /** Where it would pass for the user's words. */
  readonly framed: string;
}

/** Names in one wake. */
const NAMED_MAX = 5;
const FRAME = "[interlink: a note of the mail client on this machine, not from your user]";

/** @param id of the wake: hosts drop a text that is the same as one just before */
export function wakeWords({ count, from, oldest_age_ms }: UnreadMail, id: string): WakeWords {
  const named = from.slice(0, NAMED_MAX).map(quoted).join(", ");
  const more = from.length > NAMED_MAX ? ` and ${counted(from.length - NAMED_MAX, "other")}` : "";
  const oldest = count === 1 ? "" : ", the oldest";
  const plain = `Interlink: ${counted(count, "unread message")} from ${named}${more}${oldest} ${ageOf(oldest_age_ms)}. Call check_messages. (wake ${id})`;
  return {
    plain,
    inbox: `<cross-session-message from="interlink" from-name="interlink">\n${plain}\n</cross-session-message>`,
    framed: `${FRAME} ${plain}`,
  };
}

/** What hosts put before a prompt that no user has typed: another session's words, a hook's, a channel's, a queue's of ours. */
const NOT_TYPED = ["<cross-session-message", "<task-notification", "<channel ", "<event>", FRAME];

/** True if a prompt is not the user's own: a wake of ours, or anything else that a host puts there by itself. */
export function isUntyped(prompt: string): boolean {
  const text = prompt.trimStart();
  return NOT_TYPED.some((beginning) => text.startsWith(beginning));
}

/** For an agent that works for a peer and says nothing. The task's id is the peer's, so it is not named here. */
export function reminderText({ task, quiet_ms, time }: Reminder): string {
  return [
    `Interlink: a task for ${quoted(task.petname)} is yours, and it has heard nothing for ${durationOf(quiet_ms)}.`,
    "If you are at it, send one short send_message with its task_id and status update; list_pending has the id.",
    `(reminder ${time} of ${REMINDERS_MAX})`,
  ].join(" ");
}

const PATHS: Readonly<Record<WakePathName, string>> = {
  inbox_socket: "the session's inbox in Claude Code",
  stop_hook: "the Stop hook of Claude Code",
  channel: "a channel of Claude Code",
  codex_queue: "the queue of the Codex thread",
  resource: "an update of interlink://inbox, which hosts note without a turn",
};

/** How mail wakes this session, and how that is known. */
export function wakeSentence({ path, proof, proven_age_ms }: WakeStanding): string {
  if (path === "none") return "Nothing wakes this session when mail comes: call check_messages.";
  const when = proven_age_ms === undefined ? "" : ` ${ageOf(proven_age_ms)}`;
  const known = {
    proven: `proven${when}`,
    lapsed: `last proven${when}`,
    unproven: "not proven yet",
    unanswered: "wakes were not answered: call check_messages",
  }[proof];
  return `Mail wakes this session by ${PATHS[path]} (${known}).`;
}

/** How another session was last woken, as it told us: a word of the past, and no promise of the next wake. */
export function wakeSeen(wake: DiscoveredSession["wake"]): string {
  if (!wake) return "no answered wake is known, so mail may wait until it looks";
  const by = wake.path === "other" ? "another way" : PATHS[wake.path];
  return `a wake was last answered ${ageOf(wake.proven_age_ms)}, by ${by}`;
}
