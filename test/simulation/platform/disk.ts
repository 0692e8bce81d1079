/**
 * What an object keeps: a SQLite database in memory, and the log of what was written to it. All that one turn writes is one
 * commit, which takes a while to be on the disk; a crash before that takes it away, and all behind it, and nothing else.
 *
 * From the platform's documents and measured on workerd: writes without an await between them are committed together at
 * the next turn; answers, frames and calls to others wait until what was written before them is on the disk;
 * `transactionSync` undoes its own writes where it throws; `deleteAll` takes the alarm too (compatibility date from
 * 2026-02-24); JS numbers bind as REAL, which is what node:sqlite does as well.
 */

import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";

type Written =
  | { readonly sql: string; readonly values: readonly SQLInputValue[] }
  | { readonly alarmAtMs: number | null }
  | "delete all";

export interface Cursor {
  readonly rowsWritten: number;
  readonly rowsRead: number;
  toArray(): object[];
  one(): object;
  [Symbol.iterator](): Iterator<object>;
}

const MANY = /;\s*\S/;

export class Disk {
  /** Set: to be asked to sync, once a commit. */
  onWrite: () => void = () => {};
  #log: Written[] = [];
  #onDisk = 0;
  #alarmAtMs: number | null = null;
  #savepoints = 0;
  #database = new DatabaseSync(":memory:");
  readonly #statements = new Map<string, StatementSync>();

  /** How much was written; grows. */
  get written(): number {
    return this.#log.length;
  }

  get onDisk(): number {
    return this.#onDisk;
  }

  get isSynced(): boolean {
    return this.#onDisk === this.#log.length;
  }

  get alarmAtMs(): number | null {
    return this.#alarmAtMs;
  }

  /** Tables of whatever runs on it. */
  get isEmpty(): boolean {
    return this.read("SELECT 1 FROM sqlite_master").length === 0;
  }

  read(sql: string): Record<string, unknown>[] {
    return this.#database.prepare(sql).all() as Record<string, unknown>[];
  }

  exec(sql: string, values: readonly SQLInputValue[]): Cursor {
    if (isReading(sql)) return cursorOf(this.#prepare(sql).all(...values) as object[], 0);
    const rows = this.#apply({ sql, values });
    this.#note({ sql, values });
    return rows;
  }

  transaction<T>(work: () => T): T {
    const name = `s${this.#savepoints++}`;
    const { length } = this.#log;
    const alarmAtMs = this.#alarmAtMs;
    this.#database.exec(`SAVEPOINT ${name}`);
    try {
      const result = work();
      this.#database.exec(`RELEASE ${name}`);
      return result;
    } catch (fault) {
      this.#database.exec(`ROLLBACK TO ${name}; RELEASE ${name}`);
      this.#log.length = Math.min(this.#log.length, length);
      this.#alarmAtMs = alarmAtMs;
      throw fault;
    } finally {
      this.#savepoints--;
    }
  }

  setAlarm(alarmAtMs: number | null): void {
    this.#alarmAtMs = alarmAtMs;
    this.#note({ alarmAtMs });
  }

  deleteAll(): void {
    this.#renew();
    this.#note("delete all");
  }

  /** All up to here is on the disk. */
  reach(written: number): void {
    this.#onDisk = Math.max(this.#onDisk, Math.min(written, this.#log.length));
  }

  /** What was not on the disk is gone, and nothing knows of it. */
  crash(): void {
    if (this.isSynced) return;
    this.#log.length = this.#onDisk;
    this.#renew();
    for (const written of this.#log) this.#apply(written);
  }

  #note(written: Written): void {
    this.#log.push(written);
    this.onWrite();
  }

  #apply(written: Written): Cursor {
    if (written === "delete all") {
      this.#renew();
      return cursorOf([], 0);
    }
    if ("alarmAtMs" in written) {
      this.#alarmAtMs = written.alarmAtMs;
      return cursorOf([], 0);
    }
    const { sql, values } = written;
    if (values.length === 0 && MANY.test(sql)) {
      this.#database.exec(sql);
      return cursorOf([], 0);
    }
    const statement = this.#prepare(sql);
    if (/\bRETURNING\b/i.test(sql)) {
      const rows = statement.all(...values) as object[];
      return cursorOf(rows, rows.length);
    }
    return cursorOf([], Number(statement.run(...values).changes));
  }

  #prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known) return known;
    const statement = this.#database.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }

  #renew(): void {
    this.#statements.clear();
    // Within a transaction that is under way a new database would not know of its savepoints.
    if (this.#savepoints > 0) throw new Error("deleteAll within transactionSync");
    this.#database.close();
    this.#database = new DatabaseSync(":memory:");
    this.#alarmAtMs = null;
  }
}

function cursorOf(rows: object[], rowsWritten: number): Cursor {
  return {
    rowsWritten,
    rowsRead: rows.length,
    toArray: () => rows,
    one: () => {
      if (rows.length !== 1) throw new Error(`Expected exactly one result from SQL query, but got ${rows.length}`);
      return rows[0]!;
    },
    [Symbol.iterator]: () => rows[Symbol.iterator](),
  };
}

/** A common table expression may begin a write, too. */
function isReading(sql: string): boolean {
  return /^\s*(?:SELECT|WITH)\b/i.test(sql) && !/\b(?:INSERT|UPDATE|DELETE)\b/.test(sql);
}
