/** Loaded ahead of a process (`node --import`): its clock is off by what a file says, now and whenever that changes. */

import { readFileSync, renameSync, writeFileSync } from "node:fs";

const path = process.env["MOVED_CLOCK"];
const trueNow = Date.now;
let offsetMs = 0;

function offset(from: string): number {
  try {
    offsetMs = Number(readFileSync(from, "utf8")) || 0;
  } catch {
    // the test is over: as before
  }
  return offsetMs;
}

if (path !== undefined) Date.now = () => trueNow() + offset(path);

/** Moves the clock of whoever was started with that file. In one step: whoever looks sees the one or the other. */
export function moveClock(file: string, byMs: number): void {
  writeFileSync(`${file}.new`, String(byMs));
  renameSync(`${file}.new`, file);
}
