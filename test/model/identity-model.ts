/**
 * PURE: what one identity is, by docs/PROTOCOL.md and docs/STORAGE.md alone: no table, no cache, no alarm arithmetic.
 * It is asked the same as the real object, and says what the answer must be.
 *
 * Where the documents leave something open it allows both: what is past its time and not yet swept may be known or not.
 * Of eviction the tie is taken as the table in inbox-policy.ts says it.
 */

import type { Key } from "../../src/protocol/address.ts";
import type { Limits } from "../../src/protocol/constants.ts";
import { phaseOf, socketLifeMs } from "../../src/durable/expiry.ts";

export type Kind = "message" | "pair_request" | "pair_accept";
type Presence = { presence: "live" | "away"; age_ms: number } | { presence: "gone" };

export interface ModelEntry {
  readonly sender: string;
  /** Empty for the bare key. */
  readonly route: string;
  readonly msgId: string;
  readonly kind: Kind;
  readonly ts: number;
  readonly digest: string;
  readonly bytes: number;
}

export type Answer<Fields> = Fields | { readonly refused: string };
export interface Stored {
  readonly state: "stored" | "duplicate";
  readonly msg_id: string;
  readonly presence?: string;
  readonly age_ms?: number;
  readonly queued?: number;
}

interface Session {
  readonly ts: number;
  readonly sig: string;
  readonly isShown: boolean;
  /** Until when its lease of what wakes it may be said; absent: it has none. */
  readonly wakeUntilMs: number | undefined;
  /** Last sign of life, and the one that is written down: only that one outlives a sleep. */
  seenAtMs: number;
  writtenAtMs: number;
}

interface Tombstone {
  readonly ts: number;
  readonly sig: string;
  readonly atMs: number;
  readonly wasShown: boolean;
}

/** Mail and knocks alike, in the order of storing. */
export interface Item {
  readonly order: number;
  readonly entry: ModelEntry;
  readonly atMs: number;
  /** Whose it is now: mail to the bare key is given to one session. */
  inbox: string;
}

/** An id and what became of its message. */
interface Memory {
  readonly entry: ModelEntry;
  state: "stored" | "acked" | "expired" | "evicted";
  atMs: number;
}

interface Gap {
  /** Only the ack of something stored later ends it. */
  order: number;
  count: number;
  oldestTs: number;
}

interface Knock extends Item {
  ackedAtMs: number | undefined;
}

/** What a socket's client is told, in this order. */
export type Told =
  | { readonly t: "welcome"; readonly queued: number }
  | { readonly t: "gap"; readonly count: number; readonly oldest_ts: number }
  | { readonly t: "item"; readonly item: Item; readonly wasPushed: boolean };

/** One session's open socket. */
interface Socket {
  readonly sinceMs: number;
  frameAtMs: number;
  /** The largest order that was pushed on it. */
  pushedThrough: number;
  /** The loss that was told last. */
  toldGap: number;
  readonly told: Told[];
}

export interface ModelSettings {
  readonly limits: Limits;
  readonly overflow: "refuse" | "evict";
}

export class IdentityModel {
  readonly key: string;
  readonly sessions = new Map<string, Session>();
  readonly tombstones = new Map<string, Tombstone>();
  readonly memories = new Map<string, Memory>();
  readonly gaps = new Map<string, Gap>();
  /** Item by its handle, as polls gave them out. */
  readonly handles = new Map<string, { readonly session: string; readonly item: Item }>();
  contacts: { readonly keys: ReadonlySet<string>; readonly ts: number } | undefined;
  mail: Item[] = [];
  knocks: Knock[] = [];
  /** Nonce → until when it is remembered. */
  readonly nonces = new Map<string, number>();
  readonly sockets = new Map<string, Socket>();
  /** Item → sessions that a socket had it pushed to. */
  readonly #pushed = new Map<Item, Set<string>>();
  /** Sessions whose socket a crash took: heard at the next start. */
  readonly #crashed = new Set<string>();
  readonly #limits: Limits;
  readonly #overflow: "refuse" | "evict";
  /** A day, or up to a quarter less: which, no document says. */
  readonly socketLifeMs: number;
  #order = 0;

  constructor(key: string, { limits, overflow }: ModelSettings) {
    this.key = key;
    this.#limits = limits;
    this.#overflow = overflow;
    this.socketLifeMs = socketLifeMs(limits, phaseOf(key as Key));
  }

  announce(
    session: string,
    { ts, sig, isShown, wakeUntilMs }: Pick<Session, "ts" | "sig" | "isShown" | "wakeUntilMs">,
    nowMs: number,
  ): Answer<object> {
    this.#passTime(nowMs);
    const known = this.sessions.get(session);
    if (known?.ts === ts && known.sig === sig) return {}; // a retry is no sign of life
    if (ts <= this.#fence(session)) return { refused: "stale" };
    if (!known && this.sessions.size >= this.#limits.SESSIONS_MAX) return { refused: "session_limit" };
    this.sessions.set(session, { ts, sig, isShown, wakeUntilMs, seenAtMs: nowMs, writtenAtMs: nowMs });
    this.tombstones.delete(session);
    return {};
  }

  unregister(session: string, ts: number, sig: string, nowMs: number): Answer<object> {
    this.#passTime(nowMs);
    const buried = this.tombstones.get(session);
    const isRetry = buried?.ts === ts && buried.sig === sig;
    if (!isRetry && ts <= this.#fence(session)) return { refused: "stale" };
    this.sockets.delete(session);
    if (isRetry) return {};
    const wasShown = this.sessions.get(session)?.isShown ?? buried?.wasShown ?? false;
    this.sessions.delete(session);
    this.tombstones.set(session, { ts, sig, atMs: nowMs, wasShown });
    return {};
  }

  publish(keys: readonly string[], ts: number, nowMs: number): Answer<{ count: number }> {
    this.#passTime(nowMs);
    const isSame =
      this.contacts?.ts === ts &&
      this.contacts.keys.size === keys.length &&
      keys.every((key) => this.contacts!.keys.has(key));
    if (!isSame && this.contacts && ts <= this.contacts.ts) return { refused: "stale" };
    this.contacts = { keys: new Set(keys), ts };
    return { count: keys.length };
  }

  enqueue(entry: ModelEntry, nowMs: number): Answer<Stored> {
    this.#passTime(nowMs);
    const inbox = entry.route === "" ? this.#first(nowMs) : entry.route;
    if (entry.kind !== "message") return this.#knock(entry, inbox, nowMs);
    if (entry.sender !== this.key && !this.contacts?.keys.has(entry.sender)) return { refused: "not_paired" };
    const known = this.memories.get(memoryOf(entry));
    const answer = (state: "stored" | "duplicate"): Stored => ({
      state,
      msg_id: entry.msgId,
      ...this.presence(entry.route, nowMs),
      queued: this.inbox(inbox).length,
    });
    if (known) return known.entry.digest === entry.digest ? answer("duplicate") : { refused: "msg_id_conflict" };
    const refused = this.#makeRoom(entry, inbox, nowMs);
    if (refused !== undefined) return { refused };
    this.mail.push({ order: ++this.#order, entry, atMs: nowMs, inbox });
    this.memories.set(memoryOf(entry), { entry, state: "stored", atMs: nowMs });
    return answer("stored");
  }

  /** Everything that `acks` names and the session still has. */
  ack(session: string, acks: readonly string[], nowMs: number): Answer<{ removed: number }> {
    this.#passTime(nowMs);
    if (acks.some((handle) => this.handles.get(handle)?.session !== session)) return { refused: "bad_ack" };
    this.#touch(session, nowMs);
    const items = [...new Set(acks.map((handle) => this.handles.get(handle)!.item))];
    const removed = items.filter((item) => this.#ackItem(item, session, nowMs)).length;
    if (items.some(({ order }) => order > (this.gaps.get(session)?.order ?? Infinity))) this.gaps.delete(session);
    return { removed };
  }

  /** What a poll does before it reads; then {@link waiting} is its answer. */
  beginPoll(session: string, acks: readonly string[], nonce: string, nowMs: number): Answer<object> {
    this.#passTime(nowMs);
    if (this.nonces.has(nonce)) return { refused: "replay" };
    this.nonces.set(nonce, nowMs + 2 * this.#limits.CLOCK_SKEW_MS + 1_000);
    const acked: Answer<object> = acks.length > 0 ? this.ack(session, acks, nowMs) : {};
    if ("refused" in acked) {
      this.nonces.delete(nonce); // refused whole: nothing of it is kept
      return acked;
    }
    this.#touch(session, nowMs);
    this.#claim(session);
    return {};
  }

  /** Opens a session's socket; an older one is over. */
  connect(session: string, nonce: string, nowMs: number): Answer<object> {
    this.#passTime(nowMs);
    if (!this.sockets.has(session) && this.sockets.size >= this.#limits.SESSIONS_MAX) {
      return { refused: "session_limit" };
    }
    this.nonces.set(nonce, nowMs + 2 * this.#limits.CLOCK_SKEW_MS + 1_000);
    this.#hear(session, nowMs);
    this.#claim(session);
    const told: Told[] = [{ t: "welcome", queued: this.waiting(session).length }];
    this.sockets.delete(session); // the newest is the last
    this.sockets.set(session, { sinceMs: nowMs, frameAtMs: nowMs, pushedThrough: 0, toldGap: 0, told });
    this.#push(session);
    return {};
  }

  /** A frame came, whatever it says. */
  frame(session: string, nowMs: number): void {
    this.#passTime(nowMs);
    this.sockets.get(session)!.frameAtMs = nowMs;
  }

  /** All up to an item that was pushed on the socket is on the client's disk. */
  ackThrough(session: string, through: Item, nowMs: number): void {
    this.frame(session, nowMs);
    for (const item of this.waiting(session)) if (item.order <= through.order) this.#ackItem(item, session, nowMs);
    if (through.order > (this.gaps.get(session)?.order ?? Infinity)) this.gaps.delete(session);
    this.#push(session);
  }

  /** The client closed its socket. */
  disconnect(session: string, nowMs: number): void {
    this.#passTime(nowMs);
    this.sockets.delete(session);
    this.#hear(session, nowMs);
  }

  /** After sends to these routes: what came is pushed to who owns it. */
  wake(routes: readonly string[], nowMs: number): void {
    for (const route of new Set(routes)) this.#push(route === "" ? this.#first(nowMs) : route);
  }

  /** What waits for a session, oldest first. */
  waiting(session: string): Item[] {
    const knocks = this.knocks.filter((knock) => knock.inbox === session && knock.ackedAtMs === undefined);
    return [...this.inbox(session), ...knocks].toSorted((a, b) => a.order - b.order);
  }

  learnHandle(session: string, handle: string, item: Item): void {
    this.handles.set(handle, { session, item });
  }

  inbox(name: string): Item[] {
    return this.mail.filter((item) => item.inbox === name);
  }

  /** The states that the receipt of an id may have. */
  receipts(sender: string, msgId: string, nowMs: number): { state: string; at_ms?: number }[] {
    this.#passTime(nowMs);
    const known = [...this.memories.values()].filter(({ entry }) => entry.sender === sender && entry.msgId === msgId);
    const stored = known.filter(({ state }) => state === "stored");
    const told = (stored.length > 0 ? stored : known).map(({ state, atMs }) => ({ state, at_ms: atMs }));
    const mayBeForgotten = known.every((memory) => this.#isFading(memory, nowMs));
    return mayBeForgotten ? [...told, { state: "unknown" }] : told;
  }

  /** The state of a knock's id; undefined where the documents say nothing: after its time. */
  knockReceipt(sender: string, msgId: string): { state: string; at_ms?: number } | undefined {
    const knock = this.knocks.find(({ entry }) => entry.sender === sender && entry.msgId === msgId);
    if (!knock) return undefined;
    const { ackedAtMs, atMs } = knock;
    return ackedAtMs === undefined ? { state: "stored", at_ms: atMs } : { state: "acked", at_ms: ackedAtMs };
  }

  /** Sessions and signed goodbyes as a viewer may see them. */
  view(viewer: string | undefined, nowMs: number) {
    this.#passTime(nowMs);
    const seesAll = viewer !== undefined && (viewer === this.key || (this.contacts?.keys.has(viewer) ?? false));
    const roster = [...this.sessions]
      .filter(([, { isShown }]) => seesAll || isShown)
      .map(([id, { ts, wakeUntilMs = 0 }]) => {
        const age_ms = nowMs - this.#seenAtMs(id);
        const wake = seesAll && nowMs < wakeUntilMs ? wakeUntilMs : undefined;
        return { id, ts, age_ms, connected: this.sockets.has(id) && age_ms < this.#limits.LIVE_MS, wake };
      });
    const gone = [...this.tombstones]
      .filter(([, { wasShown }]) => seesAll || wasShown)
      .map(([id, { ts, sig, atMs }]) => ({ id, ts, sig, at_ms: atMs }));
    return { roster, gone };
  }

  presence(route: string, nowMs: number): Presence {
    const ids = route === "" ? [...this.sessions.keys()] : [route].filter((id) => this.sessions.has(id));
    const ages = ids.map((id) => nowMs - this.#seenAtMs(id));
    if (ages.length === 0) return { presence: "gone" };
    const age_ms = Math.min(...ages);
    return { presence: age_ms < this.#limits.LIVE_MS ? "live" : "away", age_ms };
  }

  census(nowMs: number) {
    this.#passTime(nowMs);
    const live = [...this.sessions.keys()].filter((id) => nowMs - this.#seenAtMs(id) < this.#limits.LIVE_MS).length;
    const oldest = Math.min(...this.mail.map(({ atMs }) => atMs));
    return {
      sessions_live: live,
      sessions_away: this.sessions.size - live,
      queued: this.mail.length,
      ...(this.mail.length > 0 ? { oldest_unacked_ms: nowMs - oldest } : {}),
    };
  }

  /** @returns whether the nonce was not used before */
  forget(nonce: string, nowMs: number): Answer<object> {
    this.#passTime(nowMs);
    if (this.nonces.has(nonce)) return { refused: "replay" };
    const { sessions, tombstones, memories, gaps, handles, nonces, sockets } = this;
    for (const kept of [sessions, tombstones, memories, gaps, handles, nonces, sockets]) kept.clear();
    this.contacts = undefined;
    this.mail = [];
    this.knocks = [];
    this.nonces.set(nonce, nowMs + 2 * this.#limits.CLOCK_SKEW_MS + 1_000);
    return {};
  }

  /** The alarm: what is due leaves. Everything else that time does, it does by itself. */
  ring(nowMs: number): void {
    this.#passTime(nowMs);
    for (const item of this.mail) {
      if (nowMs - item.atMs >= this.#limits.MESSAGE_RETAIN_MS) this.#leave(item, "expired", nowMs);
    }
    for (const [inbox, { oldestTs }] of this.gaps) {
      const isOld = nowMs - oldestTs >= this.#limits.DEDUPE_RETAIN_MS;
      if (isOld && this.inbox(inbox).length === 0) this.gaps.delete(inbox);
    }
    for (const [session, { sinceMs }] of this.sockets) {
      this.#push(session);
      if (nowMs - sinceMs < this.socketLifeMs) continue;
      this.sockets.delete(session);
      this.#hear(session, nowMs); // its client answers the close
    }
  }

  /** The object's memory is gone, its sockets are not: of other signs of life remains what was written down. */
  sleep(): void {
    for (const session of this.sessions.values()) session.seenAtMs = session.writtenAtMs;
  }

  /** The bus stopped: its sockets are gone too, and nobody knows when they were last heard. */
  crash(): void {
    this.sleep();
    for (const session of this.sockets.keys()) this.#crashed.add(session);
    this.sockets.clear();
  }

  /** True if an id's time is over, so that the bus may have forgotten it and may not have. */
  isFading(entry: ModelEntry, nowMs: number): boolean {
    const known = this.memories.get(memoryOf(entry));
    return known !== undefined && this.#isFading(known, nowMs);
  }

  /** The bus turned out to have forgotten an id that it may forget. */
  dropMemory(entry: ModelEntry): void {
    this.memories.delete(memoryOf(entry));
  }

  /** True if there is something that must be kept, so that the identity must not be deleted. */
  isKept(nowMs: number): boolean {
    this.#passTime(nowMs);
    const hasIds = [...this.memories.values()].some((memory) => !this.#isFading(memory, nowMs));
    const tables = [this.sessions, this.tombstones, this.nonces];
    return (
      hasIds || this.knocks.length > 0 || (this.contacts?.keys.size ?? 0) > 0 || tables.some((one) => one.size > 0)
    );
  }

  /** Instants at which something changes by itself, for jumps to just before, at and after them. */
  boundaries(): number[] {
    const limits = this.#limits;
    const instants = [
      ...[...this.sessions.values()].flatMap(({ seenAtMs, writtenAtMs, wakeUntilMs }) => [
        seenAtMs + limits.LIVE_MS,
        seenAtMs + limits.AWAY_RETAIN_MS,
        writtenAtMs + limits.HEARTBEAT_MS,
        writtenAtMs + limits.AWAY_RETAIN_MS,
        ...(wakeUntilMs === undefined ? [] : [wakeUntilMs]),
      ]),
      ...[...this.tombstones.values()].map(({ atMs }) => atMs + limits.AWAY_RETAIN_MS),
      ...this.mail.map(({ atMs }) => atMs + limits.MESSAGE_RETAIN_MS),
      ...this.knocks.map(({ atMs }) => atMs + limits.KNOCK_RETAIN_MS),
      ...[...this.memories.values()].map(({ atMs }) => atMs + limits.DEDUPE_RETAIN_MS),
      ...this.nonces.values(),
      ...[...this.sockets.values()].flatMap(({ sinceMs, frameAtMs }) => [
        sinceMs + this.socketLifeMs,
        frameAtMs + limits.LIVE_MS,
      ]),
    ];
    return instants.flatMap((atMs) => [atMs, atMs + limits.GHOST_RETAIN_MS]);
  }

  /** By when an alarm must ring at the latest: for what leaves only by it. */
  dueAtMs(): number {
    return Math.min(
      ...this.mail.map(({ atMs }) => atMs + this.#limits.MESSAGE_RETAIN_MS),
      ...this.knocks.map(({ atMs }) => atMs + this.#limits.KNOCK_RETAIN_MS),
      ...[...this.sessions.keys()].map((id) => this.#seenAtMs(id) + this.#limits.AWAY_RETAIN_MS),
      ...[...this.sockets.values()].map(({ sinceMs }) => sinceMs + this.socketLifeMs),
    );
  }

  #knock(entry: ModelEntry, inbox: string, nowMs: number): Answer<Stored> {
    const known = this.knocks.find((each) => each.entry.sender === entry.sender && each.entry.kind === entry.kind);
    if (known?.entry.msgId === entry.msgId) {
      const isSame = known.entry.digest === entry.digest;
      return isSame ? { state: "duplicate", msg_id: entry.msgId } : { refused: "msg_id_conflict" };
    }
    if (known && known.ackedAtMs === undefined) return { refused: "knock_limit" };
    const pending = this.knocks.filter(({ ackedAtMs }) => ackedAtMs === undefined).length;
    if (pending >= this.#limits.KNOCKS_MAX) return { refused: "knock_limit" };
    this.knocks = this.knocks.filter((each) => each !== known);
    this.knocks.push({ order: ++this.#order, entry, atMs: nowMs, inbox, ackedAtMs: undefined });
    return { state: "stored", msg_id: entry.msgId };
  }

  /** @returns the code of a refusal, or undefined with room made */
  #makeRoom({ sender, bytes }: ModelEntry, inbox: string, nowMs: number): string | undefined {
    const { INBOX_MAX_BYTES, INBOX_MAX_MESSAGES, INBOXES_MAX, SENDER_SHARE } = this.#limits;
    if (bytes > INBOX_MAX_BYTES) return "queue_full";
    const inUse = new Set(this.mail.map((item) => item.inbox));
    if (!inUse.has(inbox) && inUse.size >= INBOXES_MAX) return "queue_full";
    for (;;) {
      const held = this.inbox(inbox);
      const ofSender = (who: string) => held.filter((item) => item.entry.sender === who);
      const isShareFull = ofSender(sender).length >= SENDER_SHARE;
      const size = held.reduce((sum, item) => sum + item.entry.bytes, 0);
      const isFull = held.length >= INBOX_MAX_MESSAGES || size + bytes > INBOX_MAX_BYTES;
      if (!isShareFull && !isFull) return undefined;
      if (this.#overflow === "refuse") return isShareFull ? "sender_quota" : "queue_full";
      const senders = [...new Set(held.map((item) => item.entry.sender))].toSorted();
      const most = Math.max(...senders.map((who) => ofSender(who).length));
      const from = isShareFull ? sender : senders.find((who) => ofSender(who).length === most)!;
      this.#leave(ofSender(from)[0]!, "evicted", nowMs);
    }
  }

  #ackItem(item: Item, session: string, nowMs: number): boolean {
    const knock = this.knocks.find((each) => each === item);
    if (knock) {
      if (knock.ackedAtMs !== undefined || knock.inbox !== session) return false;
      knock.ackedAtMs = nowMs;
      return true;
    }
    if (item.inbox !== session || !this.mail.includes(item)) return false;
    this.#leave(item, "acked", nowMs);
    return true;
  }

  #leave(item: Item, state: "acked" | "expired" | "evicted", nowMs: number): void {
    this.mail = this.mail.filter((each) => each !== item);
    const memory = this.memories.get(memoryOf(item.entry))!;
    memory.state = state;
    memory.atMs = nowMs;
    if (state !== "acked") this.#lose(item.inbox, 1, item.entry.ts, ++this.#order);
  }

  #lose(inbox: string, count: number, oldestTs: number, order: number): void {
    const known = this.gaps.get(inbox);
    this.gaps.set(inbox, {
      order: Math.max(order, known?.order ?? 0),
      count: count + (known?.count ?? 0),
      oldestTs: Math.min(oldestTs, known?.oldestTs ?? Infinity),
    });
  }

  /** The identity's own inbox is given to one session. */
  #claim(session: string): void {
    for (const item of [...this.mail, ...this.knocks]) if (item.inbox === "") item.inbox = session;
    const own = this.gaps.get("");
    if (own) this.#lose(session, own.count, own.oldestTs, own.order);
    this.gaps.delete("");
  }

  /** The session that has been connected longest, one that was heard before one that was not; empty if none is. */
  #first(nowMs: number): string {
    const sockets = [...this.sockets];
    const isHeard = ({ sinceMs, frameAtMs }: Socket) => nowMs - Math.max(sinceMs, frameAtMs) < this.#limits.LIVE_MS;
    return (sockets.find(([, socket]) => isHeard(socket)) ?? sockets[0])?.[0] ?? "";
  }

  #push(session: string): void {
    const socket = this.sockets.get(session);
    if (!socket) return;
    const gap = this.gaps.get(session);
    if (gap && gap.order > socket.toldGap) {
      socket.told.push({ t: "gap", count: gap.count, oldest_ts: gap.oldestTs });
      socket.toldGap = gap.order;
    }
    for (const item of this.waiting(session)) {
      if (item.order <= socket.pushedThrough) continue;
      const pushedTo = this.#pushed.get(item) ?? new Set();
      socket.told.push({ t: "item", item, wasPushed: pushedTo.has(session) });
      socket.pushedThrough = item.order;
      this.#pushed.set(item, pushedTo.add(session));
    }
  }

  /** A sign of life that is written down. */
  #hear(session: string, atMs: number): void {
    const known = this.sessions.get(session);
    if (!known) return;
    known.seenAtMs = Math.max(known.seenAtMs, atMs);
    known.writtenAtMs = Math.max(known.writtenAtMs, atMs);
  }

  #seenAtMs(session: string): number {
    const socket = this.sockets.get(session);
    return Math.max(this.sessions.get(session)?.seenAtMs ?? 0, socket?.sinceMs ?? 0, socket?.frameAtMs ?? 0);
  }

  /** A poll or ack of a session that is announced. */
  #touch(session: string, nowMs: number): void {
    const known = this.sessions.get(session);
    if (!known) return;
    known.seenAtMs = Math.max(known.seenAtMs, nowMs);
    if (nowMs - known.writtenAtMs >= this.#limits.HEARTBEAT_MS) known.writtenAtMs = nowMs;
  }

  #fence(session: string): number {
    return Math.max(this.sessions.get(session)?.ts ?? -1, this.tombstones.get(session)?.ts ?? -1);
  }

  /** What is over by age alone, whether or not an alarm has rung. */
  #passTime(nowMs: number): void {
    const { AWAY_RETAIN_MS, KNOCK_RETAIN_MS } = this.#limits;
    for (const session of this.#crashed) this.#hear(session, nowMs);
    this.#crashed.clear();
    for (const id of this.sessions.keys()) {
      if (nowMs - this.#seenAtMs(id) >= AWAY_RETAIN_MS) this.sessions.delete(id);
    }
    for (const [id, { atMs }] of this.tombstones) if (nowMs - atMs >= AWAY_RETAIN_MS) this.tombstones.delete(id);
    for (const [nonce, untilMs] of this.nonces) if (untilMs <= nowMs) this.nonces.delete(nonce);
    this.knocks = this.knocks.filter(({ atMs }) => nowMs - atMs < KNOCK_RETAIN_MS);
  }

  #isFading({ state, atMs }: Memory, nowMs: number): boolean {
    return state !== "stored" && nowMs - atMs >= this.#limits.DEDUPE_RETAIN_MS;
  }
}

function memoryOf({ sender, msgId, route }: Pick<ModelEntry, "sender" | "msgId" | "route">): string {
  return `${sender} ${msgId} ${route}`;
}
