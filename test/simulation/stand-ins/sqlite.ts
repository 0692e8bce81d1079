/**
 * `node:sqlite` for a client: real files, and a process that may die before each of its writes. What a dead process had open
 * is closed for it, as the system does: SQLite then rolls back what was not committed.
 *
 * A kill leaves to the disk whatever was written, synced or not, so syncing would change nothing but the speed.
 */

import { DatabaseSync as RealDatabase, type SQLInputValue, type StatementSync as RealStatement } from "node:sqlite";
import { Dead, current, type Life } from "../life.ts";

export type { SQLInputValue };

const GROWS = /^(?:INSERT|UPDATE|DELETE|CREATE|COMMIT)$/;
export const FULL_DISK = "database or disk is full";

/** As node:sqlite throws SQLITE_FULL. */
function fullDisk(): Error {
  return Object.assign(new Error(FULL_DISK), { code: "ERR_SQLITE_ERROR", errcode: 13, errstr: FULL_DISK });
}

export class DatabaseSync {
  readonly #file: RealDatabase;
  readonly #life: Life | undefined = current.getStore();
  #isOpen = true;

  constructor(path: string) {
    this.#life?.effect();
    this.#file = new RealDatabase(path);
    this.#life?.onDeath(() => this.#end());
  }

  exec(sql: string): void {
    this.#effect(sql);
    this.#file.exec(sql.replace("synchronous = FULL", "synchronous = OFF"));
  }

  prepare(sql: string): StatementSync {
    if (this.#life?.isDead === true) throw new Dead();
    return new StatementSync(this.#file.prepare(sql), () => this.#effect(sql));
  }

  close(): void {
    if (this.#life?.isDead !== true) this.#end();
  }

  /** Reading changes nothing outside, so to die before it is to die before whatever comes next. */
  #effect(sql: string): void {
    const [word = ""] = /\w+/.exec(sql) ?? [];
    const life = this.#life;
    if (GROWS.test(word) && life && !life.isDead && life.place.fullUntilMs > life.world.scheduler.nowMs)
      throw fullDisk();
    if (word !== "SELECT" && word !== "PRAGMA") this.#life?.effect(word);
    else if (this.#life?.isDead === true) throw new Dead();
  }

  #end(): void {
    if (this.#isOpen) this.#file.close();
    this.#isOpen = false;
  }
}

export class StatementSync {
  readonly #statement: RealStatement;
  readonly #effect: () => void;

  constructor(statement: RealStatement, effect: () => void) {
    this.#statement = statement;
    this.#effect = effect;
  }

  run(...values: SQLInputValue[]): unknown {
    this.#effect();
    return this.#statement.run(...values);
  }

  get(...values: SQLInputValue[]): unknown {
    this.#effect();
    return this.#statement.get(...values);
  }

  all(...values: SQLInputValue[]): unknown[] {
    this.#effect();
    return this.#statement.all(...values);
  }
}
