/** How a task moves: the table, and that both ends see the same from their own side. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  isClosed,
  stepTask,
  type Side,
  type TaskStanding,
  type TaskStep,
} from "../../../src/client/state/task-progress.ts";

const open = (opened_by: Side, owes: Side): TaskStanding => ({ opened_by, state: "open", owes });

describe("a task", () => {
  it.each<{ before?: TaskStanding; step: TaskStep; after: TaskStanding; why: string }>([
    { step: { by: "us" }, after: open("us", "peer"), why: "we asked, so the peer owes" },
    { step: { by: "peer" }, after: open("peer", "us"), why: "it asked, so we owe" },
    { step: { by: "peer", status: "update" }, after: open("us", "peer"), why: "a status is a worker's word" },
    { before: open("us", "peer"), step: { by: "us" }, after: open("us", "peer"), why: "more words of the asker" },
    { before: open("us", "peer"), step: { by: "peer" }, after: open("us", "peer"), why: "talk is no result" },
    {
      before: open("us", "peer"),
      step: { by: "peer", status: "needs_input" },
      after: { opened_by: "us", state: "needs_input", owes: "us" },
      why: "the worker waits for us",
    },
    {
      before: { opened_by: "us", state: "needs_input", owes: "us" },
      step: { by: "us" },
      after: open("us", "peer"),
      why: "we answered",
    },
    {
      before: open("us", "peer"),
      step: { by: "us", status: "canceled" },
      after: { opened_by: "us", state: "canceled", owes: "nobody" },
      why: "the asker takes it back",
    },
    {
      before: { opened_by: "us", state: "result", owes: "nobody" },
      step: { by: "peer", status: "failed" },
      after: { opened_by: "us", state: "result", owes: "nobody" },
      why: "an end is an end",
    },
  ])("$why", ({ before, step, after }) => {
    expect(stepTask(before, step)).toEqual(after);
  });

  it("property: is seen alike from both ends, and owed by nobody exactly when it is closed", () => {
    const steps = fc.array(
      fc.record(
        {
          by: fc.constantFrom<Side>("us", "peer"),
          status: fc.constantFrom("update" as const, "needs_input" as const, "result" as const, "failed" as const),
        },
        { requiredKeys: ["by"] },
      ),
      { minLength: 1, maxLength: 8 },
    );
    const mirror = (side: Side): Side => (side === "us" ? "peer" : "us");
    fc.assert(
      fc.property(steps, (all) => {
        let ours: TaskStanding | undefined;
        let theirs: TaskStanding | undefined;
        for (const step of all) {
          ours = stepTask(ours, step);
          theirs = stepTask(theirs, { ...step, by: mirror(step.by) });
        }
        const owes = theirs!.owes === "nobody" ? "nobody" : mirror(theirs!.owes);
        expect(ours).toEqual({ ...theirs, opened_by: mirror(theirs!.opened_by), owes });
        expect(ours!.owes === "nobody").toBe(isClosed(ours!));
      }),
    );
  });
});
