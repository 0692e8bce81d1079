/** Runs seeds, or crashes, one after the other, and tells of them. */

import { loadCode } from "./code.ts";
import { VICTIMS, simulateCrash, type Victim } from "./crashes.ts";
import { replaceGlobals } from "./globals.ts";
import { TROUBLES, type TroubleKind } from "./profile.ts";
import { simulate, type Report } from "./simulate.ts";

export interface SeedOptions {
  readonly first: number;
  readonly count: number;
  readonly minutes: number;
  readonly steps?: number | undefined;
  readonly kinds: readonly TroubleKind[];
  readonly calm: boolean;
  readonly trace: boolean;
  readonly json: boolean;
  readonly bail: boolean;
}

export interface CrashOptions {
  readonly every: number;
  readonly victim?: Victim | undefined;
  readonly at?: number | undefined;
  readonly trace: boolean;
  readonly bail: boolean;
}

const FINDINGS_SHOWN = 12;
/** Of more seeds than that only those are told of that fail. */
const TOLD_MAX = 20;

/** @returns true if nothing was found */
export async function runSeeds(options: SeedOptions): Promise<boolean> {
  const { first, count, minutes, steps, kinds, calm, trace, json, bail } = options;
  const code = await loadCode();
  replaceGlobals();
  const startedMs = performance.now();
  let [failed, events, ran] = [0, 0, 0];
  const isOver = () => ran >= count || performance.now() - startedMs >= minutes * 60_000 || (bail && failed > 0);
  for (let seed = first; !isOver(); seed++) {
    const report = await simulate(code, {
      seed,
      kinds,
      isCalm: calm,
      ...(steps !== undefined && { steps }),
      ...(trace && { onLine: write }),
    });
    ran++;
    events += report.events;
    const isGood = report.findings.length === 0;
    if (!isGood) failed++;
    if (json) write(JSON.stringify(report));
    else if (!isGood) write(described(report, againOf(seed, options)));
    else if (count <= TOLD_MAX) write(summary(report));
  }
  const seconds = (performance.now() - startedMs) / 1_000;
  const speed = `${Math.round((ran / seconds) * 60)} seeds a minute, ${Math.round(events / seconds)} events a second`;
  if (!json) write(`${ran} seeds, ${failed} failed; ${speed}`);
  return failed === 0;
}

/**
 * Runs the short story once for each effect at which one of its people, or the bus, may die.
 * @returns true if nothing was found
 */
export async function runCrashes({ every, victim, at, trace, bail }: CrashOptions): Promise<boolean> {
  const code = await loadCode();
  replaceGlobals();
  const startedMs = performance.now();
  let [failed, ran] = [0, 0];
  const counts: string[] = [];
  for (const who of VICTIMS.filter((each) => victim === undefined || each === victim)) {
    let effect = at ?? 1;
    for (; ; effect += every) {
      const report = await simulateCrash(code, who, effect, trace ? write : undefined);
      ran++;
      if (report.findings.length > 0) {
        failed++;
        write(described(report, `--crashes --victim "${who}" --at ${effect}`));
      }
      if (report.isPast || at !== undefined || (bail && failed > 0)) break;
    }
    counts.push(`${who} ${effect}`);
    if (bail && failed > 0) break;
  }
  const seconds = (performance.now() - startedMs) / 1_000;
  write(`${ran} crashes (up to effect: ${counts.join(", ")}), ${failed} failed; ${Math.round(seconds)} s`);
  return failed === 0;
}

/** Not by the console, which is production code's in here. */
function write(line: string): void {
  process.stdout.write(`${line}\n`);
}

function summary({
  seed,
  digest,
  events,
  effects,
  quietAfterMs,
  counted,
  told,
  refusedAfterAll,
  noes,
}: Report): string {
  const counts = `${counted.sent} sent, ${counted.acknowledged} accepted, ${counted.read} read`;
  const rest = `${told} told of, ${refusedAfterAll} refused after all`;
  const size = `${events} events, ${effects} effects, quiet after ${Math.round(quietAfterMs / 1_000)} s`;
  return `seed ${seed} ${digest}: ${counts}, ${rest}; ${size} ${JSON.stringify(noes)}`;
}

/** How to run one seed again, just so. */
function againOf(seed: number, { steps, calm, kinds }: SeedOptions): string {
  const options = [
    ...(steps === undefined ? [] : [`--steps ${steps}`]),
    ...(calm ? ["--calm"] : []),
    ...(kinds.length === TROUBLES.length ? [] : [`--only "${kinds.join(",")}"`]),
  ];
  return [`--seed ${seed}`, ...options].join(" ");
}

function described(report: Report, options: string): string {
  const { findings, lastLines } = report;
  return [
    summary(report),
    ...findings.slice(0, FINDINGS_SHOWN).map(({ rule, what }) => `  ${rule}: ${what}`),
    ...(findings.length > FINDINGS_SHOWN ? [`  and ${findings.length - FINDINGS_SHOWN} more`] : []),
    "  last events:",
    ...lastLines.map((line) => `    ${line}`),
    `  again: npm run simulate -- ${options} --trace`,
  ].join("\n");
}
