/**
 * One object per identity: its roster, its contacts and its inboxes, so that presence, admission,
 * dedupe and replay checks are local and atomic. Entry points only: what they decide is in the desks.
 *
 * The door has verified every signature and the caller's right to ask; this object decides by what it
 * keeps. Invariant 8: with no rows left it deletes itself, and an idle session causes no work.
 */

import { DurableObject } from "cloudflare:workers";
import type { Key, SessionId } from "../protocol/address.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import type { Entry, IdentityCalls, Methods, PollCall, Receipt, Stored, View } from "./calls.ts";
import { clock } from "./clock.ts";
import type { Env } from "./env.ts";
import { isEmpty, isGhost, nextWake } from "./expiry.ts";
import { GroupCommit } from "./group-commit.ts";
import { IdentityStorage } from "./identity-storage.ts";
import { ack, beginPoll, claim, enqueue, readForPoll } from "./mail-desk.ts";
import { Outbound } from "./outbound.ts";
import { TIMEOUT_ANSWER } from "./poll-answer.ts";
import { PollHub } from "./poll-hub.ts";
import { announce, mayViewAll, presenceOf, unregister, viewRoster, type Connected } from "./presence-desk.ts";
import { readSettings } from "./settings.ts";

/** Should an alarm's handler fail half-way, it runs again after this. */
const ALARM_RETRY_MS = 60_000;

type Answer<Operation extends keyof IdentityCalls> = IdentityCalls[Operation]["answer"] | Refusal;

export class IdentityObject extends DurableObject<Env> implements Methods<IdentityCalls> {
  readonly #settings = readSettings(this.env);
  readonly #polls = new PollHub(this.ctx);
  readonly #commits = new GroupCommit(this.ctx.storage, () => {
    this.#kept = IdentityStorage.open(this.ctx.storage, this.#settings); // what is in memory may be wrong
  });
  readonly #outbound = new Outbound(this.env, this.#commits, this.#settings.directoryShards);
  #kept = IdentityStorage.open(this.ctx.storage, this.#settings);

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const nowMs = clock.now();
    // The platform gives up an alarm that failed too often: what is long overdue is set again.
    if ((this.#kept?.alarmAtMs ?? nowMs) < nowMs - ALARM_RETRY_MS) this.#kept?.setAlarm(nowMs);
  }

  async announce(json: string): Promise<string> {
    const { key, announcement, public: shown } = JSON.parse(json) as IdentityCalls["announce"]["call"];
    const answer = await this.#commits.run(() =>
      announce(this.#keep(key), announcement, shown, this.#settings.limits, clock.now()),
    );
    if (this.#kept) await this.#outbound.tellDirectory(this.#kept);
    return JSON.stringify(answer);
  }

  async unregister(json: string): Promise<string> {
    const call = JSON.parse(json) as IdentityCalls["unregister"]["call"];
    const answer = await this.#commits.run(() =>
      unregister(this.#keep(call.key), call, this.#settings.limits, clock.now()),
    );
    if (this.#kept && !isRefusal(answer)) {
      this.#polls.end(call.session);
      await this.#outbound.sendGoodbyes(this.#kept);
      await this.#outbound.tellDirectory(this.#kept);
    }
    return JSON.stringify(answer);
  }

  view(json: string): string {
    const { viewer, scope } = JSON.parse(json) as IdentityCalls["view"]["call"];
    const nowMs = clock.now();
    const nothing: View = { roster: [], gone: [], view_at_ms: nowMs };
    if (!this.#kept) return JSON.stringify(nothing);
    const seesAll =
      this.#settings.access === "open" ||
      (scope === "identity" && viewer !== undefined && mayViewAll(this.#kept, viewer));
    return JSON.stringify(viewRoster(this.#kept, this.#connected(), seesAll, nowMs));
  }

  async enqueue(json: string): Promise<string> {
    const { key, entries } = JSON.parse(json) as IdentityCalls["enqueue"]["call"];
    const results = await this.#commits.run(() => entries.map((entry) => this.#enqueue(key, entry, clock.now())));
    for (const session of new Set(entries.map((entry) => entry.session))) this.#wake(session);
    return JSON.stringify({ results });
  }

  async ack(json: string): Promise<string> {
    const { session, acks } = JSON.parse(json) as IdentityCalls["ack"]["call"];
    const answer = await this.#commits.run((): Answer<"ack"> =>
      this.#kept ? ack(this.#kept, session, acks, clock.now()) : { removed: 0 },
    );
    return JSON.stringify(answer);
  }

  async contacts(json: string): Promise<string> {
    const { key, contacts, ts } = JSON.parse(json) as IdentityCalls["contacts"]["call"];
    const answer = await this.#commits.run((): Answer<"contacts"> => {
      const kept = this.#keep(key);
      const list = kept.contacts.list();
      const isSame = list?.ts === ts && list.keys.size === contacts.length && contacts.every((k) => list.keys.has(k));
      if (list && ts <= list.ts && !isSame) return refuse("stale", { now_ms: clock.now() });
      if (!isSame) kept.contacts.publish(contacts, ts);
      kept.armFor({ emptiedAtMs: clock.now() });
      return { count: contacts.length, generation: kept.generation };
    });
    return JSON.stringify(answer);
  }

  receipts(json: string): string {
    const { sender, msgIds } = JSON.parse(json) as IdentityCalls["receipts"]["call"];
    const ofMail = this.#kept?.inboxes.receipts(sender, msgIds) ?? new Map<string, Receipt>();
    const ofKnocks = this.#kept?.contacts.receipts(sender) ?? new Map<string, Receipt>();
    const receipts = msgIds.map(
      (msg_id): Receipt => ofMail.get(msg_id) ?? ofKnocks.get(msg_id) ?? { msg_id, state: "unknown" },
    );
    return JSON.stringify({ receipts });
  }

  async forget(json: string): Promise<string> {
    const { key, nonce } = JSON.parse(json) as IdentityCalls["forget"]["call"];
    const isFresh = await this.#commits.run(() => this.#keep(key).nonces.use(nonce));
    if (!isFresh) return JSON.stringify(refuse("replay"));
    for (const poll of this.#polls.all()) this.#polls.end(poll.session);
    await this.#outbound.forget(key);
    await this.#clear();
    // The used nonce is all that stays, until its window has passed: a replay must not wipe a new life.
    await this.#commits.run(() => {
      const kept = this.#keep(key);
      kept.nonces.use(nonce);
      kept.armFor({ nonceExpiresAtMs: nonce.expiresAtMs });
    });
    return JSON.stringify({ forgotten: true });
  }

  /** A poll: answered at once if something waits or the caller would not, else by a parked socket. */
  override async fetch(request: Request): Promise<Response> {
    const call = JSON.parse(new URL(request.url).searchParams.get("call")!) as PollCall;
    const refusal = await this.#commits.run(() => {
      // Without a nonce to remember, a poll of an identity that nobody ever was keeps nothing.
      const kept = call.nonce ? this.#keep(call.key) : this.#kept;
      return kept && beginPoll(kept, call, clock.now());
    });
    if (refusal) return Response.json(refusal, { status: 409 });
    // No await from here on: what was enqueued before this turn is read below, what comes after finds the poll.
    const { session, max = 1 } = call;
    const isList = call.max !== undefined;
    const sinceMs = clock.now();
    const answer = this.#kept && readForPoll(this.#kept, session, max, isList, sinceMs);
    if (answer !== undefined) return new Response(answer);
    if (request.headers.get("upgrade") !== "websocket") return new Response(TIMEOUT_ANSWER);
    return new Response(null, { status: 101, webSocket: this.#polls.park({ session, isList, max, sinceMs }) });
  }

  /** The door says nothing on a parked poll. */
  override webSocketMessage(): void {}

  override webSocketClose(socket: WebSocket, code: number): void {
    // 1005 and 1006 stand for "no code came" and may not be sent.
    socket.close(code === 1005 || code === 1006 ? 1000 : code);
  }

  override webSocketError(): void {}

  override async alarm(): Promise<void> {
    const nowMs = clock.now();
    this.#kept?.setAlarm(nowMs + ALARM_RETRY_MS); // first of all: whatever fails below, the clock goes on
    try {
      await this.#commits.run(() => this.#kept?.expire(nowMs));
      if (this.#kept) await this.#outbound.sendGoodbyes(this.#kept);
      if (this.#kept) await this.#outbound.tellDirectory(this.#kept);
      await this.#rest(clock.now());
    } catch (fault) {
      console.error(JSON.stringify({ event: "alarm_fault", message: String(fault) }));
    }
  }

  #enqueue(key: Key, entry: Entry, nowMs: number): Stored | Refusal {
    const isMail = entry.kind === "message";
    if (isMail && !this.#admits(key, entry.sender)) return refuse("not_paired");
    const kept = this.#keep(key);
    const state = enqueue(kept, entry, nowMs);
    if (isRefusal(state)) return state;
    const answer: Stored = { state, msg_id: entry.msgId };
    if (!isMail) return answer; // a stranger learns nothing of presence
    const presence = presenceOf(kept, this.#connected(), entry.session, this.#settings.limits, nowMs);
    return { ...answer, ...presence, queued: kept.inboxes.count(entry.session ?? "") };
  }

  /** Contacts and the identity's own sessions; under ACCESS=open also anyone, until contacts are published. */
  #admits(key: Key, sender: Key): boolean {
    if (sender === key) return true;
    const contacts = this.#kept?.contacts.list();
    return contacts ? contacts.keys.has(sender) : this.#settings.access === "open";
  }

  /** Answers the poll that waits for an inbox; mail to the bare key goes to who has waited longest. */
  #wake(session: SessionId | undefined): void {
    const poll = session === undefined ? this.#polls.all()[0] : this.#polls.of(session);
    if (!poll || !this.#kept) return;
    claim(this.#kept, poll.session);
    const answer = readForPoll(this.#kept, poll.session, poll.max, poll.isList, clock.now());
    if (answer !== undefined) poll.answer(answer);
  }

  #connected(): Connected {
    return new Map(this.#polls.all().map((poll) => [poll.session, poll.sinceMs]));
  }

  /** The identity's storage, made if this is its first write. */
  #keep(key: Key): IdentityStorage {
    this.#kept ??= IdentityStorage.create(this.ctx.storage, this.#settings, key);
    return this.#kept;
  }

  /** The alarm's last step: set the next one, or delete what is left of a ghost. */
  async #rest(nowMs: number): Promise<void> {
    const kept = this.#kept;
    if (!kept) return;
    const facts = kept.facts();
    const emptiedAtMs = isEmpty(facts) ? (facts.emptiedAtMs ?? nowMs) : undefined;
    const now = { ...facts, emptiedAtMs };
    if (isGhost(now, nowMs, this.#settings.limits) && this.ctx.getWebSockets().length === 0) return this.#clear();
    kept.setEmptied(emptiedAtMs ?? null);
    kept.setAlarm(nextWake(now, this.#settings.limits) ?? null);
  }

  /** Deletes everything, the alarm too. Nothing may be awaited between the decision and this. */
  async #clear(): Promise<void> {
    this.#kept = undefined;
    await this.ctx.storage.deleteAll();
  }
}
