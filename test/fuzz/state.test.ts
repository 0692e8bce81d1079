/**
 * Our SQLite files after damage: bytes flipped, cut off, foreign, empty, of another kind of ours, a folder in the place.
 *
 * Opening refuses, or sets the file aside byte for byte and says so, or has it; it never throws, and what it refused is as it
 * was. What was opened can be read and written. SQLite keeps no checksums: damage that leaves the file well formed is data.
 */

import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openBudget } from "../../src/client/state/budget-file.ts";
import { openPairing } from "../../src/client/state/open-pairing.ts";
import { budgetPath, pairingPath, sessionStatePath } from "../../src/client/state/paths.ts";
import { lookInto } from "../../src/client/state/session-files.ts";
import { openState, type State, type StateRefusal } from "../../src/client/state/store.ts";
import type { Key } from "../../src/protocol/address.ts";
import vectors from "../vectors/keys.json" with { type: "json" };
import { arrival, session, T0 } from "../client/state/state-fixture.ts";
import { HOSTILE } from "../support/hostile.ts";
import { changedBytes, changes, fuzzed, promptly, SLOW } from "./inputs.ts";

const me = vectors.carol.public as Key;
const ann = vectors.alice.public as Key;
const REFUSALS = ["newer_schema", "unsafe_path"];

let dir = "";
/** The sound files, by what they are; `open` with its `-wal`, as a killed process leaves it. */
const sound: Record<"session" | "open" | "wal" | "pairing" | "budget" | "foreign", Buffer> = {} as never;

function fill(state: State): void {
  const texts = HOSTILE.filter((text) => text.length < 2_000 && text.isWellFormed());
  state.receive(
    texts.map((text, index) =>
      arrival(`m${index}`, { from: ann, text, task_id: `t${index % 3}`, session: session("s") }),
    ),
    T0,
  );
  state.inbox.takeUnread({ max: 20, maxBytes: 1e6 }, T0);
  for (const n of [1, 2, 3]) {
    const payload = JSON.stringify({ from: me, to: ann, text: `out ${n}`, ts: T0, msg_id: `o${n}` });
    const route = `${ann}#s`;
    const life = { state: "pending", lanes: {} } as const;
    state.outbox.add({ msg_id: `o${n}`, peer: ann, route, kind: "message", payload, ts: T0, life }, T0);
  }
  state.meta.setGeneration("main", "g");
}

function opened<T extends object>(result: T | StateRefusal): T {
  if ("refusal" in result) throw new Error(result.refusal);
  return result as T;
}

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "interlink-fuzz-"));
  const path = join(dir, "whole", "one.db");
  const { state } = opened(openState({ path, nowMs: T0 }));
  fill(state);
  const copy = join(dir, "copy.db");
  copyFileSync(path, copy);
  sound.open = readFileSync(copy);
  sound.wal = readFileSync(`${path}-wal`);
  state.close();
  sound.session = readFileSync(path);

  const directory = join(dir, "identity");
  const { pairing } = opened(openPairing({ directory, me, nowMs: T0 }));
  pairing.update(() => ({
    state: {
      pending: [{ what: "knock" as const, key: ann, claimed_name: "ann", msg_id: "k1", at_ms: T0 }],
      sent: [],
      owed: [],
    },
  }));
  pairing.close();
  sound.pairing = readFileSync(pairingPath(directory, me));
  const { budget } = opened(openBudget(directory, me, T0));
  budget.change(() => [new Map([["wakes", { tokens: 3, at_ms: T0, dry: 0 }]]), undefined]);
  budget.close();
  sound.budget = readFileSync(budgetPath(directory, me));

  const foreign = join(dir, "foreign.db");
  const database = new DatabaseSync(foreign);
  database.exec("CREATE TABLE diary (x TEXT); INSERT INTO diary VALUES ('dear'); PRAGMA user_version = 1");
  database.close();
  sound.foreign = readFileSync(foreign);
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const kinds = ["session", "open", "pairing", "budget", "foreign"] as const;
const damaged = fc.oneof(
  { weight: 10, arbitrary: fc.record({ of: fc.constantFrom(...kinds), changes }) },
  { weight: 1, arbitrary: fc.record({ of: fc.constantFrom(...kinds), changes: fc.constant([]) }) },
);
const noise = fc.uint8Array({ maxLength: 5_000 }).map((bytes) => Buffer.from(bytes));
type Content =
  | Buffer
  | "folder"
  | { readonly of: (typeof kinds)[number]; readonly changes: Parameters<typeof changedBytes>[1] };
const content: fc.Arbitrary<Content> = fc.oneof(
  { weight: 8, arbitrary: damaged },
  { weight: 1, arbitrary: noise },
  { weight: 1, arbitrary: fc.constant("folder" as const) },
);

let count = 0;
/** A folder of its own for each run. */
function inFolder<T>(work: (folder: string) => T): T {
  const folder = join(dir, `run-${++count}`);
  mkdirSync(folder, { mode: 0o700 });
  try {
    return work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Puts it in the file's place. @returns its bytes; undefined: a folder */
function put(path: string, what: Content): Buffer | undefined {
  if (what === "folder") {
    mkdirSync(path);
    return undefined;
  }
  const bytes = what instanceof Uint8Array ? what : changedBytes(sound[what.of], what.changes);
  writeFileSync(path, bytes, { mode: 0o600 });
  return bytes;
}

/** @returns what was opened; undefined: refused, and left as it was */
function judge<T extends { readonly setAside?: string }>(
  path: string,
  before: Buffer | undefined,
  result: T | StateRefusal,
): T | undefined {
  if ("refusal" in result) {
    expect(REFUSALS).toContain(result.refusal);
    if (before) expect(readFileSync(path)).toEqual(before);
    else expect(statSync(path).isDirectory()).toBe(true);
    return undefined;
  }
  expect(before, "no folder is opened").toBeDefined();
  if (result.setAside !== undefined) expect(readFileSync(result.setAside)).toEqual(before);
  return result;
}

function use(state: State): void {
  const { inbox, outbox } = state;
  expect(state.receive([arrival("fresh", { from: me })], T0 + 1)).toMatchObject([{ verdict: "new" }]);
  expect(inbox.find("fresh")).toHaveLength(1);
  void [inbox.unread(1_000), inbox.unreadByPeer(), inbox.handed(), outbox.heads(), outbox.pending(100)];
  void [state.routes.all(), state.tasks.open(), state.meta.generation("main"), state.history(ann, { max: 100 })];
  inbox.takeUnread({ max: 1_000, maxBytes: 1e7 }, T0 + 2);
  expect(inbox.unreadCount()).toBe(0);
}

describe("a session's file", () => {
  it("is opened, refused as it was, or set aside and told; and then it serves", SLOW, () => {
    fc.assert(
      fc.property(content, (what) =>
        inFolder((folder) => {
          const path = join(folder, "one.db");
          const before = put(path, what);
          const result = judge(
            path,
            before,
            promptly(() => openState({ path, nowMs: T0 })),
          );
          if (!result) return;
          try {
            promptly(() => use(result.state));
          } finally {
            result.state.close();
          }
        }),
      ),
      fuzzed(0.7),
    );
  });

  it("with a damaged log, lock or index of the log beside it as well", SLOW, () => {
    const beside = fc.constantFrom("-wal", "-shm", ".lock", "-journal");
    const what = fc.oneof(
      { weight: 4, arbitrary: changes.map((all) => ({ wal: all })) },
      { weight: 4, arbitrary: content.map((of) => ({ of })) },
    );
    fc.assert(
      fc.property(beside, what, (suffix, thing) =>
        inFolder((folder) => {
          const path = join(folder, "one.db");
          writeFileSync(path, sound.open, { mode: 0o600 });
          if ("of" in thing) put(`${path}${suffix}`, thing.of);
          else writeFileSync(`${path}-wal`, changedBytes(sound.wal, thing.wal), { mode: 0o600 });
          const result = promptly(() => openState({ path, nowMs: T0 }));
          if ("refusal" in result) return void expect(REFUSALS).toContain(result.refusal);
          try {
            promptly(() => use(result.state));
          } finally {
            result.state.close();
          }
        }),
      ),
      fuzzed(0.4),
    );
  });

  it("is looked into from beside, or not, and never changed by it", SLOW, () => {
    fc.assert(
      fc.property(content, (what) =>
        inFolder((folder) => {
          const path = sessionStatePath(folder, me, session("s"));
          const before = put(path, what);
          promptly(() =>
            lookInto({ path }, ({ inbox, outbox, tasks }) => [
              inbox.unreadCount(),
              inbox.unread(1_000),
              inbox.after(0, 1_000),
              outbox.pendingCount(),
              outbox.after(0, 1_000),
              tasks.open(),
            ]),
          );
          if (before) expect(readFileSync(path)).toEqual(before);
        }),
      ),
      fuzzed(0.7),
    );
  });

  it("whose folder is a file is refused", SLOW, () => {
    inFolder((folder) => {
      writeFileSync(join(folder, "sessions"), "x");
      const result = openState({ path: join(folder, "sessions", "one.db"), nowMs: T0 });
      expect(result).toMatchObject({ refusal: "unsafe_path", why: "not_a_directory" });
      const deeper = openState({ path: join(folder, "sessions", "deeper", "one.db"), nowMs: T0 });
      expect(deeper).toMatchObject({ refusal: "unsafe_path", why: "not_a_directory" });
    });
  });
});

describe("an identity's files", () => {
  it("of pairing, and sessions' beside it that are to be adopted", SLOW, () => {
    fc.assert(
      fc.property(content, content, (what, former) =>
        inFolder((directory) => {
          const path = pairingPath(directory, me);
          const before = put(path, what);
          put(sessionStatePath(directory, me, session("s")), former);
          const result = judge(
            path,
            before,
            promptly(() => openPairing({ directory, me, nowMs: T0 })),
          );
          if (!result) return;
          const { pairing } = result;
          try {
            const { pending } = pairing.read();
            pairing.update((state) => ({ state }));
            pairing.knocks.keep({ key: ann, msg_id: "k9", ts: T0 }, T0);
            expect(pairing.knocks.knows(ann, "k9")).toBe(true);
            expect(Array.isArray(pending)).toBe(true);
          } finally {
            pairing.close();
          }
        }),
      ),
      fuzzed(0.4),
    );
  });

  it("of budgets", SLOW, () => {
    fc.assert(
      fc.property(content, (what) =>
        inFolder((directory) => {
          const path = budgetPath(directory, me);
          const before = put(path, what);
          const result = judge(
            path,
            before,
            promptly(() => openBudget(directory, me, T0)),
          );
          if (!result) return;
          const { budget } = result;
          try {
            budget.change(() => [new Map([["replies", { tokens: 1, at_ms: T0, dry: 0 }]]), undefined]);
            expect([...budget.read().keys()]).toEqual(["replies"]);
          } finally {
            budget.close();
          }
        }),
      ),
      fuzzed(0.4),
    );
  });
});
