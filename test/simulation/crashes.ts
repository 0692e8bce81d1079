/**
 * One short story, told again and again: each time somebody dies before the next of their effects, the first, the second, the
 * third, to the last. So no place is left out at which a crash could come.
 */

import type { Code } from "./code.ts";
import type { Seat } from "./seat.ts";
import { runWorld, type Report } from "./simulate.ts";
import type { Life } from "./life.ts";
import { sessionsOf } from "./verdict.ts";
import type { World } from "./world.ts";

/** Who dies. A tree dies with what keeps its pipe. */
export const VICTIMS = ["writer", "reader", "writer's tree", "reader's tree", "bus"] as const;
export type Victim = (typeof VICTIMS)[number];

export interface CrashReport extends Report {
  readonly victim: Victim;
  readonly at: number;
  /** The story was over before it came so far. */
  readonly isPast: boolean;
}

const SEED = 1;
const PEOPLE = { ann: ["writer"], bob: ["reader"] };

export async function simulateCrash(
  code: Code,
  victim: Victim,
  at: number,
  onLine?: (line: string) => void,
): Promise<CrashReport> {
  let isPast = false;
  const report = await runWorld(code, SEED, onLine, async (world) => {
    world.settle(PEOPLE);
    world.busAwayMs = () => 300;
    for (const seat of world.seats) seat.start();
    aim(world, victim, at);
    const first = lifeOf(world, victim);
    await tell(world, () => first.effects >= at);
    isPast = first.effects < at;
  });
  return { ...report, victim, at, isPast };
}

function aim(world: World, victim: Victim, at: number): void {
  if (victim === "bus") world.bus.life.diesAt = at;
  else {
    const [seat = "", tree] = victim.split("'");
    // What opening it did is behind us already, but for what it awaits.
    world.seat(seat).dieAt(at, tree !== undefined);
  }
}

function lifeOf(world: World, victim: Victim): Life {
  return victim === "bus" ? world.bus.life : world.seat(victim.split("'")[0]!).life!;
}

/** Messages, an answer, acks, reading, and a goodbye. */
async function tell(world: World, hasCrashed: () => boolean): Promise<void> {
  const { scheduler } = world;
  const [writer, reader] = [world.seat("writer"), world.seat("reader")];
  const steps: (() => void)[] = [
    () => writer.write(reader.person, reader),
    () => writer.write(reader.person, undefined),
    () => reader.check(),
    () => reader.write(writer.person, writer),
    () => writer.check(),
    () => writer.write(reader.person, reader),
    () => reader.check(),
    () => reader.check(),
  ];
  // Who has never been at the bus has told it of no contacts, and is rightly written to in vain.
  const isThere = ({ session }: Seat) => session?.standing().connection === "connected";
  for (let tries = 0; tries < 60 && !(isThere(writer) && isThere(reader)); tries++) await scheduler.runFor(500);
  await scheduler.runFor(1_000);
  for (const step of steps) {
    step();
    await scheduler.runFor(700);
  }
  const wasThere = writer.isUp;
  void writer.close();
  await scheduler.runFor(2_000);
  const isListed = sessionsOf(world, writer.person.key).includes("writer");
  if (wasThere && !hasCrashed() && isListed) world.fail("the writer said goodbye, and is on the roster", "presence");
}
