/**
 * The loop and cost guard at work: what loop-guard.ts decides is kept where all sessions of the identity share it, and
 * told once. It prevents; the mail stays where it is.
 *
 * What is spent is on disk before what it was spent for is done, so that a crash in between costs one, and never gives
 * one.
 */

import type { Key } from "../../protocol/address.ts";
import type { Timers } from "../bus/timers.ts";
import type { MetaTable } from "../state/meta.ts";
import type { PeerRef, ToolRefusal } from "./agent.ts";
import { afterSetBack, lift, spend, type Allowance, type GuardState, type Spending } from "./loop-guard.ts";
import type { Incident } from "./notices.ts";

/**
 * Where the budgets are kept: one place for all sessions of an identity on this machine, since a host that starts anew
 * under another session's id must not get another budget.
 */
export interface Ledger {
  read(): GuardState;
  /** Reads, decides and writes in one step, also beside other processes; on disk when it returns. */
  change<T>(step: (state: GuardState) => readonly [next: GuardState, result: T]): T;
}

export interface GuardOptions {
  readonly ledger: Ledger;
  /** The session's own; what it has read is its own affair. */
  readonly meta: Pick<MetaTable, "get" | "set">;
  readonly timers: Timers;
  readonly nameOf: (peer: Key) => PeerRef;
  readonly onIncident: (incident: Incident) => void;
}

type Denied = Allowance & { readonly allowed: false };

/** Set while mail was read and no human was seen since. */
const HAS_READ = "guard_has_read";
/** Whom this session has spent on since a human was seen, as JSON. */
const SPENT_ON = "guard_spent_on";

export class Guard {
  readonly #options: GuardOptions;
  /** What was told in this process and is still so. */
  readonly #told = new Set<string>();

  constructor(options: GuardOptions) {
    this.#options = options;
  }

  /** True if this session has read a peer's mail since a human was seen at it. */
  get hasRead(): boolean {
    return this.#options.meta.get(HAS_READ) !== undefined;
  }

  /** A peer's mail is being read. Runs in the transaction that takes it. */
  noteReading(): void {
    this.#options.meta.set(HAS_READ, "yes");
  }

  /** Spends one automatic reply to a peer. @returns why not */
  spendReply(peer: Key): ToolRefusal | undefined {
    const denied = this.#spend("reply", peer);
    if (!denied) return undefined;
    const { over, refills_at_ms } = denied;
    const until = refills_at_ms === undefined ? {} : { refills_at_ms };
    return { code: "budget_spent", budget: { peer: this.#options.nameOf(peer), over, ...until } };
  }

  /** Spends one wake for a peer's mail. @returns undefined if it may be made, else when it may, where time brings that */
  spendWake(peer: Key): { readonly refills_at_ms?: number } | undefined {
    return this.#spend("wake", peer);
  }

  /** A human has dealt with a peer: full budgets of that one, and of all together. */
  lift(peer: Key): void {
    this.#options.ledger.change((state) => [lift(state, peer), undefined]);
    this.#told.clear();
  }

  /**
   * A human was seen at this session: what is written next is theirs, and the talks that this session carried on are
   * theirs to stop. Those of other sessions go on unseen, so their budgets stay as they are.
   */
  humanSeen(): void {
    const { meta } = this.#options;
    meta.set(HAS_READ, undefined);
    for (const peer of this.#spentOn()) this.lift(peer);
    meta.set(SPENT_ON, undefined);
  }

  #spend(spending: Spending, peer: Key): Denied | undefined {
    const { ledger, timers, meta } = this.#options;
    const nowMs = timers.now();
    const allowance = ledger.change((kept) => {
      const state = afterSetBack(kept, nowMs);
      const asked = spend(state, spending, peer, nowMs);
      return [asked.allowed ? asked.state : state, asked];
    });
    if (!allowance.allowed) {
      this.#tell(peer, allowance);
      return allowance;
    }
    const spentOn = this.#spentOn();
    if (!spentOn.includes(peer)) meta.set(SPENT_ON, JSON.stringify([...spentOn, peer]));
    // What the next one would be refused for is told with the last one, before anything is refused.
    const next = spend(allowance.state, spending, peer, nowMs);
    if (next.allowed) this.#told.delete(nameOf(spending, peer));
    else this.#tell(peer, next);
    return undefined;
  }

  #tell(peer: Key, { spending, over, refills_at_ms }: Denied): void {
    if (this.#told.has(nameOf(spending, peer))) return;
    this.#told.add(nameOf(spending, peer));
    const { petname } = this.#options.nameOf(peer);
    const until = refills_at_ms === undefined ? {} : { refills_at_ms };
    this.#options.onIncident({ what: "budget", spending, petname, over, ...until });
  }

  #spentOn(): readonly Key[] {
    return JSON.parse(this.#options.meta.get(SPENT_ON) ?? "[]") as Key[];
  }
}

function nameOf(spending: Spending, peer: Key): string {
  return `${spending} ${peer}`;
}
