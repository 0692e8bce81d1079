/**
 * The loop guard's budgets, in one file for all sessions of an identity on this machine: neither a client that crashes in
 * a loop nor a host that starts anew under another session's id gets a new budget.
 *
 * Several processes have it open; SQLite lets one at a time read, decide and write.
 */

import process from "node:process";
import type { Key } from "../../protocol/address.ts";
import { CounterTable, type Counter } from "./counters.ts";
import type { Database } from "./database.ts";
import { openFile, type StateRefusal } from "./open-file.ts";
import { budgetPath } from "./paths.ts";
import type { Schema } from "./schema.ts";

/** "ILNB". Append only, as in schema.ts. */
const BUDGET_SCHEMA: Schema = {
  applicationId: 0x494c4e42,
  steps: [
    `CREATE TABLE counter (name TEXT PRIMARY KEY, tokens REAL NOT NULL, at_ms INTEGER NOT NULL, dry INTEGER NOT NULL)
       STRICT, WITHOUT ROWID;`,
  ],
};

/** Others hold the lock only while they open the file. */
const LOCK_WAIT_MS = 2_000;

export interface OpenedBudget {
  readonly budget: BudgetFile;
  /** A file that could not be read was moved here, and a new one begun. */
  readonly setAside?: string;
}

/**
 * Opens, or makes, the file. Throws where the disk refuses.
 * @param directory of the sessions' files
 */
export function openBudget(directory: string, me: Key, nowMs: number): OpenedBudget | StateRefusal {
  const path = budgetPath(directory, me);
  const opened = openFile({ path, schema: BUDGET_SCHEMA, nowMs, uid: process.geteuid?.(), lockWaitMs: LOCK_WAIT_MS });
  if ("refusal" in opened) return opened;
  const { database, lock, setAside } = opened;
  lock.release();
  return { budget: new BudgetFile(database), ...(setAside !== undefined && { setAside }) };
}

export class BudgetFile {
  readonly #database: Database;
  readonly #counters: CounterTable;

  /** Made by {@link openBudget}. */
  constructor(database: Database) {
    this.#database = database;
    this.#counters = new CounterTable(database);
  }

  read(): ReadonlyMap<string, Counter> {
    return this.#counters.read();
  }

  /** Reads, decides and writes in one step, also beside other processes; on disk when it returns. */
  change<T>(step: (counters: ReadonlyMap<string, Counter>) => readonly [ReadonlyMap<string, Counter>, T]): T {
    return this.#database.transaction(() => {
      const [next, result] = step(this.read());
      this.#counters.write(next);
      return result;
    });
  }

  close(): void {
    this.#database.close();
  }
}
