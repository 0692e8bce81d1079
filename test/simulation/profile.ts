/**
 * How hostile one run is, drawn from its seed. Each kind of trouble is on or off for a whole run, and as rare or frequent as it
 * falls: runs that have a little of everything all alike find less (swarm testing).
 */

import type { Dice } from "./dice.ts";

export interface Profile {
  /** Highest of the usual latencies. */
  readonly latencyMs: number;
  /** Share of packets that take up to 20 s. */
  readonly slow: number;
  readonly loseRequest: number;
  readonly loseAnswer: number;
  /** Share of answers that break off in the middle. */
  readonly breakAnswer: number;
  /** Share of requests that come twice. */
  readonly repeatRequest: number;
  /** Share of requests that meet a connection which was kept alive and has ended. */
  readonly stale: number;
  /** Share of calls between the bus's own parts that are lost. */
  readonly lostCall: number;
  /** Longest time until a commit is on the bus's disk. */
  readonly diskMs: number;
  /** Share of signatures whose check takes a while, so that another overtakes it. */
  readonly slowCrypto: number;
  readonly lateAlarm: number;
  readonly doubleAlarm: number;
  /** Time between two troubles of a kind, on the average; absent: none of it. */
  readonly every: Readonly<Partial<Record<TroubleKind, number>>>;
  /** Whether the clocks agree again when all heals. */
  readonly clocksAgree: boolean;
}

export const TROUBLES = [
  "dark",
  "cut",
  "silent",
  "kill agent",
  "kill agent at an effect",
  "kill tree",
  "kill tree at an effect",
  "hand over",
  "close",
  "sleep",
  "full disk",
  "jump",
  "jump far",
  "bus jump",
  "bus kill",
  "bus kill at an effect",
  "object kill",
  "object kill at an effect",
  "evict",
  "lose storage",
] as const;
export type TroubleKind = (typeof TROUBLES)[number];

/** Kinds that are on in few runs, for they would hide the others. */
const RARE: ReadonlySet<TroubleKind> = new Set(["lose storage", "close", "jump far", "bus jump"]);

export const CALM: Profile = {
  latencyMs: 20,
  slow: 0,
  loseRequest: 0,
  loseAnswer: 0,
  breakAnswer: 0,
  repeatRequest: 0,
  stale: 0,
  lostCall: 0,
  diskMs: 5,
  slowCrypto: 0,
  lateAlarm: 0,
  doubleAlarm: 0,
  every: {},
  clocksAgree: true,
};

/** What stays when all has healed: delays, and no harm. */
export function healed(profile: Profile): Profile {
  const { latencyMs, diskMs, slowCrypto, clocksAgree } = profile;
  return { ...CALM, latencyMs, diskMs, slowCrypto, clocksAgree };
}

export function profileOf(dice: Dice, kinds: readonly TroubleKind[] = TROUBLES): Profile {
  const rate = (most: number) => (dice.chance(0.5) ? dice.spread(most / 50, most) : 0);
  const every: Partial<Record<TroubleKind, number>> = {};
  for (const kind of TROUBLES) {
    const isOn = dice.chance(RARE.has(kind) ? 0.12 : 0.45);
    const everyMs = dice.spread(4_000, 120_000);
    if (isOn && kinds.includes(kind)) every[kind] = kind === "lose storage" ? 90_000 : everyMs;
  }
  return {
    latencyMs: dice.spread(2, 400),
    slow: rate(0.05),
    loseRequest: rate(0.2),
    loseAnswer: rate(0.2),
    breakAnswer: rate(0.1),
    repeatRequest: rate(0.3),
    stale: rate(0.2),
    lostCall: rate(0.1),
    diskMs: dice.spread(1, 200),
    slowCrypto: rate(0.5),
    lateAlarm: rate(0.5),
    doubleAlarm: rate(0.5),
    every,
    clocksAgree: dice.chance(0.5),
  };
}
