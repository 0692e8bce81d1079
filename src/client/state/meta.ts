/** Single facts by name: the generation and the clock offset of each bus, and whatever else is one small string. */

import type { Database } from "./database.ts";

export class MetaTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  get(name: string): string | undefined {
    return this.#database.first<{ value: string }>("SELECT value FROM meta WHERE name = ?", name)?.value;
  }

  /** Keeps a fact; undefined forgets it. Writing what is there already touches no disk. */
  set(name: string, value: string | undefined): void {
    if (this.get(name) === value) return;
    if (value === undefined) this.#database.run("DELETE FROM meta WHERE name = ?", name);
    else this.#database.run("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", name, value);
  }

  /** Which life of our identity's storage a bus last told; undefined before the first. */
  generation(bus: string): string | undefined {
    return this.get(`generation:${bus}`);
  }

  /** The buses that ever told one: those that have known us. */
  buses(): string[] {
    const rows = this.#database.all<{ name: string }>("SELECT name FROM meta WHERE name GLOB 'generation:*'");
    return rows.map(({ name }) => name.slice("generation:".length));
  }

  setGeneration(bus: string, generation: string): void {
    this.set(`generation:${bus}`, generation);
  }

  /** What to add to our clock to have a bus's, in milliseconds; 0 until one was learned. */
  clockOffsetMs(bus: string): number {
    const kept = Number(this.get(`clock_offset_ms:${bus}`) ?? 0);
    return Number.isSafeInteger(kept) ? kept : 0; // a spoilt one is learned anew
  }

  setClockOffsetMs(bus: string, offsetMs: number): void {
    this.set(`clock_offset_ms:${bus}`, String(offsetMs));
  }
}
