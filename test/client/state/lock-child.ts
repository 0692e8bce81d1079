/** Takes one lock after another, each at the very moment at which its sibling does, and holds them until its stdin ends. */

import { writeSync } from "node:fs";
import { lockSession, type SessionLock } from "../../../src/client/state/session-lock.ts";

const [directory, rounds, firstAtMs, everyMs] = [process.argv[2]!, ...process.argv.slice(3).map(Number)] as [
  string,
  number,
  number,
  number,
];
const held: SessionLock[] = [];
const hasIt = Array.from({ length: rounds }, (_, round) => {
  // A timer would come too late and too unevenly for the two to meet.
  while (Date.now() < firstAtMs + round * everyMs);
  const lock = lockSession(`${directory}/${round}.lock`);
  if (typeof lock === "string") return false;
  held.push(lock);
  return true;
});
writeSync(1, JSON.stringify(hasIt));
process.stdin.on("end", () => held.forEach((lock) => lock.release())).resume();
