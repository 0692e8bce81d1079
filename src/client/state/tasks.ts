/** Tasks with each peer, and who owes the next step: the table beside its queries; the moves are task-progress.ts. */

import type { Key } from "../../protocol/address.ts";
import type { Database } from "./database.ts";
import { HISTORY_RETAIN_MS } from "./retention.ts";
import { stepTask, type TaskStanding, type TaskStep } from "./task-progress.ts";

export interface Task extends TaskStanding {
  readonly peer: Key;
  readonly task_id: string;
  /** The message that began it. */
  readonly opening_msg_id: string;
  /** The message that last moved it. */
  readonly last_msg_id: string;
  readonly opened_at_ms: number;
  readonly changed_at_ms: number;
}

const COLUMNS = "peer, task_id, opened_by, state, owes, opening_msg_id, last_msg_id, opened_at_ms, changed_at_ms";
const CLOSED = "('result', 'failed', 'canceled')";

export class TaskTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Moves a task by a message; a peer can move only what is between it and us. Runs in its caller's transaction. */
  step(peer: Key, task_id: string, msg_id: string, step: TaskStep, nowMs: number): Task {
    const before = this.get(peer, task_id);
    const standing = stepTask(before, step);
    if (before && standing === before) return before;
    const task: Task = {
      peer,
      task_id,
      ...standing,
      opening_msg_id: before?.opening_msg_id ?? msg_id,
      last_msg_id: msg_id,
      opened_at_ms: before?.opened_at_ms ?? nowMs,
      changed_at_ms: nowMs,
    };
    this.#database.run(
      `INSERT OR REPLACE INTO task (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      peer,
      task_id,
      task.opened_by,
      task.state,
      task.owes,
      task.opening_msg_id,
      task.last_msg_id,
      task.opened_at_ms,
      task.changed_at_ms,
    );
    return task;
  }

  get(peer: Key, task_id: string): Task | undefined {
    const row = this.#database.first<Task>(`SELECT ${COLUMNS} FROM task WHERE peer = ? AND task_id = ?`, peer, task_id);
    return row && { ...row };
  }

  /** Open tasks, the longest unmoved first. */
  open(): Task[] {
    return this.#database
      .all<Task>(`SELECT ${COLUMNS} FROM task WHERE state NOT IN ${CLOSED} ORDER BY changed_at_ms, peer, task_id`)
      .map((row) => ({ ...row }));
  }

  /** The message that gave a task was never stored by a bus: the peer knows of none, so there is none. */
  withdraw(opening_msg_id: string): void {
    this.#database.run("DELETE FROM task WHERE opening_msg_id = ? AND opened_by = 'us'", opening_msg_id);
  }

  /** Lets old closed tasks go. */
  prune(nowMs: number): number {
    return this.#database.run(
      `DELETE FROM task WHERE state IN ${CLOSED} AND changed_at_ms <= ?`,
      nowMs - HISTORY_RETAIN_MS,
    );
  }
}
