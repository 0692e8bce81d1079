/** What one process leaves to the next: the file, and what a new session makes of it. */

import { chmodSync, existsSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { dropHandoff, leaveHandoff, takeHandoff, type Handoff } from "../../../src/client/supervisor/handoff.ts";
import { openState } from "../../../src/client/state/store.ts";
import { settleHanded, type Witness } from "../../../src/client/session/settle-handed.ts";
import { fakeKey } from "../../support/fake-agent.ts";
import { ok, pairOf, received } from "../session/support.ts";

const HANDOFF: Handoff = {
  generation: 2,
  reason: "exit 75",
  session: "s-1",
  state_key: Buffer.alloc(32, 7).toString("base64url"),
  rejoin: true,
  arrived: ["m1"],
  threads: ["t"],
};

describe("the file", () => {
  it("is ours alone, read once, and gone with its folder", () => {
    const path = leaveHandoff(HANDOFF);
    onTestFinished(() => dropHandoff(path));
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
    expect(takeHandoff(path)).toEqual(HANDOFF);
    expect(existsSync(dirname(path))).toBe(false);
    expect(takeHandoff(path)).toBeUndefined();
    dropHandoff(path); // what is gone may be dropped
  });

  it.each([
    { why: "that others may read", spoil: (path: string) => chmodSync(path, 0o644), refused: "loose_mode" },
    {
      why: "in whose place is a link",
      spoil: (path: string) => {
        rmSync(path);
        symlinkSync("/etc/hostname", path);
      },
      refused: "symlink",
    },
  ])("$why is refused", ({ spoil, refused }) => {
    const path = leaveHandoff(HANDOFF);
    onTestFinished(() => dropHandoff(path));
    spoil(path);
    expect(takeHandoff(path)).toMatchObject({ refused });
  });

  it("whose folder is a file is refused", () => {
    const dir = mkdtempSync(join(tmpdir(), "interlink-handed-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    writeFileSync(join(dir, "file"), "x");
    expect(takeHandoff(join(dir, "file", "handoff.json"))).toMatchObject({ refused: "wrong_kind" });
  });

  it.each([
    { why: "no JSON", text: "{" },
    { why: "a short key", text: JSON.stringify({ ...HANDOFF, state_key: "AAAA" }) },
    { why: "no session", text: JSON.stringify({ ...HANDOFF, session: 1 }) },
    { why: "no count", text: JSON.stringify({ ...HANDOFF, generation: undefined }) },
    { why: "no end of counting", text: JSON.stringify(HANDOFF).replace(/"generation":\d+/, '"generation":1e999') },
    { why: "half a process", text: JSON.stringify({ ...HANDOFF, generation: 1.5 }) },
    { why: "a session that can be none", text: JSON.stringify({ ...HANDOFF, session: "a/b" }) },
  ])("with $why is none", ({ text }) => {
    const path = leaveHandoff(HANDOFF);
    onTestFinished(() => dropHandoff(path));
    writeFileSync(path, text);
    expect(takeHandoff(path)).toBeUndefined();
  });
});

describe("mail that a process took before it died", () => {
  const HOUR_MS = 3_600_000;
  const NOW_MS = 1_800_000_000_000;
  const witness: Witness = { keeper: "ours", arrived: ["m1"] };

  /** m1 and m2, taken by a process of that keeper, which knew nothing of what had been before. */
  function taken(keeper: string | undefined, atMs = NOW_MS) {
    const dir = mkdtempSync(join(tmpdir(), "interlink-handed-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const opened = openState({ path: join(dir, "s.db"), nowMs: 1 });
    if ("refusal" in opened) throw new Error(opened.refusal);
    const { state } = opened;
    onTestFinished(() => state.close());
    const arrivals = ["m1", "m2"].map((msg_id) => ({
      from: fakeKey(2),
      msg_id,
      text: msg_id,
      ts: 1,
      digest: msg_id,
      clock_ok: true,
      bus: "b",
    }));
    state.receive(arrivals, 1);
    expect(settleHanded(state, keeper === undefined ? undefined : { keeper, arrived: [] })).toBe(0);
    take(state, atMs);
    return state;
  }
  const take = (state: ReturnType<typeof taken>, atMs = NOW_MS) =>
    state.inbox.takeUnread({ max: 9, maxBytes: 1_000 }, atMs).messages.map(({ msg_id }) => msg_id);
  const unread = (state: ReturnType<typeof taken>) => state.inbox.unread(10).map(({ msg_id }) => msg_id);

  it("is unread again if its answer did not come out; what came out stays read", () => {
    const state = taken("ours");
    expect(settleHanded(state, witness)).toBe(0);
    expect(unread(state)).toEqual(["m2"]);
    expect(state.inbox.handed()).toEqual([]);
    // Once: a second start changes nothing.
    expect(settleHanded(state, witness)).toBe(0);
    expect(take(state)).toEqual(["m2"]);
  });

  it.each([-24 * HOUR_MS, -HOUR_MS, -1, 0, 1, HOUR_MS, 24 * HOUR_MS])(
    "is judged by whose process took it, and never by a clock that was %d ms off",
    (offMs) => {
      const ours = taken("ours", NOW_MS + offMs);
      expect(settleHanded(ours, witness)).toBe(0);
      expect(unread(ours)).toEqual(["m2"]);
      const others = taken("another", NOW_MS + offMs);
      expect(settleHanded(others, witness)).toBe(2);
      expect(unread(others)).toEqual([]);
    },
  );

  it("stays read, and is told of, where this keeper cannot have seen it", () => {
    for (const keeper of ["another", undefined]) {
      const state = taken(keeper);
      expect(settleHanded(state, witness)).toBe(2);
      expect(unread(state)).toEqual([]);
    }
    const state = taken("ours");
    expect(settleHanded(state, undefined)).toBe(2);
    expect(unread(state)).toEqual([]);
  });

  it("is another's from the moment that another's process has begun, whoever begins next", () => {
    const state = taken("ours");
    settleHanded(state, { keeper: "another", arrived: [] });
    expect(settleHanded(state, witness), "nothing was taken since").toBe(0);
    const twice = taken("ours");
    settleHanded(twice, witness);
    settleHanded(twice, { keeper: "another", arrived: [] });
    expect(take(twice)).toEqual(["m2"]);
    expect(settleHanded(twice, witness), "the other's read m2").toBe(1);
    expect(unread(twice)).toEqual([]);
  });

  it("is not given back once a further call has said that it arrived", () => {
    const state = taken("ours");
    state.inbox.confirmHanded(state.inbox.handed().map(({ seq }) => seq));
    expect(settleHanded(state, witness)).toBe(0);
    expect(unread(state)).toEqual([]);
  });
});

describe("a call that is made again", { timeout: 30_000 }, () => {
  let bus: LocalBus;
  beforeAll(async () => {
    bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
  });
  afterAll(() => bus.stop());

  it("calls a task off once", async () => {
    const { ann, bob } = await pairOf(bus.url);
    ok(await ann.send({ to: "bob", text: "do it", task_id: "t" }));
    const call = { to: "bob", task_id: "t", idempotencyKey: "supervisor:1" };
    const first = ok(await ann.cancelTask(call));
    const again = ok(await ann.cancelTask(call));
    expect(again.msg_id).toBe(first.msg_id);
    expect(ok(await ann.cancelTask({ ...call, idempotencyKey: "supervisor:2" })).msg_id).not.toBe(first.msg_id);
    expect(await received(bob, 3)).toEqual(["do it", "canceled", "canceled"]);
  });
});
