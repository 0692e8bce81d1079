/**
 * PURE: how a task moves, and who owes the next step. Reads no storage and no clock.
 *
 * A task is asked for by one side (the asker) and done by the other (the worker). Both ends run this on the same
 * messages, each seeing itself as `us`.
 */

import type { STATUSES } from "../../protocol/message.ts";

export type Side = "us" | "peer";
export type TaskStatus = (typeof STATUSES)[number];

/** `open`: the worker is at it. `needs_input`: someone was asked something. The rest are ends. */
export type TaskState = "open" | "needs_input" | "result" | "failed" | "canceled";

export interface TaskStanding {
  readonly opened_by: Side;
  readonly state: TaskState;
  /** Whose turn it is; `nobody` once it is closed. */
  readonly owes: Side | "nobody";
}

/** A message that names a task. */
export interface TaskStep {
  readonly by: Side;
  /** Absent: plain words. */
  readonly status?: TaskStatus;
}

/** True at an end; no message moves it further. */
export function isClosed({ state }: Pick<TaskStanding, "state">): boolean {
  return state === "result" || state === "failed" || state === "canceled";
}

/**
 * Where the task stands after a message.
 *
 * | the task is | the message is              | then                     | why |
 * |-------------|-----------------------------|--------------------------|-----|
 * | unknown     | plain                       | its writer is the asker  | that is how a task is given |
 * | unknown     | with a status               | its writer is the worker | a status is a worker's word; we missed the opening |
 * | closed      | any                         | as it was                | an end is an end; more work is another task |
 * | open        | plain, update               | the worker owes          | an answer, or news: either way the result is still to come |
 * | open        | needs_input of the worker   | the asker owes           | it cannot go on without |
 * | open        | needs_input of the asker    | the worker owes          | so is a question how it goes |
 * | open        | result, failed, canceled    | closed, nobody owes      | whoever says so: neither side can be held to it |
 */
export function stepTask(standing: TaskStanding | undefined, { by, status }: TaskStep): TaskStanding {
  const opened_by = standing?.opened_by ?? (status === undefined ? by : other(by));
  if (standing && isClosed(standing)) return standing;
  const worker = other(opened_by);
  switch (status) {
    case undefined:
    case "update":
      return { opened_by, state: "open", owes: worker };
    case "needs_input":
      return { opened_by, state: "needs_input", owes: other(by) };
    case "result":
    case "failed":
    case "canceled":
      return { opened_by, state: status, owes: "nobody" };
  }
}

function other(side: Side): Side {
  return side === "us" ? "peer" : "us";
}
