/**
 * PURE. Which bus is active, which are parked, and what becomes of what was begun: what happened comes in, the next standing
 * and what must be done go out. Sessions, files and sockets are switchboard.ts's.
 *
 * Connecting takes time and is done outside; what counts is decided here, in one step, when it comes back. So a
 * late success can neither take the place of what came since nor bring back what the user closed.
 */

/** A bus with the key that is used there, as one text. */
export type Target = string;

/** Buses that are kept beside the active one: each is a socket, and a session on somebody's roster. */
export const PARKED_MAX = 8;

/** One way to a bus, from its beginning to its end. Its number is never given again. */
export interface Attempt {
  readonly generation: number;
  readonly target: Target;
}

/**
 * The place of the active bus. Whatever is tried, the one that is there stays until another is ready.
 *
 * ```
 *            connect A                 ready
 *   empty ──────────────▶ connecting ─────────▶ active ─────────────▶ switching
 *    ▲ ▲ │                 │      │             ▲ │ ▲   connect B       │    │
 *    │ │ │ recovered:      │      │ connect B:  │ │ │                   │    │ connect C: the attempt at B is superseded
 *    │ │ └──────▶ active   │      └─▶ connecting│ │ └─ failed ──────────┘    └─▶ switching
 *    │ └─ failed ──────────┘                    │ │    ready: B is active, A is parked
 *    └───────────────── disconnect A ───────────┼─┘    disconnect A: connecting
 *                                               └────  connect B, parked and there: active at once
 *   close, from any: closed
 * ```
 */
export type Slot =
  | { readonly at: "empty" }
  | { readonly at: "connecting"; readonly attempt: Attempt }
  | { readonly at: "active"; readonly active: Target }
  | { readonly at: "switching"; readonly active: Target; readonly attempt: Attempt }
  | { readonly at: "closed" };

/** An attempt that nobody asked for just now: to be again where the process before was. */
export interface Recovery extends Attempt {
  readonly into: "slot" | "parked";
  /** The user's last word when it began. */
  readonly epoch: number;
}

/** Why a bus that was active is not, or one that was parked. */
export type Departed =
  /** Another took its place; it is parked, and may be there still. */
  | { readonly what: "switched"; readonly target: Target }
  /** Closed by the user, or to make room for another. */
  | { readonly what: "disconnected"; readonly target: Target; readonly why: "asked" | "made_room" };

/** The slot, and what outlives its states. */
export interface Standing {
  readonly slot: Slot;
  /** The least recently used first. */
  readonly parked: readonly Target[];
  readonly recoveries: readonly Recovery[];
  /** Counts the user's words: each connect that changes something, each disconnect. */
  readonly epoch: number;
  /** The highest generation that was given. */
  readonly generation: number;
  readonly departed?: Departed;
}

export const NOWHERE: Standing = { slot: { at: "empty" }, parked: [], recoveries: [], epoch: 0, generation: 0 };

export type Event =
  /** The user's word. `isThere`: what is held of this bus works, so nothing must be tried. */
  | { readonly on: "connect"; readonly target: Target; readonly isThere: boolean }
  /** The user's word. */
  | { readonly on: "disconnect"; readonly target: Target }
  | { readonly on: "recover"; readonly target: Target; readonly into: Recovery["into"] }
  /** An attempt has a session that can be used. */
  | { readonly on: "ready"; readonly generation: number }
  | { readonly on: "failed"; readonly generation: number }
  | { readonly on: "close" };

/** What must be done, in this order. */
export type Action =
  | { readonly do: "try"; readonly attempt: Attempt; readonly isRecovery: boolean }
  /** What this attempt has brought, or will, is not wanted: it ends without a trace. */
  | { readonly do: "discard"; readonly generation: number }
  /** What it has brought is held from now on. */
  | { readonly do: "keep"; readonly generation: number }
  /** Whoever waits for it is told. */
  | { readonly do: "settle"; readonly generation: number; readonly as: "active" | "superseded" | "refused" }
  /** Goodbye on this bus. */
  | { readonly do: "leave"; readonly target: Target; readonly why: "asked" | "made_room" };

export interface Step {
  readonly standing: Standing;
  readonly actions: readonly Action[];
}

/** The next standing. What it does not know of leaves it as it is, but for what an attempt brought that nobody wants. */
export function step(standing: Standing, event: Event): Step {
  if (standing.slot.at === "closed") return late(standing, event);
  switch (event.on) {
    case "connect":
      return connect(standing, event);
    case "disconnect":
      return disconnect(standing, event.target);
    case "recover":
      return recover(standing, event);
    case "ready":
      return ready(standing, event.generation);
    case "failed":
      return failed(standing, event.generation);
    case "close":
      return {
        standing: { ...standing, slot: { at: "closed" }, recoveries: [], epoch: standing.epoch + 1 },
        actions: [...superseded(standing.slot), ...standing.recoveries.map(discard)],
      };
  }
}

/** The attempt that the user waits for. */
export function attemptOf(slot: Slot): Attempt | undefined {
  return "attempt" in slot ? slot.attempt : undefined;
}

export function activeOf(slot: Slot): Target | undefined {
  return "active" in slot ? slot.active : undefined;
}

function connect(standing: Standing, { target, isThere }: Event & { on: "connect" }): Step {
  const { slot, recoveries } = standing;
  const active = activeOf(slot);
  // Whoever wants the same waits for the same.
  if (attemptOf(slot)?.target === target) return { standing, actions: [] };
  const epoch = standing.epoch + 1;
  const before = superseded(slot);
  if (isThere && active === target) {
    // Nothing new is wanted but that another attempt ends.
    if (before.length === 0) return { standing, actions: [] };
    return { standing: { ...standing, epoch, slot: { at: "active", active } }, actions: before };
  }
  if (isThere && standing.parked.includes(target)) {
    const { standing: next, actions } = activate({ ...standing, epoch }, target);
    return { standing: next, actions: [...before, ...actions] };
  }
  const underWay = recoveries.find((each) => each.target === target);
  // One that is under way in the background is the user's from now on: two would stand in each other's way.
  const attempt = underWay ?? { generation: standing.generation + 1, target };
  const next: Standing = {
    ...standing,
    epoch,
    generation: Math.max(standing.generation, attempt.generation),
    recoveries: recoveries.filter((each) => each !== underWay),
    slot: begun(active, { generation: attempt.generation, target }),
  };
  const begin: Action[] = underWay ? [] : [{ do: "try", attempt, isRecovery: false }];
  return { standing: next, actions: [...before, ...begin] };
}

function disconnect(standing: Standing, target: Target): Step {
  const { slot, parked, recoveries } = standing;
  const isActive = activeOf(slot) === target;
  const isTried = attemptOf(slot)?.target === target;
  const isHeld = isActive || parked.includes(target);
  const given = recoveries.filter((each) => each.target === target);
  const active = isActive ? undefined : activeOf(slot);
  const attempt = isTried ? undefined : attemptOf(slot);
  const next: Standing = {
    ...standing,
    slot: attempt ? begun(active, attempt) : resting(active),
    parked: parked.filter((each) => each !== target),
    recoveries: recoveries.filter((each) => each.target !== target),
    // Also where nothing was there: what is still on its way is not wanted any more.
    epoch: standing.epoch + 1,
    ...(isHeld && { departed: { what: "disconnected", target, why: "asked" } as const }),
  };
  const leave: Action[] = isHeld ? [{ do: "leave", target, why: "asked" }] : [];
  return { standing: next, actions: [...(isTried ? superseded(slot) : []), ...given.map(discard), ...leave] };
}

function recover(standing: Standing, { target, into }: Event & { on: "recover" }): Step {
  const { slot, parked, recoveries, epoch } = standing;
  const isKnown =
    activeOf(slot) === target ||
    attemptOf(slot)?.target === target ||
    parked.includes(target) ||
    recoveries.some((each) => each.target === target);
  if (isKnown || (into === "slot" && slot.at !== "empty")) return { standing, actions: [] };
  const recovery: Recovery = { generation: standing.generation + 1, target, into, epoch };
  return {
    standing: { ...standing, generation: recovery.generation, recoveries: [...recoveries, recovery] },
    actions: [{ do: "try", attempt: recovery, isRecovery: true }],
  };
}

function ready(standing: Standing, generation: number): Step {
  const { slot, recoveries, parked } = standing;
  const attempt = attemptOf(slot);
  if (attempt?.generation === generation) {
    const { standing: next, actions } = activate(standing, attempt.target);
    const told: Action = { do: "settle", generation, as: "active" };
    return { standing: next, actions: [{ do: "keep", generation }, ...actions, told] };
  }
  const recovery = recoveries.find((each) => each.generation === generation);
  const rest = { ...standing, recoveries: recoveries.filter((each) => each !== recovery) };
  const keep: Action[] = [{ do: "keep", generation }];
  if (recovery?.into === "slot" && recovery.epoch === standing.epoch && slot.at === "empty") {
    return { standing: { ...rest, slot: { at: "active", active: recovery.target } }, actions: keep };
  }
  if (recovery?.into === "parked" && parked.length < PARKED_MAX) {
    // It was used less recently than all that was used in this process.
    return { standing: { ...rest, parked: [recovery.target, ...parked] }, actions: keep };
  }
  return { standing: rest, actions: [{ do: "discard", generation }] };
}

function failed(standing: Standing, generation: number): Step {
  const { slot, recoveries } = standing;
  if (attemptOf(slot)?.generation === generation) {
    const next: Standing = { ...standing, slot: resting(activeOf(slot)) };
    return { standing: next, actions: [{ do: "settle", generation, as: "refused" }] };
  }
  const others = recoveries.filter((each) => each.generation !== generation);
  return {
    standing: others.length === recoveries.length ? standing : { ...standing, recoveries: others },
    actions: [],
  };
}

/** Everything is over: only what still comes is put away. */
function late(standing: Standing, event: Event): Step {
  return { standing, actions: event.on === "ready" ? [{ do: "discard", generation: event.generation }] : [] };
}

/** Makes a bus the active one, and parks the one before, for which the least recently used has to make room. */
function activate(standing: Standing, target: Target): Step {
  const former = activeOf(standing.slot);
  const isSame = former === undefined || former === target;
  const others = standing.parked.filter((each) => each !== target);
  const parked = isSame ? others : [...others, former];
  const over = parked.slice(0, Math.max(0, parked.length - PARKED_MAX));
  const next: Standing = {
    ...standing,
    slot: { at: "active", active: target },
    parked: parked.slice(over.length),
    ...(!isSame && { departed: { what: "switched", target: former } as const }),
    ...(over.length > 0 && { departed: { what: "disconnected", target: over.at(-1)!, why: "made_room" } as const }),
  };
  return { standing: next, actions: over.map((each) => ({ do: "leave", target: each, why: "made_room" })) };
}

function begun(active: Target | undefined, attempt: Attempt): Slot {
  return active === undefined ? { at: "connecting", attempt } : { at: "switching", active, attempt };
}

function resting(active: Target | undefined): Slot {
  return active === undefined ? { at: "empty" } : { at: "active", active };
}

function superseded(slot: Slot): Action[] {
  const attempt = attemptOf(slot);
  return attempt ? [discard(attempt), { do: "settle", generation: attempt.generation, as: "superseded" }] : [];
}

function discard({ generation }: Attempt): Action {
  return { do: "discard", generation };
}
