/** How often and how soon an agent process is started again: tables on a clock of numbers. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  beginTrial,
  NO_ENDS,
  noteEnd,
  RESTART_LIMITS,
  type Budget,
  type EndKind,
  type Verdict,
} from "../../../src/client/supervisor/restart-budget.ts";

const { windowMs, openMs, endsMax } = RESTART_LIMITS;
const T = 1_000_000;

/** What follows each of these ends. */
function follow(ends: readonly { kind: EndKind; atMs: number }[], from: Budget = NO_ENDS): Verdict[] {
  let budget = from;
  return ends.map(({ kind, atMs }) => {
    const noted = noteEnd(budget, kind, atMs, RESTART_LIMITS);
    budget = noted.budget;
    return noted.verdict;
  });
}
const every = (count: number, stepMs: number, kind: EndKind = "crash") =>
  Array.from({ length: count }, (_, index) => ({ kind, atMs: T + index * stepMs }));
const waits = (verdicts: Verdict[], ends: readonly { atMs: number }[]) =>
  verdicts.map((verdict, index) => ("restartAtMs" in verdict ? verdict.restartAtMs - ends[index]!.atMs : "open"));

describe("restarts", () => {
  it.each([
    {
      why: "five crashes are put up with, the sixth opens the breaker",
      ends: every(6, 1_000),
      wanted: [100, 300, 900, 2_700, 5_000, "open"],
    },
    {
      why: "the sixth counts up to the last millisecond of the window",
      ends: every(6, (windowMs - 1) / 5),
      wanted: [100, 300, 900, 2_700, 5_000, "open"],
    },
    { why: "crashes that are far apart wait the least each", ends: every(7, windowMs), wanted: Array(7).fill(100) },
    { why: "handoffs follow at once", ends: every(5, 10, "handoff"), wanted: Array(5).fill(0) },
    { why: "handoffs have the same bound", ends: every(6, 10, "handoff"), wanted: [0, 0, 0, 0, 0, "open"] },
  ])("$why", ({ ends, wanted }) => expect(waits(follow(ends), ends)).toEqual(wanted));

  it("handoffs spend nothing of the crashes' budget, nor the other way round", () => {
    const mixed = [...every(5, 1), ...every(5, 1, "handoff")];
    expect(follow(mixed).every((verdict) => "restartAtMs" in verdict)).toBe(true);
  });

  it("the breaker is open for a minute, and says so", () => {
    expect(follow(every(6, 0)).at(-1)).toEqual({ openUntilMs: T + openMs });
  });

  it("a trial that crashes within a window opens it again, and one that holds gives the whole budget back", () => {
    const trial = beginTrial(T);
    expect(follow([{ kind: "crash", atMs: T + windowMs - 1 }], trial)).toEqual([
      { openUntilMs: T + windowMs - 1 + openMs },
    ]);
    const later = every(endsMax, 1).map(({ kind, atMs }) => ({ kind, atMs: atMs + windowMs }));
    expect(follow(later, trial).every((verdict) => "restartAtMs" in verdict)).toBe(true);
  });

  it("a handoff is no failure of the trial, and does not end it", () => {
    const [handoff, crash] = follow(
      [
        { kind: "handoff", atMs: T + 1 },
        { kind: "crash", atMs: T + 2 },
      ],
      beginTrial(T),
    );
    expect(handoff).toEqual({ restartAtMs: T + 1 });
    expect(crash).toHaveProperty("openUntilMs");
  });

  it("the waits leave a process that dies at once time to be seen within the window", () => {
    const waited = follow(every(5, 0)).map((verdict) => ("restartAtMs" in verdict ? verdict.restartAtMs - T : 0));
    expect(waited.reduce((sum, ms) => sum + ms)).toBeLessThan(windowMs / 2);
  });

  it("never more than the bound in any window, whatever the times", () => {
    const times = fc.array(fc.integer({ min: 0, max: 2 * windowMs }), { maxLength: 60 });
    fc.assert(
      fc.property(times, (offsets) => {
        let budget: Budget = NO_ENDS;
        let restarts: number[] = [];
        for (const atMs of [...offsets].sort((a, b) => a - b)) {
          const noted = noteEnd(budget, "crash", atMs, RESTART_LIMITS);
          budget = noted.budget;
          restarts = restarts.filter((each) => atMs - each < windowMs);
          if ("restartAtMs" in noted.verdict) restarts.push(atMs);
          // The breaker holds the next start back for longer than a window.
          else restarts = [];
          expect(restarts.length).toBeLessThanOrEqual(endsMax);
        }
      }),
    );
  });
});
