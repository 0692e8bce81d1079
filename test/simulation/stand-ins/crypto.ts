/** `node:crypto` with the seed's randomness. What it computes at once it computes truly. */

import { lifeNow } from "../life.ts";

export * from "node:crypto";

/** In place of the system's. */
export function randomBytes(count: number): Buffer {
  return Buffer.from(lifeNow().world.dice.bytes(count));
}
