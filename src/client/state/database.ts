/**
 * One open SQLite file: each statement prepared once, and transactions that join the one they are called in.
 *
 * Everything here is synchronous, so a transaction is never interleaved with another call of this process.
 * A refused statement or a full disk throws: those are faults, and what was begun is rolled back.
 */

import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";

/** A value of a column. Numbers are whole and below 2^53. */
export type Cell = string | number | null | Uint8Array;

/** SQLite's result codes that this room tells apart (sqlite.org/rescode.html); extended codes are cut to these. */
export const SQLITE = { error: 1, busy: 5, locked: 6, readOnly: 8, corrupt: 11, notADatabase: 26 } as const;

export class Database {
  readonly #file: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  #depth = 0;

  constructor(path: string) {
    this.#file = new DatabaseSync(path);
  }

  /** Runs text of one or more statements; for schema and pragmas. */
  exec(sql: string): void {
    this.#file.exec(sql);
  }

  /** Runs a statement for its effect. @returns how many rows it changed */
  run(sql: string, ...values: readonly Cell[]): number {
    return Number(this.#prepare(sql).run(...(values as SQLInputValue[])).changes);
  }

  /** All rows. */
  all<Row extends object>(sql: string, ...values: readonly Cell[]): Row[] {
    return this.#prepare(sql).all(...(values as SQLInputValue[])) as Row[];
  }

  /** The first row, or undefined. */
  first<Row extends object>(sql: string, ...values: readonly Cell[]): Row | undefined {
    return this.#prepare(sql).get(...(values as SQLInputValue[])) as Row | undefined;
  }

  /** Runs `work` whole or not at all: on disk when this returns, undone when it throws. */
  transaction<T>(work: () => T): T {
    if (this.#depth > 0) return work();
    this.exec("BEGIN IMMEDIATE");
    this.#depth++;
    try {
      const result = work();
      this.exec("COMMIT");
      return result;
    } catch (fault) {
      this.#rollBack();
      throw fault;
    } finally {
      this.#depth--;
    }
  }

  /** Closes the file; closing twice is nothing. */
  close(): void {
    this.#statements.clear();
    try {
      this.#file.close();
    } catch (fault) {
      // `isOpen` came only in later Node versions than the oldest that we run on.
      if (!/not open/.test(String(fault))) throw fault;
    }
  }

  /** SQLite itself has rolled back after some faults; then there is nothing to undo, and the first fault is the news. */
  #rollBack(): void {
    try {
      this.exec("ROLLBACK");
    } catch {
      // Told by the fault that brought us here.
    }
  }

  #prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known) return known;
    const statement = this.#file.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** The primary result code of what SQLite threw, or undefined if something else was thrown. */
export function sqliteCode(fault: unknown): number | undefined {
  if (typeof fault !== "object" || fault === null || !("errcode" in fault)) return undefined;
  return typeof fault.errcode === "number" ? fault.errcode & 0xff : undefined;
}
