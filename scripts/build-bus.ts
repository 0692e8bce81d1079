/**
 * The bus as `interlink-edge bus start` runs it: the Worker's bundle, and what workerd is told, with all that differs from one start to
 * the next left to the environment. So the client that starts it knows nothing of bindings and objects.
 */

import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildBundle, formatConfig, PROJECT_DIR, readRuntimeSettings, type Binding } from "./local-bus.ts";

/** Set by src/client/cli/bus-start.ts. */
const VARIABLES = ["AUDIENCE", "HOSTS", "ADMISSION", "LOG"] as const;
/** Where nobody says otherwise. */
const PORT = 9_440;

/** @param outDir made where there is none */
export async function buildBus(outDir: string): Promise<void> {
  const building = await mkdtemp(join(tmpdir(), "interlink-bus-build-"));
  try {
    const bundle = await buildBundle(building);
    const bindings = VARIABLES.map((name): Binding => [name, "fromEnvironment", name]);
    await mkdir(outDir, { recursive: true });
    // Without its source map, which would name the folders of this machine.
    await copyFile(bundle, join(outDir, "index.js"));
    await writeFile(join(outDir, "bus.capnp"), formatConfig(PORT, await readRuntimeSettings(), bindings));
  } finally {
    await rm(building, { recursive: true, force: true });
  }
}

if (import.meta.main) await buildBus(process.argv[2] ?? join(PROJECT_DIR, ".build", "bus"));
