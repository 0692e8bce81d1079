/**
 * Installs the original Rust client with Cargo into a cache folder, once: the later runs find it there and need no
 * network. Where it cannot be had the tests are skipped, and the reason is said.
 */

import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The folder of the Rust client's programs, or why there is none. */
    rust: { readonly bin: string } | { readonly missing: string };
  }
}

/** The last whose wire is the one of ACCESS=open: 0.8 to 0.11. */
export const RUST_VERSION = "0.11.2";
/** Beside other tools' caches, where an `npm ci` clears it. */
const CACHE_DIR = join(PROJECT_DIR, "node_modules/.cache/interop");
/** Some 250 crates are compiled: minutes on a small machine. */
const INSTALL_MAX_MS = 30 * 60_000;

const run = promisify(execFile);

export default async function setup(project: TestProject): Promise<void> {
  const rust = await installRustClient();
  if ("missing" in rust) console.warn(`The tests with the Rust client are skipped: ${rust.missing}`);
  project.provide("rust", rust);
}

async function installRustClient(): Promise<{ bin: string } | { missing: string }> {
  const bin = join(CACHE_DIR, "bin");
  if (await isInstalled(bin)) return { bin };
  try {
    await run("cargo", ["--version"]);
  } catch {
    return { missing: "there is no Cargo here." };
  }
  const programs = ["--bin", "interlink-mcp", "--bin", "interlink-keygen"];
  const args = ["install", "interlink-mcp", "--version", RUST_VERSION, "--locked", "--root", CACHE_DIR, "--force"];
  console.warn(`Cargo compiles interlink-mcp ${RUST_VERSION} into ${CACHE_DIR}; this takes minutes, once.`);
  const { code, said } = await cargo([...args, ...programs]);
  if (code === 0 && (await isInstalled(bin))) return { bin };
  const reason = said.split("\n").findLast((line) => line.trim() !== "") ?? `exit ${code}`;
  return { missing: `Cargo could not install interlink-mcp ${RUST_VERSION} (${reason.trim()}).` };
}

async function isInstalled(bin: string): Promise<boolean> {
  if (!existsSync(join(bin, programName("interlink-keygen")))) return false;
  try {
    const { stdout } = await run(join(bin, programName("interlink-mcp")), ["--version"]);
    return stdout.trim().endsWith(` ${RUST_VERSION}`);
  } catch {
    return false;
  }
}

export function programName(name: string): string {
  return process.platform === "win32" ? `${name}.exe` : name;
}

function cargo(args: readonly string[]): Promise<{ code: number | null; said: string }> {
  return new Promise((resolve) => {
    const child = spawn("cargo", args, { stdio: ["ignore", "ignore", "pipe"], timeout: INSTALL_MAX_MS });
    let said = "";
    child.stderr.on("data", (chunk) => (said = (said + String(chunk)).slice(-4_096)));
    child.once("error", (error) => resolve({ code: null, said: String(error) }));
    child.once("close", (code) => resolve({ code, said }));
  });
}
