/**
 * Whether a file is whole, as far as that can be seen. SQLite finds a torn page; a byte that was spoilt in the name of a
 * table, in the number of the last step or in a cell of JSON only we can tell. One in a text is data, and is shown.
 */

import { statSync } from "node:fs";
import { Database } from "./database.ts";
import { migrate, type Schema } from "./schema.ts";

/** Up to this size every page is checked at the start (a second at most); above it, only what opening reads. */
const CHECK_MAX_BYTES = 64 * 1_048_576;

/** @param step the last that the file says it has had */
export function isWhole(database: Database, path: string, step: number, schema: Schema): boolean {
  if (!hasOurTables(database, step, schema)) return false;
  if (statSync(path).size > CHECK_MAX_BYTES) return true;
  if (database.first<{ quick_check: string }>("PRAGMA quick_check(1)")?.quick_check !== "ok") return false;
  return step === 0 || schema.spoilt === undefined || database.first(schema.spoilt) === undefined;
}

/** The tables of a new file after as many steps, word for word. */
function hasOurTables(database: Database, step: number, schema: Schema): boolean {
  const model = new Database(":memory:");
  try {
    migrate(model, 0, { ...schema, steps: schema.steps.slice(0, step) });
    return tablesOf(model) === tablesOf(database);
  } finally {
    model.close();
  }
}

function tablesOf(database: Database): string {
  return JSON.stringify(database.all("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"));
}
