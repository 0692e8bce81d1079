/**
 * One running session: what the tools talk to. It brings the parts together and hands each call on; what is decided
 * is decided in them.
 */

import { fingerprint, parseKey, type Key } from "../../protocol/address.ts";
import { SUMMARY_MAX_BYTES } from "../../protocol/constants.ts";
import { classifyPresence } from "../../protocol/presence.ts";
import { byteLength, isVisible } from "../../protocol/text.ts";
import type { InboxMessage } from "../state/inbox.ts";
import type { Operator } from "../trust/operator.ts";
import { SELF } from "../trust/petname.ts";
import { isToolRefusal, type Agent, type PeerRef, type Shown, type ToolRefusal, type WhoAmI } from "./agent.ts";
import { bestOf, standingOf } from "./bus-standing.ts";
import { oneOf } from "./correspondence.ts";
import { discover } from "./discovery.ts";
import { lift } from "./loop-guard.ts";
import { describeCircumstances, describeIncident } from "./notices.ts";
import { shownRequest } from "./pairing-desk.ts";
import { partOf, beginningOf, shownOf } from "./showing.ts";
import { ofPeers } from "./tool-refusal.ts";
import { SUMMARY, wire, type SessionParts, type Wiring } from "./wiring.ts";

export class Session implements Agent {
  readonly #parts: SessionParts;
  readonly #wired: Wiring;
  /** Taken by a call whose answer was not followed by another call yet. */
  #handed: number[] = [];
  #hasBegun = false;
  #closing: Promise<void> | undefined;

  /** Made by `openSession`. */
  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.#wired = wire(parts);
  }

  async whoami(): Promise<WhoAmI> {
    const { identity, name, session, state, limits } = this.#parts;
    const { links, rosters } = this.#wired;
    const { key } = identity;
    const view = this.#hasBegun ? await rosters.of(key) : undefined;
    const isSeen = view && "sessions" in view && view.stale_because === undefined;
    const own = isSeen ? view.sessions.find((each) => each.session.session_id === session) : undefined;
    const seen = own && { presence: classifyPresence(own.age_ms, limits), age_ms: own.age_ms };
    const presence = isSeen ? { presence: seen ?? ({ presence: "gone" } as const) } : {};
    return {
      name,
      key,
      fingerprint: fingerprint(key),
      session,
      bus: links.map((link) => link.name).join(","),
      ...bestOf(links.map((link) => standingOf(link.state, link.refusal))),
      ...presence,
      wake_path: "none",
      unread: state.inbox.unreadCount(),
      pending: state.outbox.pendingCount(),
    };
  }

  send(request: Parameters<Agent["send"]>[0]): ReturnType<Agent["send"]> {
    this.#confirmHanded();
    return this.#wired.correspondence.send(request);
  }

  cancelTask(request: Parameters<Agent["cancelTask"]>[0]): ReturnType<Agent["cancelTask"]> {
    this.#confirmHanded();
    return this.#wired.correspondence.cancelTask(request);
  }

  messageStatus(msgId: string): ReturnType<Agent["messageStatus"]> {
    return this.#wired.correspondence.status(msgId);
  }

  history(request: Parameters<Agent["history"]>[0]): ReturnType<Agent["history"]> {
    this.#confirmHanded();
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
    const key = parseKey(text.trim());
    if (!key) return { code: "bad_key" };
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

  async pairRequests(): ReturnType<Agent["pairRequests"]> {
    return this.#wired.pairing.pending();
  }

  async findPairRequest(request: string): ReturnType<Agent["findPairRequest"]> {
    const found = this.#wired.pairing.find(request);
    return "code" in found ? found : shownRequest(found);
  }

  async acceptPair(request: string, petname: string, operator: Operator): Promise<PeerRef | ToolRefusal> {
    const accepted = await this.#wired.pairing.accept(request, petname, operator);
    if (!isToolRefusal(accepted)) this.#lift(accepted.key);
    return accepted;
  }

  async rejectPair(request: string, operator: Operator): ReturnType<Agent["rejectPair"]> {
    return this.#wired.pairing.reject(request, operator);
  }

  async peers(): Promise<readonly PeerRef[]> {
    const contacts = this.#wired.watch.contacts() ?? [];
    return contacts.map((key) => this.#wired.addressing.ref(key));
  }

  async addPeer(petname: string, key: Key, operator: Operator): Promise<PeerRef | ToolRefusal> {
    const added = await this.#parts.peers.add(petname, key, operator);
    if ("refused" in added) return ofPeers(added);
    await this.#wired.peersChanged(added.book);
    this.#lift(key);
    return this.#wired.addressing.ref(key);
  }

  async removePeer(petname: string, operator: Operator): Promise<PeerRef | ToolRefusal> {
    const { peers, state } = this.#parts;
    const peer = await this.findPeer(petname);
    if (isToolRefusal(peer)) return peer;
    if (peer.petname === SELF) return { code: "oneself" };
    const removed = await peers.remove(peer.petname, peer.key, operator);
    if ("refused" in removed) return ofPeers(removed);
    state.routes.unstick(peer.key);
    await this.#wired.peersChanged(removed.book);
    return peer;
  }

  async findPeer(name: string): Promise<PeerRef | ToolRefusal> {
    return this.#wired.addressing.find(name);
  }

  async checkMessages({ max, maxBytes }: { max: number; maxBytes: number }): ReturnType<Agent["checkMessages"]> {
    const { state, timers } = this.#parts;
    this.#confirmHanded();
    const { messages, left } = state.inbox.takeUnread({ max, maxBytes }, timers.now());
    this.#handed = messages.map(({ seq }) => seq);
    // Only one that is alone may be larger than what there is room for; the rest of it is read in parts.
    return { messages: messages.map((message) => this.#show(message, beginningOf(message.text, maxBytes))), left };
  }

  async readMessage(msgId: string, offset: number): ReturnType<Agent["readMessage"]> {
    const { state, timers } = this.#parts;
    this.#confirmHanded();
    const found = oneOf(msgId, state.inbox.find(msgId));
    if (isToolRefusal(found)) return found;
    const message = state.inbox.takeOne(found.seq, timers.now()) ?? found;
    if (found.read_at_ms === undefined) this.#handed = [found.seq];
    const part = partOf(message.text, offset);
    const { next_offset } = part;
    return { ...this.#show(message, part), ...(next_offset !== undefined && { next_offset }) };
  }

  notices(): readonly string[] {
    const { state } = this.#parts;
    const { incidents, links, addressing, pairing, receiver, watch } = this.#wired;
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
    return [...lines, ...incidents.take().map(describeIncident)];
  }

  onMail(listener: (unread: number) => void): void {
    this.#wired.listeners.add(listener);
  }

  begin(): void {
    if (this.#hasBegun || this.#closing) return;
    this.#hasBegun = true;
    const { links, sender, watch } = this.#wired;
    watch.start();
    for (const link of links) link.start();
    sender.kick();
  }

  close(withinMs: number): Promise<void> {
    this.#closing ??= this.#wired.end(withinMs);
    return this.#closing;
  }

  #show(message: InboxMessage, part: ReturnType<typeof partOf>): Shown {
    return shownOf(message, this.#wired.addressing.ref(message.from), part);
  }

  /** A further call says that the answer to the one before has arrived. */
  #confirmHanded(): void {
    if (this.#handed.length > 0) this.#parts.state.inbox.confirmHanded(this.#handed);
    this.#handed = [];
  }

  /** A human has just dealt with this peer. */
  #lift(peer: Key): void {
    const { counters } = this.#parts.state;
    counters.write(lift(counters.read(), peer));
  }
}
