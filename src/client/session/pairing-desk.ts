/**
 * Pairing at work in one session: what comes in goes to the state that all sessions of the identity share, the operator's
 * decision to the peers file, and what the peer is to be told through this session's outbox.
 */

import { randomBytes } from "node:crypto";
import { fingerprint, parseRoute, type Key, type Route, type SessionId } from "../../protocol/address.ts";
import { isRefusal } from "../../protocol/refusal.ts";
import type { Timers } from "../bus/timers.ts";
import type { Knock } from "../state/knocks.ts";
import { forgetInvitation, invitedAt, knockIdOf, takenInvitations } from "../state/invitations.ts";
import type { PairingStore } from "../state/pairing-store.ts";
import type { Knocking } from "../trust/gate.ts";
import type { Operator } from "../trust/operator.ts";
import { answerTold, claimAnswers, hasToTell } from "../trust/owed-answers.ts";
import { choosePending, receiveAnswer, receiveKnock, receiveKnockOfPeer, requestPair } from "../trust/pairing.ts";
import { knockedAt, prunePairing, type Outgoing, type OurSide, type PendingPair } from "../trust/pairing-state.ts";
import type { PeersFile } from "../trust/peers.ts";
import { refusePetname } from "../trust/petname.ts";
import type { PairRequestShown, PeerRef, ToolRefusal } from "./agent.ts";
import type { Outbox } from "./outbox.ts";
import { acceptRequest, rejectRequest, settle, type Decision } from "./pair-decision.ts";
import { ofChoice, ofMessage, ofPairing, ofPeers } from "./tool-refusal.ts";

export interface PairingDeskOptions {
  readonly me: Key;
  /** Closed with the desk. */
  readonly pairing: PairingStore;
  readonly peers: PeersFile;
  readonly outbox: Outbox;
  readonly timers: Timers;
  readonly session: SessionId;
  /** What their human sees of us. */
  readonly name: string;
  /** The peers file has changed: resolves when the buses know, or when that takes too long. */
  readonly onPeersChanged: () => Promise<void>;
  readonly onQueued: () => void;
  readonly onFault: (fault: unknown) => void;
}

/** For what another session or a command left undone: a person who waits for the answer waits for people anyway. */
const LOOK_EVERY_MS = 5_000;

export class PairingDesk {
  readonly #options: PairingDeskOptions;
  #timer: unknown;
  #isClosed = false;
  /** Ids of knocks by invite that are in the outbox. */
  readonly #invited = new Set<string>();

  constructor(options: PairingDeskOptions) {
    this.#options = options;
  }

  /** Knocks where our human was invited, and looks now and then for that and for an answer that is owed. */
  start(): void {
    this.#knockAsInvited().catch(this.#options.onFault);
    this.#lookLater();
  }

  #lookLater(): void {
    const { timers, onFault } = this.#options;
    this.#timer = timers.setTimeout(() => {
      this.#knockAsInvited()
        .then(() => this.#look())
        .catch(onFault)
        .finally(() => {
          if (!this.#isClosed) this.#lookLater();
        });
    }, LOOK_EVERY_MS);
  }

  close(): void {
    this.#isClosed = true;
    this.#options.timers.clearTimeout(this.#timer);
    this.#options.pairing.close();
  }

  /** For the gate: whom we have knocked at. */
  knocked(): ReadonlyMap<Key, string> {
    return knockedAt(this.#options.pairing.read(), this.#nowMs());
  }

  /** Keeps a stranger's knock for the human; on disk when it returns. */
  takeKnock(knocking: Knocking, ts: number): void {
    this.#onceFor(knocking, ts, (store) => store.update((state) => receiveKnock(state, knocking, this.#nowMs())).kept);
  }

  /** A contact that knocks again is to be told again that it is one. @returns what is to be done before it is acked */
  takeKnockOfPeer(knocking: Knocking, ts: number): () => Promise<void> {
    this.#onceFor(knocking, ts, (store) => {
      store.update((state) => ({ state: receiveKnockOfPeer(state, knocking, this.#nowMs()) }));
      return true;
    });
    return () => this.settle();
  }

  /**
   * Takes the answer to a knock of ours; on disk when it returns. A redelivered one is taken again as long as our knock
   * is open, to no effect.
   */
  takeAnswer(answer: Knocking & { readonly in_reply_to?: string }, isPeer: boolean): void {
    const { pairing } = this.#options;
    const { outcome } = pairing.update((state) => receiveAnswer(state, answer, isPeer, this.#nowMs()));
    if (outcome !== "unasked") forgetInvitation(pairing, answer.key, this.#nowMs());
  }

  /** What waits for our operator, the oldest first, at whichever session it came. */
  pending(): readonly PairRequestShown[] {
    const { pending } = prunePairing(this.#options.pairing.read(), this.#nowMs());
    return pending.map((request) => this.shown(request));
  }

  /** A request as the human is shown it. */
  shown(request: PendingPair): PairRequestShown {
    return shownOf(request, this.#options.pairing, this.#nowMs());
  }

  find(request: string): PendingPair | ToolRefusal {
    const { pairing, peers } = this.#options;
    const book = peers.current();
    const known = "refused" in book ? [] : book.petnames.keys();
    const choice = choosePending(pairing.read(), request, known, this.#nowMs());
    return "refused" in choice ? ofChoice(choice, "unknown_request") : choice.request;
  }

  /**
   * Knocks at a key.
   * @param petname what it is to be called, looked at now so that the operator is not asked in vain
   * @param to one of its sessions, where one is seen: their original client reads no other inbox
   */
  async request({
    key,
    petname,
    to,
  }: {
    key: Key;
    petname: string;
    to: Route;
  }): Promise<{ msg_id: string } | ToolRefusal> {
    const { pairing, peers, outbox } = this.#options;
    if (refusePetname(petname)) return { code: "bad_name" };
    const book = peers.current();
    if ("refused" in book) return ofPeers(book);
    const owner = book.keys.get(petname);
    if (owner !== undefined && owner !== key) return { code: "petname_taken" };
    const msg_id = randomBytes(16).toString("hex");
    // Before the outbox: an answer to a knock that we do not remember would be dropped.
    const asked = pairing.update((state) => {
      // One that every bus refused, since a wrong clock dated it or we were not admitted yet, would be refused again.
      const sent = state.sent.filter(({ send }) => !outbox.isRefused(send.fields.msg_id));
      return requestPair({ ...state, sent }, { key, to, us: this.#us(), msg_id }, this.#nowMs());
    });
    if ("refused" in asked) return ofPairing(asked);
    const refusal = await this.#enqueue(asked.send);
    return refusal ?? { msg_id: asked.send.fields.msg_id };
  }

  async accept(request: string, petname: string, operator: Operator): Promise<PeerRef | ToolRefusal> {
    const seen = this.find(request);
    if ("code" in seen) return seen;
    const made = await acceptRequest(this.#options, { seen, petname, operator }, () => this.#nowMs());
    if (made.outcome !== "made") return ofDecision(made);
    // Before they hear of it: they may write at once.
    await this.#options.onPeersChanged();
    await this.settle();
    return { petname: made.petname, key: seen.key, fingerprint: fingerprint(seen.key) };
  }

  reject(request: string, operator: Operator): { fingerprint: string } | ToolRefusal {
    const seen = this.find(request);
    if ("code" in seen) return seen;
    const made = rejectRequest(this.#options, { seen, operator }, this.#nowMs());
    return made.outcome === "made" ? { fingerprint: fingerprint(seen.key) } : ofDecision(made);
  }

  /** Tells what is owed to those who are in the peers file now, whoever let them in. The buses know of them already. */
  async settle(): Promise<void> {
    const { pairing, session } = this.#options;
    if (this.#isClosed) return;
    const { owed } = settle(this.#options, this.#nowMs());
    if (!hasToTell(owed, session, this.#nowMs())) return;
    const { tell } = pairing.update((state) => {
      const claimed = claimAnswers(state.owed, { session, us: this.#us() }, this.#nowMs());
      return { state: { ...state, owed: claimed.owed }, tell: claimed.tell };
    });
    for (const { answer, send } of tell) {
      // A name of ours with a fault was refused at the start, so nothing here can be.
      await this.#enqueue(send);
      if (this.#isClosed) return;
      pairing.update((state) => ({ state: { ...state, owed: answerTold(state.owed, answer) } }));
    }
  }

  async #look(): Promise<void> {
    const { pairing, session, onPeersChanged } = this.#options;
    if (this.#isClosed || !hasToTell(pairing.read().owed, session, this.#nowMs())) return;
    await onPeersChanged();
    await this.settle();
  }

  /** Our human took an invite and trusts who sent it: the agent knocks by itself, until they answer. */
  async #knockAsInvited(): Promise<void> {
    const { pairing, peers } = this.#options;
    if (this.#isClosed) return;
    const invitations = takenInvitations(pairing, this.#nowMs());
    const book = invitations.length > 0 ? peers.current() : undefined;
    if (!book || "refused" in book) return;
    for (const taken of invitations) {
      const { key } = taken;
      const msg_id = knockIdOf(taken, this.#options.me, this.#nowMs());
      if (this.#isClosed || this.#invited.has(msg_id)) continue;
      this.#invited.add(msg_id);
      // Their human's word was taken back.
      if (!book.petnames.has(key)) forgetInvitation(pairing, key, this.#nowMs());
      else {
        const to = { key };
        const asked = pairing.update((state) => requestPair(state, { key, to, us: this.#us(), msg_id }, this.#nowMs()));
        if (!("refused" in asked)) await this.#enqueue(asked.send);
      }
    }
  }

  /** Takes a knock unless it, or a later one, was taken before, here or by another session. */
  #onceFor(knocking: Knocking, ts: number, take: (store: PairingStore) => boolean): void {
    const { pairing } = this.#options;
    const knock: Knock = { key: knocking.key, msg_id: knocking.msg_id, ts };
    pairing.transaction(() => {
      if (pairing.knocks.isNew(knock) && take(pairing)) pairing.knocks.keep(knock, this.#nowMs());
    });
  }

  #us(): OurSide {
    return { name: this.#options.name, ts: this.#options.outbox.busNowMs(this.#nowMs()) };
  }

  /** @returns a refusal where the message has a fault of its own */
  async #enqueue({ to: text, fields }: Outgoing): Promise<ToolRefusal | undefined> {
    const { outbox, onQueued } = this.#options;
    const to = parseRoute(text);
    if (isRefusal(to)) return ofMessage(to);
    const { text: name, kind, msg_id, ts, in_reply_to } = fields;
    const draft = { to, text: name, kind: kind as "pair_request" | "pair_accept", msg_id, ts };
    const queued = await outbox.enqueue(in_reply_to === undefined ? draft : { ...draft, in_reply_to }, this.#nowMs());
    onQueued();
    // An id that has other words: said by an earlier version, under a name that we had then.
    return isRefusal(queued) && queued.refused !== "msg_id_conflict" ? ofMessage(queued) : undefined;
  }

  #nowMs(): number {
    return this.#options.timers.now();
  }
}

/** The fingerprint names a request: the id of a knock is a stranger's text, which no model is to see. */
export function shownOf(request: PendingPair, pairing: PairingStore, nowMs: number): PairRequestShown {
  const { what, key, claimed_name, at_ms } = request;
  const invited_at_ms = invitedAt(pairing, request, nowMs);
  const said = { request_id: fingerprint(key), what, key, fingerprint: fingerprint(key), claimed_name, at_ms };
  return invited_at_ms === undefined ? said : { ...said, invited_at_ms };
}

function ofDecision(decision: Exclude<Decision<object>, { outcome: "made" }>): ToolRefusal {
  return decision.outcome === "not_added" ? ofPeers(decision.why) : ofPairing(decision.why);
}
