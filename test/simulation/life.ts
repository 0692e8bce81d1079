/**
 * One incarnation of a client's process, of the bus, or of an object in it: all that it runs carries it along, so the
 * stand-ins of the platform know who asks. It can die before any of its effects; from then on nothing of it touches a
 * disk, a timer or the network again, whatever its code still awaits.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type { World } from "./world.ts";

/** Thrown at what is dead and asks for something. No fault: nobody is there who could see it. */
export class Dead extends Error {
  override readonly name = "Dead";
}

/** A machine: its wall clock, whether it sleeps, and whether its disk is full. */
export class Place {
  readonly name: string;
  /** Its wall clock minus virtual time. */
  offsetMs = 0;
  frozenUntilMs = 0;
  /** So long nothing more fits on its disk. */
  fullUntilMs = 0;

  constructor(name: string) {
    this.name = name;
  }
}

export class Life {
  readonly name: string;
  readonly world: World;
  readonly place: Place;
  readonly parent: Life | undefined;
  /** Lets an object's writes out before what it says. */
  output: (run: () => void) => void = (run) => run();
  effects = 0;
  /** The effect before which it dies. */
  diesAt = Infinity;
  #isDead = false;
  readonly #onDeath: (() => void)[] = [];

  constructor(name: string, world: World, place: Place, parent?: Life) {
    this.name = name;
    this.world = world;
    this.place = place;
    this.parent = parent;
  }

  get isDead(): boolean {
    return this.#isDead || this.parent?.isDead === true;
  }

  /** Wall clock, whole milliseconds. */
  now(): number {
    return Math.floor(this.world.scheduler.nowMs + this.place.offsetMs);
  }

  /** @returns true if it, or what it is a part of, dies of this one */
  #count(): boolean {
    if (++this.effects < this.diesAt) return this.parent !== undefined && this.parent.#count();
    this.die("before an effect");
    return true;
  }

  /** Something outside is about to change by it. Throws where it is dead, or dies of it. */
  effect(what?: string): void {
    if (this.isDead) throw new Dead();
    if (what !== undefined) this.world.scheduler.note(what, this);
    this.world.scheduler.effects++;
    if (this.#count()) throw new Dead();
  }

  onDeath(run: () => void): void {
    this.#onDeath.push(run);
  }

  die(how: string): void {
    if (this.isDead) return;
    this.world.scheduler.note(`dies ${how}`, this);
    this.#isDead = true;
    for (const run of this.#onDeath.splice(0)) run();
  }
}

/** Who runs now. */
export const current = new AsyncLocalStorage<Life>();

/** Who runs now, where only production code can ask. */
export function lifeNow(): Life {
  const life = current.getStore();
  if (!life) throw new Error("production code runs outside of any life");
  return life;
}
