/** CPU, memory and disk writes of processes, and of the machine, from /proc. Linux only. */

import { readdirSync, readFileSync } from "node:fs";

/** Clock ticks of /proc, which Linux fixes at 100 a second for user space. */
const TICKS_PER_SECOND = 100;

/** A process and all that it started, as of now. */
export function processTree(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const parent = statFields(pid)?.[1];
    if (parent !== undefined) children.set(Number(parent), [...(children.get(Number(parent)) ?? []), pid]);
  }
  const tree: number[] = [];
  for (const queue = [root]; queue.length > 0;) {
    const pid = queue.shift()!;
    tree.push(pid);
    queue.push(...(children.get(pid) ?? []));
  }
  return tree;
}

/** Seconds of CPU that the processes have used, ended threads included. */
export function cpuSeconds(pids: readonly number[]): number {
  return sum(pids, (pid) => {
    const fields = statFields(pid);
    return fields ? (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND : 0;
  });
}

/** Resident bytes; pages that the processes share count for each. */
export function residentBytes(pids: readonly number[]): number {
  return sum(pids, (pid) => 1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0));
}

/** Bytes that the processes have made the disk write so far. */
export function writtenBytes(pids: readonly number[]): number {
  return sum(pids, (pid) => Number(/^write_bytes: (\d+)/m.exec(read(`/proc/${pid}/io`))?.[1] ?? 0));
}

/** Seconds that all cores together were busy, and that the host took away. */
export function machineSeconds(): { readonly busy: number; readonly stolen: number } {
  const line = /^cpu +(.*)$/m.exec(read("/proc/stat"))?.[1] ?? "";
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.split(" ").map(Number);
  return {
    busy: (user + nice + system + irq + softirq) / TICKS_PER_SECOND,
    stolen: steal / TICKS_PER_SECOND,
  };
}

/** Fields of /proc/PID/stat after the name, which may hold spaces: [0] state, [1] parent, [11] user, [12] system. */
function statFields(pid: number): string[] | undefined {
  const text = read(`/proc/${pid}/stat`);
  return text === "" ? undefined : text.slice(text.lastIndexOf(")") + 2).split(" ");
}

/** Empty for a process that has ended meanwhile. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function sum(pids: readonly number[], of: (pid: number) => number): number {
  return pids.reduce((total, pid) => total + of(pid), 0);
}
