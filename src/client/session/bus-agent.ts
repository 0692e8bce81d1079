/**
 * The agent that the tools talk to: each call goes to the session on the active bus, and what is of all buses is put together.
 *
 * Each bus has a session of its own, with its identity and its files, so that what comes by one bus never mixes
 * with another's: a talk, a task and a message's fate belong to the bus that they came by.
 */

import type { Key } from "../../protocol/address.ts";
import { Operator } from "../trust/operator.ts";
import { isToolRefusal, type Agent, type PeerRef, type Shown, type ToolRefusal } from "./agent.ts";
import type { BusDirectory } from "./bus-directory.ts";
import { listBuses, shownBus } from "./bus-list.ts";
import type { BusAgent, BusMeant, BusShown, Drop, WhoAmIThere } from "./buses.ts";
import { dropNow } from "./drop-now.ts";
import { dropNotice, parkedNotices } from "./drop.ts";
import type { OnBus } from "./on-bus.ts";
import type { Switchboard } from "./switchboard.ts";

export interface BusesAgentOptions {
  readonly board: Switchboard<OnBus, ToolRefusal>;
  readonly directory: BusDirectory;
  /** Goes where the session was, or where its settings say. */
  readonly begin: () => void;
  /** It has begun. */
  readonly isOn: () => boolean;
  readonly listeners: Parameters<Agent["onMail"]>[];
  readonly close: (withinMs: number) => Promise<void>;
  /** The user has spoken of a bus. */
  readonly onWord: (target: string) => void;
}

export class BusesAgent implements BusAgent {
  readonly #options: BusesAgentOptions;

  /** Made by `openBuses`. */
  constructor(options: BusesAgentOptions) {
    this.#options = options;
  }

  async whoami(): Promise<WhoAmIThere> {
    const { target, session } = await this.#facing();
    const { directory, board } = this.#options;
    const own = await session.agent.whoami();
    // After the look, so that both tell of the same moment.
    const drop = this.#drop();
    const parked = board.standing.parked.map((each) => directory.of(each).name);
    const me = { ...own, bus_name: directory.of(target).name, parked };
    return drop ? { ...me, last_drop: drop } : me;
  }

  async findBus(word: string): Promise<BusMeant | ToolRefusal> {
    const { directory } = this.#options;
    const meant = directory.find(word);
    if (isToolRefusal(meant)) return meant;
    const { key } = await (await this.#facing()).session.agent.whoami();
    return { name: meant.name, address: meant.bus, isListed: meant.isListed, key, file: directory.file };
  }

  async connectBus(word: string, operator?: Operator): Promise<BusShown | ToolRefusal> {
    const { board, directory } = this.#options;
    const meant = directory.find(word);
    if (isToolRefusal(meant)) return meant;
    if (!meant.isListed) {
      if (!operator) return { code: "unlisted_bus", detail: directory.file };
      Operator.check(operator, (await (await this.#facing()).session.agent.whoami()).key);
    }
    directory.allow(meant);
    this.#options.onWord(meant.id);
    const connected = await board.connect(meant.id);
    if (connected.as === "refused") return connected.why;
    if (connected.as === "superseded") return { code: "superseded", detail: meant.name };
    return shownBus(board, meant, "active");
  }

  async disconnectBus(word?: string): Promise<{ readonly name: string } | ToolRefusal> {
    const { board, directory } = this.#options;
    const active = board.standing.slot;
    if (word === undefined && !("active" in active)) return { code: "not_connected", ...this.#connectHint() };
    const meant = word === undefined ? directory.of((active as { active: string }).active) : directory.find(word);
    if (isToolRefusal(meant)) return meant;
    this.#options.onWord(meant.id);
    if (!(await board.disconnect(meant.id))) return { code: "not_connected", connect: meant.name };
    return { name: meant.name };
  }

  async listBuses(): ReturnType<BusAgent["listBuses"]> {
    return listBuses(this.#options);
  }

  async send(request: Parameters<Agent["send"]>[0]): ReturnType<Agent["send"]> {
    return this.#onActive(async (agent) => this.#elsewhere(await agent.send(request), request.in_reply_to));
  }

  cancelTask(request: Parameters<Agent["cancelTask"]>[0]): ReturnType<Agent["cancelTask"]> {
    return this.#onActive((agent) => agent.cancelTask(request));
  }

  async messageStatus(msgId: string): ReturnType<Agent["messageStatus"]> {
    return this.#firstThatKnows((agent) => agent.messageStatus(msgId));
  }

  async history(request: Parameters<Agent["history"]>[0]): ReturnType<Agent["history"]> {
    return (await this.#agent()).history(request);
  }

  async listPending(): ReturnType<Agent["listPending"]> {
    return (await this.#agent()).listPending();
  }

  async discover(peer?: string): ReturnType<Agent["discover"]> {
    const view = await (await this.#agent()).discover(peer);
    const { board, isOn } = this.#options;
    // What was seen before is shown, with its age and why it is old.
    return isToolRefusal(view) || !isOn() || board.active ? view : { ...view, stale_because: "not_connected" };
  }

  /** What a session is about is the same on every bus. */
  async setSummary(summary: string): ReturnType<Agent["setSummary"]> {
    const all = await Promise.all((await this.#all()).map(({ agent }) => agent.setSummary(summary)));
    return all[0]!;
  }

  requestPair(request: Parameters<Agent["requestPair"]>[0]): ReturnType<Agent["requestPair"]> {
    return this.#onActive((agent) => agent.requestPair(request));
  }

  async pairRequests(): ReturnType<Agent["pairRequests"]> {
    return (await this.#agent()).pairRequests();
  }

  async findPairRequest(request: string): ReturnType<Agent["findPairRequest"]> {
    return (await this.#agent()).findPairRequest(request);
  }

  async acceptPair(request: string, petname: string, operator: Operator): ReturnType<Agent["acceptPair"]> {
    return (await this.#agent()).acceptPair(request, petname, operator);
  }

  async rejectPair(request: string, operator: Operator): ReturnType<Agent["rejectPair"]> {
    return (await this.#agent()).rejectPair(request, operator);
  }

  async peers(): ReturnType<Agent["peers"]> {
    return (await this.#agent()).peers();
  }

  async addPeer(petname: string, key: Key, operator: Operator): ReturnType<Agent["addPeer"]> {
    return (await this.#agent()).addPeer(petname, key, operator);
  }

  async removePeer(petname: string, operator: Operator): ReturnType<Agent["removePeer"]> {
    return (await this.#agent()).removePeer(petname, operator);
  }

  async findPeer(name: string): Promise<PeerRef | ToolRefusal> {
    return (await this.#agent()).findPeer(name);
  }

  /** Each bus's mail in its order, that of the active one first. */
  async checkMessages({ max, maxBytes }: Parameters<Agent["checkMessages"]>[0]): ReturnType<Agent["checkMessages"]> {
    const all = await this.#all();
    const messages: Shown[] = [];
    let left = 0;
    let room = maxBytes;
    for (const session of all) {
      if (messages.length >= max || (messages.length > 0 && room <= 0)) {
        left += session.counts().unread;
        continue;
      }
      if (session.counts().unread > 0) this.#noteReading(all, session);
      const taken = await session.agent.checkMessages({ max: max - messages.length, maxBytes: room });
      const bus = all.length > 1 ? { bus: session.name } : {};
      messages.push(...taken.messages.map((message) => ({ ...bus, ...message })));
      room -= taken.messages.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
      left += taken.left;
    }
    return { messages, left };
  }

  async readMessage(msgId: string, offset: number): ReturnType<Agent["readMessage"]> {
    const all = await this.#all();
    return this.#firstThatKnows((agent, session) => {
      if (session.hasMessage(msgId)) this.#noteReading(all, session);
      return agent.readMessage(msgId, offset);
    });
  }

  notices(): readonly string[] {
    const { board } = this.#options;
    const facing = board.facing?.session;
    const isActive = board.active !== undefined;
    const drop = this.#drop();
    const isLost = drop !== undefined && (!isActive || board.active?.isThere === false);
    return [
      ...(isLost ? [dropNotice(drop)] : []),
      ...(facing?.agent.notices() ?? []),
      ...this.#parked().flatMap((session) => parkedNotices(session.name, session.agent.notices())),
    ];
  }

  onMail(...listener: Parameters<Agent["onMail"]>): void {
    this.#options.listeners.push(listener);
    for (const { agent } of this.#opened()) agent.onMail(...listener);
  }

  heard(): void {
    for (const { agent } of this.#opened()) agent.heard();
  }

  wakeChanged(): void {
    for (const { agent } of this.#opened()) agent.wakeChanged();
  }

  async liftBudget(peer: Key, operator: Operator): Promise<PeerRef> {
    return (await this.#agent()).liftBudget(peer, operator);
  }

  humanSeen(): void {
    for (const { agent } of this.#opened()) agent.humanSeen();
  }

  begin(): void {
    this.#options.begin();
  }

  close(withinMs: number): Promise<void> {
    return this.#options.close(withinMs);
  }

  /** The files that are read from; for the moment in which they are opened anew, waits for it. */
  async #facing(): Promise<{ readonly target: string; readonly session: OnBus }> {
    const { board } = this.#options;
    // What begins is there in a moment, and its first call is to see it so.
    if (!board.facing || board.standing.recoveries.some(({ into }) => into === "slot")) await board.calm();
    if (!board.facing) throw new Error("no session is open");
    return board.facing;
  }

  async #agent(): Promise<Agent> {
    return (await this.#facing()).session.agent;
  }

  #parked(): OnBus[] {
    const { board } = this.#options;
    return board.standing.parked.flatMap((target) => board.of(target) ?? []).reverse();
  }

  /** Each that is open, without waiting for one that is opened anew. */
  #opened(): OnBus[] {
    const facing = this.#options.board.facing?.session;
    return [...new Set([...(facing ? [facing] : []), ...this.#parked()])];
  }

  /** The active one first, then the parked ones, the latest used first. */
  async #all(): Promise<OnBus[]> {
    return [(await this.#facing()).session, ...this.#parked()];
  }

  /** What is for peers needs a bus that the user has not closed; one that is away will do. */
  async #onActive<T>(act: (agent: Agent) => Promise<T | ToolRefusal>): Promise<T | ToolRefusal> {
    const { session } = await this.#facing();
    const { board, isOn } = this.#options;
    if (isOn() && !board.active) return { code: "not_connected", ...this.#connectHint() };
    return act(session.agent);
  }

  async #firstThatKnows<T extends object>(
    ask: (agent: Agent, session: OnBus) => Promise<T | ToolRefusal>,
  ): Promise<T | ToolRefusal> {
    let first: T | ToolRefusal | undefined;
    for (const session of await this.#all()) {
      const found = await ask(session.agent, session);
      if (!isToolRefusal(found) || found.code !== "unknown_message") return found;
      first ??= found;
    }
    return first!;
  }

  /** A message that is answered may have come by a parked bus: only there can it be answered. */
  #elsewhere<T extends object>(outcome: T | ToolRefusal, msgId: string | undefined): T | ToolRefusal {
    if (msgId === undefined || !isToolRefusal(outcome) || outcome.code !== "unknown_message") return outcome;
    const there = this.#parked().find((session) => session.hasMessage(msgId));
    return there ? { ...outcome, connect: there.name } : outcome;
  }

  /** Who has read a peer's words writes by itself from then on, whatever bus they came by. */
  #noteReading(all: readonly OnBus[], reader: OnBus): void {
    for (const session of all) if (session !== reader) session.noteReading();
  }

  #connectHint(): { readonly connect?: string } {
    const drop = this.#drop();
    return drop?.mend.tool === "connect_bus" ? { connect: drop.mend.bus } : {};
  }

  #drop(): Drop | undefined {
    return dropNow(this.#options);
  }
}
