/**
 * PURE: a working day of some identities, event by event, from which the numbers of a month and the sessions that are
 * online at a time are taken.
 */

import { Agenda } from "./agenda.ts";
import type { Behaviour } from "./behaviour.ts";
import { exponential, poisson, type Random } from "../random.ts";
import { Tally } from "./tally.ts";

export const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** What an identity does that costs something. A `connect` is the first of a process, or one after a break. */
export type Act = "start" | "connect" | "message" | "peer_look" | "bus_look" | "summary";

export interface Day {
  readonly identities: number;
  readonly counts: Readonly<Record<Act, number>>;
  /** Sessions online in each minute of UTC. */
  readonly online: readonly number[];
  readonly onlinePeak: number;
  /** Acts in each hour of UTC. */
  readonly byHour: Readonly<Record<Act, readonly number[]>>;
}

type Planned = Act | "end";

/** Plays the day of `identities` people. */
export function simulateDay(identities: number, behaviour: Behaviour, random: Random): Day {
  const agenda = new Agenda<Planned>();
  for (let one = 0; one < identities; one++) planDay(agenda, behaviour, random);
  const acts: readonly Act[] = ["start", "connect", "message", "peer_look", "bus_look", "summary"];
  const hours = Object.fromEntries(acts.map((act) => [act, new Tally(HOUR_MS)])) as Record<Act, Tally>;
  const minutes = Array.from({ length: DAY_MS / 60_000 }, () => 0);
  const planned: { atMs: number; what: Planned }[] = [];
  let [online, minute] = [0, 0];
  for (let entry = agenda.next(); entry; entry = agenda.next()) {
    const { atMs, what } = entry;
    const day = Math.floor(atMs / DAY_MS);
    planned.push({ atMs: atMs - day * DAY_MS, what });
    // The day is a ring, as the days before and after it are the same: who is there over midnight of UTC is at its beginning.
    if (what === "end") online += day;
    else if (what === "start") online -= day;
  }
  for (const { atMs, what } of planned.toSorted((a, b) => a.atMs - b.atMs)) {
    for (const now = Math.floor(atMs / 60_000); minute <= now; minute++) minutes[minute] = online;
    if (what === "start") online++;
    if (what === "end") online--;
    else hours[what].add(atMs);
  }
  for (; minute < minutes.length; minute++) minutes[minute] = online;
  return {
    identities,
    counts: Object.fromEntries(acts.map((act) => [act, hours[act].total])) as Record<Act, number>,
    online: minutes,
    onlinePeak: Math.max(...minutes),
    byHour: Object.fromEntries(acts.map((act) => [act, hours[act].bins(24)])) as unknown as Day["byHour"],
  };
}

function planDay(agenda: Agenda<Planned>, behaviour: Behaviour, random: Random): void {
  const { zones_h, works_from_h, works_from_spread_h, works_h } = behaviour;
  const zone = zones_h[Math.floor(random() * zones_h.length)]!;
  const fromMs = (works_from_h - zone + (random() - 0.5) * works_from_spread_h) * HOUR_MS;
  const within = (): number => fromMs + random() * works_h * HOUR_MS;
  const some = (mean: number, what: Act): void => {
    for (let left = poisson(random, mean); left > 0; left--) agenda.put(within(), what);
  };
  some(behaviour.messages_a_day, "message");
  some(behaviour.peer_looks_a_day, "peer_look");
  for (let left = poisson(random, behaviour.starts_a_day); left > 0; left--) {
    const startMs = within();
    const endMs = Math.min(startMs + exponential(random, behaviour.session_h * HOUR_MS), startMs + DAY_MS / 2);
    agenda.put(startMs, "start");
    agenda.put(startMs, "connect");
    agenda.put(endMs, "end");
    for (let left = poisson(random, behaviour.summaries_a_start); left > 0; left--) agenda.put(startMs, "summary");
    for (let left = poisson(random, behaviour.bus_looks_a_start); left > 0; left--) agenda.put(startMs, "bus_look");
    const gapMs = (): number => exponential(random, HOUR_MS / behaviour.breaks_an_hour);
    for (let atMs = startMs + gapMs(); atMs < endMs; atMs += gapMs()) agenda.put(atMs, "connect");
  }
}
