/**
 * Numbered schema steps. Append only: a step that ran somewhere is never edited.
 *
 * The version has its own table because the platform refuses `PRAGMA user_version`. STRICT tables,
 * because numbers bind as REAL; WITHOUT ROWID with the key that is read by, because each further
 * index is one more row written.
 */

import type { Sql } from "./meter.ts";

/**
 * Brings a database to the last of `steps`; runs each missing one once, in order.
 * @param done the last one that ran, where it was asked already
 */
export function migrate(sql: Sql, steps: readonly string[], done = schemaStep(sql)): void {
  if (done > steps.length)
    throw new Error(`the storage is at schema step ${done}, newer than this code's ${steps.length}`);
  if (done === 0) sql.exec("CREATE TABLE IF NOT EXISTS schema_step (step INTEGER PRIMARY KEY) STRICT");
  for (let step = done; step < steps.length; step++) {
    sql.exec(steps[step]!);
    sql.exec("INSERT INTO schema_step (step) VALUES (?)", step + 1);
  }
}

/** The last step that ran here; 0 if the database was never migrated. Asking makes nothing. */
export function schemaStep(sql: Sql): number {
  if (sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'schema_step'").toArray().length === 0) return 0;
  return sql.exec<{ step: number }>("SELECT coalesce(max(step), 0) AS step FROM schema_step").one().step;
}
