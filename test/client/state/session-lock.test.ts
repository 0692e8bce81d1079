/** One process a session, also of two that start in the same millisecond. */

import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

const CHILD = join(import.meta.dirname, "lock-child.ts");
const ROUNDS = 12;
/** Longer than the loser tries. */
const EVERY_MS = 350;
/** Both children run by then. */
const START_MS = 1_000;

it("lets exactly one of two in that ask together, every time", { timeout: 30_000 }, async () => {
  const directory = mkdtempSync(join(tmpdir(), "interlink-lock-"));
  const firstAtMs = Date.now() + START_MS;
  const flags = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"];
  const children = [1, 2].map(() =>
    spawn(process.execPath, [...flags, CHILD, directory, ...[ROUNDS, firstAtMs, EVERY_MS].map(String)], {
      stdio: ["pipe", "pipe", "inherit"],
    }),
  );
  onTestFinished(() => children.forEach((child) => void child.kill("SIGKILL")));
  const [one, two] = (await Promise.all(
    children.map(
      (child) =>
        new Promise((resolve) => child.stdout.once("data", (text: Buffer) => resolve(JSON.parse(text.toString())))),
    ),
  )) as [boolean[], boolean[]];
  const holders = one.map((hasIt, round) => Number(hasIt) + Number(two[round]));
  expect(holders).toEqual(holders.map(() => 1));
});
