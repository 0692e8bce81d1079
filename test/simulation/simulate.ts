/**
 * One seed, from its first event to its last: a phase of troubles, then all heals, and within a bound of virtual time all that
 * was accepted is read once, nothing waits anywhere, and rosters are right; then everybody says goodbye, and in the end the
 * bus has nothing left and nothing to wake for.
 */

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkHistory } from "../history/checker.ts";
import type { Code } from "./code.ts";
import { CALM, profileOf, type Profile, type TroubleKind } from "./profile.ts";
import { EPOCH_MS } from "./scheduler.ts";
import type { Seat } from "./seat.ts";
import { beginTroubles } from "./troubles.ts";
import { becomeQuiet, checkEnd, leave, sessionsOf } from "./verdict.ts";
import { World, type Finding } from "./world.ts";

export interface RunOptions {
  readonly seed: number;
  /** Events of the phase of troubles, at most. */
  readonly steps?: number;
  /** No trouble at all. */
  readonly isCalm?: boolean;
  readonly kinds?: readonly TroubleKind[];
  readonly onLine?: (line: string) => void;
}

export interface Report {
  readonly seed: number;
  /** Of every event and effect: two runs with the same are the same. */
  readonly digest: string;
  readonly events: number;
  readonly effects: number;
  readonly virtualMs: number;
  /** From all heals to all is quiet. */
  readonly quietAfterMs: number;
  readonly findings: readonly Finding[];
  readonly counted: ReturnType<typeof checkHistory>["counted"];
  /** Read as far as anybody can know, and said so. */
  readonly told: number;
  /** Taken by a client and refused by the bus in the end, and rightly. */
  readonly refusedAfterAll: number;
  readonly noes: Readonly<Record<string, number>>;
  readonly lastLines: readonly string[];
}

const TROUBLES_MS = 240_000;
const STEPS_MAX = 12_000;
const PEOPLE = { alice: ["a1", "a2"], bob: ["b1", "b2"], carol: ["c1"] };

export function simulate(code: Code, { seed, steps = STEPS_MAX, isCalm, kinds, onLine }: RunOptions): Promise<Report> {
  return runWorld(code, seed, onLine, async (world) => {
    world.settle(PEOPLE);
    const profile = isCalm === true ? CALM : profileOf(world.dice, kinds);
    await troubled(world, profile, steps);
  });
}

/** Makes a world, lets `trouble` do what it will to it, and then looks whether it heals. */
export async function runWorld(
  code: Code,
  seed: number,
  onLine: ((line: string) => void) | undefined,
  trouble: (world: World) => Promise<void>,
): Promise<Report> {
  const folder = mkdtempSync(join(fastest(), "interlink-simulation-"));
  const world = new World(seed, code, folder);
  world.scheduler.onLine = onLine;
  const onRejection = (fault: unknown) => world.fault(fault, "unhandled");
  process.on("unhandledRejection", onRejection);
  let [quietAfterMs, refusedAfterAll] = [0, 0];
  try {
    await trouble(world);
    world.heal();
    const healedAtMs = world.scheduler.nowMs;
    await becomeQuiet(world);
    quietAfterMs = world.scheduler.nowMs - healedAtMs;
    refusedAfterAll = await checkEnd(world);
    if (world.findings.length === 0) await leave(world);
  } finally {
    world.isOver = true;
    for (const seat of world.seats) seat.kill(true);
    process.off("unhandledRejection", onRejection);
    rmSync(folder, { recursive: true, force: true });
  }
  const { scheduler, seats } = world;
  const noes: Record<string, number> = {};
  for (const seat of seats) for (const [why, count] of Object.entries(seat.noes)) noes[why] = (noes[why] ?? 0) + count;
  return {
    seed,
    digest: scheduler.digest(),
    events: scheduler.events,
    effects: scheduler.effects,
    virtualMs: scheduler.nowMs - EPOCH_MS,
    quietAfterMs,
    findings: world.findings,
    counted: checkHistory(world.history.events).counted,
    told: seats.reduce((sum, seat) => sum + seat.told, 0),
    refusedAfterAll,
    noes,
    lastLines: scheduler.lastLines,
  };
}

async function troubled(world: World, profile: Profile, steps: number): Promise<void> {
  const { scheduler, dice, seats } = world;
  let isOver = false;
  for (const seat of seats) {
    seat.start();
    const paceMs = dice.spread(300, 10_000);
    const act = () =>
      scheduler.after(dice.between(0, 2 * paceMs), `the model of ${seat.name}`, () => {
        if (isOver) return;
        behave(world, seat);
        act();
      });
    act();
  }
  await scheduler.runFor(3_000);
  scheduler.note(`profile ${JSON.stringify(profile)}`);
  world.profile = profile;
  world.every = profile.every;
  beginTroubles(world, () => isOver);
  const untilMs = scheduler.nowMs + TROUBLES_MS;
  let nextViewMs = scheduler.nowMs;
  const lastEvent = scheduler.events + steps;
  while (scheduler.events < lastEvent && (await scheduler.step(untilMs))) {
    if (scheduler.nowMs < nextViewMs) continue;
    nextViewMs = scheduler.nowMs + 5_000;
    view(world);
  }
  isOver = true;
}

function behave(world: World, seat: Seat): void {
  const { dice, seats } = world;
  const luck = dice.next();
  if (luck < 0.5) {
    const other = dice.pick(seats.filter((each) => each !== seat));
    const to = other.person;
    // One's own other sessions are always named; of others whoever the client chooses may do.
    seat.write(to, to === seat.person || dice.chance(0.8) ? other : undefined);
  } else if (luck < 0.95) seat.check();
  else seat.look();
}

/**
 * Who is on the rosters, as one more call of the history each: read from the disks, so the network has no part. Who is seen for
 * the first time has announced itself by then, and is there from now on.
 */
function view(world: World): void {
  const { people, history, bus, seen } = world;
  for (const { name, key } of people) {
    if (bus.host(`id ${key}`)?.disk.isSynced !== true) continue; // a crash might still take it back
    const sessions = sessionsOf(world, key);
    for (const session of sessions.filter((each) => !seen.has(each))) {
      seen.add(session);
      history.invoke({ op: "announce", key: name, session }).ok();
    }
    history.invoke({ op: "view", key: name }).ok({ sessions });
  }
}

/** A file system in memory, where there is one: the files are small, and gone with the run. */
function fastest(): string {
  return statSync("/dev/shm", { throwIfNoEntry: false })?.isDirectory() === true ? "/dev/shm" : tmpdir();
}
