/**
 * One run: people who write to each other while what a seed says is done to their processes, networks, disks and clocks, and
 * to the bus. Then everything heals, and all accepted mail must be read exactly once within a bound. The history says so.
 */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { randomFrom } from "../../scripts/random.ts";
import { checkHistory, type Verdict } from "../history/checker.ts";
import { History, type HistoryEvent } from "../history/history.ts";
import { inboxOf, Mail, writerOf } from "./mail.ts";
import { planOf, type Disturbance, type Kind } from "./plan.ts";
import { hasQuota } from "./quota.ts";
import { World } from "./world.ts";

export interface ChaosOptions {
  readonly bundle: string;
  readonly seed: number;
  readonly seconds: number;
  readonly kinds: readonly Kind[];
  /** Told of each thing that is done. */
  readonly say?: (line: string) => void;
}

export interface Report {
  readonly seed: number;
  /** How often each kind of trouble was made. */
  readonly did: Readonly<Partial<Record<Kind, number>>>;
  /** Asked for, and not possible on this machine. */
  readonly skipped: readonly Kind[];
  readonly verdict: Verdict;
  /** From the end of the trouble until all was read. */
  readonly healMs: number;
  /** Of messages that a client took: dated by a wrong clock, refused by the bus, and said so. */
  readonly refusedAfterAll: number;
  readonly noes: Readonly<Record<string, number>>;
  /** Empty: nothing is wrong. */
  readonly findings: readonly string[];
  /** Where history and logs are, if something is. */
  readonly kept: string | undefined;
}

const PEOPLE = ["ann", "bob", "cyd"];
const START_MAX_MS = 30_000;
/**
 * A client may try twelve times a minute, and a supervisor whose process died too often rests for one. A message that is dated 90 s
 * ahead waits 30 s, and as long again if the clock is set meanwhile. A bound above all of them.
 */
const HEAL_MAX_MS = 90_000;
const LOOK_MS = 150;
/** What comes twice, comes soon. */
const AFTER_MS = 1_000;
const EXPLAINED_MAX = 5;
/** Of a message that a clock hours ahead has dated: written anew it is taken, and its sender is told so. */
const CLOCK_REFUSAL = "ts_out_of_range";

export async function runChaos({ bundle, seed, seconds, kinds, say = () => {} }: ChaosOptions): Promise<Report> {
  const dir = await mkdtemp(join(tmpdir(), "interlink-chaos-"));
  const possible = kinds.filter((kind) => !kind.endsWith("-disk") || hasQuota());
  const skipped = kinds.filter((kind) => !possible.includes(kind));
  const history = new History();
  const world = await World.make(dir, bundle, PEOPLE);
  const mail = new Mail({ history, people: PEOPLE, dice: randomFrom(seed + 1) });
  const findings: string[] = [];
  let loops: Promise<unknown> = Promise.resolve();
  let healMs = 0;
  const sessions = world.seats.map(({ id }) => id);
  const plan = planOf({ seed, troubleMs: seconds * 1_000, kinds: possible, people: PEOPLE, sessions });
  try {
    loops = Promise.all(
      world.seats.map((seat) => (seat.id === writerOf(seat.person) ? mail.write(seat) : mail.readOn(seat))),
    );
    // A loop that throws is a fault of this tool, and ends the run.
    loops.catch(() => {});
    const isBusy = () => PEOPLE.every((person) => [...mail.read].some((name) => name.includes(`>${person}/`)));
    if (!(await within(START_MAX_MS, isBusy))) findings.push("before any trouble, not everybody got mail");
    else {
      const startMs = performance.now();
      await Promise.all([...plan].map((each) => act(world, history, each, startMs, say)));
    }
    await world.heal();
    mail.isQuiet = true;
    history.note("healed");
    say("healed");
    const healedAtMs = performance.now();
    const isWhole = await Promise.race([
      within(HEAL_MAX_MS, () => mail.isAtRest(world.seats)),
      loops.then(() => false),
    ]);
    healMs = Math.round(performance.now() - healedAtMs);
    if (isWhole) await delay(AFTER_MS);
    else {
      findings.push(`not at rest ${healMs} ms after everything healed`);
      const told = await Promise.race([mail.explain(EXPLAINED_MAX), delay(5_000, ["nobody answers"])]);
      findings.push(...told);
    }
    history.drained(PEOPLE.map(inboxOf));
  } finally {
    mail.isOver = true;
    await world.close();
  }
  await loops;
  const verdict = checkHistory(withRefused(history.events, mail.refusedAfterAll));
  for (const [name, reason] of mail.refusedAfterAll) {
    if (reason !== CLOCK_REFUSAL) findings.push(`${name} was taken, and refused after all: ${reason}`);
  }
  findings.push(...verdict.violations.map(({ rule, at, what }) => `${rule}: ${what} (event ${at})`));
  findings.push(...world.oddities);
  for (const { id, oddities } of world.seats) findings.push(...oddities.map((each) => `${id}: ${each}`));
  const did: Partial<Record<Kind, number>> = {};
  for (const { kind } of plan) did[kind] = (did[kind] ?? 0) + 1;
  await writeFile(join(dir, "history.jsonl"), history.toLines());
  await writeFile(join(dir, "plan.json"), JSON.stringify({ seed, seconds, plan }, null, 2));
  const isKept = findings.length > 0;
  if (!isKept) await rm(dir, { recursive: true, force: true });
  const refusedAfterAll = mail.refusedAfterAll.size;
  const kept = isKept ? dir : undefined;
  return { seed, did, skipped, verdict, healMs, refusedAfterAll, noes: mail.noes, findings, kept };
}

/** What a run did and found, in lines. */
export function linesOf(report: Report): string[] {
  const { seed, did, skipped, verdict, healMs, refusedAfterAll, noes, findings, kept } = report;
  const counts = (of: Readonly<Record<string, number>>) =>
    Object.entries(of)
      .map(([name, count]) => `${name} ${count}`)
      .join(", ") || "nothing";
  return [
    `seed ${seed}`,
    `did: ${counts(did)}`,
    ...(skipped.length > 0 ? [`skipped, for there is no prlimit here: ${skipped.join(", ")}`] : []),
    `history: ${counts(verdict.counted)}`,
    `refused or broken: ${counts(noes)}`,
    `dated by a wrong clock, refused and said so: ${refusedAfterAll}`,
    `all read ${healMs} ms after everything healed`,
    ...(findings.length === 0 ? ["found nothing"] : findings.map((finding) => `FOUND ${finding}`)),
    ...(kept === undefined ? [] : [`history and logs: ${kept}`]),
  ];
}

/** A client's yes that became a no: what was refused may not be read either. */
function withRefused(events: readonly HistoryEvent[], refused: ReadonlyMap<string, string>): HistoryEvent[] {
  const calls = new Map(
    events.flatMap((event) =>
      event.t === "invoke" && event.op === "send" && refused.has(event.msg_id)
        ? [[event.call, refused.get(event.msg_id)!] as const]
        : [],
    ),
  );
  return events.map((event) => {
    const code = event.t === "ok" ? calls.get(event.call) : undefined;
    return code === undefined ? event : { t: "fail", call: (event as { call: number }).call, at_ms: event.at_ms, code };
  });
}

async function act(
  world: World,
  history: History,
  trouble: Disturbance,
  startMs: number,
  say: (line: string) => void,
): Promise<void> {
  await delay(Math.max(0, startMs + trouble.atMs - performance.now()));
  const { kind, whom, forMs, byMs } = trouble;
  const line = `${kind} ${whom}${byMs === undefined ? "" : ` by ${byMs} ms`}${forMs === 0 ? "" : ` for ${forMs} ms`}`;
  history.note(line);
  say(`${((performance.now() - startMs) / 1_000).toFixed(1)} s  ${line}`);
  await world.disturb(trouble);
}

async function within(ms: number, isSo: () => boolean | Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + ms;
  for (;;) {
    // A call that hangs must not outlast the bound.
    if (await Promise.race([isSo(), delay(Math.max(0, deadline - performance.now()), false)])) return true;
    if (performance.now() > deadline) return false;
    await delay(LOOK_MS);
  }
}
