/** Builds the Worker's bundle once a run, into a folder of that run, for every test that starts a bus as a process. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { buildBundle } from "../../scripts/local-bus.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Path of the Worker's bundle. */
    bundle: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), "interlink-bundle-"));
  project.provide("bundle", await buildBundle(dir));
  return () => rm(dir, { recursive: true, force: true });
}
