/** A child process that must not outlive us, however we end. */

import { spawn, type ChildProcess } from "node:child_process";
import process from "node:process";

/** True once a child's end is known. */
export function hasExited(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/**
 * Leaves no orphan, however this process ends, also by SIGKILL: a shell waits at a pipe that closes with us, and
 * then kills the child. A line on the pipe says that the child is gone, so no other process is hit by its number.
 * @param group the child leads a process group (it was spawned detached), and all of it goes
 */
export function endWithParent(child: ChildProcess, { group = false } = {}): void {
  const kill = (): void => killNow(child, group);
  process.once("exit", kill);
  child.once("exit", () => process.off("exit", kill));
  if (process.platform === "win32" || child.pid === undefined) return;
  const script = 'trap "" HUP INT TERM; read -r gone || kill -s KILL -- "$0"';
  const target = String(group ? -child.pid : child.pid);
  const guard = spawn("/bin/sh", ["-c", script, target], {
    detached: true, // a Ctrl-C or a kill of our group is not for it
    stdio: ["pipe", "ignore", "ignore"],
  });
  guard.on("error", () => {}); // no shell: the exit handler above remains
  guard.stdin.on("error", () => {});
  child.once("exit", () => guard.stdin.end("gone\n"));
  guard.unref();
  (guard.stdin as unknown as { unref(): void }).unref();
}

/** SIGKILL, without a complaint if it is already gone. */
export function killNow(child: ChildProcess, group = false): void {
  if (!group || child.pid === undefined || process.platform === "win32") {
    child.kill("SIGKILL");
    return;
  }
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // ESRCH: no process of the group is left
  }
}
