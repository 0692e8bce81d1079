/** What earlier versions kept of pairing in each session's file: nothing of it is lost, and nothing comes twice. */

import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { adoptFormerOf } from "../../../src/client/state/former-pairing.ts";
import { openFile } from "../../../src/client/state/open-file.ts";
import { openPairing } from "../../../src/client/state/open-pairing.ts";
import { sessionStatePath } from "../../../src/client/state/paths.ts";
import { FORMER, SESSION_SCHEMA } from "../../../src/client/state/schema.ts";
import type { Key } from "../../../src/protocol/address.ts";
import { fakeKey, sessionId } from "../../support/fake-agent.ts";
import { DAY, newPath, open, T0 } from "./state-fixture.ts";

const me = fakeKey(1);
const [ann, bob, eve] = [fakeKey(2), fakeKey(3), fakeKey(4)];
const newDirectory = () => dirname(newPath());

/** As the version before left it, closed. */
function formerFile(
  directory: string,
  session: string,
  { pending, at_ms = T0, owner = me }: { pending: readonly Key[]; at_ms?: number; owner?: Key },
): string {
  const path = sessionStatePath(directory, owner, sessionId(session));
  const schema = { ...SESSION_SCHEMA, steps: SESSION_SCHEMA.steps.slice(0, 1) };
  const file = openFile({ path, schema, nowMs: T0 });
  if ("refusal" in file) throw new Error(file.refusal);
  const { database, lock } = file;
  const send = { to: bob, fields: { to: bob, ts: T0, kind: "pair_request", msg_id: "r1", text: "me" }, reply_to: "x" };
  const state = {
    pending: pending.map((key) => ({ what: "knock", key, claimed_name: session, msg_id: `k-${session}`, at_ms })),
    sent: [{ key: bob, petname: "bob", by_operator: false, send, at_ms }],
  };
  database.run("INSERT INTO meta (name, value) VALUES ('pairing', ?), ('summary', 'busy')", JSON.stringify(state));
  const columns = "direction, peer, kind, name, msg_id, session, bus, ts, at_ms, handled_at_ms";
  const add = `INSERT INTO knock (${columns}) VALUES ('in', ?, ?, 'n', ?, NULL, 'main', ?, ?, ?)`;
  for (const key of pending) database.run(add, key, "pair_request", `k-${session}`, T0, at_ms, null);
  database.run(add, eve, "pair_request", "rejected", T0, at_ms, at_ms);
  database.run(add, bob, "pair_accept", "a1", T0, at_ms, at_ms);
  database.close();
  lock.release();
  return path;
}

function openIn(directory: string, nowMs = T0 + 1) {
  const opened = openPairing({ directory, me, nowMs });
  if ("refusal" in opened) throw new Error(opened.refusal);
  onTestFinished(() => opened.pairing.close());
  return opened.pairing;
}

describe("the files of all sessions", () => {
  it("are read once, the later request of a key counts, and what was decided is known", () => {
    const directory = newDirectory();
    const path = formerFile(directory, "one", { pending: [ann] });
    formerFile(directory, "two", { pending: [ann], at_ms: T0 + 1 });
    const bytes = readFileSync(path);
    const pairing = openIn(directory);
    expect(pairing.read()).toEqual({
      pending: [{ what: "knock", key: ann, claimed_name: "two", msg_id: "k-two", at_ms: T0 + 1 }],
      sent: [{ key: bob, send: { to: bob, fields: expect.objectContaining({ msg_id: "r1" }) }, at_ms: T0 + 1 }],
      owed: [],
    });
    expect(pairing.knocks.isNew({ key: eve, msg_id: "rejected", ts: T0 })).toBe(false);
    expect(pairing.knocks.isNew({ key: ann, msg_id: "k-two", ts: T0 })).toBe(false);
    expect(readFileSync(path)).toEqual(bytes); // its session may be running
    // Decided, and not there again at the next opening.
    pairing.update((state) => ({ state: { ...state, pending: [] } }));
    expect(openIn(directory).read().pending).toEqual([]);
  });

  it("that are another identity's, or none, or expired, are passed over", () => {
    const directory = newDirectory();
    formerFile(directory, "theirs", { pending: [ann], owner: fakeKey(9) });
    formerFile(directory, "old", { pending: [ann], at_ms: T0 - 4 * DAY });
    mkdirSync(directory, { recursive: true });
    writeFileSync(sessionStatePath(directory, me, sessionId("junk")), "no database ".repeat(500));
    writeFileSync(sessionStatePath(directory, me, sessionId("empty")), "");
    symlinkSync(join(directory, "nowhere"), sessionStatePath(directory, me, sessionId("link")));
    mkdirSync(sessionStatePath(directory, me, sessionId("folder")));
    expect(openIn(directory).read()).toEqual({ pending: [], sent: [], owed: [] });
  });
});

describe("the file of a session that comes again", () => {
  it("leaves nothing behind of pairing, and keeps the rest", () => {
    const directory = newDirectory();
    const path = formerFile(directory, "one", { pending: [ann] });
    const pairing = openIn(directory);
    pairing.update((state) => ({ state: { ...state, pending: [], sent: [] } })); // decided before it came
    const { state } = open(path);
    expect(state.meta.get(FORMER.knocks)).toContain("rejected");
    adoptFormerOf(pairing, state.meta, T0 + 2);
    expect(pairing.read()).toEqual({ pending: [], sent: [], owed: [] });
    expect([state.meta.get(FORMER.pairing), state.meta.get(FORMER.knocks)]).toEqual([undefined, undefined]);
    expect(state.meta.get("summary")).toBe("busy");
    state.close();
    const file = new DatabaseSync(path);
    expect(file.prepare("SELECT name FROM sqlite_schema WHERE name = 'knock'").all()).toEqual([]);
    file.close();
  });

  it("brings what came to it after all were read, while an earlier version ran it", () => {
    const directory = newDirectory();
    const pairing = openIn(directory, T0);
    const path = formerFile(directory, "late", { pending: [ann], at_ms: T0 + 5 });
    const { state } = open(path);
    adoptFormerOf(pairing, state.meta, T0 + 6);
    expect(pairing.read()).toMatchObject({ pending: [{ key: ann, msg_id: "k-late" }], sent: [{ key: bob }] });
  });

  it("may be taken over twice, to no effect: a crash came before it was emptied", () => {
    const directory = newDirectory();
    const pairing = openIn(directory, T0);
    const { state } = open(formerFile(directory, "late", { pending: [ann], at_ms: T0 + 5 }));
    const meta = new Map([FORMER.pairing, FORMER.knocks].map((name) => [name, state.meta.get(name)]));
    adoptFormerOf(pairing, state.meta, T0 + 6);
    pairing.update((before) => ({ state: { ...before, pending: [] } })); // decided in between
    for (const [name, value] of meta) state.meta.set(name, value);
    adoptFormerOf(pairing, state.meta, T0 + 7);
    expect(pairing.read().pending).toEqual([]);
  });
});
