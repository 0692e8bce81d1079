/** The targets of the project, all as ratios within one run so that the machine drops out. */

import { BASELINE } from "./adapters/index.ts";
import type { Results } from "./results.ts";

interface Target {
  readonly text: string;
  readonly metric: string;
  /** Another system's reading of the same metric to divide by; absent if the value itself counts. */
  readonly over?: string;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** The way of running the bus that the targets are for. */
const SYSTEM = "interlink-socket";

const TARGETS: readonly Target[] = [
  { text: "sends, c=1: ≥ 0.7 of the floor", metric: "sends.c1", over: BASELINE, atLeast: 0.7 },
  { text: "sends, c=16: ≥ 2 times the floor", metric: "sends.c16", over: BASELINE, atLeast: 2 },
  { text: "sends, c=64: ≥ 2 times the floor", metric: "sends.c64", over: BASELINE, atLeast: 2 },
  { text: "send to received, p50: ≤ 1.5 times the floor", metric: "latency.p50", over: BASELINE, atMost: 1.5 },
  {
    text: "send to received, p50: ≤ 0.2 of a polling client",
    metric: "latency.p50",
    over: "interlink-poll",
    atMost: 0.2,
  },
  { text: "drain: ≥ 10 times one at a time by HTTP", metric: "drain.rate", over: "interlink-http", atLeast: 10 },
  { text: "idle: no object run", metric: "idle.runs", atMost: 0 },
  { text: "idle: no row written", metric: "idle.rows", atMost: 0 },
  { text: "memory of an idle session: ≤ 1.3 times the floor", metric: "memory.session", over: BASELINE, atMost: 1.3 },
];

export type Verdict = "met" | "met by the median, not in every run" | "not met" | "not measured";

export interface Judged {
  readonly text: string;
  readonly verdict: Verdict;
  readonly median?: number;
  readonly min?: number;
  readonly max?: number;
}

/** Judges every target by what was measured. */
export function judge(results: Results): Judged[] {
  return TARGETS.map(({ text, metric, over, atLeast = -Infinity, atMost = Infinity }) => {
    const found = over ? results.ratio(SYSTEM, metric, over) : results.summary(SYSTEM, metric);
    if (!found) return { text, verdict: "not measured" };
    const { median, min, max } = found;
    const holds = (value: number): boolean => value >= atLeast && value <= atMost;
    const verdict = !holds(median)
      ? "not met"
      : holds(min) && holds(max)
        ? "met"
        : "met by the median, not in every run";
    return { text, verdict, median, min, max };
  });
}
