/**
 * The bus over HTTP: one method a route, each request signed for itself.
 *
 * Nothing is thrown for what a bus or a network does. A refusal about time teaches the clock, and is tried once more.
 */

import { formatRoute, type Key, type SessionId } from "../../protocol/address.ts";
import type { Announcement, Unregister } from "../../protocol/announcement.ts";
import { AUTH_SCHEME, BATCH_MAX, POLL_MAX_MS } from "../../protocol/constants.ts";
import { parseJsonObject } from "../../protocol/json.ts";
import { isRefusal } from "../../protocol/refusal.ts";
import type { WakeLease } from "../../protocol/wake-lease.ts";
import * as answers from "./answers.ts";
import type { BusUrl } from "./bus-url.ts";
import type { BusClock } from "./clock.ts";
import { Exchanger, type Heard, type Silence } from "./exchange.ts";
import { isOk, readRefusal, type BusRefusal, type Outcome, type Unreachable } from "./outcome.ts";
import { toDelivery, type Outgoing } from "./outgoing.ts";
import { readRoster, type RosterView } from "./roster-view.ts";
import { signRequest } from "./sign-request.ts";
import type { Signer } from "./signer.ts";
import { systemTimers, type Timers } from "./timers.ts";

/** Longest wait for a whole answer, beside what a poll is held. */
export const ANSWER_MAX_MS = 10_000;

/** An announcement, and what is shown of it to those who are no contacts; without `public` the session is hidden from them. */
export interface Announced {
  readonly announcement: Announcement;
  readonly public?: Announcement;
  /** What wakes the session, for contacts; left away at a bus that does not know it yet. */
  readonly wake?: WakeLease;
}

export interface BusHttpOptions {
  readonly url: BusUrl;
  readonly signer: Signer;
  readonly clock: BusClock;
  /** What tokens are signed for, where the bus is dialled at another address than its own. Default: the url's origin. */
  readonly audience?: string;
  /** Default: {@link ANSWER_MAX_MS}. */
  readonly timeoutMs?: number;
  readonly timers?: Timers;
}

/** One request before it is signed; a body is made anew for each try, since it may hold a `ts`. */
interface Call {
  readonly method: "GET" | "POST" | "PUT";
  readonly target: string;
  readonly body?: () => object;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  readonly isUnsigned?: true;
  /** A second try after an unheard first one would be refused for it, or do it twice. */
  readonly isOnce?: true;
}

export class BusHttp {
  readonly #exchanger: Exchanger;
  readonly #signer: Signer;
  readonly #clock: BusClock;
  readonly #audience: string;
  readonly #timeoutMs: number;
  readonly #timers: Timers;

  constructor(options: BusHttpOptions) {
    const { url, signer, clock, audience = url.origin, timeoutMs = ANSWER_MAX_MS, timers = systemTimers } = options;
    this.#exchanger = new Exchanger(url, timers);
    this.#signer = signer;
    this.#clock = clock;
    this.#audience = audience;
    this.#timeoutMs = timeoutMs;
    this.#timers = timers;
  }

  /** Gives up what is under way, as `aborted`. Final. */
  close(): void {
    this.#exchanger.close();
  }

  /** @param sign makes the announcement for a `ts`; asked again if the first one was out of the bus's time */
  async announce(sign: (ts: number) => Announced): Promise<Outcome<answers.Life>> {
    let hasLease = false;
    const body = (isPlain: boolean) => {
      const { announcement, public: shown, wake } = sign(this.#clock.nextTs());
      hasLease = wake !== undefined && !isPlain;
      return { ...announcement, ...(shown && { public: shown }), ...(hasLease && { wake }) };
    };
    const ask = (isPlain: boolean) =>
      this.#ask({ method: "POST", target: "/announce", body: () => body(isPlain) }, answers.readLife);
    const said = await ask(false);
    // A bus of before there were leases takes the rest.
    return hasLease && "refused" in said && isOfLease(said) ? ask(true) : said;
  }

  /**
   * Closes a session for good. @param sign as of {@link announce}
   * @param goodbyes signed messages for peers, at most BATCH_MAX, which the bus sends on
   */
  unregister(sign: (ts: number) => Unregister, goodbyes: readonly Outgoing[] = []): Promise<Outcome<answers.Life>> {
    const body = () => ({ ...sign(this.#clock.nextTs()), goodbyes: goodbyes.map(toDelivery) });
    return this.#ask({ method: "POST", target: "/unregister", body }, answers.readLife);
  }

  /** All sessions of an identity that it shows us. */
  rosterOf(identity: Key): Promise<Outcome<RosterView>> {
    return this.#ask({ method: "GET", target: `/roster${toQuery({ identity })}` }, (body) =>
      readRoster(body, identity),
    );
  }

  /** A page of the sessions that are shown to all. @param page `limit` 1 to PAGE_MAX identities, default PAGE_DEFAULT */
  rosterPage(page: { limit?: number; cursor?: Key } = {}): Promise<Outcome<RosterView>> {
    return this.#ask({ method: "GET", target: `/roster${toQuery(page)}` }, (body) => readRoster(body));
  }

  /** Stores one message; the same one again is a `duplicate`, whatever became of it. */
  send(message: Outgoing): Promise<Outcome<answers.Stored>> {
    const body = () => toDelivery(message);
    return this.#ask({ method: "POST", target: "/send", body }, answers.readStored(message.payload.msg_id));
  }

  /** Stores up to BATCH_MAX messages, each with a result of its own; refused whole, with `index`, where one is malformed. */
  sendBatch(messages: readonly Outgoing[]): Promise<Outcome<(answers.Stored | BusRefusal | Unreachable)[]>> {
    const body = () => ({ messages: messages.map(toDelivery) });
    const ids = messages.map(({ payload }) => payload.msg_id);
    return this.#ask({ method: "POST", target: "/send", body }, answers.readBatch(ids));
  }

  /** Polls a session's inbox. @param options `timeoutMs` held at most, 0 to POLL_MAX_MS; `max` 1 to BATCH_MAX */
  recv(
    session: SessionId,
    options: { timeoutMs?: number; max?: number; signal?: AbortSignal } = {},
  ): Promise<Outcome<answers.Mail>> {
    const { timeoutMs = POLL_MAX_MS, max = BATCH_MAX, signal } = options;
    const target = `/recv${toQuery({ me: this.#me(session), timeout_ms: timeoutMs, max })}`;
    const call: Call = { method: "GET", target, timeoutMs: timeoutMs + this.#timeoutMs, signal };
    return this.#ask(call, answers.readMail(max));
  }

  /** Acks by the handles of {@link recv}, at most BATCH_MAX; what is acked is ours alone to keep. */
  ack(session: SessionId, acks: readonly string[]): Promise<Outcome<{ removed: number }>> {
    const body = () => ({ me: this.#me(session), acks });
    return this.#ask({ method: "POST", target: "/ack", body }, answers.readRemoved);
  }

  /** Publishes whom this identity admits, in place of what it published before; at most CONTACTS_MAX. */
  contacts(contacts: readonly Key[]): Promise<Outcome<{ count: number; generation: string }>> {
    const body = () => ({ contacts, ts: this.#clock.nextTs() });
    return this.#ask({ method: "PUT", target: "/contacts", body }, answers.readContacts);
  }

  /** What became of our own messages to a key, in the order asked; at most RECEIPTS_MAX. */
  receipts(to: Key, msgIds: readonly string[]): Promise<Outcome<answers.Receipt[]>> {
    const body = () => ({ to, msg_ids: msgIds });
    return this.#ask({ method: "POST", target: "/receipts", body }, answers.readReceipts(msgIds));
  }

  /** Mints an invite; for admin keys. @param ttlMs up to INVITE_MAX_MS */
  invite(ttlMs: number): Promise<Outcome<answers.Invite>> {
    const body = () => ({ ttl_ms: ttlMs });
    return this.#ask({ method: "POST", target: "/invite", body, isOnce: true }, answers.readInvite);
  }

  /** Redeems an invite: our key is admitted. */
  join(token: string): Promise<Outcome<{ admitted: true }>> {
    const body = () => ({ token });
    return this.#ask({ method: "POST", target: "/join", body, isOnce: true }, answers.readJoined);
  }

  /** Removes every trace of our key. */
  forget(): Promise<Outcome<{ forgotten: true }>> {
    return this.#ask({ method: "POST", target: "/forget", body: () => ({}), isOnce: true }, answers.readForgotten);
  }

  /** Whether a bus answers at all; says nothing of us, and is not signed. */
  health(): Promise<Outcome<{ ok: true }>> {
    return this.#ask({ method: "GET", target: "/health", isUnsigned: true }, answers.readHealth);
  }

  #me(session: SessionId): string {
    return formatRoute({ key: this.#signer.key, session });
  }

  async #ask<T>(call: Call, read: answers.Reader<T>): Promise<Outcome<T>> {
    const askedAtMs = this.#timers.now();
    const first = await this.#try(call, read);
    if (isOk(first) || "unreachable" in first) return first;
    if (first.now_ms === undefined || !this.#clock.learn(first.now_ms, askedAtMs)) return first;
    const isMended = first.refused === "clock_skew" || (first.refused === "ts_out_of_range" && isTimed(call));
    return isMended ? this.#try(call, read) : first;
  }

  async #try<T>(call: Call, read: answers.Reader<T>): Promise<Outcome<T>> {
    let heard = await this.#exchange(call);
    if ("unreachable" in heard && heard.isStale && !call.isOnce) heard = await this.#exchange(call);
    if ("unreachable" in heard) {
      const { isStale: _isStale, ...unreachable } = heard;
      return unreachable;
    }
    return understand(heard, read);
  }

  #exchange({ method, target, body, timeoutMs = this.#timeoutMs, signal, isUnsigned }: Call): Promise<Heard | Silence> {
    const bytes = body && new TextEncoder().encode(JSON.stringify(body()));
    const headers: Record<string, string> = { accept: "application/json" };
    if (bytes) headers["content-type"] = "application/json";
    const content = bytes ? { body: bytes } : {};
    if (!isUnsigned) {
      const signed = { method, target, ...content, audience: this.#audience, ts: this.#clock.now() };
      headers["authorization"] = `${AUTH_SCHEME} ${signRequest(this.#signer, signed)}`;
    }
    return this.#exchanger.run({ method, target, headers, timeoutMs, signal, ...content });
  }
}

/** What an announcement may be refused for because of its lease alone. */
export function isOfLease({ refused }: BusRefusal): boolean {
  return refused === "unknown_field" || refused === "bad_field" || refused === "bad_payload_signature";
}

/** Only a body that is signed by its own `ts` comes out otherwise the second time. */
function isTimed({ target }: Call): boolean {
  return target === "/announce" || target === "/unregister" || target === "/contacts";
}

/** What an answer means. Only our own kind of "no", with a status for it, is a refusal. */
async function understand<T>({ status, bytes, retryAfterMs }: Heard, read: answers.Reader<T>): Promise<Outcome<T>> {
  const later = retryAfterMs === undefined ? {} : { retryAfterMs };
  if (status >= 500) return { unreachable: "fault", ...later };
  if (status >= 300 && status < 400) return { unreachable: "redirected" };
  const parsed = parseJsonObject(bytes);
  if (isRefusal(parsed)) return { unreachable: "bad_answer", ...later };
  if (status >= 400) {
    const refusal = readRefusal(parsed.object);
    return refusal ? { ...later, ...refusal } : { unreachable: "bad_answer", ...later };
  }
  const ok = status >= 200 ? await read(parsed.object) : undefined;
  return ok === undefined ? { unreachable: "bad_answer" } : { ok };
}

function toQuery(parameters: Readonly<Record<string, string | number | undefined>>): string {
  const parts = Object.entries(parameters)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(value!)}`);
  return parts.length === 0 ? "" : `?${parts.join("&")}`;
}
