/** The short form of `npm run chaos`: each kind of trouble about once. `CHAOS_SEED=N` makes other trouble. */

import { expect, inject, it } from "vitest";
import { linesOf, runChaos } from "./chaos.ts";
import { KINDS, kindsNamed, planOf } from "./plan.ts";
import { hasQuota } from "./quota.ts";

const SECONDS = 16;
const seed = Number(process.env["CHAOS_SEED"] ?? 1);

it("all accepted mail is read once, whatever is killed, stopped, cut, late or full", { timeout: 300_000 }, async () => {
  const report = await runChaos({ bundle: inject("bundle"), seed, seconds: SECONDS, kinds: KINDS });
  const told = linesOf(report).join("\n");
  console.log(told);
  expect(report.findings, told).toEqual([]);
  // A run in which nothing was written, or nothing was done, shows nothing. Six processes on two busy cores write few.
  expect(report.verdict.counted.acknowledged).toBeGreaterThan(10);
  expect(report.verdict.counted.views).toBeGreaterThan(5);
  expect(Object.keys(report.did).length).toBeGreaterThanOrEqual((hasQuota() ? KINDS.length : KINDS.length - 2) - 1);
});

it("the same seed makes the same trouble, and ends no agent more often than its supervisor puts up with", () => {
  const options = { troubleMs: 120_000, kinds: KINDS, people: ["a", "b"], sessions: ["a-in", "a-out"] };
  for (let each = 0; each < 50; each++) {
    const plan = planOf({ ...options, seed: each });
    expect(plan).toEqual(planOf({ ...options, seed: each }));
    expect(new Set(plan.map(({ kind }) => kind))).toEqual(new Set(KINDS));
    for (const { atMs, whom } of plan) {
      const near = plan.filter((other) => other.whom === whom && Math.abs(other.atMs - atMs) < 15_000);
      const ends = near.filter(({ kind }) => kind === "agent-kill" || kind === "agent-disk");
      expect(ends.length).toBeLessThanOrEqual(3);
    }
  }
});

it("kinds are named whole or by their beginning", () => {
  expect(kindsNamed(["bus", "net-cut"])).toEqual(["bus-kill", "bus-stop", "bus-disk", "net-cut"]);
  expect(() => kindsNamed(["nothing"])).toThrow('"nothing" is none of');
});
