/** The loop guard's shells on a clock that the test moves: what counts, when a host is woken, and what is told. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { isAutomaticReply } from "../../../src/client/session/automatic-reply.ts";
import { Guard, type Ledger } from "../../../src/client/session/guard.ts";
import { leftOf, PEER_BUDGET, STOP_AFTER_DRY, type GuardState } from "../../../src/client/session/loop-guard.ts";
import { describeIncident, type Incident } from "../../../src/client/session/notices.ts";
import { CALM_MS, GATHER_MAX_MS, REPEAT_FIRST_MS, Wakes } from "../../../src/client/session/wakes.ts";
import type { UnreadMail } from "../../../src/client/session/wake-path.ts";
import { openBudget } from "../../../src/client/state/budget-file.ts";
import type { TaskState } from "../../../src/client/state/task-progress.ts";
import { fakeKey, fakePeer } from "../../support/fake-agent.ts";

const T0 = 1_800_000_000_000;
const HOUR = 3_600_000;
const [ann, bob, carl] = [fakePeer("ann", 11), fakePeer("bob", 12), fakePeer("carl", 13)];
const nameOf = (key: string) => [ann, bob, carl].find((peer) => peer.key === key)!;

/** A clock and its timers. */
function clock() {
  let nowMs = T0;
  let timers: { atMs: number; run: () => void }[] = [];
  return {
    timers: {
      now: () => nowMs,
      setTimeout: (run: () => void, delayMs: number) => {
        const timer = { atMs: nowMs + delayMs, run };
        timers.push(timer);
        return timer;
      },
      clearTimeout: (timer: unknown) => void (timers = timers.filter((other) => other !== timer)),
    },
    waiting: () => timers.map(({ atMs }) => atMs - T0),
    pass(ms: number) {
      nowMs += ms;
      const due = timers.filter(({ atMs }) => atMs <= nowMs);
      timers = timers.filter(({ atMs }) => atMs > nowMs);
      for (const { run } of due) run();
    },
  };
}

function memoryLedger(): Ledger {
  let state: GuardState = new Map();
  return {
    read: () => state,
    change(step) {
      const [next, result] = step(state);
      state = next;
      return result;
    },
  };
}

/** A guard of one session. */
function guardOn(ledger: Ledger = memoryLedger(), time = clock()) {
  const facts = new Map<string, string>();
  const meta = {
    get: (name: string) => facts.get(name),
    set: (name: string, value: string | undefined) =>
      void (value === undefined ? facts.delete(name) : facts.set(name, value)),
  };
  const told: Incident[] = [];
  const onIncident = (incident: Incident) => void told.push(incident);
  const guard = new Guard({ ledger, meta, timers: time.timers, nameOf, onIncident });
  return { guard, told, ledger, ...time };
}

/** A session's wakes, with mail that the test puts there. */
function wakesOn(own = guardOn()) {
  let unread: { from: typeof ann.key; oldest_at_ms: number }[] = [];
  const woken: UnreadMail[] = [];
  let isHeard = true;
  const inbox = { unreadCount: () => unread.length, unreadByPeer: () => unread };
  const wakes = new Wakes({ guard: own.guard, inbox, nameOf, timers: own.timers });
  wakes.add({ isHeard: () => isHeard, wake: (mail) => woken.push(mail) });
  const come = (...from: (typeof ann)[]) => {
    unread.push(...from.map(({ key }) => ({ from: key, oldest_at_ms: own.timers.now() })));
    wakes.mailCame(from.map(({ key }) => key));
  };
  return {
    ...own,
    wakes,
    woken,
    counts: () => woken.map(({ count }) => count),
    deafen: () => (isHeard = false),
    hear() {
      isHeard = true;
      wakes.heard();
    },
    come,
    /** It comes, and nothing more for a while. */
    settle(...from: (typeof ann)[]) {
      come(...from);
      own.pass(CALM_MS);
    },
    /** @param left how many the look leaves */
    look(left = 0) {
      unread = unread.slice(unread.length - left);
      wakes.looked();
    },
  };
}

describe("a clock that is set back", () => {
  it.each([1, HOUR, 24 * HOUR])("by %d ms does not stretch the wait for one more", (byMs) => {
    const { guard, pass } = guardOn();
    while (!guard.spendWake(ann.key)) continue;
    pass(-byMs);
    // Refused, and counted from now on: else nothing would refill before the clock is where it was.
    const { refills_at_ms } = guard.spendWake(ann.key)!;
    expect(refills_at_ms).toBe(T0 - byMs + 2 * PEER_BUDGET.refillMs);
    pass(2 * PEER_BUDGET.refillMs - 1);
    expect(guard.spendWake(ann.key)).toBeDefined();
    pass(1);
    expect(guard.spendWake(ann.key)).toBeUndefined();
  });

  it("does not stretch how long mail is gathered", () => {
    const { come, pass, counts } = wakesOn();
    come(ann);
    pass(-HOUR);
    for (let ms = 0; ms < GATHER_MAX_MS; ms += CALM_MS / 2) {
      come(bob);
      pass(CALM_MS / 2);
    }
    expect(counts()).toHaveLength(1);
  });
});

describe("an automatic reply", () => {
  const task = (state: TaskState) => ({ state });
  it.each([
    { writing: { hasRead: false }, is: false, why: "nobody wrote" },
    { writing: { hasRead: false, task: task("result"), status: "result" }, is: false, why: "nobody wrote" },
    { writing: { hasRead: true }, is: true, why: "an answer, or a word passed on" },
    { writing: { hasRead: true, task: task("open"), status: "result" }, is: false, why: "a task's answer" },
    { writing: { hasRead: true, task: task("needs_input"), status: "failed" }, is: false, why: "a task's answer" },
    { writing: { hasRead: true, task: task("open"), status: "canceled" }, is: false, why: "a task called off" },
    { writing: { hasRead: true, task: task("result"), status: "result" }, is: true, why: "it has ended before" },
    { writing: { hasRead: true, task: task("open"), status: "update" }, is: true, why: "it may come again" },
    { writing: { hasRead: true, task: task("open"), status: "needs_input" }, is: true, why: "it may come again" },
    { writing: { hasRead: true, task: task("open") }, is: true, why: "plain words" },
    { writing: { hasRead: true, status: "result" }, is: true, why: "of no task" },
  ] as const)("$writing: $is, $why", ({ writing, is }) => expect(isAutomaticReply(writing)).toBe(is));
});

describe("replies", () => {
  it("end at the budget, which is told with the last one, once", () => {
    const { guard, told, pass } = guardOn();
    for (let n = 1; n < PEER_BUDGET.burst; n++) expect(guard.spendReply(bob.key)).toBeUndefined();
    expect(told).toEqual([]);
    expect(guard.spendReply(bob.key)).toBeUndefined();
    const refills_at_ms = T0 + 2 * PEER_BUDGET.refillMs;
    expect(told).toEqual([{ what: "budget", spending: "reply", petname: "bob", over: "peer", refills_at_ms }]);
    expect(describeIncident(told[0]!)).toBe(
      `the budget of automatic replies with bob is used up until ${new Date(refills_at_ms).toISOString()}: stop, and let the human look`,
    );
    for (let n = 0; n < 3; n++)
      expect(guard.spendReply(bob.key)).toEqual({
        code: "budget_spent",
        budget: { peer: bob, over: "peer", refills_at_ms },
      });
    pass(2 * PEER_BUDGET.refillMs - 1);
    expect(guard.spendReply(bob.key)).toMatchObject({ code: "budget_spent" });
    expect(told).toHaveLength(1);
    pass(1);
    expect(guard.spendReply(bob.key)).toBeUndefined();
    expect(guard.spendReply(carl.key)).toBeUndefined();
  });

  it("end for good where no human comes", () => {
    const { guard, pass } = guardOn();
    let replies = 0;
    for (let hour = 0; hour < 24 * 30; hour++) {
      while (!guard.spendReply(bob.key)) replies++;
      pass(HOUR);
    }
    expect(replies).toBeLessThanOrEqual(PEER_BUDGET.burst + STOP_AFTER_DRY);
    const refusal = guard.spendReply(bob.key);
    expect(refusal?.budget).toEqual({ peer: bob, over: "peer" });
  });

  it("are lifted for one peer, also by another process", () => {
    const { guard, ledger, told } = guardOn();
    for (const peer of [ann, bob]) while (!guard.spendReply(peer.key));
    guardOn(ledger).guard.lift(bob.key); // the command line has the ledger and nothing of this session
    expect(guard.spendReply(bob.key)).toBeUndefined();
    expect(guard.spendReply(ann.key)).toMatchObject({ code: "budget_spent" });
    while (!guard.spendReply(bob.key));
    expect(told.map((incident) => "petname" in incident && incident.petname)).toEqual(["ann", "bob", "bob"]);
  });

  it("of a session whose human was seen are full again, those of another session are not", () => {
    const ledger = memoryLedger();
    const [watched, unwatched] = [guardOn(ledger), guardOn(ledger)];
    for (const { guard } of [watched, unwatched]) guard.noteReading();
    while (!watched.guard.spendReply(ann.key));
    while (!unwatched.guard.spendReply(bob.key));
    watched.guard.humanSeen();
    expect([watched.guard.hasRead, unwatched.guard.hasRead]).toEqual([false, true]);
    expect(leftOf(ledger.read(), "reply", ann.key, T0).left).toBe(PEER_BUDGET.burst);
    expect(leftOf(ledger.read(), "reply", bob.key, T0).left).toBe(0);
  });
});

describe("a wake", () => {
  it("is one for fifty messages in ten seconds, and says fifty, from whom, and how old", () => {
    const { come, look, pass, woken, counts, ledger } = wakesOn();
    for (let n = 0; n < 50; n++) {
      come(bob);
      pass(200);
    }
    expect(woken).toEqual([]);
    pass(CALM_MS);
    expect(counts()).toEqual([50]);
    expect(woken[0]!.from[0]).toBe("bob");
    expect(woken[0]!.oldest_age_ms).toBeGreaterThanOrEqual(10_000);
    expect(leftOf(ledger.read(), "wake", bob.key, T0).left).toBe(PEER_BUDGET.burst - 1);
    // All but one are read: one more at most, and none once that is read too.
    look(1);
    pass(REPEAT_FIRST_MS);
    expect(counts()).toEqual([50, 1]);
    look();
    pass(30 * 24 * HOUR);
    expect(counts()).toEqual([50, 1]);
  });

  it("does not wait for ever for mail that keeps coming", () => {
    const { come, pass, woken } = wakesOn();
    for (let ms = 0; ms <= GATHER_MAX_MS; ms += 500) {
      come(bob);
      pass(500);
    }
    expect(woken).toHaveLength(1);
  });

  it("is made once until somebody looks, whatever comes, and is the first sender's", () => {
    const { settle, look, counts, ledger } = wakesOn();
    for (let n = 0; n < 10; n++) settle(bob);
    expect(counts()).toEqual([1]);
    look();
    settle(bob, carl);
    expect(counts()).toEqual([1, 2]);
    expect(leftOf(ledger.read(), "wake", bob.key, T0).left).toBe(PEER_BUDGET.burst - 2);
    expect(leftOf(ledger.read(), "wake", carl.key, T0).left).toBe(PEER_BUDGET.burst);
  });

  it("is made again after growing pauses until somebody looks, each from the budget", () => {
    const { settle, look, pass, counts, ledger, timers, waiting } = wakesOn();
    settle(bob);
    const pauses = [2, 10, 50, 250].map((minutes) => minutes * 60_000);
    for (const [index, pauseMs] of pauses.entries()) {
      pass(pauseMs - 1);
      expect(counts()).toHaveLength(index + 1);
      pass(1);
      expect(counts()).toHaveLength(index + 2);
    }
    expect(leftOf(ledger.read(), "wake", bob.key, timers.now()).left).toBeLessThan(PEER_BUDGET.burst);
    look();
    expect(waiting()).toEqual([]);
  });

  it("over a year without a look is made a few times, and no more than the budget allows", () => {
    const { settle, pass, counts } = wakesOn();
    settle(bob);
    for (let hour = 0; hour < 24 * 365; hour++) pass(HOUR);
    expect(counts().length).toBeLessThanOrEqual(370);
  });

  it("is not made when what was gathered is read before", () => {
    const { come, look, pass, counts, ledger, waiting } = wakesOn();
    come(bob);
    look();
    expect(waiting()).toEqual([]);
    pass(24 * HOUR);
    expect(counts()).toEqual([]);
    expect(ledger.read().size).toBe(0);
  });

  it("costs nothing where nobody would hear it, and is made when somebody does", () => {
    const { settle, deafen, hear, pass, counts, ledger } = wakesOn();
    deafen();
    settle(bob);
    expect(counts()).toEqual([]);
    expect(ledger.read().size).toBe(0);
    hear();
    pass(CALM_MS);
    expect(counts()).toEqual([1]);
    hear();
    pass(CALM_MS);
    expect(counts()).toEqual([1]);
  });

  it("that could not be repeated is made when somebody hears again", () => {
    const { settle, deafen, hear, pass, counts } = wakesOn();
    settle(bob);
    deafen();
    pass(REPEAT_FIRST_MS);
    expect(counts()).toEqual([1]);
    hear();
    pass(CALM_MS);
    expect(counts()).toEqual([1, 1]);
  });

  it("over budget is not made, is told once, and the quiet peer beside is heard", () => {
    const { settle, look, counts, told } = wakesOn();
    for (let n = 0; n < 2 * PEER_BUDGET.burst; n++) {
      settle(bob);
      look();
    }
    expect(counts()).toHaveLength(PEER_BUDGET.burst);
    expect(told).toHaveLength(1);
    expect(told[0]).toMatchObject({ what: "budget", spending: "wake", petname: "bob" });
    expect(describeIncident(told[0]!)).toMatch(/^the budget of wakes with bob is used up until .*: mail is kept/);
    settle(bob);
    expect(counts()).toHaveLength(PEER_BUDGET.burst);
    settle(bob, carl); // one batch
    expect(counts().slice(PEER_BUDGET.burst)).toEqual([3]);
  });

  it("that was held back is made when there is one again, if the mail is unread still", () => {
    const { settle, look, counts, pass, waiting } = wakesOn();
    for (let n = 0; n < PEER_BUDGET.burst; n++) {
      settle(bob);
      look();
    }
    settle(bob);
    expect(waiting()).toHaveLength(1);
    settle(bob);
    expect(waiting()).toHaveLength(1);
    pass(2 * PEER_BUDGET.refillMs);
    expect(counts().slice(PEER_BUDGET.burst)).toEqual([2]);
    look();
    settle(bob);
    expect(waiting()).toHaveLength(1);
    look();
    expect(waiting()).toEqual([]);
    pass(24 * HOUR);
    expect(counts()).toHaveLength(PEER_BUDGET.burst + 1);
  });

  it("is not waited for once the session is closed", () => {
    const { come, settle, wakes, waiting } = wakesOn();
    settle(bob);
    expect(waiting()).toHaveLength(1);
    wakes.close();
    expect(waiting()).toEqual([]);
    come(bob);
    expect(waiting()).toEqual([]);
  });
});

describe("the file of the budgets", () => {
  function folder(): string {
    const dir = mkdtempSync(join(tmpdir(), "interlink-budget-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    return dir;
  }
  const fileIn = (dir: string, key = ann.key) => {
    const opened = openBudget(dir, key, T0);
    if ("refusal" in opened) throw new Error(opened.refusal);
    onTestFinished(() => opened.budget.close());
    return opened.budget;
  };

  it("is one for all sessions of an identity, and is there again after each of them", () => {
    const dir = folder();
    const [one, two] = [guardOn(fileIn(dir)), guardOn(fileIn(dir))];
    let replies = 0;
    for (const { guard } of [one, two, one, two]) while (!guard.spendReply(bob.key)) replies++;
    expect(replies).toBe(PEER_BUDGET.burst);
    const again = guardOn(fileIn(dir));
    expect(again.guard.spendReply(bob.key)).toMatchObject({ code: "budget_spent" });
    expect(guardOn(fileIn(dir, fakeKey(99))).guard.spendReply(bob.key)).toBeUndefined(); // another identity's
  });

  it("has what it was last given, and no more", () => {
    const dir = folder();
    const bucket = { tokens: 3.5, at_ms: T0, dry: 2 };
    fileIn(dir).change(() => [
      new Map([
        ["wake", bucket],
        ["reply", bucket],
      ]),
      undefined,
    ]);
    fileIn(dir).change((before) => [new Map([["wake", { ...before.get("wake")!, dry: 3 }]]), undefined]);
    expect([...fileIn(dir).read()]).toEqual([["wake", { ...bucket, dry: 3 }]]);
  });

  it("keeps what was there when a decision fails", () => {
    const budget = fileIn(folder());
    const own = guardOn(budget);
    own.guard.spendReply(bob.key);
    const before = budget.read();
    expect(() =>
      budget.change(() => {
        throw new Error("no");
      }),
    ).toThrow("no");
    expect(budget.read()).toEqual(before);
  });
});
