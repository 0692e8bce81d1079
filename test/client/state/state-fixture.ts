/** A session's file in a folder of its own, and arrivals to put in it. */

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach } from "vitest";
import type { Key, SessionId } from "../../../src/protocol/address.ts";
import { openState, type OpenedState, type State } from "../../../src/client/state/store.ts";
import type { Arrival } from "../../../src/client/state/inbox.ts";

/** Real keys of test/vectors are not needed where nothing is verified; the tables store any text. */
export const ANN = "ann-key" as Key;
export const BOB = "bob-key" as Key;
export const T0 = 1_800_000_000_000;
export const DAY = 86_400_000;

export function arrival(msg_id: string, fields: Partial<Arrival> = {}): Arrival {
  return {
    from: ANN,
    msg_id,
    text: `text of ${msg_id}`,
    ts: T0,
    digest: `digest of ${msg_id}`,
    clock_ok: true,
    bus: "main",
    ...fields,
  };
}

export const isPosix = process.platform !== "win32";
export const modeOf = (path: string) => statSync(path).mode & 0o777;

/** As another program would do it: what our own code never writes. */
export function alter(path: string, sql: string): void {
  const file = new DatabaseSync(path, { defensive: false } as object);
  file.exec(sql);
  file.close();
}

/** Where the system takes no rights from a new file, only we do. */
export function withoutUmask(act: () => void): void {
  const before = process.umask(0);
  try {
    act();
  } finally {
    process.umask(before);
  }
}

export const session = (text: string) => text as SessionId;

const folders: string[] = [];
const states: State[] = [];

/** A path in a new folder, which is removed after the test. */
export function newPath(): string {
  const folder = mkdtempSync(join(tmpdir(), "interlink-state-"));
  folders.push(folder);
  return join(folder, "sessions", "one.db");
}

/** Opens, expecting to succeed; closed after the test. */
export function open(path = newPath(), nowMs = T0): OpenedState {
  const opened = openState({ path, nowMs });
  if ("refusal" in opened) throw new Error(`refused: ${JSON.stringify(opened)}`);
  states.push(opened.state);
  return opened;
}

afterEach(() => {
  for (const state of states.splice(0)) state.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});
