/**
 * PURE: which messages of ours count as automatic replies. Neither we nor the bus can know who asked for a message; what
 * is known is what this session has read since a human was last seen at it.
 *
 * | the message                | mail read since a human was seen | then | why |
 * |----------------------------|----------------------------------|------|-----|
 * | any                        | none                             | free | nobody wrote, so a human asked for it |
 * | ends an open task          | some                             | free | an answer to a task must not be lost; a task ends once, so it is bounded by the tasks, each of which somebody gave |
 * | to one whose mail was read | some                             | one  | two that thank each other |
 * | to anybody else            | some                             | one  | a ring: what one peer wrote is passed on to the next, who never writes to us |
 * | ends a task that has ended | some                             | one  | it is a message like any other, and could be repeated for ever |
 *
 * It is counted on the recipient's account. A message that is there already under its id was counted when it was kept.
 */

import type { Task } from "../state/tasks.ts";
import { isClosed, type TaskStatus } from "../state/task-progress.ts";

export interface Writing {
  /** True if this session has read a peer's mail since a human was seen at it. */
  readonly hasRead: boolean;
  /** The task that the message is about, as it stands. */
  readonly task?: Pick<Task, "state"> | undefined;
  readonly status?: TaskStatus | undefined;
}

/** True if the message spends one of the automatic replies. */
export function isAutomaticReply({ hasRead, task, status }: Writing): boolean {
  if (!hasRead) return false;
  const isEnd = status === "result" || status === "failed" || status === "canceled";
  return !(isEnd && task !== undefined && !isClosed(task));
}
