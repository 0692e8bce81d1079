/**
 * PURE. The life of the agent process beneath the supervisor: what happened comes in, the next state and what must be done go
 * out. Processes and timers are supervisor.ts's.
 *
 * Nothing in here ends the supervisor but `close`: a host never starts a server that has gone a second time.
 */

import { beginTrial, NO_ENDS, noteEnd, type Budget, type RestartLimits } from "./restart-budget.ts";

/** From the start of a process to its first answer. Above what the slowest machine takes; a model's call waits as long. */
export const START_MAX_MS = 15_000;
/** The exit code by which a process asks to be replaced: EX_TEMPFAIL. */
export const EXIT_HANDOFF = 75;

/**
 * Where the process is. One timer at a time: each state that waits says until when.
 *
 * ```
 *         wanted             ready
 *   idle ────────▶ starting ───────▶ up
 *                  ▲  │  │ due,      │ exited            reconnect, from up: stopping
 *                  │  │  │ or exited │                   reconnect, from waiting or broken: starting at once
 *              due │  │  ▼           ▼                   close, from any: closing, or closed where none runs
 *                  │  │  stopping  (budget)
 *                  │  │   │ exited  │ │
 *                  │  ▼   ▼         │ │ spent
 *                  ├─waiting ◀──────┘ ▼
 *                  └──────────────── broken
 * ```
 */
export type Life =
  /** Nothing was asked for yet. */
  | { readonly at: "idle" }
  /** It runs, and has not answered yet; at `dueAtMs` it is given up. */
  | { readonly at: "starting"; readonly dueAtMs: number }
  | { readonly at: "up" }
  /** It was told to end, and another follows: `asked` for it, or given up because it did not answer. */
  | { readonly at: "stopping"; readonly why: "asked" | "silent" }
  /** It ended, and the next is started at `dueAtMs`. */
  | { readonly at: "waiting"; readonly dueAtMs: number }
  /** It ended too often: calls are refused until `dueAtMs`, when one start is tried. */
  | { readonly at: "broken"; readonly dueAtMs: number }
  | { readonly at: "closing" }
  | { readonly at: "closed" };

export interface Child {
  readonly life: Life;
  readonly budget: Budget;
  /** Which process this is, or was; counted from 1. */
  readonly generation: number;
}

export const NO_CHILD: Child = { life: { at: "idle" }, budget: NO_ENDS, generation: 0 };

/** How a process ended. `error`: it could not be started at all. */
export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
  readonly error?: string;
}

export type Happening =
  /** The host sent a request that is one. */
  | { readonly what: "wanted" }
  /** The process has answered. */
  | { readonly what: "ready" }
  | { readonly what: "exited"; readonly exit: Exit }
  /** The time that the state names has come. */
  | { readonly what: "due" }
  | { readonly what: "reconnect" }
  | { readonly what: "close" };

export type Deed = "spawn" | "kill" | "end" | "refuse_queue";

export interface Step {
  readonly child: Child;
  readonly deeds: readonly Deed[];
}

/** What one thing that happened makes of it. */
export function step(child: Child, happening: Happening, nowMs: number, limits: RestartLimits): Step {
  const { life } = child;
  const stay: Step = { child, deeds: [] };
  switch (happening.what) {
    case "wanted":
      return life.at === "idle" ? start(child, nowMs) : stay;
    case "ready":
      return life.at === "starting" ? { child: { ...child, life: { at: "up" } }, deeds: [] } : stay;
    case "due":
      if (life.at === "starting") {
        return { child: { ...child, life: { at: "stopping", why: "silent" } }, deeds: ["kill"] };
      }
      if (life.at === "waiting") return start(child, nowMs);
      return life.at === "broken" ? start({ ...child, budget: beginTrial(nowMs) }, nowMs) : stay;
    case "reconnect":
      if (life.at === "up") return { child: { ...child, life: { at: "stopping", why: "asked" } }, deeds: ["kill"] };
      if (life.at === "idle" || life.at === "waiting") return start(child, nowMs);
      // A start that is on its way is the one that is asked for.
      return life.at === "broken" ? start({ ...child, budget: beginTrial(nowMs) }, nowMs) : stay;
    case "exited":
      return ended(child, happening.exit, nowMs, limits);
    case "close":
      if (life.at === "closing" || life.at === "closed") return stay;
      return isRunning(life)
        ? { child: { ...child, life: { at: "closing" } }, deeds: ["end"] }
        : { child: { ...child, life: { at: "closed" } }, deeds: [] };
  }
}

/** True while there is a process. */
export function isRunning({ at }: Life): boolean {
  return at === "starting" || at === "up" || at === "stopping" || at === "closing";
}

function start(child: Child, nowMs: number): Step {
  const life: Life = { at: "starting", dueAtMs: nowMs + START_MAX_MS };
  return { child: { ...child, life, generation: child.generation + 1 }, deeds: ["spawn"] };
}

function ended(child: Child, { code }: Exit, nowMs: number, limits: RestartLimits): Step {
  const { life } = child;
  if (life.at === "closing") return { child: { ...child, life: { at: "closed" } }, deeds: [] };
  if (!isRunning(life)) return { child, deeds: [] };
  if (life.at === "stopping" && life.why === "asked") return start(child, nowMs);
  const { budget, verdict } = noteEnd(child.budget, code === EXIT_HANDOFF ? "handoff" : "crash", nowMs, limits);
  if ("openUntilMs" in verdict) {
    const broken: Life = { at: "broken", dueAtMs: verdict.openUntilMs };
    return { child: { ...child, budget, life: broken }, deeds: ["refuse_queue"] };
  }
  return { child: { ...child, budget, life: { at: "waiting", dueAtMs: verdict.restartAtMs } }, deeds: [] };
}
