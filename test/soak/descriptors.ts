/** What a process holds open, from /proc. Linux only. */

import { readdirSync, readlinkSync } from "node:fs";

export interface Descriptors {
  readonly all: number;
  readonly sockets: number;
}

export function descriptorsOf(pid: number): Descriptors {
  const dir = `/proc/${pid}/fd`;
  const targets = readdirSync(dir).map((fd) => {
    try {
      return readlinkSync(`${dir}/${fd}`);
    } catch {
      return ""; // closed meanwhile
    }
  });
  // workerd has two descriptors of each connection: what stands in the link is the socket's own number.
  const sockets = new Set(targets.filter((target) => target.startsWith("socket:")));
  return { all: targets.length, sockets: sockets.size };
}
