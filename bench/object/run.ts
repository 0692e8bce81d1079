/**
 * `npm run bench:object`: what one object bears, on this machine: an identity's under load, its sockets, a directory
 * shard's reads, and a page of the whole-bus roster. Each is short, so that it can be run beside other work; read the
 * ratios to the floor of the same run, and the cores that others took.
 */

import { rmSync } from "node:fs";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";
import { busUnderLoad, floorUnderLoad } from "./load.ts";
import { pages } from "./pages.ts";
import { shardReads, shares } from "./shares.ts";
import { sockets } from "./sockets.ts";

const USAGE = `npm run bench:object -- [options]
  --measure A,B  of load, floor, shares, shard, sockets, pages; all if absent
  --json FILE    writes all readings to a file too`;

/** As the limits of a shard by default: all shown, and nine of ten hidden. */
const LISTED = 10_000;

const MEASURES: Readonly<Record<string, (stateDir: string) => Promise<readonly object[]>>> = {
  load: busUnderLoad,
  floor: floorUnderLoad,
  shares,
  shard: shardReads,
  sockets,
  pages: async (stateDir) => [
    ...(await pages(stateDir, LISTED, 0)),
    ...(await pages(stateDir, LISTED / 10, (LISTED * 9) / 10)),
  ],
};

async function main(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: { measure: { type: "string" }, json: { type: "string" }, help: { type: "boolean", short: "h" } },
  });
  const names = values.measure?.split(",") ?? Object.keys(MEASURES);
  if (values.help) return console.log(USAGE);
  if (!names.every((name) => name in MEASURES)) throw new Error(USAGE);
  const parent = join(PROJECT_DIR, ".interlink", "bench");
  await mkdir(parent, { recursive: true });
  const stateDir = await mkdtemp(join(parent, "object-"));
  process.once("exit", () => rmSync(stateDir, { recursive: true, force: true }));
  const results: Record<string, unknown> = { processors: cpus().length, loadBefore: loadavg() };
  for (const name of names) {
    const rows = await MEASURES[name]!(stateDir);
    results[name] = rows;
    console.log(`${name}\n${rows.map((row) => `  ${lineOf(row)}`).join("\n")}`);
  }
  if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(results, null, 2)}\n`);
}

function lineOf(row: object): string {
  return Object.entries(row)
    .map(([name, value]) => `${name} ${typeof value === "number" ? Number(value.toPrecision(4)) : String(value)}`)
    .join(", ");
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));
try {
  await main(process.argv.slice(2));
  process.exit(0); // whatever a measure left open must not keep it
} catch (fault) {
  console.error((fault as Error).message);
  process.exit(1);
}
