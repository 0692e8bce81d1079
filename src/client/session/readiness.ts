/**
 * PURE. What a session can do now, each operation for itself, and the one reason where it cannot. None of them stands in the
 * way of another: what needs only this machine goes on without a bus.
 *
 * | operation   | needs                                                    |
 * |-------------|----------------------------------------------------------|
 * | read_roster | a roster, retained too: it is shown with its age         |
 * | send        | the key and the outbox, also without a bus               |
 * | receive     | a socket that is open, where we are announced            |
 * | trust       | files of this machine                                    |
 * | wake        | a way by which the host starts its model                 |
 */

import type { State } from "../bus/connection-state.ts";

export const OPERATIONS = ["read_roster", "send", "receive", "trust", "wake"] as const;
export type Operation = (typeof OPERATIONS)[number];

/** Why not; stable, for programs. */
export type Unready =
  /** No bus is active, or it cannot be reached now. */
  | "not_connected"
  /** The bus could not be asked; what it said last is still shown. */
  | "bus_stale"
  /** Another process is this session. */
  | "superseded"
  /** The bus refused this key or session for good. */
  | "not_admitted"
  /** The bus no longer speaks this version. */
  | "client_too_old"
  | "no_wake_path";

export type Readiness = Readonly<Record<Operation, "ready" | Unready>>;

export interface ReadinessFacts {
  readonly links: readonly State[];
  /** The user closed it, or never began. */
  readonly isAway: boolean;
  /** What is known of a roster: read just now, an old one, or none. */
  readonly roster: "fresh" | "retained" | "none";
  readonly hasWakePath: boolean;
}

export function readinessOf({ links, isAway, roster, hasWakePath }: ReadinessFacts): Readiness {
  const receive = isAway ? "not_connected" : unreachedOf(links);
  return {
    read_roster: roster === "fresh" ? "ready" : roster === "retained" ? "bus_stale" : (receive ?? "bus_stale"),
    send: isAway ? "not_connected" : "ready",
    receive: receive ?? "ready",
    trust: "ready",
    wake: hasWakePath ? "ready" : "no_wake_path",
  };
}

/** Why nothing comes in; undefined: something does. One link that is open is enough. */
export function unreachedOf(links: readonly State[]): Exclude<Unready, "bus_stale" | "no_wake_path"> | undefined {
  if (links.some(({ at }) => at === "open")) return undefined;
  // What will be dialled again is not lost, whatever became of the others.
  const stops = links.flatMap((state) => (state.at === "stopped" ? [state.why.by] : []));
  if (stops.length < links.length) return "not_connected";
  if (stops.includes("superseded")) return "superseded";
  if (stops.includes("client_too_old")) return "client_too_old";
  return stops.includes("evicted") ? "not_admitted" : "not_connected";
}
