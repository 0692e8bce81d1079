/** PURE. How a session stands with its buses, in the words of `whoami` and of notices. */

import type { State } from "../bus/connection-state.ts";
import type { BusRefusal, Unreachable } from "../bus/outcome.ts";
import type { WhoAmI } from "./agent.ts";

export interface Standing {
  readonly connection: WhoAmI["connection"];
  /** A stable code; for a network's trouble followed by the system's own. */
  readonly reason?: string;
}

/** @param refusal what the bus refused on an open connection, an announcement say */
export function standingOf(state: State, refusal?: BusRefusal | Unreachable): Standing {
  switch (state.at) {
    case "idle":
      return { connection: "disconnected", reason: "not_begun" };
    case "dialing":
      return { connection: "connecting" };
    case "open":
      return refusal === undefined ? { connection: "connected" } : { connection: "connected", reason: wordOf(refusal) };
    case "leaving":
      return { connection: "disconnected", reason: "closing" };
    case "waiting": {
      const { why } = state;
      if ("closed" in why) return { connection: "disconnected", reason: `closed ${why.closed}` };
      return { connection: "disconnected", reason: "broken" in why ? why.broken : wordOf(why) };
    }
    case "stopped":
      if (state.why.by === "evicted") return { connection: "evicted", reason: state.why.code };
      return { connection: "disconnected", reason: state.why.by === "unregister" ? "unregistered" : state.why.by };
  }
}

/** The best of several: one bus that is there is enough. */
export function bestOf(standings: readonly Standing[]): Standing {
  for (const connection of ["connected", "connecting", "disconnected"] as const) {
    const found = standings.find((standing) => standing.connection === connection);
    if (found) return found;
  }
  return standings[0] ?? { connection: "disconnected", reason: "no_bus" };
}

function wordOf(why: BusRefusal | Unreachable): string {
  if ("refused" in why) return why.refused;
  return why.detail === undefined ? why.unreachable : `${why.unreachable} ${why.detail}`;
}
