/**
 * Loaded ahead of a client in trouble (`node --import`), supervisor and agent alike: its clock can be moved; a write past its
 * quota fails as on a full disk, where the signal would end it; and the limits are those of the bus that it talks to.
 */

import "../support/moved-clock.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";

process.on("SIGXFSZ", () => {});

for (const name of ["HEARTBEAT_MS", "LIVE_MS"] as const) {
  Object.assign(DEFAULT_LIMITS, { [name]: Number(process.env[name]) });
}
