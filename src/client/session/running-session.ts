/**
 * One running session: what the tools talk to. It brings the parts together and hands each call on; what is decided
 * is decided in them.
 */

import { fingerprint, parseKey, type Key } from "../../protocol/address.ts";
import { SUMMARY_MAX_BYTES } from "../../protocol/constants.ts";
import { byteLength, isVisible } from "../../protocol/text.ts";
import { Operator } from "../trust/operator.ts";
import { chooseKey } from "../trust/key-choice.ts";
import { SELF } from "../trust/petname.ts";
import { isToolRefusal, type Agent, type PeerRef, type ToolRefusal, type WhoAmI } from "./agent.ts";
import { bestOf, standingOf, type Standing } from "./bus-standing.ts";
import { discover } from "./discovery.ts";
import { Mailbox } from "./mailbox.ts";
import { describeCircumstances, describeIncident } from "./notices.ts";
import type { Unreached } from "./reach.ts";
import { PAGES_SEARCHED } from "./roster-book.ts";
import { ofChoice, ofPeers } from "./tool-refusal.ts";
import { whoAmI } from "./who-am-i.ts";
import type { WakePath } from "./wake-path.ts";
import { SUMMARY, wire, type SessionParts, type Wiring } from "./wiring.ts";

export class Session implements Agent {
  readonly #parts: SessionParts;
  readonly #wired: Wiring;
  readonly #mailbox: Mailbox;
  #hasBegun = false;
  #leaving: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  /** Made by `openSession`. */
  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.#wired = wire(parts);
    this.#mailbox = new Mailbox({ ...parts, ...this.#wired });
  }

  get key(): Key {
    return this.#parts.identity.key;
  }

  async whoami(): Promise<WhoAmI> {
    return whoAmI(this.#parts, this.#wired, this.#hasBegun && !this.isSpent);
  }

  send(request: Parameters<Agent["send"]>[0]): ReturnType<Agent["send"]> {
    this.#mailbox.confirmHanded();
    return this.#wired.correspondence.send(request);
  }

  cancelTask(request: Parameters<Agent["cancelTask"]>[0]): ReturnType<Agent["cancelTask"]> {
    this.#mailbox.confirmHanded();
    return this.#wired.correspondence.cancelTask(request);
  }

  messageStatus(msgId: string): ReturnType<Agent["messageStatus"]> {
    return this.#wired.correspondence.status(msgId);
  }

  history(request: Parameters<Agent["history"]>[0]): ReturnType<Agent["history"]> {
    this.#mailbox.confirmHanded();
    return this.#wired.correspondence.history(request);
  }

  listPending(): ReturnType<Agent["listPending"]> {
    return this.#wired.correspondence.listPending();
  }

  discover(peer?: string): ReturnType<Agent["discover"]> {
    return discover({ ...this.#wired, ...this.#parts, me: this.#parts.identity.key }, peer);
  }

  async setSummary(summary: string): ReturnType<Agent["setSummary"]> {
    if (!isVisible(summary) || byteLength(summary) > SUMMARY_MAX_BYTES) return { code: "bad_field", detail: "summary" };
    this.#parts.state.meta.set(SUMMARY, summary);
    for (const link of this.#wired.links) if (link.state.at === "open") link.announce();
    return { summary };
  }

  async requestPair({ key: text, petname }: { key: string; petname: string }): ReturnType<Agent["requestPair"]> {
    const { identity } = this.#parts;
    const { rosters, addressing, pairing, correspondence } = this.#wired;
    const key = await this.#keyOf(text);
    if (typeof key !== "string") return key;
    if (key === identity.key) return { code: "oneself" };
    const view = await rosters.of(key);
    const sessions = "sessions" in view ? addressing.sessionsOf(view) : [];
    const [freshest] = [...sessions].sort((a, b) => a.age_ms - b.age_ms);
    const to = freshest === undefined ? { key } : { key, session: freshest.session };
    const asked = await pairing.request({ key, petname, to });
    if ("code" in asked) return asked;
    const { msg_id } = asked;
    const queued = this.#parts.state.outbox.get(msg_id);
    if (!queued) throw new Error("a knock that was queued is not in the outbox");
    return { key, fingerprint: fingerprint(key), msg_id, life: await correspondence.dispatch(queued) };
  }

  /** A key that was given whole, or by what discover and list_pair_requests show of it. */
  async #keyOf(text: string): Promise<Key | ToolRefusal> {
    const whole = parseKey(text.trim());
    if (whole) return whole;
    const { sessions } = await this.#wired.rosters.everyone(PAGES_SEARCHED);
    const knocking = this.#wired.pairing.pending().map(({ key }) => key);
    const choice = chooseKey(text, [...sessions.map(({ pubkey }) => pubkey), ...knocking]);
    // Few characters are matched by whoever tries keys for long enough.
    if ("key" in choice && !choice.weak) return choice.key;
    return "refused" in choice && choice.refused === "ambiguous_key"
      ? ofChoice(choice, "unknown_peer")
      : { code: "bad_key" };
  }

  async pairRequests(): ReturnType<Agent["pairRequests"]> {
    await this.#wired.backlog.come();
    return this.#wired.pairing.pending();
  }

  async findPairRequest(request: string): ReturnType<Agent["findPairRequest"]> {
    await this.#wired.backlog.come();
    const found = this.#wired.pairing.find(request);
    return "code" in found ? found : this.#wired.pairing.shown(found);
  }

  async acceptPair(request: string, petname: string, operator: Operator): Promise<PeerRef | ToolRefusal> {
    const accepted = await this.#wired.pairing.accept(request, petname, operator);
    if (!isToolRefusal(accepted)) this.#dealtWith(accepted.key);
    return accepted;
  }

  async rejectPair(request: string, operator: Operator): ReturnType<Agent["rejectPair"]> {
    this.humanSeen();
    return this.#wired.pairing.reject(request, operator);
  }

  async peers(): Promise<readonly PeerRef[]> {
    const contacts = this.#wired.watch.contacts() ?? [];
    return contacts.map((key) => this.#wired.addressing.ref(key));
  }

  async addPeer(petname: string, key: Key, operator: Operator): Promise<PeerRef | ToolRefusal> {
    const added = await this.#parts.peers.add(petname, key, operator);
    if ("refused" in added) return ofPeers(added);
    await this.#wired.peersChanged();
    this.#dealtWith(key);
    return this.#wired.addressing.ref(key);
  }

  async removePeer(petname: string, operator: Operator): Promise<PeerRef | ToolRefusal> {
    const { peers, state } = this.#parts;
    const peer = await this.findPeer(petname);
    if (isToolRefusal(peer)) return peer;
    if (peer.petname === SELF) return { code: "oneself" };
    const removed = await peers.remove(peer.petname, peer.key, operator);
    if ("refused" in removed) return ofPeers(removed);
    this.humanSeen();
    state.routes.unstick(peer.key);
    await this.#wired.peersChanged();
    return peer;
  }

  async findPeer(name: string): Promise<PeerRef | ToolRefusal> {
    return this.#wired.addressing.find(name);
  }

  async checkMessages(request: Parameters<Agent["checkMessages"]>[0]): ReturnType<Agent["checkMessages"]> {
    await this.#wired.backlog.come();
    return this.#mailbox.check(request);
  }

  async readMessage(msgId: string, offset: number): ReturnType<Agent["readMessage"]> {
    return this.#mailbox.read(msgId, offset);
  }

  notices(): readonly string[] {
    const { state } = this.#parts;
    const { incidents, departures, links, addressing, pairing, receiver, watch } = this.#wired;
    const badPeersFile = watch.badFile;
    const lines = describeCircumstances({
      unread: state.inbox.unreadByPeer().map(({ from, count }) => ({ from: addressing.ref(from).petname, count })),
      pairRequests: pairing.pending().length,
      tasksOwed: state.tasks.open().filter(({ owes }) => owes === "us").length,
      buses: links.map((link) => ({ bus: link.name, ...standingOf(link.state, link.refusal) })),
      pending: state.outbox.pendingCount(),
      dropped: receiver.dropped,
      ...(badPeersFile !== undefined && { badPeersFile }),
    });
    const happened = incidents.take();
    if (happened.some(({ what }) => what === "unconfirmed")) this.#mailbox.tellsOfUntold();
    return [...lines, ...departures.take(), ...happened.map(describeIncident)];
  }

  onMail(path: WakePath): void {
    this.#wired.wakes.add(path);
  }

  heard(): void {
    this.#wired.wakes.heard();
  }

  wakeChanged(): void {
    for (const link of this.#wired.links) link.wakeChanged();
  }

  async liftBudget(peer: Key, operator: Operator): Promise<PeerRef> {
    Operator.check(operator, peer);
    this.#dealtWith(peer);
    return this.#wired.addressing.ref(peer);
  }

  humanSeen(): void {
    this.#wired.guard.humanSeen();
  }

  begin(): void {
    if (this.#hasBegun || this.isSpent) return;
    this.#hasBegun = true;
    const { links, sender, watch, pairing, backlog } = this.#wired;
    watch.start();
    pairing.start();
    backlog.begin();
    for (const link of links) link.start();
    sender.kick();
  }

  close(withinMs: number): Promise<void> {
    this.#closing ??= this.retire(withinMs).then(() => this.#wired.end());
    return this.#closing;
  }

  /** Goodbye, and no more of the buses. What is on this machine can be read until `close`. */
  retire(withinMs: number): Promise<void> {
    this.#leaving ??= this.#wired.leave(withinMs);
    return this.#leaving;
  }

  /** It has said goodbye for good. */
  get isSpent(): boolean {
    return this.#leaving !== undefined;
  }

  /** Something comes in, or will once its bus is back. */
  get isThere(): boolean {
    return this.#hasBegun && !this.isSpent && this.#wired.links.some(({ state }) => state.at !== "stopped");
  }

  /** Begins, dials anew what others have stopped, and waits for the first word of a bus. */
  async reach(): Promise<Unreached | undefined> {
    this.begin();
    for (const link of this.#wired.links) link.startAgain();
    return this.#wired.reach.word();
  }

  /** How it stands with its buses, without asking them. */
  standing(): Standing {
    return bestOf(this.#wired.links.map((link) => standingOf(link.state, link.refusal)));
  }

  /** A peer's mail is read at another session of this process: what this one writes next is no human's either. */
  noteReading(): void {
    this.#wired.guard.noteReading();
  }

  /** True if a message begins so here, received or ours. */
  hasMessage(idPrefix: string): boolean {
    const { inbox, outbox } = this.#parts.state;
    return inbox.find(idPrefix).length > 0 || outbox.find(idPrefix).length > 0;
  }

  counts(): { readonly unread: number; readonly pending: number } {
    const { inbox, outbox } = this.#parts.state;
    return { unread: inbox.unreadCount(), pending: outbox.pendingCount() };
  }

  /** A human has just dealt with this peer, here. */
  #dealtWith(peer: Key): void {
    this.humanSeen();
    this.#wired.guard.lift(peer);
  }
}
