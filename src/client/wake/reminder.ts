/**
 * PURE. When an agent that works for a peer is asked for a word. The peer sees a task that is open and hears nothing; the
 * agent is busy and does not think of it. Each reminder is in the model's context, so they are few.
 *
 * | the task's next step | quiet for         | then     | why |
 * |----------------------|-------------------|----------|-----|
 * | is a peer's          | –                 | nothing  | we owe no word |
 * | is ours              | less than a pause | nothing  | it is at work |
 * | is ours              | a pause           | a word   | the pauses double |
 * | is ours              | reminded thrice   | nothing  | it does not want to; what it owes stands in list_pending |
 */

export interface OwedTask {
  /** Tells it from others; a peer's words, so it is shown to nobody. */
  readonly id: string;
  readonly petname: string;
  readonly owed_by: "us" | "peer" | "nobody";
  /** When a message last moved it, theirs or ours. */
  readonly changed_at_ms: number;
}

/** What was said of a task since it last moved. */
export interface Reminded {
  readonly changed_at_ms: number;
  readonly at_ms: number;
  readonly times: number;
}

export const QUIET_MS = 300_000;
export const REMINDERS_MAX = 3;

export interface Reminder {
  readonly task: OwedTask;
  readonly quiet_ms: number;
  /** Which one this is, from 1. */
  readonly time: number;
}

/** The task that is to be told of: the one that is quiet longest. */
export function dueReminder(
  tasks: readonly OwedTask[],
  reminded: ReadonlyMap<string, Reminded>,
  nowMs: number,
): Reminder | undefined {
  const due = tasks.flatMap((task) => {
    if (task.owed_by !== "us") return [];
    const last = reminded.get(task.id);
    const isLast = last?.changed_at_ms === task.changed_at_ms;
    const times = isLast ? last.times : 0;
    const sinceMs = isLast ? last.at_ms : task.changed_at_ms;
    if (times >= REMINDERS_MAX || nowMs - sinceMs < QUIET_MS * 2 ** times) return [];
    return [{ task, quiet_ms: nowMs - task.changed_at_ms, time: times + 1 }];
  });
  return due.sort((a, b) => b.quiet_ms - a.quiet_ms)[0];
}
