/** Other versions of Node than the project's own, each fetched once. */

import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { npm } from "../../scripts/install-package.ts";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";

/** Beside other tools' caches, where an `npm ci` clears it. */
const CACHE = join(PROJECT_DIR, "node_modules/.cache/nodes");

/** @returns the folder of its `node` */
export async function pinnedNode(version: string): Promise<string> {
  const home = join(CACHE, version);
  const folder = join(home, "node_modules", "node", "bin");
  if (existsSync(home)) return folder;
  await mkdir(CACHE, { recursive: true });
  const making = await mkdtemp(join(CACHE, "making-"));
  try {
    // The package's install script is what puts the binary in its place.
    await writeFile(join(making, "package.json"), JSON.stringify({ private: true, allowScripts: { node: true } }));
    await npm(["install", `node@${version}`, "--save-exact", "--no-audit", "--no-fund"], making);
    // Another run may have been faster, and what it made is as good.
    await rename(making, home).catch((fault: unknown) => {
      if (!existsSync(home)) throw fault;
    });
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return folder;
}
