/**
 * A full disk without a disk: a process may write no byte to any file any more (RLIMIT_FSIZE of 0, set from outside). Such a
 * write fails (EFBIG) for who ignores SIGXFSZ, and ends who does not.
 */

import { execFile, execFileSync } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

/** In front of a program that does not ignore the signal by itself: what is ignored stays so over `exec`. */
export const IGNORING_QUOTA = ["/bin/sh", "-c", 'trap "" XFSZ; exec "$@"', "sh"];

/** True if this machine can do it: Linux with util-linux. */
export function hasQuota(): boolean {
  try {
    execFileSync("prlimit", ["--version"], { stdio: "ignore" });
    return process.platform === "linux";
  } catch {
    return false;
  }
}

/** @returns what makes room again */
export async function fillDisk(pid: number): Promise<() => Promise<void>> {
  await limit(pid, "0");
  return () => limit(pid, "unlimited");
}

async function limit(pid: number, bytes: string): Promise<void> {
  // The soft limit alone, which may be raised again.
  await run("prlimit", ["--pid", String(pid), `--fsize=${bytes}:`]).catch(() => {}); // it has ended meanwhile
}
