/**
 * Loaded ahead of an agent of the demo (`node --import`): shortens the client's own limits by the variables that shorten the
 * bus's. The two must agree, since the bus tells ages and the client puts them into words.
 */

import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";

for (const name of ["HEARTBEAT_MS", "LIVE_MS"] as const) {
  const ms = Number(process.env[name]);
  if (!(ms > 0)) throw new Error(`${name} is not set`);
  Object.assign(DEFAULT_LIMITS, { [name]: ms });
}
