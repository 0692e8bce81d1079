/** Opening a session's file: rights, one process at a time, schemas of the future, broken files. */

import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { openFile } from "../../../src/client/state/open-file.ts";
import { PAIRING_SCHEMA, SESSION_SCHEMA } from "../../../src/client/state/schema.ts";
import { openState } from "../../../src/client/state/store.ts";
import { alter, ANN, arrival, isPosix, modeOf, newPath, open, T0, withoutUmask } from "./state-fixture.ts";

describe("who may read it", () => {
  it.runIf(isPosix)("makes files of 0600 in a folder of 0700, whatever the umask", () => {
    withoutUmask(() => {
      const path = newPath();
      open(path).state.receive([arrival("a")], T0);
      expect(modeOf(dirname(path))).toBe(0o700);
      const files = readdirSync(dirname(path));
      expect(files).toEqual(expect.arrayContaining(["one.db", "one.db.lock", "one.db-wal"]));
      for (const file of files) expect(modeOf(join(dirname(path), file)), file).toBe(0o600);
    });
  });

  it.runIf(isPosix)("takes from others the rights that they had", () => {
    const path = newPath();
    open(path).state.close();
    chmodSync(path, 0o644);
    chmodSync(dirname(path), 0o755);
    open(path);
    expect([modeOf(path), modeOf(dirname(path))]).toEqual([0o600, 0o700]);
  });

  it.runIf(isPosix).each(["one.db", "one.db.lock"])("follows no symlink in place of %s", (name) => {
    const path = newPath();
    mkdirSync(dirname(path), { recursive: true });
    const target = join(dirname(path), "elsewhere");
    const link = join(dirname(path), name);
    symlinkSync(target, link);
    expect(openState({ path, nowMs: T0 })).toEqual({ refusal: "unsafe_path", path: link, why: "symlink" });
    expect(existsSync(target)).toBe(false);
  });

  it.runIf(isPosix)("refuses a folder of another user", () => {
    const path = newPath();
    const uid = process.getuid!() + 1;
    const refusal = { refusal: "unsafe_path", path: dirname(path), why: "foreign_owner" };
    expect(openState({ path, nowMs: T0, uid })).toEqual(refusal);
    expect("state" in openState({ path, nowMs: T0, uid: process.getuid!() })).toBe(true);
  });

  it("refuses a folder that is a file", () => {
    const path = newPath();
    writeFileSync(dirname(path), "x");
    const refusal = { refusal: "unsafe_path", why: "not_a_directory" };
    expect(openState({ path, nowMs: T0 })).toMatchObject({ ...refusal, path: dirname(path) });
    expect(openState({ path: join(dirname(path), "deeper", "one.db"), nowMs: T0 })).toMatchObject(refusal);
  });

  it("writes over no file that stands where the lock should", () => {
    const path = newPath();
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(`${path}.lock`, "a diary of someone. ".repeat(500));
    expect(openState({ path, nowMs: T0 })).toMatchObject({ refusal: "unsafe_path", why: "foreign_lock" });
    expect(readFileSync(`${path}.lock`, "utf8")).toContain("diary");
  });
});

describe("one at a time", () => {
  it("refuses a second opening while the first is open, and lets it in afterwards", () => {
    const path = newPath();
    const { state } = open(path);
    expect(openState({ path, nowMs: T0 })).toEqual({ refusal: "in_use", path });
    state.receive([arrival("a")], T0); // the refused one disturbed nothing
    state.close();
    expect(open(path).state.inbox.unreadCount()).toBe(1);
  });

  it("lets another process count the unread meanwhile", () => {
    const path = newPath();
    open(path).state.receive([arrival("a"), arrival("b")], T0);
    const reader = new DatabaseSync(path, { readOnly: true });
    expect(reader.prepare("SELECT count(*) AS n FROM inbox WHERE read_at_ms IS NULL").get()).toMatchObject({ n: 2 });
    reader.close();
  });
});

describe("schema", () => {
  it("begins where there is nothing, and keeps what there is", () => {
    const path = newPath();
    open(path).state.receive([arrival("a")], T0);
    expect(SESSION_SCHEMA.steps).toHaveLength(2);
  });

  it("refuses a file of a later version, and leaves it as it is", () => {
    const path = newPath();
    open(path).state.close();
    alter(path, `PRAGMA user_version = ${SESSION_SCHEMA.steps.length + 1}`);
    const bytes = readFileSync(path);
    expect(openState({ path, nowMs: T0 })).toEqual({
      refusal: "newer_schema",
      path,
      found: SESSION_SCHEMA.steps.length + 1,
      known: SESSION_SCHEMA.steps.length,
    });
    expect(readFileSync(path)).toEqual(bytes);
    expect(openState({ path, nowMs: T0 })).toMatchObject({ refusal: "newer_schema" }); // and holds no lock
  });

  it("runs the steps that a file lacks, once, with what it holds", () => {
    const path = newPath();
    const { state } = open(path);
    state.receive([arrival("a")], T0);
    state.close();
    const more = ["CREATE TABLE later (x TEXT) STRICT", "INSERT INTO later VALUES ('once')"];
    const schema = { ...SESSION_SCHEMA, steps: [...SESSION_SCHEMA.steps, ...more] };
    for (let i = 0; i < 2; i++) {
      const opened = openFile({ path, schema, nowMs: T0 });
      if ("refusal" in opened) throw new Error(opened.refusal);
      expect(opened.database.all("SELECT x FROM later")).toHaveLength(1);
      expect(opened.database.all("SELECT seq FROM inbox")).toHaveLength(1);
      opened.database.close();
      opened.lock.release();
    }
  });
});

describe("a broken file", () => {
  const breakages: { name: string; content: (whole: Buffer) => Buffer | string }[] = [
    { name: "text", content: () => "this is no database. ".repeat(400) },
    { name: "a header and noise", content: (whole) => Buffer.concat([whole.subarray(0, 100), Buffer.alloc(8_192, 7)]) },
    {
      name: "noise in a page of a table",
      content: (whole) => Buffer.concat([whole.subarray(0, 8_192), Buffer.alloc(whole.length - 8_192, 0xa5)]),
    },
    { name: "half a file", content: (whole) => whole.subarray(0, Math.floor(whole.length / 2 / 4_096) * 4_096) },
  ];

  it.each(breakages)("is set aside and said, never deleted: $name", ({ content }) => {
    const path = newPath();
    const { state } = open(path);
    state.receive(
      Array.from({ length: 200 }, (_, n) => arrival(`m${n}`, { text: "x".repeat(500) })),
      T0,
    );
    state.close();
    const broken = Buffer.from(content(readFileSync(path)));
    writeFileSync(path, broken);
    const opened = open(path, T0 + 5);
    expect(opened.setAside).toBe(`${path}.broken-${T0 + 5}`);
    expect(readFileSync(opened.setAside!)).toEqual(broken);
    expect(opened.state.receive([arrival("new")], T0)).toMatchObject([{ verdict: "new" }]);
    opened.state.close();
    expect(open(path).setAside).toBeUndefined();
  });

  it("is not one with a spoilt byte in a text: that one shows it, and the others are read", () => {
    const path = newPath();
    const { state } = open(path);
    state.receive([arrival("a", { text: "abc" }), arrival("b", { text: "whole" })], T0);
    state.close();
    alter(path, "UPDATE inbox SET text = x'61ff63' WHERE msg_id = 'a'");
    const { messages } = open(path).state.inbox.takeUnread({ max: 9, maxBytes: 1_000 }, T0);
    expect(messages.map(({ text }) => text)).toEqual(["a\ufffdc", "whole"]);
  });

  it.each([
    {
      what: "the name of a column",
      sql: "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, 'msg_id', 'msg_ie')",
    },
    { what: "the number of the last step, back to none", sql: "PRAGMA user_version = 0" },
    { what: "the number of the last step, back by one", sql: "PRAGMA user_version = 1" },
    { what: "a cell of JSON", sql: `UPDATE outbox SET life = '{"state":"acked"'` },
  ])("is one with a spoilt byte in $what, which SQLite does not see", ({ sql }) => {
    const path = newPath();
    const { state } = open(path);
    const life = { state: "acked", at_ms: T0 } as const;
    state.outbox.add({ msg_id: "o", peer: ANN, route: ANN, kind: "message", payload: "{}", ts: T0, life }, T0);
    state.close();
    alter(path, sql);
    const broken = readFileSync(path);
    const opened = open(path, T0 + 5);
    expect(readFileSync(opened.setAside!)).toEqual(broken);
    expect(opened.state.receive([arrival("new")], T0)).toMatchObject([{ verdict: "new" }]);
  });

  it("is one of another program too", () => {
    const path = newPath();
    mkdirSync(dirname(path), { recursive: true });
    alter(path, "CREATE TABLE theirs (x)");
    expect(open(path).setAside).toBeDefined();
    expect(SESSION_SCHEMA.applicationId).not.toBe(0);
  });

  it("is one of ours of another kind too", () => {
    const path = newPath();
    open(path).state.close();
    const opened = openFile({ path, schema: PAIRING_SCHEMA, nowMs: T0 });
    if ("refusal" in opened) throw new Error(opened.refusal);
    opened.database.close();
    opened.lock.release();
    expect(opened.setAside).toBeDefined();
  });

  it("is not an empty one: a crash right after making it left nothing to lose", () => {
    const path = newPath();
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, "");
    expect(open(path).setAside).toBeUndefined();
  });
});
