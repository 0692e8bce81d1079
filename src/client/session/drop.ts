/** PURE. Why a session is not where it was, and the call that mends it; and the notices of several buses. */

import type { Departed } from "./activation.ts";
import type { Drop } from "./buses.ts";
import type { Standing } from "./bus-standing.ts";

export interface DropFacts {
  /** The active bus, and how it stands; absent: none is active. */
  readonly active?: { readonly name: string; readonly standing: Standing; readonly isStopped: boolean };
  /** What last became of another. */
  readonly departed?: Departed;
  /** The user left before this process began, and this is where the session would begin. */
  readonly left?: string;
  readonly nameOf: (target: string) => string;
}

/** What is wrong now comes before what was done before. */
export function dropOf({ active, departed, left, nameOf }: DropFacts): Drop | undefined {
  if (active?.isStopped) {
    const { name, standing } = active;
    const reason = standing.reason === undefined ? {} : { reason: standing.reason };
    if (standing.connection === "evicted") return { what: "evicted", bus: name, ...reason, mend: connect(name) };
    // Only another version mends this one; the new process dials by itself.
    const mend = standing.reason === "client_too_old" ? ({ tool: "reconnect" } as const) : connect(name);
    return { what: "disconnected", bus: name, ...reason, mend };
  }
  if (!departed) {
    return left === undefined ? undefined : { what: "disconnected", bus: left, reason: "asked", mend: connect(left) };
  }
  const bus = nameOf(departed.target);
  if (departed.what === "switched") return { what: "switched", bus, mend: connect(bus) };
  return { what: "disconnected", bus, reason: departed.why, mend: connect(bus) };
}

/** The line for an active bus that will not come back by itself, or for none. */
export function dropNotice(drop: Drop): string {
  const { what, bus, reason, mend } = drop;
  const why = reason === undefined ? "" : `, ${reason}`;
  const call = mend.tool === "reconnect" ? "reconnect" : `connect_bus with bus=${JSON.stringify(mend.bus)}`;
  return `nothing comes in from bus ${bus} (${what}${why}) until you call ${call}`;
}

/** The lines of a bus that is not the active one. */
export function parkedNotices(bus: string, notices: readonly string[]): string[] {
  return notices.map((notice) => `on the parked bus ${bus}: ${notice}`);
}

function connect(bus: string): Drop["mend"] {
  return { tool: "connect_bus", bus };
}
