/**
 * An identity at work: what its object does with a call once it is let in. It brings together what is
 * kept, what is open, and what must be told to others; each decision itself is in a desk.
 *
 * Every write is one synchronous read-decide-write in a shared commit; whatever is awaited, what was
 * read before it is read again.
 */

import type { Key, SessionId } from "../protocol/address.ts";
import { CLOSE } from "../protocol/frames.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import type { Answer, Call, Census, Entry, PollCall, SocketCall, Stored, View } from "./calls.ts";
import { clock } from "./clock.ts";
import { OpenConnections } from "./connections.ts";
import type { Env } from "./env.ts";
import { isEmpty, isGhost, nextWake, type Kept } from "./expiry.ts";
import { GroupCommit } from "./group-commit.ts";
import { IdentityStorage } from "./identity-storage.ts";
import { ack, ackThrough, beginPoll, claim, countAll, enqueue, readForPoll, receiptsOf } from "./mail-desk.ts";
import { Outbound } from "./outbound.ts";
import { TIMEOUT_ANSWER } from "./poll-answer.ts";
import { PollHub } from "./poll-hub.ts";
import { announce, census, presenceOf, publishContacts, sightOf, unregister, viewRoster } from "./presence-desk.ts";
import { pushWaiting } from "./push.ts";
import type { Settings } from "./settings.ts";
import { beginSocket, endSocket } from "./socket-desk.ts";
import { SocketHub, type SessionSocket } from "./socket-hub.ts";

/** Should an alarm's handler fail half-way, it runs again after this. */
export const ALARM_RETRY_MS = 60_000;

/** A place is free as soon as any of the identity's sockets closes. */
const SOCKETS_RETRY_S = 60;

export class Identity {
  readonly sockets: SocketHub;
  readonly #ctx: DurableObjectState;
  readonly #settings: Settings;
  readonly #polls: PollHub;
  readonly #connections: OpenConnections;
  readonly #commits: GroupCommit;
  readonly #outbound: Outbound;
  #kept: IdentityStorage | undefined;

  constructor(ctx: DurableObjectState, env: Env, settings: Settings) {
    this.#ctx = ctx;
    this.#settings = settings;
    this.sockets = new SocketHub(ctx);
    this.#polls = new PollHub(ctx);
    this.#connections = new OpenConnections(this.sockets, this.#polls);
    this.#commits = new GroupCommit(ctx.storage, () => {
      this.#kept = IdentityStorage.open(ctx.storage, settings, this.#connections); // what is in memory may be wrong
    });
    this.#outbound = new Outbound(env, this.#commits, settings.directoryShards, () => this.#kept);
    this.#kept = IdentityStorage.open(ctx.storage, settings, this.#connections);
    this.#repair(clock.now());
  }

  async announce({ key, ...said }: Call<"announce">): Promise<Answer<"announce">> {
    const { limits } = this.#settings;
    const answer = await this.#commits.run(() =>
      announce(this.#keep(key), said, this.#connections, limits, clock.now()),
    );
    await this.#outbound.tellDirectory();
    return answer;
  }

  /** All is done, the goodbyes too, before the session's socket closes. */
  async unregister(call: Call<"unregister">): Promise<Answer<"unregister">> {
    const answer = await this.#commits.run(() =>
      unregister(this.#keep(call.key), call, this.#settings.limits, clock.now()),
    );
    if (isRefusal(answer)) return answer;
    this.#polls.end(call.session);
    await this.#outbound.sendGoodbyes();
    await this.#outbound.tellDirectory();
    this.sockets.of(call.session)?.close(CLOSE.unregistered, "unregistered");
    return answer;
  }

  view(call: Call<"view">): View {
    const nowMs = clock.now();
    if (!this.#kept) return { roster: [], gone: [], view_at_ms: nowMs };
    const sight = sightOf(this.#kept, call, this.#settings.access === "open");
    return viewRoster(this.#kept, this.#connections, sight, this.#settings.limits, nowMs);
  }

  async enqueue({ key, entries }: Call<"enqueue">): Promise<Answer<"enqueue">> {
    if (!entries.some((entry) => this.#mayEnter(key, entry))) {
      return { results: entries.map(() => refuse("not_paired")) }; // no place in the queue for the disk
    }
    const results = await this.#commits.run(() => entries.map((entry) => this.#enqueue(key, entry, clock.now())));
    for (const session of new Set(entries.map((entry) => entry.session))) this.#wake(session);
    await this.#outbound.tellDirectory();
    return { results };
  }

  ack({ session, acks }: Call<"ack">): Promise<Answer<"ack">> {
    return this.#commits.run((): Answer<"ack"> =>
      this.#kept ? ack(this.#kept, session, acks, clock.now()) : { removed: 0 },
    );
  }

  async contacts({ key, contacts, ts }: Call<"contacts">): Promise<Answer<"contacts">> {
    const answer = await this.#commits.run(() => publishContacts(this.#keep(key), contacts, ts, clock.now()));
    await this.#outbound.tellDirectory();
    return answer;
  }

  receipts({ sender, msgIds }: Call<"receipts">): Answer<"receipts"> {
    return { receipts: receiptsOf(this.#kept, sender, msgIds) };
  }

  census(): Census {
    return census(this.#kept, this.#settings.limits, clock.now());
  }

  async forget({ key, nonce }: Call<"forget">): Promise<Answer<"forget">> {
    const isFresh = await this.#commits.run(() => this.#keep(key).nonces.use(nonce));
    if (!isFresh) return refuse("replay");
    for (const socket of this.sockets.all()) socket.close(CLOSE.unregistered, "forgotten");
    for (const poll of this.#polls.all()) this.#polls.end(poll.session);
    await this.#outbound.forget(key);
    await this.#clear();
    await this.#commits.run(() => {
      const kept = this.#keep(key);
      kept.nonces.use(nonce); // all that stays, until its window has passed: a replay must not wipe a new life
      kept.endAt(nonce.expiresAtMs);
    });
    return { forgotten: true };
  }

  /** Answers at once if something waits or the caller would not; else parks the poll on a socket. */
  async poll(call: PollCall, mayPark: boolean): Promise<Response | Refusal> {
    const refusal = await this.#commits.run(() => {
      // Without a nonce to remember, a poll of an identity that nobody ever was keeps nothing.
      const kept = call.nonce ? this.#keep(call.key) : this.#kept;
      return kept && beginPoll(kept, call, clock.now());
    });
    if (refusal) return refusal;
    await this.#outbound.tellDirectory();
    // No await from here on: what was enqueued before this turn is read below, what comes after finds the poll.
    const { session, max = 1 } = call;
    const isList = call.max !== undefined;
    const sinceMs = clock.now();
    const answer = this.#kept && readForPoll(this.#kept, session, max, isList, sinceMs);
    if (answer !== undefined) return new Response(answer);
    if (!mayPark) return new Response(TIMEOUT_ANSWER);
    return new Response(null, { status: 101, webSocket: this.#polls.park({ session, isList, max, sinceMs }) });
  }

  /** Opens a session's socket: it owns the session's mail from here on, and what waits is pushed at once. */
  async connect({ key, session, nonce }: SocketCall): Promise<Response | Refusal> {
    const nowMs = clock.now();
    // Accepted in the very turn that is committed: what shares the commit finds the socket, or is found by it.
    const accepted = await this.#commits.run(() => {
      // A session need not be announced to connect.
      if (!this.sockets.of(session) && this.sockets.all().length >= this.#settings.limits.SESSIONS_MAX) {
        return refuse("session_limit", { retry_after_s: SOCKETS_RETRY_S });
      }
      const kept = this.#keep(key);
      const refusal = beginSocket(kept, session, nonce, this.#settings.limits, nowMs);
      if (refusal) return refusal;
      const { notices } = kept.inboxes;
      const { door, socket } = this.sockets.accept(key, session, notices.pushedThrough(session), nowMs);
      socket.welcome(kept.generation, nowMs, countAll(kept, session, nowMs));
      pushWaiting(kept, socket, nowMs);
      return { door };
    });
    if (isRefusal(accepted)) return accepted;
    await this.#outbound.tellDirectory();
    return accepted.door;
  }

  /** A cumulative ack of what was pushed on a socket; then there is room for more. */
  async ackThrough(socket: SessionSocket, through: number): Promise<void> {
    const { session } = socket.facts;
    await this.#commits.run(() => this.#kept && ackThrough(this.#kept, session, through, clock.now()));
    const now = this.sockets.of(session); // superseded while this ack was on its way, the newer one pushes for itself
    if (this.#kept && now) pushWaiting(this.#kept, now, clock.now());
  }

  /** A socket is gone, by whatever way: silence from here on, and its last sign of life is written down. */
  async disconnected(socket: SessionSocket, wasClean: boolean): Promise<void> {
    const { session } = socket.facts;
    const seenAtMs = wasClean ? clock.now() : socket.signOfLifeMs;
    this.#kept?.roster.remember(session, seenAtMs);
    await this.#commits.run(() => {
      if (this.#kept && !this.#connections.hasSocket(session)) endSocket(this.#kept, socket, seenAtMs); // no newer one
    });
  }

  /** Closes a socket from this side. Its other end may never answer, so what is known of it is written down now. */
  async close(socket: SessionSocket, code: number, reason: string): Promise<void> {
    socket.close(code, reason);
    await this.disconnected(socket, false);
  }

  /** Lets go what is due and sets the next alarm. May run late, twice, or for nothing. */
  async expire(): Promise<void> {
    const nowMs = clock.now();
    const generation = this.#kept?.generation;
    this.#kept?.setAlarm(nowMs + ALARM_RETRY_MS); // first of all: whatever fails below, the clock goes on
    await this.#commits.run(() => this.#kept?.expire(nowMs));
    await this.#outbound.sendGoodbyes();
    await this.#outbound.tellDirectory();
    for (const socket of this.sockets.all()) {
      if (this.#kept) pushWaiting(this.#kept, socket, nowMs); // tells of what just expired
      if (nowMs >= socket.endsAtMs(this.#settings.limits)) {
        await this.close(socket, CLOSE.signAgain, "sign_again");
      }
    }
    await this.#rest(generation);
  }

  #enqueue(key: Key, entry: Entry, nowMs: number): Stored | Refusal {
    if (!this.#mayEnter(key, entry)) return refuse("not_paired");
    const kept = this.#keep(key);
    const owner = entry.session ?? this.#connections.first(nowMs, this.#settings.limits);
    if (entry.session === undefined && owner !== undefined) claim(kept, owner); // what waited is ahead of it
    const state = enqueue(kept, entry, owner, nowMs);
    if (isRefusal(state)) return state;
    const answer: Stored = { state, msg_id: entry.msgId };
    if (entry.kind !== "message") return answer; // a stranger learns nothing of presence
    const presence = presenceOf(kept, entry.session, this.#settings.limits, nowMs);
    return { ...answer, ...presence, queued: kept.inboxes.count(owner ?? "") };
  }

  /** Knocks of anyone; mail of contacts and the identity's own sessions, under ACCESS=open of all until contacts are published. */
  #mayEnter(key: Key, { kind, sender }: Entry): boolean {
    if (kind !== "message" || sender === key) return true;
    const contacts = this.#kept?.contacts.list();
    return contacts ? contacts.keys.has(sender) : this.#settings.access === "open";
  }

  /** Hands a session what came for it; mail to the bare key was claimed by who has been connected longest. */
  #wake(addressed: SessionId | undefined): void {
    const nowMs = clock.now();
    const session = addressed ?? this.#connections.first(nowMs, this.#settings.limits);
    if (session === undefined || !this.#kept) return;
    const socket = this.sockets.of(session);
    if (socket) return pushWaiting(this.#kept, socket, nowMs);
    const poll = this.#polls.of(session);
    const answer = poll && readForPoll(this.#kept, session, poll.max, poll.isList, nowMs);
    if (answer !== undefined) poll?.answer(answer);
  }

  /** The identity's storage, made if this is its first write. */
  #keep(key: Key): IdentityStorage {
    this.#kept ??= IdentityStorage.create(this.#ctx.storage, this.#settings, this.#connections, key, clock.now());
    return this.#kept;
  }

  /** What a stop of the bus left wrong: sockets that are no more, an alarm that the platform gave up. */
  #repair(nowMs: number): void {
    if (!this.#kept) return;
    this.#kept.roster.repairConnected((session) => this.#connections.hasSocket(session), nowMs);
    if ((this.#kept.alarmAtMs ?? nowMs) < nowMs - ALARM_RETRY_MS) this.#kept.setAlarm(nowMs);
  }

  /**
   * The alarm's last step: sets the next one, or deletes what is left of a ghost, by what is read after the last await.
   * No call need reserve anything against it: what is let in and not yet committed was promised nothing, and finds this
   * life or begins another, which sets its own alarm.
   */
  async #rest(generation: string | undefined): Promise<void> {
    const { limits } = this.#settings;
    let facts = this.#facts(generation);
    if (facts && isGhost(facts, clock.now(), limits)) {
      const isUnlisted = await this.#outbound.unlist(this.#kept!.key);
      facts = this.#facts(generation);
      if (facts && isGhost(facts, clock.now(), limits)) return isUnlisted ? this.#clear() : undefined; // or tries again
      if (facts) this.#kept!.setListing({ isShown: false, dueAtMs: clock.now() });
      await this.#outbound.tellDirectory();
      facts = this.#facts(generation);
    }
    if (!facts) return;
    this.#kept!.setEmptied(facts.emptiedAtMs ?? null);
    this.#kept!.setAlarm(nextWake(facts, limits, this.#kept!.phase) ?? null);
  }

  /** All that the next alarm depends on, what is kept and what is open; undefined if another life, or none, is kept. */
  #facts(generation: string | undefined): Kept | undefined {
    if (!this.#kept || this.#kept.generation !== generation) return undefined;
    const oldest = this.sockets.all()[0];
    const facts = { ...this.#kept.facts(), socketDueAtMs: oldest?.endsAtMs(this.#settings.limits) };
    return { ...facts, emptiedAtMs: isEmpty(facts) ? (facts.emptiedAtMs ?? clock.now()) : undefined };
  }

  /** Deletes everything, the alarm too. Nothing may be awaited between the decision and this. */
  async #clear(): Promise<void> {
    this.#kept = undefined;
    await this.#ctx.storage.deleteAll();
  }
}
