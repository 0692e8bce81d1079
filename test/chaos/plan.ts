/** PURE: what is done to whom and when, drawn from a seed. The plan is the same for a seed; what comes of it is not. */

import { randomFrom } from "../../scripts/random.ts";

/** What a run can do. `--only` takes these, or what stands before their dash. */
export const KINDS = [
  "bus-kill",
  "bus-stop",
  "bus-disk",
  "agent-kill",
  "agent-stop",
  "agent-disk",
  "supervisor-kill",
  "tree-kill",
  "tree-stop",
  "net-delay",
  "net-cut",
  "net-half",
  "net-hole",
  "clock-move",
] as const;
export type Kind = (typeof KINDS)[number];

/** One disturbance, which is over by itself after `forMs`. */
export interface Disturbance {
  readonly atMs: number;
  readonly kind: Kind;
  /** `bus`, a session (`ann-in`), or a person (`ann`). */
  readonly whom: string;
  readonly forMs: number;
  /** Milliseconds that a network is late, or a clock is off. */
  readonly byMs?: number;
  /** Of a half-close: which end is told that nothing more comes. */
  readonly toward?: "client" | "target";
}

export interface PlanOptions {
  readonly seed: number;
  /** How long the trouble lasts. */
  readonly troubleMs: number;
  readonly kinds: readonly Kind[];
  readonly people: readonly string[];
  readonly sessions: readonly string[];
}

/** What a supervisor puts up with is five ends in 30 s; one more and nothing runs for a minute, which proves little. */
const AGENT_ENDS_MAX = 3;
const AGENT_ENDS_WINDOW_MS = 32_000;
/** Between one disturbance and the next: many overlap. */
const GAP_MIN_MS = 250;
const GAP_MAX_MS = 1_100;
/**
 * Within what the bus puts up with, a little past it, and far past it. Not some minutes: a message dated so far ahead waits until
 * the bus's clock is there, as it is to, and a run would wait with it.
 */
const CLOCK_STEPS_MS = [5_000, 50_000, 90_000, 3 * 3_600_000];

/** Every kind comes once before any comes again. Nothing is done to what is being disturbed in the same way already. */
export function planOf({ seed, troubleMs, kinds, people, sessions }: PlanOptions): Disturbance[] {
  const dice = randomFrom(seed);
  const between = (min: number, max: number) => Math.round(min + dice() * (max - min));
  const busyUntilMs = new Map<string, number>();
  const agentEnds = new Map<string, number[]>();
  const plan: Disturbance[] = [];
  let deck: Kind[] = [];
  for (let atMs = between(0, GAP_MIN_MS); atMs < troubleMs; atMs += between(GAP_MIN_MS, GAP_MAX_MS)) {
    if (deck.length === 0) deck = shuffled(kinds, dice);
    const kind = deck.shift();
    if (kind === undefined) break;
    const isFree = (whom: string) => (busyUntilMs.get(placeOf(kind, whom)) ?? 0) <= atMs;
    const endsOf = (whom: string) => (agentEnds.get(whom) ?? []).filter((at) => atMs - at < AGENT_ENDS_WINDOW_MS);
    const mayEnd = (whom: string) => !endsAgent(kind) || endsOf(whom).length < AGENT_ENDS_MAX;
    const targets = targetsOf(kind, people, sessions).filter((whom) => isFree(whom) && mayEnd(whom));
    const whom = targets[Math.floor(dice() * targets.length)];
    if (whom === undefined) continue;
    const forMs = Math.min(durationOf(kind, between), troubleMs - atMs);
    if (endsAgent(kind)) agentEnds.set(whom, [...endsOf(whom), atMs]);
    busyUntilMs.set(placeOf(kind, whom), atMs + forMs);
    const byMs = amountOf(kind, dice, between);
    const toward = kind === "net-half" ? (dice() < 0.5 ? "client" : "target") : undefined;
    plan.push({ atMs, kind, whom, forMs, ...(byMs !== undefined && { byMs }), ...(toward && { toward }) });
  }
  return plan;
}

/** The kinds that are meant by names or their beginnings. @throws if one means none */
export function kindsNamed(words: readonly string[]): Kind[] {
  return words.flatMap((word) => {
    const meant = KINDS.filter((kind) => kind === word || kind.startsWith(`${word}-`));
    if (meant.length === 0) throw new Error(`"${word}" is none of ${KINDS.join(", ")}`);
    return meant;
  });
}

function targetsOf(kind: Kind, people: readonly string[], sessions: readonly string[]): readonly string[] {
  if (kind.startsWith("bus")) return ["bus"];
  return kind.startsWith("net") || kind.startsWith("clock") ? people : sessions;
}

/** Where two disturbances would be in each other's way: processes, a network, a clock. */
function placeOf(kind: Kind, whom: string): string {
  const [what = ""] = kind.split("-");
  return ["net", "clock"].includes(what) ? `${what} ${whom}` : whom;
}

function endsAgent(kind: Kind): boolean {
  return kind === "agent-kill" || kind === "agent-disk";
}

function durationOf(kind: Kind, between: (min: number, max: number) => number): number {
  switch (kind) {
    case "net-cut":
    case "net-half":
      return 0;
    case "agent-kill":
      return between(300, 600); // until the next one runs
    case "bus-kill":
    case "supervisor-kill":
    case "tree-kill":
      return between(200, 1_500);
    case "bus-disk":
    case "agent-disk":
      return between(500, 2_500);
    case "bus-stop":
      return between(500, 3_000);
    case "agent-stop":
    case "tree-stop":
    case "net-hole":
    case "net-delay":
      return between(500, 6_000);
    case "clock-move":
      return between(1_000, 8_000);
  }
}

function amountOf(kind: Kind, dice: () => number, between: (min: number, max: number) => number): number | undefined {
  if (kind === "net-delay") return between(20, 800);
  if (kind !== "clock-move") return undefined;
  const step = CLOCK_STEPS_MS[Math.floor(dice() * CLOCK_STEPS_MS.length)]!;
  return dice() < 0.5 ? -step : step;
}

function shuffled<Item>(items: readonly Item[], dice: () => number): Item[] {
  const keyed = items.map((item) => ({ item, at: dice() }));
  return keyed.toSorted((a, b) => a.at - b.at).map(({ item }) => item);
}
