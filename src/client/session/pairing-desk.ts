/**
 * Pairing at work: the state that trust/pairing.ts decides on is kept in the session's file, additions go to the peers
 * file, and what is to be said goes through the outbox.
 *
 * The order survives a crash: peers file, then outbox, then the state. All of it may be repeated, since the ids of our
 * answers come from the knocks that they answer.
 */

import { createHash, randomBytes } from "node:crypto";
import { fingerprint, parseRoute, type Key, type Route, type SessionId } from "../../protocol/address.ts";
import { isRefusal } from "../../protocol/refusal.ts";
import type { Timers } from "../bus/timers.ts";
import type { State } from "../state/store.ts";
import type { Knocking } from "../trust/gate.ts";
import type { Operator } from "../trust/operator.ts";
import * as pairing from "../trust/pairing.ts";
import type { PairingState, PendingPair } from "../trust/pairing.ts";
import type { PeerBook } from "../trust/peer-book.ts";
import type { PeersFile } from "../trust/peers.ts";
import { refusePetname } from "../trust/petname.ts";
import type { PairRequestShown, PeerRef, ToolRefusal } from "./agent.ts";
import type { Outbox } from "./outbox.ts";
import { ofChoice, ofMessage, ofPairing, ofPeers } from "./tool-refusal.ts";

export interface PairingDeskOptions {
  readonly state: State;
  readonly peers: PeersFile;
  readonly outbox: Outbox;
  readonly timers: Timers;
  readonly route: Route & { readonly session: SessionId };
  /** What their human sees of us. */
  readonly name: string;
  /** The peers file has changed: resolves when the buses know, or when that takes too long. */
  readonly onPeersChanged: () => Promise<void>;
  readonly onQueued: () => void;
}

const META = "pairing";

export class PairingDesk {
  readonly #options: PairingDeskOptions;

  constructor(options: PairingDeskOptions) {
    this.#options = options;
  }

  /** For the gate: whom we have knocked at. */
  knocked(): ReadonlyMap<Key, string> {
    return pairing.knockedAt(this.#read(), this.#nowMs());
  }

  /** Keeps a stranger's knock for the human. Runs in the transaction that receives it. */
  takeKnock(knock: Knocking): void {
    this.#write(pairing.receiveKnock(this.#read(), knock, this.#nowMs()).state);
  }

  /** A contact that knocks again is told again that it is one; said twice it is the same message. */
  async answerAgain(knock: Knocking): Promise<void> {
    await this.#enqueue(pairing.answerKnock(knock, this.#us(answerId(knock)), this.#nowMs()));
    this.#options.state.knocks.handle("in", knock.key, "pair_request", this.#nowMs());
  }

  /**
   * Takes the answer to a knock of ours. Runs in the transaction that receives it.
   * @returns what is to be done before it is acked
   */
  takeAnswer(answer: Knocking & { readonly in_reply_to?: string }): (() => Promise<void>) | undefined {
    const taken = pairing.receiveAnswer(this.#read(), answer, this.#nowMs());
    if (taken.outcome === "unasked") return undefined;
    if (taken.outcome === "waiting") {
      this.#write(taken.state);
      return undefined;
    }
    const { petname, key, operator } = taken.add;
    return async () => {
      const added = await this.#options.peers.add(petname, key, operator);
      const isIn = !("refused" in added) || added.refused === "key_known";
      if (isIn) this.#forget(key);
      else this.#write(pairing.holdAnswer(this.#read(), answer, this.#nowMs()));
      await this.#options.onPeersChanged();
    };
  }

  /** What waits for our operator, the oldest first. */
  pending(): readonly PairRequestShown[] {
    const { pending } = pairing.prunePairing(this.#read(), this.#nowMs());
    return pending.map(shownOf);
  }

  find(request: string): PendingPair | ToolRefusal {
    const book = this.#options.peers.current();
    const known = "refused" in book ? [] : book.petnames.keys();
    const choice = pairing.choosePending(this.#read(), request, known, this.#nowMs());
    return "refused" in choice ? ofChoice(choice, "unknown_request") : choice.request;
  }

  /**
   * Knocks at a key.
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
    if (refusePetname(petname)) return { code: "bad_name" };
    const book = this.#options.peers.current();
    if ("refused" in book) return ofPeers(book);
    const owner = book.keys.get(petname);
    if (owner !== undefined && owner !== key) return { code: "petname_taken" };
    const asked = pairing.requestPair(
      this.#read(),
      { key, petname, to, us: this.#us(randomBytes(16).toString("hex")) },
      this.#nowMs(),
    );
    if ("refused" in asked) return ofPairing(asked);
    // Before the outbox: an answer to a knock that we do not remember would be dropped.
    this.#write(asked.state);
    const refusal = await this.#enqueue(asked.send);
    return refusal ?? { msg_id: asked.send.fields.msg_id };
  }

  async accept(request: string, petname: string, operator: Operator): Promise<PeerRef | ToolRefusal> {
    const seen = this.find(request);
    if ("code" in seen) return seen;
    const decide = () =>
      pairing.acceptPair(this.#read(), seen, { petname, us: this.#us(answerId(seen)) }, operator, this.#nowMs());
    const decided = decide();
    if ("refused" in decided) return ofPairing(decided);
    const added = await this.#options.peers.add(petname, seen.key, operator);
    const isKnown = "refused" in added && added.refused === "key_known";
    if ("refused" in added && !isKnown) return ofPeers(added);
    // Before they hear of it: they may write at once.
    await this.#options.onPeersChanged();
    if (decided.send) await this.#enqueue(decided.send);
    this.#options.state.transaction(() => {
      // They may have knocked anew meanwhile; that knock is a contact's then.
      this.#forget(seen.key);
      this.#handled(seen);
    });
    const name = "petname" in added ? added.petname : petname;
    return { petname: name, key: seen.key, fingerprint: fingerprint(seen.key) };
  }

  reject(request: string, operator: Operator): { fingerprint: string } | ToolRefusal {
    const seen = this.find(request);
    if ("code" in seen) return seen;
    const decided = pairing.rejectPair(this.#read(), seen, operator, this.#nowMs());
    if ("refused" in decided) return ofPairing(decided);
    this.#options.state.transaction(() => {
      this.#write(decided.state);
      this.#handled(seen);
    });
    return { fingerprint: fingerprint(seen.key) };
  }

  /**
   * The peers file was changed elsewhere, by a command say: who waits here and is in it now was accepted there. A knock
   * is answered, since only this session has it.
   */
  async settle(book: PeerBook): Promise<void> {
    const accepted = this.#read().pending.filter(({ key }) => book.petnames.has(key));
    for (const seen of accepted) {
      if (seen.what === "knock")
        await this.#enqueue(pairing.answerKnock(seen, this.#us(answerId(seen)), this.#nowMs()));
      this.#options.state.transaction(() => {
        this.#forget(seen.key);
        this.#handled(seen);
      });
    }
  }

  #us(msg_id: string): pairing.OurSide {
    const { name, route } = this.#options;
    return { name, route, msg_id };
  }

  /** @returns a refusal where the message has a fault of its own */
  async #enqueue({ to: text, fields }: pairing.Outgoing): Promise<ToolRefusal | undefined> {
    const to = parseRoute(text);
    if (isRefusal(to)) return ofMessage(to);
    const { text: name, kind, msg_id, in_reply_to } = fields;
    const draft = { to, text: name, kind: kind as "pair_request" | "pair_accept", msg_id };
    const queued = await this.#options.outbox.enqueue(
      in_reply_to === undefined ? draft : { ...draft, in_reply_to },
      this.#nowMs(),
    );
    this.#options.onQueued();
    // An id that has other words: said before, under a name that we had then.
    return isRefusal(queued) && queued.refused !== "msg_id_conflict" ? ofMessage(queued) : undefined;
  }

  #handled({ key, what }: PendingPair): void {
    this.#options.state.knocks.handle("in", key, what === "knock" ? "pair_request" : "pair_accept", this.#nowMs());
  }

  #forget(gone: Key): void {
    const { pending, sent } = this.#read();
    const others = <Entry extends { key: Key }>(list: readonly Entry[]) => list.filter(({ key }) => key !== gone);
    this.#write({ pending: others(pending), sent: others(sent) });
  }

  #read(): PairingState {
    const text = this.#options.state.meta.get(META);
    return text === undefined ? pairing.NO_PAIRING : (JSON.parse(text) as PairingState);
  }

  #write(state: PairingState): void {
    this.#options.state.meta.set(META, JSON.stringify(state));
  }

  #nowMs(): number {
    return this.#options.timers.now();
  }
}

/** The fingerprint names a request: the id of a knock is a stranger's text, which no model is to see. */
function shownOf({ key, claimed_name, at_ms }: PendingPair): PairRequestShown {
  return { request_id: fingerprint(key), key, fingerprint: fingerprint(key), claimed_name, at_ms };
}

export { shownOf as shownRequest };

/** The same for the same knock, so that an answer that was sent before a crash is not sent as another. */
function answerId({ key, msg_id }: { readonly key: Key; readonly msg_id: string }): string {
  return createHash("sha256").update(`pair_accept ${key} ${msg_id}`).digest("hex").slice(0, 32);
}
