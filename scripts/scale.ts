/**
 * `npm run scale`: what a bus of 1 000, 100 000 and 10 million identities needs and costs, and where it bends.
 *
 * A simulation from a seed: costs of docs/costs.json and prices.json, limits of the platform (scale/platform.ts), the
 * bus's and the client's own deciders, and what people are assumed to do (scale/behaviour.ts). docs/SCALE.md reads it.
 */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readInputs } from "./costs.ts";
import { PROJECT_DIR } from "./local-bus.ts";
import { sectionsOf, withSections } from "./scale/report.ts";
import { reckon, SEED } from "./scale/run.ts";

const USAGE = `npm run scale -- [options]
  --seed N   another draw; ${SEED} if absent, which is what docs/SCALE.md shows
  --json     the same as JSON
  --write    puts the sections anew into docs/SCALE.md`;

const DOCUMENT = join(PROJECT_DIR, "docs/SCALE.md");

async function main(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seed: { type: "string", default: String(SEED) },
      json: { type: "boolean", default: false },
      write: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const seed = Number(values.seed);
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error(USAGE);
  const inputs = await readInputs();
  const scale = reckon(inputs, seed);
  if (values.json) return console.log(JSON.stringify({ seed, ...scale }, null, 2));
  const sections = sectionsOf(scale, inputs.prices);
  if (values.write) await writeFile(DOCUMENT, withSections(await readFile(DOCUMENT, "utf8"), sections));
  else console.log(sections.map(({ text }) => text).join("\n\n"));
}

if (import.meta.main) {
  try {
    await main(process.argv.slice(2));
  } catch (fault) {
    console.error((fault as Error).message);
    process.exitCode = 1;
  }
}
