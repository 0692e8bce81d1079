/**
 * All that one session remembers, in one SQLite file: the tables, and the steps that must touch several at once.
 *
 * Invariant 1: an acked message survives `kill -9` of the client. Ack a bus only after {@link State.receive} returned.
 * Invariant 3: the same message never reaches the model twice.
 */

import type { Key } from "../../protocol/address.ts";
import type { Database } from "./database.ts";
import { readHistory, type HistoryPage } from "./history.ts";
import { InboxTable, type Arrival, type Newness } from "./inbox.ts";
import { MetaTable } from "./meta.ts";
import { openFile, type StateRefusal } from "./open-file.ts";
import { OutboxTable } from "./outbox-table.ts";
import { RouteTable } from "./routes.ts";
import { Sequence } from "./sequence.ts";
import { SESSION_SCHEMA } from "./schema.ts";
import type { SessionLock } from "./session-lock.ts";
import { TaskTable } from "./tasks.ts";

export type { StateRefusal };

export interface OpenOptions {
  /** The session's file; `.lock`, `-wal` and `-shm` stand beside it. Its directory is made where there is none. */
  readonly path: string;
  readonly nowMs: number;
  /** The process's user, where the system has users: what another owns is refused. */
  readonly uid?: number;
}

export interface OpenedState {
  readonly state: State;
  /** A file that could not be read was moved here, and a new one begun: to be told to the human. */
  readonly setAside?: string;
}

/** What became of one arrival; any of these may be acked. */
export interface Reception {
  readonly from: Key;
  readonly msg_id: string;
  readonly verdict: Newness;
}

/** Opens, or makes, a session's file. Throws where the disk refuses. */
export function openState({ path, nowMs, uid }: OpenOptions): OpenedState | StateRefusal {
  const opened = openFile({ path, schema: SESSION_SCHEMA, nowMs, uid });
  if ("refusal" in opened) return opened;
  const { database, lock, setAside } = opened;
  return { state: new State(database, lock), ...(setAside === undefined ? {} : { setAside }) };
}

export class State {
  readonly inbox: InboxTable;
  readonly outbox: OutboxTable;
  readonly routes: RouteTable;
  readonly tasks: TaskTable;
  readonly meta: MetaTable;
  readonly #database: Database;
  readonly #lock: SessionLock;

  /** Made by {@link openState}. */
  constructor(database: Database, lock: SessionLock) {
    this.#database = database;
    this.#lock = lock;
    const sequence = new Sequence(database);
    this.inbox = new InboxTable(database, sequence);
    this.outbox = new OutboxTable(database, sequence);
    this.routes = new RouteTable(database);
    this.tasks = new TaskTable(database);
    this.meta = new MetaTable(database);
  }

  /**
   * Takes what the gate let in, and what follows from it for tasks and sticky routes, all or nothing.
   * When it returns everything is on disk, and only then may the bus be acked.
   */
  receive(arrivals: readonly Arrival[], nowMs: number): Reception[] {
    return this.transaction(() =>
      arrivals.map((arrival) => {
        const { from, msg_id } = arrival;
        return { from, msg_id, verdict: this.#take(arrival, nowMs) };
      }),
    );
  }

  /** The talk with a peer, both ways, without what is unread. See {@link readHistory}. */
  history(peer: Key, page: { max: number; beforeSeq?: number }): HistoryPage {
    return readHistory(this.inbox, this.outbox, peer, page);
  }

  /** Several steps as one, on disk when it returns and undone when it throws. */
  transaction<T>(work: () => T): T {
    return this.#database.transaction(work);
  }

  /**
   * Lets go what is past its time; now and then, never needed at the start. Nothing unread, pending or open goes.
   * @param nowMs a clock that runs years ahead would forget ids too early: give one that a bus has confirmed
   * @returns rows removed
   */
  prune(nowMs: number): number {
    return this.transaction(() => this.inbox.prune(nowMs) + this.outbox.prune(nowMs) + this.tasks.prune(nowMs));
  }

  /** Closes the file, then lets the next process have it. */
  close(): void {
    this.#database.close();
    this.#lock.release();
  }

  #take(arrival: Arrival, nowMs: number): Reception["verdict"] {
    const verdict = this.inbox.add(arrival, nowMs);
    if (verdict !== "new") return verdict;
    const { from, msg_id, session, task_id, status } = arrival;
    if (session !== undefined) this.routes.stick(from, session, nowMs);
    if (task_id !== undefined) {
      this.tasks.step(from, task_id, msg_id, status === undefined ? { by: "peer" } : { by: "peer", status }, nowMs);
    }
    return verdict;
  }
}
