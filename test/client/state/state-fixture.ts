/** A session's file in a folder of its own, and arrivals to put in it. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
