/**
 * The tables of our files, as numbered steps. Append only: a step that ran somewhere is never edited.
 *
 * Text that may hold any character is a BLOB of UTF-8: Node before 24 reads TEXT only up to its first NUL.
 * Instants are Unix milliseconds. `seq` is one order over inbox and outbox, which is the order of the history.
 */

import type { Database } from "./database.ts";

/** One kind of file. */
export interface Schema {
  /** Tells our file from any other SQLite database, and from one of our other kinds. */
  readonly applicationId: number;
  readonly steps: readonly string[];
  /** Finds a row with a cell that is not the JSON that it should be. */
  readonly spoilt?: string;
}

/** Where a session's first step kept its pairing, and its second leaves the knocks; to be moved to the identity's file. */
export const FORMER = { pairing: "pairing", knocks: "knocks" } as const;

const SESSION_STEPS: readonly string[] = [
  `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

  CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY,
    sender TEXT NOT NULL,
    msg_id TEXT NOT NULL,
    session TEXT,
    text BLOB NOT NULL,
    task_id TEXT,
    status TEXT,
    in_reply_to TEXT,
    ts INTEGER NOT NULL,
    received_at_ms INTEGER NOT NULL,
    digest TEXT NOT NULL,
    clock_ok INTEGER NOT NULL,
    bus TEXT NOT NULL,
    read_at_ms INTEGER,
    UNIQUE (sender, msg_id)
  ) STRICT;
  CREATE INDEX inbox_unread ON inbox (seq) WHERE read_at_ms IS NULL;
  CREATE INDEX inbox_of_peer ON inbox (sender, seq);
  CREATE INDEX inbox_by_id ON inbox (msg_id);

  CREATE TABLE seen (
    sender TEXT NOT NULL,
    msg_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (sender, msg_id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX seen_by_age ON seen (at_ms);

  CREATE TABLE handed (seq INTEGER PRIMARY KEY) STRICT;

  CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY,
    msg_id TEXT NOT NULL UNIQUE,
    peer TEXT NOT NULL,
    route TEXT NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    ts INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    life TEXT NOT NULL
  ) STRICT;
  CREATE INDEX outbox_pending ON outbox (queue, seq, ts) WHERE state = 'pending';
  CREATE INDEX outbox_stored ON outbox (seq, created_at_ms) WHERE state = 'stored';
  CREATE INDEX outbox_of_peer ON outbox (peer, seq);

  CREATE TABLE route (
    peer TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE knock (
    direction TEXT NOT NULL,
    peer TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    msg_id TEXT NOT NULL,
    session TEXT,
    bus TEXT NOT NULL,
    ts INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    handled_at_ms INTEGER,
    PRIMARY KEY (direction, peer, kind)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE task (
    peer TEXT NOT NULL,
    task_id TEXT NOT NULL,
    opened_by TEXT NOT NULL,
    state TEXT NOT NULL,
    owes TEXT NOT NULL,
    opening_msg_id TEXT NOT NULL,
    last_msg_id TEXT NOT NULL,
    opened_at_ms INTEGER NOT NULL,
    changed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (peer, task_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE counter (name TEXT PRIMARY KEY, tokens REAL NOT NULL, at_ms INTEGER NOT NULL, dry INTEGER NOT NULL)
    STRICT, WITHOUT ROWID;
  `,
  // Pairing is the identity's: what a session's file held of it is handed over by state/former-pairing.ts.
  `
  INSERT INTO meta (name, value)
    SELECT '${FORMER.knocks}', json_group_array(json_object('key', peer, 'msg_id', msg_id, 'ts', ts, 'at_ms', at_ms))
    FROM knock WHERE direction = 'in' AND kind = 'pair_request' HAVING count(*) > 0;
  DROP TABLE knock;
  DROP TABLE counter; -- the budgets are the identity's too: state/budget-file.ts
  `,
];

/** "ILNK": one session's inbox, outbox and talk. */
export const SESSION_SCHEMA: Schema = {
  applicationId: 0x494c4e4b,
  steps: SESSION_STEPS,
  spoilt: `SELECT 1 FROM outbox WHERE NOT json_valid(life) OR NOT json_valid(payload)
    UNION ALL SELECT 1 FROM meta
      WHERE name IN ('${FORMER.pairing}', '${FORMER.knocks}', 'guard_spent_on') AND NOT json_valid(value) LIMIT 1`,
};

/** "ILNP": how an identity and others come to trust each other; all its sessions and commands share it. */
export const PAIRING_SCHEMA: Schema = {
  applicationId: 0x494c4e50,
  spoilt: `SELECT 1 FROM pairing WHERE NOT json_valid(value)
    UNION ALL SELECT 1 FROM meta WHERE name IN ('invitations', 'invites') AND NOT json_valid(value) LIMIT 1`,
  steps: [
    `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

  CREATE TABLE pairing (
    part TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (part, key)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE knock (
    key TEXT PRIMARY KEY,
    msg_id TEXT NOT NULL,
    ts INTEGER NOT NULL,
    at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  ],
};

/** How far a file is, and whether it is ours. A file without a schema is nobody's yet. */
export function readSchema(database: Database, { applicationId }: Schema): { step: number; isOurs: boolean } {
  const step = database.first<{ user_version: number }>("PRAGMA user_version")!.user_version;
  const id = database.first<{ application_id: number }>("PRAGMA application_id")!.application_id;
  const tables = database.first<{ n: number }>("SELECT count(*) AS n FROM sqlite_schema")!.n;
  return { step, isOurs: id === applicationId || (id === 0 && step === 0 && tables === 0) };
}

/** Runs the steps that a file lacks, each whole or not at all. */
export function migrate(database: Database, done: number, { applicationId, steps }: Schema): void {
  for (let step = done; step < steps.length; step++) {
    database.transaction(() => {
      database.exec(steps[step]!);
      database.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${step + 1}`);
    });
  }
}
