/**
 * PURE: the life of one session's connection to one bus. What happened comes in, the next state and what must be
 * done go out; sockets and timers are connection.ts's.
 *
 * Silence is not death: whatever breaks the connection it dials again, and ends only by our own close or goodbye, or
 * where the bus refuses this session for good.
 */

import { CLOSE } from "../../protocol/frames.ts";
import { isRefusalCode, type RefusalCode } from "../../protocol/refusal.ts";
import {
  backoffMs,
  holdOffMs,
  NO_ATTEMPTS,
  noteAttempt,
  noteEnd,
  noteFailure,
  noteFresh,
  noteWait,
  type Attempts,
} from "./backoff.ts";
import type { BusRefusal, Unreachable } from "./outcome.ts";

/** From the beginning of a dial to the welcome. */
export const DIAL_MAX_MS = 15_000;
/** From a ping to its pong. */
export const PONG_MAX_MS = 10_000;
/** From a goodbye to the bus's close: hosts leave a client 300 ms and some. */
export const LEAVE_MAX_MS = 250;
/** Newer sockets of the same session within {@link TAKEOVER_WINDOW_MS} that are put up with. */
export const TAKEOVERS_MAX = 3;
export const TAKEOVER_WINDOW_MS = 60_000;
/** A timer later than this many heartbeats means that the machine slept; one so much earlier, that its clock was set back. */
export const SLEPT_HEARTBEATS = 2;

/**
 * Where a connection is. One timer at a time: each state that waits says until when.
 *
 * ```
 *          start              welcome             unregister
 *   idle ────────▶ dialing ────────────▶ open ─────────────────▶ leaving
 *                  ▲  ▲ │                 │ │ ping, pong            │
 *             due  │  │ │ failed, closed, │ │                       │ 4000, closed,
 *                  │  │ │ no answer       │ │ 4408, no pong, slept, │ or no time left
 *                waiting ◀────────────────┘ │ set back: dialing     ▼
 *                     └─────────────────────┴────────────────▶ stopped
 *                        4000, 4401, 4403, 4409 too often, our own close
 * ```
 */
export type State =
  | { readonly at: "idle" }
  /** `isMended`: at once after a refusal about time or nonce, so the same refusal again is backed off from. */
  | { readonly at: "dialing"; readonly dueAtMs: number; readonly isMended: boolean }
  /** `isPinged`: a pong is awaited until `dueAtMs`; else then the next ping is due. */
  | { readonly at: "open"; readonly dueAtMs: number; readonly sinceMs: number; readonly isPinged: boolean }
  | { readonly at: "leaving"; readonly dueAtMs: number }
  | { readonly at: "waiting"; readonly dueAtMs: number; readonly why: Interruption }
  | { readonly at: "stopped"; readonly why: Stop };

/** Why it is not open, and will try again. */
export type Interruption =
  | BusRefusal
  | Unreachable
  /** The bus or the network closed it; `code` as in CLOSE, or the network's own. */
  | { readonly closed: number }
  | { readonly broken: "no_welcome" | "no_pong" | "bad_frame" | "too_many_attempts" };

/** Why it will not try again. */
export type Stop =
  /** By our own word. */
  | { readonly by: "close" }
  /** The session said goodbye, here or elsewhere. `isConfirmed`: the bus said that it has it. */
  | { readonly by: "unregister"; readonly isConfirmed: boolean }
  /** Another process is this session, and each of us has thrown out the other too often. */
  | { readonly by: "superseded" }
  /** The bus refuses this key or session for good; `code` unknown where a newer bus has a new one. */
  | { readonly by: "evicted"; readonly code: RefusalCode | "forgotten" | "unknown" }
  /** The bus no longer speaks this version of the frames. */
  | { readonly by: "client_too_old" };

export type Event =
  | { readonly on: "start" }
  /** `speaksOurs`: the bus's versions have ours among them. */
  | { readonly on: "welcome"; readonly speaksOurs: boolean }
  | { readonly on: "pong" }
  /** The timer of the state's `dueAtMs`. `isStirring`: bytes came since the timer before, if not yet a whole frame. */
  | { readonly on: "tick"; readonly isStirring: boolean }
  /** The handshake did not get through. */
  | { readonly on: "failed"; readonly why: BusRefusal | Unreachable }
  | { readonly on: "closed"; readonly code: number; readonly reason: string }
  /** The bus said what cannot be read. */
  | { readonly on: "spoiled" }
  | { readonly on: "unregister" }
  | { readonly on: "close" };

/**
 * What must be done, in this order: `drop` ends the socket without waiting for the other end, `hangUp` properly;
 * after either nothing of that socket counts any more.
 */
export type Action = "drop" | "hangUp" | "dial" | "ping";

/** A state, and what outlives states. */
export interface Link {
  readonly state: State;
  readonly attempts: Attempts;
  /** When newer sockets took this session over, within the window. */
  readonly takeoversAtMs: readonly number[];
}

export const NEW_LINK: Link = { state: { at: "idle" }, attempts: NO_ATTEMPTS, takeoversAtMs: [] };

/** What a step needs of the world. */
export interface Moment {
  readonly nowMs: number;
  /** In [0, 1), for the jitter. */
  readonly random: number;
  readonly heartbeatMs: number;
}

export interface Step {
  readonly link: Link;
  readonly actions: readonly Action[];
}

/** The next state. What a state does not know of leaves it as it is. */
export function step(link: Link, event: Event, moment: Moment): Step {
  const { state } = link;
  const stay: Step = { link, actions: [] };
  if (state.at === "stopped") return stay; // final: what comes late must not revive it
  if (event.on === "close") return stop(link, { by: "close" }, "hangUp");
  switch (state.at) {
    case "idle":
      if (event.on === "unregister") return stop(link, { by: "close" });
      return event.on === "start" ? dial(link, moment) : stay;
    case "waiting":
      if (event.on === "unregister") return stop(link, { by: "close" });
      if (event.on !== "tick") return stay;
      return dial(isLate(state, moment) ? { ...link, attempts: noteFresh(link.attempts) } : link, moment);
    case "leaving":
      if (event.on === "tick" || event.on === "spoiled") return stop(link, goodbye(false), "hangUp");
      return event.on === "closed" ? stop(link, goodbye(event.code === CLOSE.unregistered)) : stay;
    case "dialing":
    case "open":
      return stepConnected(link, state, event, moment);
  }
}

function stepConnected(
  link: Link,
  state: State & { at: "dialing" | "open" },
  event: Exclude<Event, { on: "close" }>,
  moment: Moment,
): Step {
  const { nowMs, heartbeatMs } = moment;
  const stay: Step = { link, actions: [] };
  const isOpen = state.at === "open";
  const isTimed = event.on === "tick" || event.on === "pong";
  // What is known of the bus's clock is void: the welcome tells it anew, and what waits by ours is hurried.
  if (isOpen && isTimed && isEarly(state, moment)) return dial(ended(link, state, nowMs), moment, "drop");
  switch (event.on) {
    case "welcome":
      if (!event.speaksOurs) return stop(link, { by: "client_too_old" }, "hangUp");
      return isOpen ? stay : to(link, { at: "open", dueAtMs: nowMs + heartbeatMs, sinceMs: nowMs, isPinged: false });
    case "pong":
      return isOpen && state.isPinged ? to(link, { ...state, dueAtMs: nowMs + heartbeatMs, isPinged: false }) : stay;
    case "tick": {
      if (isLate(state, moment)) return dial({ ...link, attempts: noteFresh(link.attempts) }, moment, "drop");
      if (!isOpen) return backOff(link, { broken: "no_welcome" }, moment, "drop");
      if (!state.isPinged) return to(link, { ...state, dueAtMs: nowMs + PONG_MAX_MS, isPinged: true }, "ping");
      // A pong waits behind the messages that a slow line is still bringing.
      if (event.isStirring) return to(link, { ...state, dueAtMs: nowMs + PONG_MAX_MS });
      return dial(ended(link, state, nowMs), moment, "drop", { broken: "no_pong" });
    }
    case "failed":
      return backOff(link, event.why, moment);
    case "closed":
      return afterClose(ended(link, state, nowMs), event, moment);
    case "spoiled":
      return backOff(ended(link, state, nowMs), { broken: "bad_frame" }, moment, "drop");
    case "unregister":
      if (!isOpen) return stop(link, { by: "close" }, "drop");
      return to(link, { at: "leaving", dueAtMs: nowMs + LEAVE_MAX_MS });
    case "start":
      return stay;
  }
}

/** What the bus's closing code means; any other is the network's word. */
function afterClose(link: Link, { code, reason }: { code: number; reason: string }, moment: Moment): Step {
  const known = isRefusalCode(reason) ? reason : undefined;
  switch (code) {
    case CLOSE.unregistered:
      return stop(link, reason === "forgotten" ? { by: "evicted", code: "forgotten" } : goodbye(true));
    case CLOSE.notAuthenticated: {
      // About this one token, not about us: the offset was learned, or the nonce was not fresh to the bus.
      if (known !== "clock_skew" && known !== "replay") return stop(link, { by: "evicted", code: known ?? "unknown" });
      const isMended = link.state.at === "dialing" && link.state.isMended;
      if (isMended) return backOff(link, { refused: known }, moment);
      return dial(link, moment, undefined, { refused: known }, true);
    }
    case CLOSE.notYours:
      return stop(link, { by: "evicted", code: known ?? "unknown" });
    case CLOSE.signAgain:
      return dial(link, moment, undefined, { closed: code });
    case CLOSE.superseded: {
      const recent = link.takeoversAtMs.filter((atMs) => Math.abs(moment.nowMs - atMs) < TAKEOVER_WINDOW_MS);
      const takeoversAtMs = [...recent, moment.nowMs];
      if (takeoversAtMs.length > TAKEOVERS_MAX) return stop({ ...link, takeoversAtMs }, { by: "superseded" });
      return backOff({ ...link, takeoversAtMs }, { closed: code }, moment);
    }
    default:
      return backOff(link, { closed: code }, moment);
  }
}

/** Dials now, or as soon as the bound on attempts lets. */
function dial(link: Link, moment: Moment, first?: "drop", why?: Interruption, isMended = false): Step {
  const { nowMs } = moment;
  const waitMs = holdOffMs(link.attempts, nowMs);
  if (waitMs > 0) {
    const waiting: State = { at: "waiting", dueAtMs: nowMs + waitMs, why: why ?? { broken: "too_many_attempts" } };
    return to({ ...link, attempts: noteWait(link.attempts, nowMs) }, waiting, first);
  }
  const attempts = noteAttempt(link.attempts, nowMs);
  return to({ ...link, attempts }, { at: "dialing", dueAtMs: nowMs + DIAL_MAX_MS, isMended }, first, "dial");
}

function backOff(link: Link, why: Interruption, { nowMs, random }: Moment, first?: "drop"): Step {
  const attempts = noteFailure(noteWait(link.attempts, nowMs));
  const asked = "retryAfterMs" in why ? (why.retryAfterMs ?? 0) : 0;
  // Jitter on top of what the bus asked for: it asks the same of all.
  const delayMs = asked + backoffMs(attempts, nowMs, random);
  return to({ ...link, attempts }, { at: "waiting", dueAtMs: nowMs + delayMs, why }, first);
}

function stop(link: Link, why: Stop, first?: "drop" | "hangUp"): Step {
  return to(link, { at: "stopped", why }, first);
}

function to(link: Link, state: State, ...actions: readonly (Action | undefined)[]): Step {
  return { link: { ...link, state }, actions: actions.filter((action) => action !== undefined) };
}

function goodbye(isConfirmed: boolean): Stop {
  return { by: "unregister", isConfirmed };
}

/** Counts how long the connection held that is over. */
function ended(link: Link, state: State & { at: "dialing" | "open" }, nowMs: number): Link {
  if (state.at !== "open") return link;
  return { ...link, attempts: noteEnd(link.attempts, nowMs - state.sinceMs) };
}

/** A pong may come as soon as the ping was said. */
function isEarly({ dueAtMs, isPinged }: State & { at: "open" }, { nowMs, heartbeatMs }: Moment): boolean {
  const earliestMs = isPinged ? dueAtMs - PONG_MAX_MS : dueAtMs;
  return earliestMs - nowMs > SLEPT_HEARTBEATS * heartbeatMs;
}

function isLate({ dueAtMs }: { dueAtMs: number }, { nowMs, heartbeatMs }: Moment): boolean {
  return nowMs - dueAtMs > SLEPT_HEARTBEATS * heartbeatMs;
}
