/**
 * `npm run bench`: measures this bus beside its platform's floor and two known message stores, on this machine.
 *
 * The systems take turns within a round, each time as a fresh process on an empty folder, so that whatever drifts
 * (the host, the disk) drifts for all, and no system inherits the files or the heap of a reading before.
 */

import { rmSync } from "node:fs";
import { mkdir, mkdtemp, rm, statfs, writeFile } from "node:fs/promises";
import { cpus, release, totalmem } from "node:os";
import { join } from "node:path";
import { PROJECT_DIR } from "../scripts/local-bus.ts";
import type { Adapter } from "./adapter.ts";
import { ADAPTERS } from "./adapters/index.ts";
import type { Measure } from "./measure.ts";
import { MEASURES } from "./measures/index.ts";
import { readOptions, USAGE, type Options } from "./options.ts";
import { formatReport } from "./report.ts";
import { Results, type Run } from "./results.ts";
import { QUICK, WHOLE, type Settings } from "./settings.ts";

/** Not the system's temporary folder, which may be memory, where a sync costs nothing. */
const STATE_DIR = join(PROJECT_DIR, ".interlink", "bench");
/** f_type of a file system in memory, from Linux's magic.h. */
const TMPFS_MAGIC = 0x01021994;
/** A measure that takes longer hangs; the longest takes about two minutes. */
const MEASURE_MAX_MS = 300_000;

async function main(options: Options): Promise<boolean> {
  const settings = { ...(options.isQuick ? QUICK : WHOLE) };
  if (options.runs !== undefined) settings.runs = options.runs;
  const measures = MEASURES.filter(({ name }) => options.measures?.includes(name) ?? true);
  const wanted = ADAPTERS.filter(({ name }) => options.only?.includes(name) ?? true);

  await mkdir(STATE_DIR, { recursive: true });
  const runDir = await mkdtemp(join(STATE_DIR, "run-"));
  process.once("exit", () => rmSync(runDir, { recursive: true, force: true }));
  const facts = await machineFacts();
  const skipped: string[] = [];
  const adapters: Adapter[] = [];
  for (const adapter of wanted) {
    const found = await adapter.probe();
    if ("version" in found) {
      adapters.push(adapter);
      facts.push(`${adapter.name}: ${found.version}`);
    } else {
      skipped.push(`${adapter.name}: ${found.missing}`);
    }
  }

  const results = new Results();
  for (let round = 1; round <= settings.runs; round++) {
    for (const measure of measures) {
      for (const adapter of rotate(adapters, round - 1)) {
        if (adapter.measures && !adapter.measures.includes(measure.name)) continue;
        process.stderr.write(`round ${round} of ${settings.runs}: ${measure.name}, ${adapter.name} … `);
        const run = await runOnce({ round, measure, adapter, settings, runDir });
        process.stderr.write(`${run.error ?? "done"}\n`);
        results.add(run);
      }
    }
  }

  const { isQuick } = options;
  process.stdout.write(formatReport(results, { settings, isQuick, facts, adapters, measures, skipped }));
  if (options.json !== undefined) {
    const all = { at: new Date().toISOString(), isQuick, settings, facts, skipped, runs: results.runs };
    await writeFile(options.json, `${JSON.stringify(all, null, 2)}\n`);
  }
  return results.runs.every(({ error }) => error === undefined);
}

interface Turn {
  readonly round: number;
  readonly measure: Measure;
  readonly adapter: Adapter;
  readonly settings: Settings;
  readonly runDir: string;
}

async function runOnce({ round, measure, adapter, settings, runDir }: Turn): Promise<Run> {
  const dir = await mkdtemp(join(runDir, `${adapter.name}-`));
  const names = { round, measure: measure.name, system: adapter.name };
  try {
    const system = await adapter.start({ dir, counted: measure.counted ?? false });
    try {
      return { ...names, readings: await withinTime(measure.run(system, settings)) };
    } finally {
      await system.stop();
    }
  } catch (error) {
    return { ...names, error: (error as Error).message };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function withinTime<T>(work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${MEASURE_MAX_MS / 1_000} s`)), MEASURE_MAX_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Another system goes first in each round. */
function rotate<T>(items: readonly T[], by: number): T[] {
  return items.map((_, i) => items[(i + by) % items.length]!);
}

async function machineFacts(): Promise<string[]> {
  const processors = cpus();
  const facts = [
    `${new Date().toISOString().slice(0, 10)}, ${processors.length} × ${processors[0]?.model ?? "unknown"}, ` +
      `${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${release()}, node ${process.versions.node}; client and server share the cores`,
  ];
  const { type } = await statfs(STATE_DIR);
  if (type === TMPFS_MAGIC)
    facts.push("**the state lies in memory: a sync costs nothing here, so the sends mean nothing**");
  return facts;
}

if (process.argv.includes("--help")) {
  const names = (items: readonly { readonly name: string }[]): string => items.map(({ name }) => name).join(", ");
  console.log(`${USAGE}\n\nsystems: ${names(ADAPTERS)}\nmeasures: ${names(MEASURES)}`);
} else {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));
  try {
    const options = readOptions(
      process.argv.slice(2),
      ADAPTERS.map(({ name }) => name),
      MEASURES.map(({ name }) => name),
    );
    // Whatever a failed run left open must not keep the harness.
    process.exit((await main(options)) ? 0 : 1);
  } catch (error) {
    console.error((error as Error).message);
    process.exit(2);
  }
}
