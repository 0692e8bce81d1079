/**
 * `npm run build:package`, and before each `npm pack`: the client and the protocol as JavaScript with types, and
 * the bus that `interlink-edge bus start` runs, in `dist/`.
 * A checkout needs none of it, but Node strips no types beneath `node_modules`.
 *
 * File by file and no bundle, so that a stack names the sources' own files and functions. Measured to the answer
 * to `initialize`, medians of 40: a bundle of our files alone takes 0.8 of the time, some 60 ms less once a session, which
 * nobody waits for. One with the dependencies inside takes 0.6, but hides them from `npm audit` and from updates.
 */

import { spawnSync } from "node:child_process";
import { chmod, cp, readFile, rm, stat } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { buildBus } from "./build-bus.ts";
import { PROJECT_DIR } from "./local-bus.ts";

const require = createRequire(import.meta.url);
const DIST = join(PROJECT_DIR, "dist");

interface Manifest {
  readonly bin: Readonly<Record<string, string>>;
}

// What was deleted from the sources must not be packed.
await rm(DIST, { recursive: true, force: true });

const tsc = join(dirname(require.resolve("typescript/package.json")), "bin", "tsc");
const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", "src/client/tsconfig.package.json"], {
  cwd: PROJECT_DIR,
  encoding: "utf8",
  stdio: ["ignore", "pipe", "inherit"],
});
if (status !== 0) {
  // Half a package is worse than none.
  await rm(DIST, { recursive: true, force: true });
  console.error(`The client does not compile:\n${stdout}`);
  process.exit(1);
}

// The compiler leaves behind what the sources read beside themselves.
const isData = (path: string) => /^(?!tsconfig\b).*\.json$/.test(basename(path));
for (const room of ["client", "protocol"])
  await cp(join(PROJECT_DIR, "src", room), join(DIST, room), {
    recursive: true,
    filter: async (path) => isData(path) || (await stat(path)).isDirectory(),
  });

// So that a machine needs nothing but the package and workerd for a bus of its own.
await buildBus(join(DIST, "bus"));

const { bin } = JSON.parse(await readFile(join(PROJECT_DIR, "package.json"), "utf8")) as Manifest;
for (const path of Object.values(bin)) await chmod(join(PROJECT_DIR, path), 0o755);
