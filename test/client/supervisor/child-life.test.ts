/** The life of the agent process: every state by every event is a row. */

import { describe, expect, it } from "vitest";
import {
  NO_CHILD,
  START_MAX_MS,
  step,
  type Child,
  type Exit,
  type Happening,
  type Life,
} from "../../../src/client/supervisor/child-life.ts";
import { beginTrial, NO_ENDS, RESTART_LIMITS } from "../../../src/client/supervisor/restart-budget.ts";

const NOW = 5_000_000;
const CRASH: Exit = { code: 1, signal: null };
const HANDOFF: Exit = { code: 75, signal: null };

const LIVES: Readonly<Record<string, Life>> = {
  idle: { at: "idle" },
  starting: { at: "starting", dueAtMs: NOW },
  up: { at: "up" },
  asked: { at: "stopping", why: "asked" },
  silent: { at: "stopping", why: "silent" },
  waiting: { at: "waiting", dueAtMs: NOW },
  broken: { at: "broken", dueAtMs: NOW },
  closing: { at: "closing" },
  closed: { at: "closed" },
};
const HAPPENINGS: Readonly<Record<string, Happening>> = {
  wanted: { what: "wanted" },
  ready: { what: "ready" },
  crash: { what: "exited", exit: CRASH },
  handoff: { what: "exited", exit: HANDOFF },
  due: { what: "due" },
  reconnect: { what: "reconnect" },
  close: { what: "close" },
};

/** `from.event: to + deeds`; what is not here stays as it is and does nothing. */
const MOVES: Readonly<Record<string, readonly [to: string, ...deeds: string[]]>> = {
  "idle.wanted": ["starting", "spawn"],
  "idle.reconnect": ["starting", "spawn"],
  "idle.close": ["closed"],
  "starting.ready": ["up"],
  "starting.crash": ["waiting"],
  "starting.handoff": ["waiting"],
  "starting.due": ["silent", "kill"],
  "starting.close": ["closing", "end"],
  "up.crash": ["waiting"],
  "up.handoff": ["waiting"],
  "up.reconnect": ["asked", "kill"],
  "up.close": ["closing", "end"],
  // What was asked for is not counted, whatever its code.
  "asked.crash": ["starting", "spawn"],
  "asked.handoff": ["starting", "spawn"],
  "asked.close": ["closing", "end"],
  "silent.crash": ["waiting"],
  "silent.handoff": ["waiting"],
  "silent.close": ["closing", "end"],
  "waiting.due": ["starting", "spawn"],
  "waiting.reconnect": ["starting", "spawn"],
  "waiting.close": ["closed"],
  "broken.due": ["starting", "spawn"],
  "broken.reconnect": ["starting", "spawn"],
  "broken.close": ["closed"],
  "closing.crash": ["closed"],
  "closing.handoff": ["closed"],
};

const nameOf = (life: Life) => (life.at === "stopping" ? life.why : life.at);
const rows = Object.keys(LIVES).flatMap((from) => Object.keys(HAPPENINGS).map((event) => ({ from, event })));

describe("a process", () => {
  it.each(rows)("that is $from, and $event", ({ from, event }) => {
    const child: Child = { ...NO_CHILD, life: LIVES[from]!, generation: 3 };
    const after = step(child, HAPPENINGS[event]!, NOW, RESTART_LIMITS);
    const [to, ...deeds] = MOVES[`${from}.${event}`] ?? [from];
    expect([nameOf(after.child.life), ...after.deeds]).toEqual([to, ...deeds]);
    expect(after.child.generation).toBe(deeds.includes("spawn") ? 4 : 3);
    if (to === from && deeds.length === 0) expect(after.child).toBe(child);
    if (deeds.includes("spawn")) expect(after.child.life).toEqual({ at: "starting", dueAtMs: NOW + START_MAX_MS });
  });

  it("every row of moves is of a state and an event that there are", () => {
    const known = rows.map(({ from, event }) => `${from}.${event}`);
    expect(Object.keys(MOVES).filter((move) => !known.includes(move))).toEqual([]);
  });

  it("that crashed five times is refused the sixth start, and tried again after the breaker's minute", () => {
    const spent = Array<number>(RESTART_LIMITS.endsMax).fill(NOW - 1);
    const child: Child = { life: LIVES["up"]!, budget: { ...NO_ENDS, crash: spent }, generation: 6 };
    const broken = step(child, HAPPENINGS["crash"]!, NOW, RESTART_LIMITS);
    expect(broken.deeds).toEqual(["refuse_queue"]);
    expect(broken.child.life).toEqual({ at: "broken", dueAtMs: NOW + RESTART_LIMITS.openMs });
    const later = NOW + RESTART_LIMITS.openMs;
    const tried = step(broken.child, HAPPENINGS["due"]!, later, RESTART_LIMITS);
    expect(tried.child.budget).toEqual(beginTrial(later));
    // Half open: one more crash and it is broken again.
    expect(step(tried.child, HAPPENINGS["crash"]!, later + 1, RESTART_LIMITS).child.life.at).toBe("broken");
    const up = step(tried.child, HAPPENINGS["ready"]!, later + 1, RESTART_LIMITS);
    const held = step(up.child, HAPPENINGS["crash"]!, later + RESTART_LIMITS.windowMs, RESTART_LIMITS);
    expect(held.child.life.at).toBe("waiting");
  });

  it("that was asked to go spends nothing of the budget", () => {
    const child: Child = { ...NO_CHILD, life: LIVES["asked"]! };
    expect(step(child, HAPPENINGS["crash"]!, NOW, RESTART_LIMITS).child.budget).toBe(child.budget);
  });
});
