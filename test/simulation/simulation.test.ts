/**
 * The short form of `npm run simulate`: some seeds, the crash story at some of its effects, that a seed is the same run each
 * time, and that the simulation finds what is missing where a guard is taken away.
 *
 * Each run is a process of its own, since it replaces what production code takes from its runtime. `SIMULATE_SEEDS=N` runs more
 * seeds, `SIMULATE_SEED=N` others.
 */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Report } from "./simulate.ts";

const RUN = join(import.meta.dirname, "run.ts");
const FIRST = Number(process.env["SIMULATE_SEED"] ?? 1);
const SEEDS = Number(process.env["SIMULATE_SEEDS"] ?? 4);
const TEST_MAX_MS = 240_000;

interface Ended {
  readonly code: number;
  readonly said: string;
}

function run(args: readonly string[], without?: string): Promise<Ended> {
  const env = { ...process.env, ...(without !== undefined && { SIMULATE_WITHOUT: without }) };
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ["--disable-warning=ExperimentalWarning", RUN, ...args],
      { env, maxBuffer: 64 * 1_048_576, timeout: TEST_MAX_MS },
      (error, stdout, stderr) => resolve({ code: error === null ? 0 : 1, said: stdout + stderr }),
    );
  });
}

const reportsOf = ({ said }: Ended): Report[] =>
  said
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Report);

it("accepted mail is read once, whatever is dropped, late, repeated or killed", { timeout: TEST_MAX_MS }, async () => {
  const ended = await run(["--seed", String(FIRST), "--seeds", String(SEEDS), "--json"]);
  const reports = reportsOf(ended);
  expect(reports.length, ended.said).toBe(SEEDS);
  for (const { seed, findings, lastLines } of reports) {
    expect(findings, `seed ${seed}\n${lastLines.join("\n")}`).toEqual([]);
  }
  // Runs in which nothing was written or read show nothing.
  const sum = (count: (report: Report) => number) => reports.reduce((total, report) => total + count(report), 0);
  expect(sum(({ counted }) => counted.acknowledged)).toBeGreaterThan(20 * SEEDS);
  expect(sum(({ counted }) => counted.read)).toBeGreaterThan(20 * SEEDS);
  expect(sum(({ counted }) => counted.views)).toBeGreaterThan(20 * SEEDS);
});

it("a crash before any of its effects loses and repeats nothing", { timeout: TEST_MAX_MS }, async () => {
  const { code, said } = await run(["--crashes", "--every", "13"]);
  expect(code, said).toBe(0);
  expect(Number(/(\d+) crashes/.exec(said)?.[1])).toBeGreaterThan(35);
});

it("a seed is the same run each time, and another seed another", { timeout: TEST_MAX_MS }, async () => {
  const args = ["--steps", "800", "--json", "--seeds", "2", "--seed", "7"];
  const [first, second] = [reportsOf(await run(args)), reportsOf(await run(args))];
  const digests = first.map(({ digest }) => digest);
  expect(second.map(({ digest }) => digest)).toEqual(digests);
  expect(new Set(digests).size).toBe(2);
  // Also where another seed went before it in the same process.
  const [alone] = reportsOf(await run(["--steps", "800", "--json", "--seed", "8"]));
  expect(alone?.digest).toBe(digests[1]);
});

/** Guards of the table of `npm run mutate`, and how each is missed. */
const CASES = [
  { guard: "ack after persist", args: ["--crashes", "--victim", "reader", "--every", "5"], rule: /lost: / },
  {
    guard: "dedupe",
    args: ["--seed", "1", "--seeds", "12", "--steps", "3000"],
    rule: /UNIQUE constraint|read twice: /,
  },
  { guard: "read once", args: ["--crashes", "--victim", "bus", "--every", "5"], rule: /fault: |read twice: / },
  { guard: "each once a socket", args: ["--seed", "1", "--seeds", "12", "--steps", "3000"], rule: /redelivered: / },
];

describe("without a guard it finds what that was for:", () => {
  it.each(CASES)("$guard", { timeout: TEST_MAX_MS }, async ({ guard, args, rule }) => {
    const { code, said } = await run([...args, "--bail"], guard);
    expect(code, said.slice(-2_000)).toBe(1);
    expect(said).toMatch(rule);
  });
});
