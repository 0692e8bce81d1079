/**
 * What this isolate did since it started: counters, not estimates. "Idle costs nothing" is a number here.
 *
 * An isolate is one copy of the running code. A local bus is one; a deployment has several, and each
 * answers for itself.
 */

export interface Counters {
  since_ms: number;
  requests: number;
  /** Times that an identity's object was called: calls, frames, closes, alarms. */
  object_runs: number;
  rows_written: number;
  refusals: Record<string, number>;
}

const counters: Counters = { since_ms: 0, requests: 0, object_runs: 0, rows_written: 0, refusals: {} };

/** The cursor whose rows are not counted yet: it counts them as it is read. */
let open: SqlStorageCursor<Record<string, SqlStorageValue>> | undefined;

export const meter = {
  request(nowMs: number): void {
    counters.since_ms ||= nowMs;
    counters.requests++;
  },

  refusal(code: string): void {
    counters.refusals[code] = (counters.refusals[code] ?? 0) + 1;
  },

  objectRun(): void {
    counters.object_runs++;
  },

  read(): Counters {
    settle();
    return counters;
  },
};

/** The one way to a database: counts the rows that each statement writes. */
export class Sql {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  exec<Row extends Record<string, SqlStorageValue>>(query: string, ...values: unknown[]): SqlStorageCursor<Row> {
    settle();
    const cursor = this.#sql.exec<Row>(query, ...values);
    open = cursor as unknown as typeof open;
    return cursor;
  }
}

function settle(): void {
  if (open) counters.rows_written += open.rowsWritten;
  open = undefined;
}
