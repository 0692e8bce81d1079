/** PURE. What is said of buses: which is active, how each stands, and what mends one that is not there. */

import type { BusShown, Drop, WhoAmIThere } from "../session/buses.ts";
import { OPERATIONS } from "../session/readiness.ts";
import { quoted } from "./escape.ts";

/** One bus, in a sentence. */
export function busSentence(bus: BusShown): string {
  const { name, address, role, connection, reason, unread, pending } = bus;
  const where = name === address ? quoted(name) : `${quoted(name)} (${quoted(address)})`;
  if (role === "named") return `${where} is named and not connected.`;
  const why = reason === undefined ? "" : ` (${quoted(reason)})`;
  return `${where} is ${role}: ${connection}${why}, ${unread} unread, ${pending} not stored yet.`;
}

/** Above the list. */
export function busesSentence(buses: readonly BusShown[]): string {
  const active = buses.find(({ role }) => role === "active");
  const parked = buses.filter(({ role }) => role === "parked").length;
  const which = active ? `The active bus is ${quoted(active.name)}` : "No bus is active";
  return `${which}; ${parked} parked.`;
}

/** What whoami says beside the rest: the buses by name, what can be done, and why the session is not where it was. */
export function placeSentence({ bus_name, parked, readiness, last_drop }: WhoAmIThere): string {
  const can = OPERATIONS.filter((each) => readiness[each] === "ready");
  const cannot = OPERATIONS.filter((each) => readiness[each] !== "ready").map((each) => `${each} (${readiness[each]})`);
  return [
    `The bus is called ${quoted(bus_name)}${parked.length === 0 ? "" : `; parked: ${parked.map(quoted).join(", ")}`}.`,
    `Now ready: ${can.join(", ")}${cannot.length === 0 ? "" : `; not: ${cannot.join(", ")}`}.`,
    ...(last_drop ? [dropSentence(last_drop)] : []),
  ].join(" ");
}

/** Why a session is not where it was. */
export function dropSentence({ what, bus, reason, mend }: Drop): string {
  const why = reason === undefined ? "" : ` (${quoted(reason)})`;
  const call = mend.tool === "reconnect" ? "reconnect" : `connect_bus with bus=${quoted(mend.bus)}`;
  switch (what) {
    case "switched":
      return `Bus ${quoted(bus)} was switched away from and is parked; to go back, call ${call}.`;
    case "disconnected":
      return `Bus ${quoted(bus)} was disconnected${why}; to be there again, call ${call}.`;
    case "evicted":
      return `Bus ${quoted(bus)} refused this session for good${why}: it was evicted, and is not retried; once your operator has mended that, call ${call}.`;
  }
}

/** What the operator is asked before we go to a bus that they have not named. */
export function unlistedQuestion({ name, fingerprint }: { name: string; fingerprint: string }): string {
  return (
    `An agent wants to connect to the bus ${quoted(name)}, which you have not named, as ${fingerprint}. ` +
    "Whoever runs that bus will see this key, whom you have paired with, and all messages sent there. Connect?"
  );
}

export function connectedSentence(bus: BusShown): string {
  const as = bus.fingerprint === undefined ? "" : ` We are ${bus.fingerprint} there.`;
  return `${busSentence(bus)}${as} What was active before stays connected as parked; its mail comes with check_messages.`;
}

export function disconnectedSentence(name: string): string {
  return `Bus ${quoted(name)} was left: its peers were told, and nothing connects to it again by itself. To go back, call connect_bus with bus=${quoted(name)}.`;
}
