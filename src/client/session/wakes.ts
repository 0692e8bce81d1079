/**
 * When a host is told that mail has come: once until somebody looks, again after growing pauses, and within the budget
 * of wakes. What is over budget is not announced; it stays unread, and the next look or notice shows it.
 *
 * | what is so                              | then                | why |
 * |-----------------------------------------|---------------------|-----|
 * | mail comes, nobody would hear           | nothing, none spent | a wake that cannot be made costs no turn; it is made when somebody hears |
 * | mail comes, and more behind it          | gathered            | fifty messages are one turn, that says fifty |
 * | mail comes, announced and not looked at | nothing, none spent | one wake says "look"; the look shows all there is |
 * | gathered, a sender has some left        | a wake, one spent   | |
 * | gathered, no sender has any             | none yet            | it is made when the first of them has one again, if it is unread still |
 * | announced, a pause later not looked at  | again, one spent    | no host says whether a wake arrived |
 * | looked at, and some left unread         | a wake a pause later | the look may have been about one message |
 * | nothing is unread                       | never               | a turn for nothing |
 */

import type { Key } from "../../protocol/address.ts";
import type { Timers } from "../bus/timers.ts";
import type { ProvenPath } from "../wake/lease.ts";
import type { Guard } from "./guard.ts";
import type { WakePath } from "./wake-path.ts";

export interface WakesOptions {
  readonly guard: Pick<Guard, "spendWake">;
  readonly inbox: {
    unreadCount(): number;
    /** The longest waiting first. */
    unreadByPeer(): readonly { readonly from: Key; readonly oldest_at_ms: number }[];
  };
  readonly nameOf: (peer: Key) => { readonly petname: string };
  readonly timers: Timers;
  /** Absent: {@link CALM_MS}. */
  readonly calmMs?: number | undefined;
}

/** So long nothing more comes before a wake is made, */
export const CALM_MS = 1_500;
/** but mail that keeps coming waits no longer than this: a burst of ten seconds is one wake. */
export const GATHER_MAX_MS = 15_000;
/** A busy host looks when its turn is over; before that a second wake would be one too many. */
export const REPEAT_FIRST_MS = 120_000;
const REPEAT_GROWTH = 5;
const REPEAT_MAX_MS = 86_400_000;
/** The longest that a timer takes; whoever waits longer is looked at in between. */
const TIMER_MAX_MS = 2 ** 31 - 1;

interface Later {
  readonly handle: unknown;
  readonly atMs: number;
}

export class Wakes {
  readonly #options: WakesOptions;
  readonly #calmMs: number;
  readonly #paths = new Set<WakePath>();
  readonly #senders = new Set<Key>();
  #gathering: (Later & { readonly sinceMs: number }) | undefined;
  /** The next try: a repeat, or a wake that was held back. */
  #later: Later | undefined;
  #isAnnounced = false;
  #repeats = 0;

  constructor(options: WakesOptions) {
    this.#options = options;
    this.#calmMs = options.calmMs ?? CALM_MS;
  }

  add(path: WakePath): void {
    this.#paths.add(path);
    this.heard();
  }

  /** True if mail begins a turn. */
  get hasPath(): boolean {
    return this.#heard().some(({ isTurn }) => isTurn?.() ?? false);
  }

  /** What peers may be told of how mail wakes this session. */
  get proven(): ProvenPath | undefined {
    for (const path of this.#paths) {
      const proven = path.proven?.();
      if (proven) return proven;
    }
    return undefined;
  }

  /** New mail is on disk. @param senders of it, in its order */
  mailCame(senders: Iterable<Key>): void {
    if (this.#isAnnounced || this.#heard().length === 0) return;
    for (const peer of senders) this.#senders.add(peer);
    const { timers } = this.#options;
    const nowMs = timers.now();
    // A clock that was set back must not stretch the bound.
    const sinceMs = Math.min(this.#gathering?.sinceMs ?? nowMs, nowMs);
    if (this.#gathering) timers.clearTimeout(this.#gathering.handle);
    const atMs = Math.min(nowMs + this.#calmMs, sinceMs + GATHER_MAX_MS);
    const handle = timers.setTimeout(() => this.#gathered(), Math.max(0, atMs - nowMs));
    this.#gathering = { handle, atMs, sinceMs };
  }

  /** Somebody would hear now, who would not before: what waits is announced. */
  heard(): void {
    if (this.#later || this.#gathering || this.#isAnnounced) return;
    const waiting = this.#waiting();
    if (waiting.length > 0) this.mailCame(waiting);
  }

  /** Somebody looked at the mail: what comes from now on is news. */
  looked(): void {
    this.#stop();
    this.#isAnnounced = false;
    this.#repeats = 0;
    for (const path of this.#paths) path.looked?.();
    if (this.#options.inbox.unreadCount() > 0) this.#tryAt(this.#options.timers.now() + REPEAT_FIRST_MS);
  }

  close(): void {
    this.#stop();
    this.#paths.clear();
  }

  #heard(): WakePath[] {
    return [...this.#paths].filter((path) => path.isHeard());
  }

  #waiting(): Key[] {
    return this.#options.inbox.unreadByPeer().map(({ from }) => from);
  }

  #gathered(): void {
    this.#gathering = undefined;
    const gathered = new Set(this.#senders);
    this.#senders.clear();
    this.#announce(this.#waiting().filter((peer) => gathered.has(peer)));
  }

  /** @param peers whose mail is unread */
  #announce(peers: readonly Key[]): void {
    const heard = this.#heard();
    if (peers.length === 0 || heard.length === 0) return;
    let soonestMs = Infinity;
    for (const peer of peers) {
      const denied = this.#options.guard.spendWake(peer);
      if (!denied) return this.#wake(heard);
      soonestMs = Math.min(soonestMs, denied.refills_at_ms ?? Infinity);
    }
    this.#tryAt(soonestMs);
  }

  #wake(heard: readonly WakePath[]): void {
    const { inbox, timers, nameOf } = this.#options;
    const nowMs = timers.now();
    const pauseMs = Math.min(REPEAT_FIRST_MS * REPEAT_GROWTH ** this.#repeats, REPEAT_MAX_MS);
    this.#stop();
    this.#isAnnounced = true;
    this.#repeats++;
    this.#tryAt(nowMs + pauseMs);
    const waiting = inbox.unreadByPeer();
    const oldestMs = Math.min(...waiting.map(({ oldest_at_ms }) => oldest_at_ms));
    const mail = {
      count: inbox.unreadCount(),
      from: waiting.map(({ from }) => nameOf(from).petname),
      oldest_age_ms: Math.max(0, nowMs - oldestMs),
    };
    for (const path of heard) path.wake(mail);
  }

  #tryAt(atMs: number): void {
    const { timers } = this.#options;
    // What others wait for comes first, and looks at all that is unread.
    if (atMs === Infinity || (this.#later && this.#later.atMs <= atMs)) return;
    if (this.#later) timers.clearTimeout(this.#later.handle);
    const delayMs = Math.min(Math.max(0, atMs - timers.now()), TIMER_MAX_MS);
    const handle = timers.setTimeout(() => {
      this.#later = undefined;
      const waiting = this.#waiting();
      // Nobody hears: whoever does next begins anew.
      if (waiting.length === 0 || this.#heard().length === 0) this.#isAnnounced = false;
      else this.#announce(waiting);
    }, delayMs);
    this.#later = { handle, atMs };
  }

  #stop(): void {
    const { timers } = this.#options;
    for (const timer of [this.#gathering, this.#later]) if (timer) timers.clearTimeout(timer.handle);
    this.#gathering = undefined;
    this.#later = undefined;
    this.#senders.clear();
  }
}
