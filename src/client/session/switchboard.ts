/**
 * The buses of one session at work: what activation.ts decides is done here, and nothing is decided here. Each step of it
 * is synchronous, so what was looked at is what is changed; what takes time is done between two steps.
 *
 * At one target one thing happens at a time: two sessions on the same files would lock each other out.
 */

import {
  activeOf,
  attemptOf,
  NOWHERE,
  step,
  type Action,
  type Attempt,
  type Event,
  type Standing,
  type Target,
} from "./activation.ts";

/** A session on one bus. `Why` is the reason of a refusal. */
export interface Held<Why> {
  /** Something of it works, or will by itself: nothing must be tried anew. */
  readonly isThere: boolean;
  /** It has said goodbye for good; what is on this machine can still be read. */
  readonly isSpent: boolean;
  /** Begins, without waiting for anybody. */
  begin(): void;
  /** Begins, dials anew what has stopped, and waits for the bus's word. @returns why it cannot be used */
  reach(): Promise<Why | undefined>;
  /** Goodbye, and no more of the bus; its files stay open. */
  retire(): Promise<void>;
  /** Goodbye where none was said, and the end. */
  close(withinMs: number): Promise<void>;
}

export interface SwitchboardOptions<Session extends Held<Why>, Why extends object> {
  /** Opens the files of a target's session, and begins nothing. */
  readonly open: (target: Target) => Promise<Session | { readonly why: Why }>;
  /** Which buses are held has changed. */
  readonly onChange: (standing: Standing) => void;
  /** A bus of the process before could not be opened. */
  readonly onRecoveryFailed: (target: Target, why: Why) => void;
  /** A fault of our own; the attempt counts as refused. */
  readonly onFault: (fault: unknown) => Why;
  /** How long a goodbye may take. */
  readonly leaveMs: number;
}

export type Connected<Why> =
  /** It is the active bus. */
  | { readonly as: "active" }
  /** Another word of the user's came first. */
  | { readonly as: "superseded" }
  | { readonly as: "refused"; readonly why: Why };

interface UnderWay<Session, Why> {
  readonly target: Target;
  readonly isRecovery: boolean;
  session: Session | undefined;
  isDiscarded: boolean;
  readonly discarded: Promise<void>;
  discard(): void;
  why: Why | undefined;
  readonly settled: Promise<Connected<Why>>;
  settle(outcome: Connected<Why>): void;
}

export class Switchboard<Session extends Held<Why>, Why extends object> {
  readonly #options: SwitchboardOptions<Session, Why>;
  readonly #held = new Map<Target, Session>();
  readonly #underWay = new Map<number, UnderWay<Session, Why>>();
  /** What is done at a target, one after the other. */
  readonly #last = new Map<Target, Promise<void>>();
  #standing = NOWHERE;
  /** While no bus is active: whose files are read. */
  #resting: { readonly target: Target; readonly session: Session } | undefined;

  /** @param first opened, and not begun: it is read from until a bus is active */
  constructor(options: SwitchboardOptions<Session, Why>, first: { target: Target; session: Session }) {
    this.#options = options;
    this.#resting = first;
  }

  get standing(): Standing {
    return this.#standing;
  }

  /** The session of the active bus. */
  get active(): Session | undefined {
    const active = activeOf(this.#standing.slot);
    return active === undefined ? undefined : this.#held.get(active);
  }

  /** The active one, else the one that was, else a parked one; undefined for the moment in which files are opened anew. */
  get facing(): { readonly target: Target; readonly session: Session } | undefined {
    const { slot, parked } = this.#standing;
    const target = activeOf(slot) ?? (this.#resting ? undefined : parked.at(-1));
    const session = target === undefined ? undefined : this.#held.get(target);
    return target !== undefined && session ? { target, session } : this.#resting;
  }

  of(target: Target): Session | undefined {
    return this.#held.get(target);
  }

  /** Resolves once nothing is under way at any bus. */
  async calm(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values());
  }

  async connect(target: Target): Promise<Connected<Why>> {
    this.#happen({ on: "connect", target, isThere: this.#held.get(target)?.isThere ?? false });
    const attempt = attemptOf(this.#standing.slot);
    if (attempt?.target === target) return this.#underWay.get(attempt.generation)!.settled;
    return activeOf(this.#standing.slot) === target ? { as: "active" } : { as: "superseded" };
  }

  /** @returns false if nothing was held or under way there */
  async disconnect(target: Target): Promise<boolean> {
    const { slot } = this.#standing;
    const isKnown = this.#held.has(target) || attemptOf(slot)?.target === target || this.#last.has(target);
    this.#happen({ on: "disconnect", target });
    await this.#last.get(target);
    return isKnown;
  }

  /** To be again where the process before was; in the background. */
  recover(target: Target, into: "slot" | "parked"): void {
    this.#happen({ on: "recover", target, into });
  }

  async close(withinMs: number): Promise<void> {
    this.#happen({ on: "close" });
    const resting = this.#resting;
    const all = [...this.#held.values(), ...(resting ? [resting.session] : [])];
    await Promise.all(all.map((session) => session.close(withinMs)));
    await this.calm();
  }

  #happen(event: Event): void {
    const before = this.#standing;
    const { standing, actions } = step(before, event);
    this.#standing = standing;
    for (const action of actions) this.#do(action);
    this.#release();
    if (standing !== before) this.#options.onChange(standing);
  }

  #do(action: Action): void {
    switch (action.do) {
      case "try":
        this.#begin(action.attempt, action.isRecovery);
        return;
      case "discard": {
        const attempt = this.#underWay.get(action.generation)!;
        attempt.isDiscarded = true;
        attempt.discard();
        return;
      }
      case "keep": {
        const { target, session } = this.#underWay.get(action.generation)!;
        this.#held.set(target, session!);
        return;
      }
      case "settle": {
        const { settle, why } = this.#underWay.get(action.generation)!;
        settle(action.as === "refused" ? { as: "refused", why: why! } : { as: action.as });
        return;
      }
      case "leave":
        this.#leave(action.target);
    }
  }

  #begin({ target, generation }: Attempt, isRecovery: boolean): void {
    const discarded = Promise.withResolvers<void>();
    const settled = Promise.withResolvers<Connected<Why>>();
    const attempt: UnderWay<Session, Why> = {
      target,
      isRecovery,
      session: undefined,
      isDiscarded: false,
      discarded: discarded.promise,
      discard: discarded.resolve,
      why: undefined,
      settled: settled.promise,
      settle: settled.resolve,
    };
    this.#underWay.set(generation, attempt);
    this.#next(target, async () => {
      try {
        await this.#try(attempt, generation);
      } catch (fault) {
        attempt.why = this.#options.onFault(fault);
        this.#happen({ on: "failed", generation });
      }
      if (attempt.session && this.#held.get(target) !== attempt.session) await this.#putAway(target, attempt.session);
      this.#underWay.delete(generation);
      if (isRecovery && attempt.why) this.#options.onRecoveryFailed(target, attempt.why);
    });
  }

  async #try(attempt: UnderWay<Session, Why>, generation: number): Promise<void> {
    if (attempt.isDiscarded) return;
    const { target } = attempt;
    const session = this.#held.get(target) ?? (await this.#opened(attempt));
    if (session) {
      attempt.session = session;
      // It was not begun, so nobody has seen it.
      if (attempt.isDiscarded) return;
      // Where the process before was is not given up for a bus that is away.
      if (attempt.isRecovery) session.begin();
      else attempt.why = (await Promise.race([session.reach(), attempt.discarded])) ?? undefined;
    }
    if (attempt.why) this.#happen({ on: "failed", generation });
    else this.#happen({ on: "ready", generation });
  }

  /** A session with its files open, or undefined and why there is none. */
  async #opened(attempt: UnderWay<Session, Why>): Promise<Session | undefined> {
    const { target } = attempt;
    const resting = this.#resting;
    if (resting?.target === target) {
      if (!resting.session.isSpent) return resting.session;
      this.#resting = undefined;
      await resting.session.close(0);
    }
    const opened = await this.#options.open(target);
    if (!("why" in opened)) return opened;
    attempt.why = opened.why;
    return undefined;
  }

  /** What was read from while no bus was active is closed once one is, unless it is that bus's, or a parked one's. */
  #release(): void {
    const resting = this.#resting;
    if (!resting || (!this.active && this.#held.get(resting.target) !== resting.session)) return;
    this.#resting = undefined;
    if (this.#held.get(resting.target) === resting.session) return;
    this.#next(resting.target, () => resting.session.close(0));
  }

  #leave(target: Target): void {
    const session = this.#held.get(target);
    if (!session) return;
    this.#held.delete(target);
    // Another is read from, or will be; this one only while there is none.
    const isRead = this.active === undefined && this.#resting === undefined;
    if (isRead) this.#resting = { target, session };
    this.#next(target, () => (isRead ? session.retire() : session.close(this.#options.leaveMs)));
  }

  /** What an attempt has opened and nobody wants. It stays to be read from where there is nothing else. */
  async #putAway(target: Target, session: Session): Promise<void> {
    const isOver = this.#standing.slot.at === "closed";
    if (this.facing === undefined && !isOver) this.#resting = { target, session };
    await (this.#resting?.session === session && !isOver ? session.retire() : session.close(this.#options.leaveMs));
  }

  #next(target: Target, work: () => Promise<void>): void {
    const before = this.#last.get(target) ?? Promise.resolve();
    const done = before
      .then(work)
      .catch(this.#options.onFault)
      .then(() => {
        if (this.#last.get(target) === done) this.#last.delete(target);
      });
    this.#last.set(target, done);
  }
}
