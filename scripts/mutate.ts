/**
 * `npm run mutate`: takes one guard away at a time, in a copy of the tree, and shows that some test fails for each.
 *
 * A guard that nothing misses is either no guard or not tested. Those that are to survive say why, in
 * mutate/guards.ts and in docs/GUARANTEES.md.
 */

import { spawn } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { PROJECT_DIR } from "./local-bus.ts";
import { GUARDS, type Guard, type Tests } from "./mutate/guards.ts";

const USAGE = `npm run mutate -- [options] [WORDS...]
  WORDS     only guards whose name, file or project has one of them
  --list    print the guards and run nothing
  --keep    keep the copy of the tree`;

/** What tests need of the tree; node_modules is linked. */
const COPIED = [
  "src",
  "test",
  "scripts",
  "bench",
  "docs",
  "package.json",
  "tsconfig.json",
  "vitest.config.ts",
  "wrangler.toml",
];
/** A run that takes longer hangs; what hangs is noticed too. */
const RUN_MAX_MS = 240_000;
/** The model walks the same way for each guard. */
const ENVIRONMENT = { MODEL_SEED: "1", MODEL_RUNS: "60", MODEL_SHRINK: "no" };

type Result =
  | { readonly outcome: "failed"; readonly test: string }
  | { readonly outcome: "passed"; readonly tests: number }
  | { readonly outcome: "hung" }
  /** No test ran: the tree does not load, which proves nothing. */
  | { readonly outcome: "broken"; readonly why: string };

/** How often a guard's text stands in its file: it must be once. */
export function countText(source: string, { text }: Pick<Guard, "text">): number {
  return source.split(text).length - 1;
}

/** The source without the guard. @throws if its text is not there exactly once: the table is out of date */
export function withoutGuard(source: string, guard: Guard): string {
  const count = countText(source, guard);
  if (count !== 1) throw new Error(`"${guard.name}" is found ${count} times in src/${guard.file}: mend the table`);
  return source.replace(guard.text, () => guard.instead);
}

/** Runs test files once, to the first failure. */
async function runTests(tree: string, { project, files }: Tests): Promise<Result> {
  const report = join(tree, "report.json");
  await rm(report, { force: true });
  const vitest = join(tree, "node_modules/vitest/vitest.mjs");
  const reporters = ["--reporter=json", `--outputFile=${report}`, "--bail=1"];
  const child = spawn(process.execPath, [vitest, "run", "--project", project, ...reporters, ...files], {
    cwd: tree,
    env: { ...process.env, ...ENVIRONMENT, CI: "1" },
    detached: true, // a group of its own, so that all of it can be ended
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (said += String(data)));
  let isHung = false;
  const timer = setTimeout(() => {
    isHung = true;
    process.kill(-child.pid!, "SIGKILL");
  }, RUN_MAX_MS);
  await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  if (isHung) return { outcome: "hung" };
  return readReport(await readFile(report, "utf8").catch(() => ""), said);
}

interface Report {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly message?: string;
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

/** What vitest's JSON report says. @param said all that it printed, for where there is no report */
export function readReport(report: string, said: string): Result {
  if (report === "") return { outcome: "broken", why: said.slice(-2_000) };
  const { numPassedTests, testResults } = JSON.parse(report) as Report;
  const failed = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .find(({ status }) => status === "failed");
  if (failed) return { outcome: "failed", test: failed.fullName };
  const broken = testResults.find(({ message }) => message !== undefined && message !== "");
  if (broken || numPassedTests === 0) return { outcome: "broken", why: broken?.message ?? "no test ran" };
  return { outcome: "passed", tests: numPassedTests };
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    options: { list: { type: "boolean" }, keep: { type: "boolean" }, help: { type: "boolean" } },
    allowPositionals: true,
  });
  if (values.help) return console.log(USAGE);
  const has = (guard: Guard, word: string) =>
    [guard.name, guard.file, guard.tests.project].some((text) => text.toLowerCase().includes(word.toLowerCase()));
  const guards = GUARDS.filter((guard) => positionals.length === 0 || positionals.some((word) => has(guard, word)));
  if (values.list) {
    for (const { name, file, why } of guards) console.log(`${name} (src/${file}): ${why}`);
    return;
  }
  const tree = await mkdtemp(join(tmpdir(), "interlink-mutate-"));
  try {
    for (const name of COPIED) await cp(join(PROJECT_DIR, name), join(tree, name), { recursive: true });
    await symlink(join(PROJECT_DIR, "node_modules"), join(tree, "node_modules"));
    process.exitCode = (await tryAll(tree, guards)) ? 0 : 1;
  } finally {
    if (values.keep) console.log(`the copy is in ${tree}`);
    else await rm(tree, { recursive: true, force: true });
  }
}

/** @returns whether each guard was missed, but those that are to survive */
async function tryAll(tree: string, guards: readonly Guard[]): Promise<boolean> {
  const startedMs = Date.now();
  // Tests that fail with all guards in place would pass for having noticed.
  for (const tests of distinct(guards.map((guard) => guard.tests))) {
    const result = await runTests(tree, tests);
    if (result.outcome === "passed") continue;
    console.log(`with all guards in place, ${tests.files.join(" ")}: ${describe(result)}`);
    return false;
  }
  const survivors: Guard[] = [];
  for (const [index, guard] of guards.entries()) {
    const path = join(tree, "src", guard.file);
    const source = await readFile(path, "utf8");
    await writeFile(path, withoutGuard(source, guard));
    const result = await runTests(tree, guard.tests);
    await writeFile(path, source);
    const isMissed = result.outcome === "failed" || result.outcome === "hung";
    if (!isMissed) survivors.push(guard);
    const verdict = isMissed ? "killed  " : guard.survives === undefined ? "SURVIVED" : "survived";
    console.log(`${verdict} ${index + 1}/${guards.length} ${guard.name} (src/${guard.file}): ${describe(result)}`);
  }
  const minutes = ((Date.now() - startedMs) / 60_000).toFixed(1);
  console.log(`${guards.length - survivors.length} of ${guards.length} killed in ${minutes} minutes`);
  for (const { name, why, survives } of survivors) console.log(`survived: ${name}; ${survives ?? `without it ${why}`}`);
  return survivors.every(({ survives }) => survives !== undefined);
}

function distinct(all: readonly Tests[]): Tests[] {
  const files = Map.groupBy(
    all.flatMap(({ project, files: names }) => names.map((name) => ({ project, name }))),
    ({ project }) => project,
  );
  return [...files].map(([project, named]) => ({ project, files: [...new Set(named.map(({ name }) => name))] }));
}

function describe(result: Result): string {
  switch (result.outcome) {
    case "failed":
      return result.test;
    case "passed":
      return `${result.tests} tests passed`;
    case "hung":
      return "hung";
    case "broken":
      return `no test ran: ${result.why}`;
  }
}

if (import.meta.main) await main();
