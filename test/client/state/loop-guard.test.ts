/** Two agents, or three in a ring, that answer everything: they stop, are told, and a human starts them again. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  afterSetBack,
  ALL_BUDGET,
  leftOf,
  lift,
  PEER_BUDGET,
  RESERVE,
  STOP_AFTER_DRY,
  spend,
  spentOn,
  type Allowance,
  type GuardState,
} from "../../../src/client/session/loop-guard.ts";

const T0 = 1_800_000_000_000;
const MINUTE = 60_000;
const DAY = 1_440 * MINUTE;
const NEW: GuardState = new Map();

/** Spends up to `times`, and says how many were allowed and what was said last. */
function spendMany(state: GuardState, peer: string, times: number, nowMs = T0) {
  let allowed = 0;
  let last: Allowance | undefined;
  for (let n = 0; n < times; n++) {
    last = spend(state, "wake", peer, nowMs);
    if (!last.allowed) break;
    state = last.state;
    allowed++;
  }
  return { state, allowed, last };
}

describe("a budget", () => {
  it("says what is over and when one more is allowed, which then is true", () => {
    const { state, allowed, last } = spendMany(NEW, "ann", 99);
    expect(allowed).toBe(PEER_BUDGET.burst);
    expect(last).toEqual({
      allowed: false,
      spending: "wake",
      over: "peer",
      refills_at_ms: T0 + 2 * PEER_BUDGET.refillMs, // run dry once: half the speed
    });
    expect(spend(state, "wake", "ann", T0 + 2 * PEER_BUDGET.refillMs - 1).allowed).toBe(false);
    expect(spend(state, "wake", "ann", T0 + 2 * PEER_BUDGET.refillMs).allowed).toBe(true);
    expect(spend(state, "reply", "ann", T0).allowed).toBe(true); // another account
    const refills_at_ms = T0 + 2 * PEER_BUDGET.refillMs;
    expect(leftOf(state, "wake", "ann", T0)).toEqual({ left: 0, of: PEER_BUDGET.burst, refills_at_ms });
    expect(leftOf(state, "wake", undefined, T0)).toEqual({
      left: ALL_BUDGET.burst - PEER_BUDGET.burst,
      of: ALL_BUDGET.burst,
    });
    expect(leftOf(state, "reply", "ann", T0)).toEqual({ left: PEER_BUDGET.burst, of: PEER_BUDGET.burst });
    expect(spentOn(state)).toEqual(["ann"]);
  });

  it("is not starved by one chatty peer, nor for a quiet one by many", () => {
    expect(spend(spendMany(NEW, "chatty", 99).state, "wake", "quiet", T0).allowed).toBe(true);
    let state = NEW;
    let total = 0;
    let over: string | undefined;
    for (const peer of ["a", "b", "c", "d", "e"]) {
      const spent = spendMany(state, peer, 99);
      ({ state } = spent);
      total += spent.allowed;
      if (spent.last?.allowed === false) ({ over } = spent.last);
    }
    expect(over).toBe("all");
    expect(total).toBeGreaterThanOrEqual(ALL_BUDGET.burst - RESERVE);
    expect(spend(state, "wake", "quiet", T0)).toMatchObject({ allowed: true });
  });

  it("is lifted by the human: for one peer, or for all", () => {
    const ann = spendMany(NEW, "ann", 99).state;
    const both = spendMany(ann, "bob", 99).state;
    expect(spendMany(lift(both, "ann"), "ann", 99).allowed).toBe(PEER_BUDGET.burst);
    expect(spend(lift(both, "ann"), "wake", "bob", T0).allowed).toBe(false);
    expect(spendMany(lift(both), "bob", 99).allowed).toBe(PEER_BUDGET.burst);
  });

  it("returns to full speed after a calm time, and forgets what is full again", () => {
    const dry = spendMany(NEW, "ann", 99).state;
    const calm = T0 + 30 * DAY;
    expect(spendMany(dry, "ann", 99, calm).allowed).toBe(PEER_BUDGET.burst);
    const answer = spend(dry, "wake", "bob", calm);
    expect(answer.allowed && [...answer.state.keys()].toSorted()).toEqual(["wake", "wake:bob"]);
  });

  it("lets a peer that writes at a steady pace write for ever", () => {
    let state = NEW;
    for (let n = 0; n < 500; n++) {
      const answer = spend(state, "wake", "steady", T0 + n * PEER_BUDGET.refillMs);
      expect(answer.allowed).toBe(true);
      if (answer.allowed) ({ state } = answer);
    }
  });

  it("survives a clock that goes back", () => {
    const { state } = spendMany(NEW, "ann", 99);
    const early = spend(state, "wake", "ann", T0 - DAY);
    expect(early).toMatchObject({ allowed: false, refills_at_ms: T0 - DAY + 2 * PEER_BUDGET.refillMs });
  });

  it.each([1, 60 * MINUTE, DAY])("refills from then on when the clock is set back by %d ms", (byMs) => {
    const { state } = spendMany(NEW, "ann", 99);
    const nowMs = T0 - byMs;
    const kept = afterSetBack(state, nowMs);
    const waitMs = 2 * PEER_BUDGET.refillMs;
    expect(spend(kept, "wake", "ann", nowMs + waitMs - 1).allowed).toBe(false);
    expect(spend(kept, "wake", "ann", nowMs + waitMs).allowed).toBe(true);
    // It gives nothing, and takes nothing at any other time.
    expect(leftOf(kept, "wake", "ann", nowMs)).toMatchObject({ left: 0, refills_at_ms: nowMs + waitMs });
    for (const offMs of [0, 1, DAY]) expect(afterSetBack(state, T0 + offMs)).toBe(state);
  });

  it("property: whoever asks when, all together never get more than the burst, its reserve and the refill", () => {
    const asks = fc.array(
      fc.record({ peer: fc.integer({ min: 0, max: 9 }), wait: fc.integer({ min: 0, max: 10 * MINUTE }) }),
      { maxLength: 400 },
    );
    fc.assert(
      fc.property(asks, (all) => {
        let state = NEW;
        let nowMs = T0;
        let allowed = 0;
        for (const { peer, wait } of all) {
          nowMs += wait;
          const answer = spend(state, "wake", `p${peer}`, nowMs);
          if (answer.allowed) {
            allowed++;
            ({ state } = answer);
          } else if (answer.refills_at_ms !== undefined) expect(answer.refills_at_ms).toBeGreaterThan(nowMs);
          expect(allowed).toBeLessThanOrEqual(ALL_BUDGET.burst + (nowMs - T0) / ALL_BUDGET.refillMs + 1e-6);
        }
      }),
      { numRuns: 60 },
    );
  });
});

/**
 * Agents that answer everything at once: each wake spends one, each answer one. What may not be spent waits in the
 * inbox until the guard said that it refills. `next(i)`: whom agent i writes to when it was woken.
 */
function simulate(agents: number, next: (agent: number) => number, days: number, areRepliesGuarded: boolean) {
  const guards: GuardState[] = Array.from({ length: agents }, () => NEW);
  const unread: Map<number, number>[] = Array.from({ length: agents }, () => new Map());
  const turns: number[] = [];
  const told: Allowance[] = [];
  const queue: { atMs: number; agent: number }[] = [{ atMs: T0, agent: 0 }];
  unread[0]!.set(agents - 1, 1);
  while (queue.length > 0) {
    queue.sort((a, b) => a.atMs - b.atMs);
    const { atMs, agent } = queue.shift()!;
    if (atMs > T0 + days * DAY) break;
    const [from] = unread[agent]!.keys();
    if (from === undefined) continue;
    const wake = spend(guards[agent]!, "wake", String(from), atMs);
    if (!wake.allowed) {
      told.push(wake);
      if (wake.refills_at_ms !== undefined) queue.push({ atMs: wake.refills_at_ms, agent });
      continue;
    }
    guards[agent] = wake.state;
    unread[agent]!.delete(from);
    turns.push(atMs);
    const to = next(agent);
    const reply = spend(guards[agent]!, "reply", String(to), atMs);
    if (areRepliesGuarded && !reply.allowed) {
      told.push(reply);
      continue; // the answer is refused to the model, which says so to its human
    }
    if (areRepliesGuarded && reply.allowed) guards[agent] = reply.state;
    unread[to]!.set(agent, (unread[to]!.get(agent) ?? 0) + 1);
    queue.push({ atMs: atMs + 1_000, agent: to });
  }
  return { turns, told };
}

describe("agents that thank each other for everything", () => {
  const shapes = [
    { name: "two", agents: 2, next: (agent: number) => 1 - agent },
    { name: "a ring of three", agents: 3, next: (agent: number) => (agent + 1) % 3 },
    { name: "a ring of seven", agents: 7, next: (agent: number) => (agent + 1) % 7 },
  ];

  const most = PEER_BUDGET.burst + STOP_AFTER_DRY - 1;

  it.each([true, false].flatMap((areRepliesGuarded) => shapes.map((shape) => ({ ...shape, areRepliesGuarded }))))(
    "stop within the budget, and are told: $name, answers guarded too: $areRepliesGuarded",
    ({ agents, next, areRepliesGuarded }) => {
      const { turns, told } = simulate(agents, next, 365, areRepliesGuarded);
      const within = (ms: number) => turns.filter((at) => at - T0 < ms).length;
      expect(within(10 * MINUTE)).toBeGreaterThan(PEER_BUDGET.burst); // a real talk is not cut off
      expect(within(10 * MINUTE)).toBeLessThanOrEqual(agents * PEER_BUDGET.burst);
      expect(turns.length).toBeLessThanOrEqual(agents * most);
      expect(turns.at(-1)! - T0).toBeLessThan(5 * DAY);
      expect(told.at(-1)).toMatchObject({ allowed: false, over: "peer" });
    },
  );

  it("are not started again by time, only by the human", () => {
    let state = NEW;
    let nowMs = T0;
    let allowed = 0;
    for (;;) {
      const answer = spend(state, "wake", "ann", nowMs);
      if (answer.allowed) {
        ({ state } = answer);
        allowed++;
      } else if (answer.refills_at_ms === undefined) break;
      else nowMs = answer.refills_at_ms;
    }
    expect(allowed).toBe(most);
    expect(nowMs - T0).toBeGreaterThan(DAY);
    expect(spend(state, "wake", "ann", nowMs + 365 * DAY)).toEqual({ allowed: false, spending: "wake", over: "peer" });
    expect(leftOf(state, "wake", "ann", nowMs)).toEqual({ left: 0, of: PEER_BUDGET.burst });
    expect(spend(state, "wake", "bob", nowMs).allowed).toBe(true);
    expect(spend(lift(state, "ann"), "wake", "ann", nowMs).allowed).toBe(true);
  });
});
