/** PURE: numbers that look random and are the same for the same seed. */

/** In [0, 1), one after the other. */
export type Random = () => number;

/** Mulberry32: 32 bits of state are plenty for a simulation, and it is the same in every engine. */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The time to the next of independent events. */
export function exponential(random: Random, mean: number): number {
  return -mean * Math.log(1 - random());
}

/** How many independent events fall into a time that expects `mean` of them; for means up to some hundreds. */
export function poisson(random: Random, mean: number): number {
  const limit = Math.exp(-mean);
  let count = 0;
  for (let product = random(); product > limit; product *= random()) count++;
  return count;
}
