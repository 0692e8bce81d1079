/**
 * How a local socket is reached: in a bounded time; and a name that nobody listens behind, as a killed process leaves it, is
 * removed by whoever finds it so.
 */

import { randomBytes } from "node:crypto";
import { linkSync, lstatSync, renameSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import process from "node:process";

/** Between the making of its name and its listening a process refuses as a dead one does; none takes so long. */
const YOUNG_MS = 60_000;

/** What tells one socket from the next under the same name: a number is given again, but not at the same time. */
export interface SocketStamp {
  readonly dev: bigint;
  readonly ino: bigint;
  readonly mtimeNs: bigint;
}

/** @returns undefined: it did not take us in time */
export async function dial(address: string, withinMs: number): Promise<Socket | undefined> {
  // Before it is tried: what refuses is this one, or a younger one, which is spared.
  const found = stampOf(address);
  return new Promise((resolve) => {
    const socket = connect(address);
    const over = (reached: boolean) => {
      clearTimeout(timer);
      if (!reached) socket.destroy();
      resolve(reached ? socket : undefined);
    };
    const timer = setTimeout(over, withinMs, false);
    socket.once("connect", () => over(true));
    // It stays: what comes late is nobody's, and must not end the process.
    socket.on("error", (fault: NodeJS.ErrnoException) => {
      if (fault.code === "ECONNREFUSED" && found && isOld(found)) removeName(address, found);
      over(false);
    });
  });
}

/** Of a socket of ours; undefined for all else, and where there is nothing. */
export function stampOf(address: string): SocketStamp | undefined {
  try {
    const stats = lstatSync(address, { bigint: true, throwIfNoEntry: false });
    const uid = process.geteuid?.();
    return stats?.isSocket() && stats.uid === BigInt(uid ?? -1) ? stats : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Removes the name of a socket that refused. It is moved aside first and looked at there, so that a process that has taken the name
 * meanwhile keeps it: between a look and a removal it could lose it for good.
 * @returns false: the name is another's by now, or gone
 */
export function removeName(address: string, dead: SocketStamp): boolean {
  const aside = `${address}.${randomBytes(8).toString("hex")}`;
  try {
    renameSync(address, aside);
    const isDead = isSame(stampOf(aside), dead);
    if (!isDead) giveBack(aside, address);
    rmSync(aside, { force: true });
    return isDead;
  } catch {
    return false; // another removes it in this moment, or the folder is not to be written to
  }
}

function giveBack(aside: string, address: string): void {
  try {
    linkSync(aside, address); // unlike a rename it takes the name from nobody
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== "EEXIST") renameSync(aside, address);
  }
}

function isSame(a: SocketStamp | undefined, b: SocketStamp): boolean {
  return a !== undefined && a.dev === b.dev && a.ino === b.ino && a.mtimeNs === b.mtimeNs;
}

function isOld({ mtimeNs }: SocketStamp): boolean {
  return Date.now() - Number(mtimeNs / 1_000_000n) > YOUNG_MS;
}
