/** Counts what statements read and write, in all objects of this isolate together, and the alarms that are set. */

import { runInDurableObject } from "cloudflare:test";
import type { Key } from "../../src/protocol/address.ts";
import { newKey, stubOf } from "./objects.ts";

export interface Cost {
  readonly read: number;
  readonly written: number;
  readonly alarms: number;
}

type Cursor = SqlStorageCursor<Record<string, SqlStorageValue>>;

let cursors: Cursor[] = [];
let alarms = 0;
let isCounting = true;

/** Has every statement counted from here on; once a test file. */
export async function countRows(): Promise<void> {
  // Cursors count their own rows; all statements of all objects of this isolate pass through here.
  await runInDurableObject(stubOf(newKey()), (_, { storage }) => {
    const sql = Object.getPrototypeOf(storage.sql) as SqlStorage;
    const { exec } = sql;
    sql.exec = function (this: SqlStorage, query: string, ...values: unknown[]) {
      // Of a script a cursor counts the last statement alone.
      const statements = values.length > 0 ? [query] : query.split(";").filter((one) => one.trim() !== "");
      let cursor!: Cursor;
      for (const statement of statements) {
        cursor = exec.call(this, statement, ...(values as SqlStorageValue[]));
        if (isCounting) cursors.push(cursor);
      }
      return cursor as never;
    };
    const proto = Object.getPrototypeOf(storage) as DurableObjectStorage;
    const { setAlarm } = proto;
    proto.setAlarm = function (this: DurableObjectStorage, ...args) {
      alarms++;
      return setAlarm.apply(this, args);
    };
  });
}

export async function costOf(work: () => Promise<unknown>): Promise<Cost> {
  cursors = [];
  alarms = 0;
  await work();
  const sum = (field: "rowsRead" | "rowsWritten") => cursors.reduce((total, cursor) => total + cursor[field], 0);
  return { read: sum("rowsRead"), written: sum("rowsWritten"), alarms };
}

/** What a query finds in an identity's tables; not counted. */
export function look(key: Key, query: string): Promise<Record<string, SqlStorageValue>[]> {
  return runInDurableObject(stubOf(key), (_, { storage }) => {
    isCounting = false;
    try {
      return storage.sql.exec(query).toArray();
    } finally {
      isCounting = true;
    }
  });
}
