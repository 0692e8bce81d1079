/** The client as a user gets it: packed, and installed by npm into a folder of its own. For its test and its bench. */

import { execFile } from "node:child_process";
import { mkdir, readdir } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { PROJECT_DIR } from "./local-bus.ts";

const run = promisify(execFile);

/** An npm that runs us says of our own project where to install and what; the next is to read its folder. */
const KEPT = ["npm_config_cache", "npm_config_registry", "npm_config_userconfig"];

/**
 * Builds and packs the client.
 * @param into an empty folder
 * @returns path of the tarball
 */
export async function packPackage(into: string): Promise<string> {
  await npm(["pack", "--pack-destination", into], PROJECT_DIR);
  const [tarball] = (await readdir(into)).filter((name) => name.endsWith(".tgz"));
  return join(into, tarball!);
}

/**
 * Installs as a user would, with what the package needs to run and no more.
 * @param into a folder, made where there is none
 * @param nodeFolder folder of the `node` that npm runs on; absent: the first of the PATH
 */
export async function installPackage(spec: string, into: string, nodeFolder?: string): Promise<void> {
  await mkdir(into, { recursive: true });
  await npm(["install", spec, "--omit=dev", "--no-audit", "--no-fund", "--prefer-offline"], into, nodeFolder);
}

/** @throws with what npm printed */
export async function npm(args: readonly string[], cwd: string, nodeFolder?: string): Promise<void> {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith("npm_") || KEPT.includes(name)),
  );
  if (nodeFolder !== undefined) env["PATH"] = [nodeFolder, env["PATH"]].join(delimiter);
  await run("npm", [...args], { cwd, env });
}
