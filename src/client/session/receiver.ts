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
import { departedSession } from "./goodbye.ts";
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
  /** A session of a peer has said goodbye. */
  readonly onGoodbye: (peer: Arrival["from"]) => void;
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

  /** Takes what a bus brought, behind what it brought before. */
  take(link: BusLink, items: readonly BusItem[], generation: string): void {
    const before = this.#last.get(link) ?? Promise.resolve();
    this.#last.set(
      link,
      before.then(() => this.#take(link, items, generation)),
    );
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
        this.#takeMail(arrivalOf(link, message, verdict), batch);
        return;
      case "knock":
        if (this.#isNew(arrivalOf(link, message, verdict))) pairing.takeKnock(verdict);
        return;
      case "knock_again":
        this.#isNew(arrivalOf(link, message, verdict));
        batch.followUps.push(() => pairing.answerAgain(verdict));
        return;
      case "pair_accept": {
        // A redelivered one is taken again as long as our knock is open: what follows from it may not have been done.
        this.#isNew(arrivalOf(link, message, verdict));
        const followUp = pairing.takeAnswer(verdict);
        if (followUp) batch.followUps.push(followUp);
      }
    }
  }

  #takeMail(arrival: Arrival, batch: Batch): void {
    const { state, onGoodbye } = this.#options;
    const departed = departedSession(arrival);
    const verdict = this.#receive(arrival);
    if (verdict === "conflict") batch.drops.push("id_conflict");
    if (verdict !== "new") return;
    batch.arrivals.push(arrival);
    if (departed === undefined) return;
    // Behind the receipt, which remembers the session as any that wrote.
    state.routes.unstick(arrival.from, departed);
    onGoodbye(arrival.from);
  }

  #isNew(arrival: Arrival): boolean {
    return this.#receive(arrival) === "new";
  }

  #receive(arrival: Arrival) {
    return this.#options.state.receive([arrival], this.#options.timers.now())[0]!.verdict;
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
  const { from, msg_id, kind, text, task_id, status, in_reply_to, ts } = message;
  return {
    from,
    msg_id,
    ...(reply_session !== undefined && { session: reply_session }),
    kind,
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
