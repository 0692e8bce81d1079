/**
 * Loaded ahead of a client in trouble (`node --import`), supervisor and agent alike: its clock is off by what a file says,
 * now and whenever that changes; a write past its quota fails as on a full disk, where the signal would end it; and the
 * limits are those of the bus that it talks to.
 */

import { readFileSync } from "node:fs";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";

const LOOK_MS = 50;

const path = process.env["CHAOS_CLOCK"]!;
const trueNow = Date.now;
let offsetMs = 0;
Date.now = () => trueNow() + offsetMs;

function look(): void {
  try {
    offsetMs = Number(readFileSync(path, "utf8")) || 0;
  } catch {
    // it is being written, or the run is over: as before
  }
}
look();
setInterval(look, LOOK_MS).unref();

process.on("SIGXFSZ", () => {});

for (const name of ["HEARTBEAT_MS", "LIVE_MS"] as const) {
  Object.assign(DEFAULT_LIMITS, { [name]: Number(process.env[name]) });
}
