/**
 * What comes in: verified and gated, on disk in one transaction, and only then acked, each bus in its own order.
 *
 * Invariant 1: an acked message survives `kill -9` of the client. An ack counts up to a number, so a batch that cannot
 * be kept now (the peers file is unreadable, the disk is full) holds back those behind it, and stays on the bus.
 * What the gate drops is acked too, and counted.
 */

import type { Route, SessionId } from "../../protocol/address.ts";
import type { BusItem } from "../bus/bus-frame.ts";
import type { Timers } from "../bus/timers.ts";
import type { Arrival } from "../state/inbox.ts";
import type { State } from "../state/store.ts";
import {
  decide,
  verifyPayload,
  type DropReason,
  type GateLimits,
  type GateWorld,
  type Knocking,
  type VerifiedMessage,
} from "../trust/gate.ts";
import type { PeersFile } from "../trust/peers.ts";
import type { BusLink } from "./bus-link.ts";
import { readGoodbye } from "./goodbye.ts";
import type { PairingDesk } from "./pairing-desk.ts";

export interface ReceiverOptions {
  readonly state: State;
  readonly peers: PeersFile;
  readonly pairing: PairingDesk;
  readonly me: Route & { readonly session: SessionId };
  readonly limits: GateLimits;
  readonly timers: Timers;
  /** New mail is on disk, from these. */
  readonly onMail: (arrivals: readonly Arrival[]) => void;
  /** A session of a peer has said goodbye. @param wasOurs the one that our next message would have gone to */
  readonly onGoodbye: (peer: Arrival["from"], wasOurs: boolean) => void;
  readonly onFault: (fault: unknown) => void;
}

/** Before a batch that could not be kept is looked at again. */
const HOLD_MS = 2_000;

type Judged = VerifiedMessage | { readonly verdict: "drop"; readonly reason: DropReason };
/** What is to be done before a batch is acked. */
type FollowUp = () => Promise<void>;

interface Batch {
  readonly arrivals: Arrival[];
  readonly drops: DropReason[];
  readonly followUps: FollowUp[];
}

export class Receiver {
  readonly #options: ReceiverOptions;
  readonly #last = new Map<BusLink, Promise<void>>();
  readonly #dropped = new Map<DropReason, number>();
  readonly #holds = new Set<() => void>();
  #isClosed = false;

  constructor(options: ReceiverOptions) {
    this.#options = options;
  }

  /** How many messages were dropped since the start, and why. */
  get dropped(): ReadonlyMap<DropReason, number> {
    return this.#dropped;
  }

  /** Takes what a bus brought, behind what it brought before. Resolves when it is kept, or never will be. */
  take(link: BusLink, items: readonly BusItem[], generation: string): Promise<void> {
    const before = this.#last.get(link) ?? Promise.resolve();
    const taken = before.then(() => this.#take(link, items, generation));
    this.#last.set(link, taken);
    return taken;
  }

  /** Nothing is kept or acked any more: the bus brings it again. */
  close(): void {
    this.#isClosed = true;
    for (const release of this.#holds) release();
  }

  async #take(link: BusLink, items: readonly BusItem[], generation: string): Promise<void> {
    const { limits, onFault } = this.#options;
    const judged = await Promise.all(items.map(({ envelope }) => verifyPayload(envelope.payload, limits)));
    while (!this.#isClosed) {
      try {
        if (await this.#keep(link, judged)) {
          link.ack(items.at(-1)!.seq, generation);
          return;
        }
      } catch (fault) {
        if (!this.#isClosed) onFault(fault);
      }
      if (!this.#isClosed) await this.#hold();
    }
  }

  /** @returns false if it cannot be said who is a peer */
  async #keep(link: BusLink, judged: readonly Judged[]): Promise<boolean> {
    const { state, peers, pairing, me, limits, onMail } = this.#options;
    const book = peers.current();
    if ("refused" in book) return false;
    const batch: Batch = { arrivals: [], drops: [], followUps: [] };
    state.transaction(() => {
      for (const message of judged) {
        // Anew for each: one message may be the answer to what the next one relies on.
        const world: GateWorld = {
          me: me.key,
          session: me.session,
          inbox: me,
          petnames: book.petnames,
          knocked: pairing.knocked(),
          knownDigest: undefined, // the disk itself says it, in this transaction
          nowMs: link.clock.now(),
          limits,
        };
        if ("verdict" in message) batch.drops.push(message.reason);
        else this.#takeOne(link, message, world, batch);
      }
    });
    for (const reason of batch.drops) this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + 1);
    if (batch.arrivals.length > 0) onMail(batch.arrivals);
    for (const followUp of batch.followUps) await followUp();
    return !this.#isClosed;
  }

  #takeOne(link: BusLink, message: VerifiedMessage, world: GateWorld, batch: Batch): void {
    const { pairing } = this.#options;
    const verdict = decide(message, world);
    switch (verdict.verdict) {
      case "drop":
        batch.drops.push(verdict.reason);
        return;
      case "duplicate":
        return;
      case "accept":
        this.#takeMail(message, arrivalOf(link, message, verdict), batch);
        return;
      case "knock":
        pairing.takeKnock(verdict, message.ts);
        return;
      case "knock_again":
        batch.followUps.push(pairing.takeKnockOfPeer(verdict, message.ts));
        return;
      case "pair_accept":
        pairing.takeAnswer(verdict, world.petnames.has(verdict.key));
    }
  }

  #takeMail(message: VerifiedMessage, arrival: Arrival, batch: Batch): void {
    const { state, timers, onGoodbye } = this.#options;
    const { from } = arrival;
    const goodbye = readGoodbye(message);
    const talkedWith = state.routes.sticky(from);
    // A goodbye is told in our words, so it is no mail for a model to read, or to be woken for.
    const newness = goodbye?.isBare
      ? state.inbox.remember(arrival, timers.now())
      : state.receive([arrival], timers.now())[0]!.verdict;
    if (newness === "conflict") batch.drops.push("id_conflict");
    if (newness !== "new") return;
    if (!goodbye?.isBare) batch.arrivals.push(arrival);
    if (!goodbye) return;
    // Behind the receipt, which remembers the session as any that wrote.
    state.routes.unstick(from, goodbye.session);
    onGoodbye(from, talkedWith === goodbye.session);
  }

  #hold(): Promise<void> {
    const { timers } = this.#options;
    return new Promise((resolve) => {
      const release = () => {
        this.#holds.delete(release);
        timers.clearTimeout(timer);
        resolve();
      };
      const timer = timers.setTimeout(release, HOLD_MS);
      this.#holds.add(release);
    });
  }
}

function arrivalOf(
  link: BusLink,
  message: VerifiedMessage,
  { digest, reply_session, clock_ok = true }: Pick<Knocking, "digest" | "reply_session"> & { clock_ok?: boolean },
): Arrival {
  const { from, msg_id, text, task_id, status, in_reply_to, ts } = message;
  return {
    from,
    msg_id,
    ...(reply_session !== undefined && { session: reply_session }),
    text,
    ...(task_id !== undefined && { task_id }),
    ...(status !== undefined && { status }),
    ...(in_reply_to !== undefined && { in_reply_to }),
    ts,
    digest,
    clock_ok,
    bus: link.name,
  };
}
