/** What is done to a run, each kind at its own times. */

import { TROUBLES, type TroubleKind } from "./profile.ts";
import type { World } from "./world.ts";

/** Begins them; they go on until `isOver` says so. */
export function beginTroubles(world: World, isOver: () => boolean): void {
  const { scheduler, dice, profile } = world;
  for (const kind of TROUBLES) {
    const everyMs = profile.every[kind];
    if (everyMs === undefined) continue;
    const next = () =>
      scheduler.after(-Math.log(1 - dice.next()) * everyMs, `trouble: ${kind}`, () => {
        if (isOver()) return;
        make(world, kind);
        next();
      });
    next();
  }
}

function make(world: World, kind: TroubleKind): void {
  const { dice, network, bus, people, seats, scheduler } = world;
  const { place } = dice.pick(people);
  const seat = dice.pick(seats);
  const hosts = bus.hosts;
  switch (kind) {
    case "dark":
      return network.darken(place, dice.spread(200, 120_000));
    case "cut":
      for (const wire of network.wires) if (dice.chance(0.5)) wire.cut();
      return;
    case "silent":
      for (const wire of network.wires) if (dice.chance(0.3)) wire.fallSilent();
      return;
    case "kill agent":
      return seat.kill(false);
    case "kill agent at an effect":
      return seat.killAt(1 + Math.floor(dice.spread(1, 60)), false);
    case "kill tree":
      return seat.kill(true);
    case "kill tree at an effect":
      return seat.killAt(1 + Math.floor(dice.spread(1, 60)), true);
    case "hand over":
      return seat.handOver();
    case "close":
      if (!seat.isWanted) return seat.reopen();
      void seat.close();
      return;
    case "sleep":
      scheduler.note(`${place.name} sleeps`);
      // Never shorter than it was: what waits for the waking keeps its order.
      place.frozenUntilMs = Math.max(place.frozenUntilMs, scheduler.nowMs + dice.spread(1_000, 600_000));
      return;
    case "full disk":
      place.fullUntilMs = scheduler.nowMs + dice.spread(10, 15_000);
      return scheduler.note(`the disk of ${place.name} is full`);
    case "jump":
      place.offsetMs += Math.round(dice.spread(5, 90_000) * (dice.chance(0.5) ? 1 : -1));
      return scheduler.note(`the clock of ${place.name} is ${place.offsetMs} off`);
    case "jump far":
      place.offsetMs += Math.round(dice.spread(90_000, 86_400_000) * (dice.chance(0.5) ? 1 : -1));
      return scheduler.note(`the clock of ${place.name} is ${place.offsetMs} off`);
    case "bus jump":
      return bus.jump(Math.round(dice.spread(5, 600_000) * (dice.chance(0.5) ? 1 : -1)));
    case "bus kill":
      return bus.crash();
    case "bus kill at an effect":
      bus.life.diesAt = bus.life.effects + 1 + Math.floor(dice.spread(1, 100));
      return;
    case "object kill":
      return hosts.length > 0 ? dice.pick(hosts).crash() : undefined;
    case "object kill at an effect":
      return hosts.length > 0 ? dice.pick(hosts).diesIn(1 + Math.floor(dice.spread(1, 40))) : undefined;
    case "evict":
      for (const host of hosts) host.evict();
      return;
    case "lose storage":
      bus.crash();
      // Its end is cleaned up behind this event, and only then may its disks go.
      return scheduler.atEndOfTurn(() => world.loseStorage());
  }
}
