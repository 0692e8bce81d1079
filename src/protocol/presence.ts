/** Age in, presence out. Silence is not death: only an unregister, or AWAY_RETAIN_MS of it, makes a session gone. */

import type { Limits } from "./constants.ts";

export type Presence = "live" | "away" | "gone";

/** @param ageMs the bus's own: now minus the session's last sign of life */
export function classifyPresence(ageMs: number, limits: Pick<Limits, "LIVE_MS" | "AWAY_RETAIN_MS">): Presence {
  if (ageMs < limits.LIVE_MS) return "live";
  return ageMs < limits.AWAY_RETAIN_MS ? "away" : "gone";
}

/** True if an away session has been silent so long that it is more likely closed than asleep; wording only. */
export function isStale(ageMs: number, limits: Pick<Limits, "AWAY_STALE_MS">): boolean {
  return ageMs >= limits.AWAY_STALE_MS;
}
