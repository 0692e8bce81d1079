/**
 * Pairing requests as the sessions of this user keep them, for the commands of the operator. A session may be running
 * meanwhile: it looks at its file anew each time, and SQLite lets one write at a time.
 *
 * To accept is to change the peers file; a running session sees that and answers the knock. To reject is written here.
 */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { parseSessionId, type Key } from "../../protocol/address.ts";
import { sessionStatePath } from "../session/session.ts";
import { Database } from "../state/database.ts";
import { KnockTable } from "../state/knocks.ts";
import { MetaTable } from "../state/meta.ts";
import { readSchema, STEPS } from "../state/schema.ts";
import type { Operator } from "../trust/operator.ts";
import { NO_PAIRING, prunePairing, rejectPair, type PairingState, type PendingPair } from "../trust/pairing.ts";

/** Where session/pairing-desk.ts keeps its state. */
const PAIRING = "pairing";

/** One who knocks, and the file of the session that was knocked at. */
export interface KnockOnDisk {
  readonly file: string;
  readonly request: PendingPair;
}

/** Every request that waits, the oldest first; the same key may knock at several sessions. */
export function readKnocks(directory: string, me: Key, nowMs: number): KnockOnDisk[] {
  return filesOf(directory, me)
    .flatMap((file) => {
      const pending = withFile(file, ({ meta }) => prunePairing(readState(meta), nowMs).pending) ?? [];
      return pending.map((request) => ({ file, request }));
    })
    .sort((a, b) => a.request.at_ms - b.request.at_ms);
}

/** Turns a key away in every session that it knocked at. @returns how many */
export function rejectOnDisk(knocks: readonly KnockOnDisk[], operator: Operator, nowMs: number): number {
  const rejected = knocks.filter(({ file, request }) =>
    withFile(file, ({ meta, table, database }) =>
      database.transaction(() => {
        const outcome = rejectPair(readState(meta), request, operator, nowMs);
        if ("refused" in outcome) return false;
        meta.set(PAIRING, JSON.stringify(outcome.state));
        table.handle("in", request.key, request.what === "knock" ? "pair_request" : "pair_accept", nowMs);
        return true;
      }),
    ),
  );
  return rejected.length;
}

interface OpenedFile {
  readonly database: Database;
  readonly meta: MetaTable;
  readonly table: KnockTable;
}

/** Undefined for a file that is none of ours, or of a later version. */
function withFile<T>(file: string, act: (opened: OpenedFile) => T): T | undefined {
  const database = new Database(file);
  try {
    database.exec("PRAGMA busy_timeout = 5000");
    const { step, isOurs } = readSchema(database);
    if (!isOurs || step !== STEPS.length) return undefined;
    return act({ database, meta: new MetaTable(database), table: new KnockTable(database) });
  } finally {
    database.close();
  }
}

function readState(meta: MetaTable): PairingState {
  const text = meta.get(PAIRING);
  return text === undefined ? NO_PAIRING : (JSON.parse(text) as PairingState);
}

/** The files of our identity. A long session id is cut in a file's name, so that one cannot be checked and counts as ours. */
function filesOf(directory: string, me: Key): string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory)
    .filter((name) => /^[A-Za-z0-9_-]{1,40}-[0-9a-f]{16}\.db$/.test(name))
    .filter((name) => {
      const session = parseSessionId(name.replace(/-[0-9a-f]{16}\.db$/, ""));
      const isWhole = session !== undefined && session.length < 40;
      return !isWhole || sessionStatePath(directory, me, session) === join(directory, name);
    })
    .map((name) => join(directory, name));
}
