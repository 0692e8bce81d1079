/**
 * Sending: first to disk, then to the buses, in order per recipient route, until a bus has stored it. A thin shell
 * around outbox-policy.ts; it sends nothing itself and reads no clock. Whoever sends asks {@link Outbox.due}, makes the
 * tries, and says of each what came of it by {@link Outbox.settle}.
 *
 * Invariant 3: retrying anything is free. The signed bytes are on disk before the first try, so every try, also that of
 * the next process, is the same bytes under the same id.
 */

import { randomBytes } from "node:crypto";
import { formatRoute, type Key } from "../../protocol/address.ts";
import { DEFAULT_LIMITS, RECEIPTS_MAX } from "../../protocol/constants.ts";
import type { Message } from "../../protocol/message.ts";
import { isRefusal, refuse, type Refusal } from "../../protocol/refusal.ts";
import type { Outgoing } from "../state/outbox-table.ts";
import type { State } from "../state/store.ts";
import { hasWordsOf, signDraft, type Author, type Draft } from "./draft.ts";
import {
  afterSetBack,
  applyReceipt,
  dueAtMs,
  hurry,
  NEW_LIFE,
  passTime,
  settle,
  type Bus,
  type Life,
  type Outcome,
} from "./outbox-policy.ts";

/** One try to make: POST `body` to that bus's /send. */
export interface Due {
  readonly bus: Bus;
  readonly msg_id: string;
  readonly route: string;
  /** The request's body, the same at every try. */
  readonly body: string;
}

/** A message whose life has changed. */
export interface Changed {
  readonly msg_id: string;
  readonly peer: Key;
  readonly life: Life;
}

export interface DueAnswer {
  readonly tries: readonly Due[];
  /** Messages that time, or a lost bus, has settled: expired or refused, and to be told. */
  readonly changed: readonly Changed[];
  /** When to ask again if nothing else happens before; absent: nothing waits for a clock. */
  readonly next_at_ms?: number;
}

/** Which receipts to ask a bus for: POST /receipts `{to, msg_ids}`. */
export interface ReceiptQuestion {
  readonly bus: Bus;
  readonly to: Key;
  readonly msg_ids: readonly string[];
}

export interface OutboxOptions {
  readonly state: State;
  readonly author: Author;
  /** The buses that messages go to now, the preferred one first. */
  readonly buses: () => readonly Bus[];
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
}

/** A try that was handed out and never settled is handed out again after this: longer than any request lasts. */
const IN_FLIGHT_MAX_MS = 60_000;

export class Outbox {
  readonly #options: OutboxOptions;
  /** Tries under way → since when; in memory, for a try does not outlive its process. */
  readonly #inFlight = new Map<string, number>();
  /** Messages are written in the order of the calls, whatever signing takes. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /**
   * Signs a message and writes it to disk; when it returns, the message will be sent. No network is needed.
   * Called again with the same `msg_id` and words it changes nothing and answers what is there.
   * @param forbid asked last, when all else is in order and nothing is kept yet: why it may not be kept
   * @returns a refusal where it has a fault of its own (nothing is kept), or where the id has other words
   */
  enqueue<No = never>(draft: Draft, nowMs: number, forbid?: () => No | undefined): Promise<Outgoing | Refusal | No> {
    const written = this.#last.then(() => this.#write(draft, nowMs, forbid));
    this.#last = written.catch(() => undefined); // its caller hears of it; the next one is not held up
    return written;
  }

  /** The tries to make now: for each route the first pending message, at each bus that is due. */
  due(nowMs: number): DueAnswer {
    const { state, buses: currentBuses } = this.#options;
    const buses = currentBuses();
    const changed = this.#passTime(buses, nowMs);
    const tries: Due[] = [];
    let next: number | undefined;
    for (const outgoing of state.outbox.heads()) {
      const life = afterSetBack(outgoing.life, nowMs);
      if (life !== outgoing.life) state.outbox.setLife(outgoing.msg_id, life);
      for (const bus of buses) {
        const flying = this.#inFlight.get(flight(outgoing.msg_id, bus));
        const atMs =
          flying !== undefined && nowMs >= flying && nowMs < flying + IN_FLIGHT_MAX_MS
            ? flying + IN_FLIGHT_MAX_MS
            : dueAtMs(life, bus);
        if (atMs === undefined) continue;
        if (atMs > nowMs) {
          next = Math.min(next ?? atMs, atMs);
          continue;
        }
        this.#inFlight.set(flight(outgoing.msg_id, bus), nowMs);
        tries.push({ bus, msg_id: outgoing.msg_id, route: outgoing.route, body: bodyOf(outgoing) });
      }
    }
    return { tries, changed, ...(next === undefined ? {} : { next_at_ms: next }) };
  }

  /**
   * What came of a try. Saying it twice, or late, is harmless.
   * @param nowMs our own clock, uncorrected: an offset that the bus's answer gives is kept as the distance to it
   * @returns undefined: there is no such message
   */
  settle(msg_id: string, bus: Bus, outcome: Outcome, nowMs: number): Changed | undefined {
    this.#inFlight.delete(flight(msg_id, bus));
    const { state, buses, random } = this.#options;
    const outgoing = state.outbox.get(msg_id);
    if (!outgoing) return undefined;
    const attempt = { bus, outcome, nowMs, buses: buses(), ts: outgoing.ts, random: random() };
    const { life, offset_ms } = settle(outgoing.life, attempt);
    return state.transaction(() => {
      if (offset_ms !== undefined) state.meta.setClockOffsetMs(bus, offset_ms);
      return this.#keep(outgoing, life);
    });
  }

  /** True if every bus has refused it: nobody has it. */
  isRefused(msg_id: string): boolean {
    return this.#options.state.outbox.get(msg_id)?.life.state === "refused";
  }

  /** A bus is reachable again: what waited for nothing but an answer is due there at once. */
  hurry(bus: Bus, nowMs: number): void {
    this.#changeHeads((life) => hurry(life, bus, nowMs));
  }

  /** Which receipts are worth asking for: of all that a bus of ours holds and may still know. */
  awaiting(nowMs: number): ReceiptQuestion[] {
    const known = new Set(this.#options.buses());
    const groups = new Map<string, { bus: Bus; to: Key; ids: string[] }>();
    for (const { msg_id, peer, life } of this.#stored(nowMs)) {
      for (const bus of life.buses.filter((name) => known.has(name))) {
        const group = groups.get(`${peer} ${bus}`) ?? { bus, to: peer, ids: [] };
        groups.set(`${peer} ${bus}`, group);
        group.ids.push(msg_id);
      }
    }
    return [...groups.values()].flatMap(({ bus, to, ids }) => {
      const questions: ReceiptQuestion[] = [];
      for (let i = 0; i < ids.length; i += RECEIPTS_MAX)
        questions.push({ bus, to, msg_ids: ids.slice(i, i + RECEIPTS_MAX) });
      return questions;
    });
  }

  /** A bus's answer to /receipts. @returns the messages whose life it changed */
  applyReceipts(
    bus: Bus,
    receipts: readonly { msg_id: string; state: string; at_ms?: number }[],
    nowMs: number,
  ): Changed[] {
    const { state } = this.#options;
    return state.transaction(() =>
      receipts.flatMap((receipt) => {
        const outgoing = state.outbox.get(receipt.msg_id);
        const word = outgoing && wordOf(receipt.state, outgoing, nowMs);
        if (!outgoing || !word) return [];
        const life = applyReceipt(outgoing.life, bus, { state: word, at_ms: receipt.at_ms ?? nowMs });
        return life === outgoing.life ? [] : [this.#keep(outgoing, life)];
      }),
    );
  }

  /**
   * A bus came back with another generation: what it held, and no one acked, is to be sent again.
   * @returns the messages whose life it changed; those that another bus still holds stay stored
   */
  forgottenBy(bus: Bus, nowMs: number): Changed[] {
    const { state } = this.#options;
    return state.transaction(() =>
      this.#stored(nowMs).flatMap((outgoing) => {
        if (nowMs - outgoing.ts >= DEFAULT_LIMITS.MESSAGE_RETAIN_MS) return []; // no bus would take it
        const life = applyReceipt(outgoing.life, bus, { state: "forgotten", at_ms: nowMs });
        return life === outgoing.life ? [] : [this.#keep(outgoing, life)];
      }),
    );
  }

  async #write<No>(
    draft: Draft,
    nowMs: number,
    forbid: (() => No | undefined) | undefined,
  ): Promise<Outgoing | Refusal | No> {
    const { state, author } = this.#options;
    const { to, kind = "message", task_id, status, msg_id = randomBytes(16).toString("hex") } = draft;
    const route = formatRoute(to);
    const known = state.outbox.get(msg_id);
    if (known) {
      const isSame = known.route === route && hasWordsOf(JSON.parse(known.payload) as Message, draft);
      return isSame ? known : refuse("msg_id_conflict");
    }
    const message = await signDraft(draft, author, msg_id, draft.ts ?? this.busNowMs(nowMs));
    if (isRefusal(message)) return message;
    const forbidden = forbid?.();
    if (forbidden !== undefined) return forbidden;
    return state.transaction(() => {
      const payload = JSON.stringify(message);
      const signed = { msg_id, peer: to.key, route, kind, payload, ts: message.ts, life: NEW_LIFE };
      const outgoing = state.outbox.add(signed, nowMs);
      if (kind === "message" && to.session !== undefined) state.routes.stick(to.key, to.session, nowMs);
      if (task_id !== undefined) {
        state.tasks.step(to.key, task_id, msg_id, status === undefined ? { by: "us" } : { by: "us", status }, nowMs);
      }
      return outgoing;
    });
  }

  /** Our clock as the preferred bus would have it: what is signed says this time. */
  busNowMs(nowMs: number): number {
    const { state, buses } = this.#options;
    const [bus] = buses();
    return nowMs + (bus === undefined ? 0 : state.meta.clockOffsetMs(bus));
  }

  #passTime(buses: readonly Bus[], nowMs: number): Changed[] {
    const { state } = this.#options;
    const busNowMs = this.busNowMs(nowMs);
    const overdue = state.outbox.pendingBefore(busNowMs - DEFAULT_LIMITS.MESSAGE_RETAIN_MS);
    const candidates = new Map([...overdue, ...state.outbox.heads()].map((each) => [each.msg_id, each]));
    const settled = [...candidates.values()].flatMap((outgoing) => {
      const life = passTime(outgoing.life, busNowMs - outgoing.ts, buses, nowMs);
      return life === outgoing.life ? [] : [{ outgoing, life }];
    });
    if (settled.length === 0) return [];
    return state.transaction(() => settled.map(({ outgoing, life }) => this.#keep(outgoing, life)));
  }

  #changeHeads(change: (life: Life) => Life): void {
    const { state } = this.#options;
    state.transaction(() => {
      for (const outgoing of state.outbox.heads()) this.#keep(outgoing, change(outgoing.life));
    });
  }

  #stored(nowMs: number): (Outgoing & { life: Life & { state: "stored" } })[] {
    const after = nowMs - DEFAULT_LIMITS.DEDUPE_RETAIN_MS; // past it a bus knows nothing of it any more
    const rows = this.#options.state.outbox.stored(after, 0, Number.MAX_SAFE_INTEGER);
    return rows.filter((row): row is Outgoing & { life: Life & { state: "stored" } } => row.life.state === "stored");
  }

  /** Runs in a transaction: a task that was given by a message which never got out was never given. */
  #keep(outgoing: Outgoing, life: Life): Changed {
    const { state } = this.#options;
    if (life !== outgoing.life) state.outbox.setLife(outgoing.msg_id, life);
    const wasStored = outgoing.life.state !== "pending" || outgoing.life.was_stored === true;
    const isSettled = life.state === "refused" || (life.state === "expired" && life.why === "not_stored");
    if (isSettled && !wasStored) state.tasks.withdraw(outgoing.msg_id);
    return { msg_id: outgoing.msg_id, peer: outgoing.peer, life };
  }
}

function flight(msg_id: string, bus: Bus): string {
  return `${msg_id} ${bus}`;
}

function bodyOf({ route, payload }: Outgoing): string {
  return `{"to":${JSON.stringify(route)},"payload":${payload}}`;
}

/** A receipt's state as the policy has it. `unknown` is news only of mail that the bus should still know. */
function wordOf(state: string, { kind, ts }: Outgoing, nowMs: number) {
  if (state === "acked" || state === "stored" || state === "expired" || state === "evicted") return state;
  const shouldKnow = state === "unknown" && kind === "message" && nowMs - ts < DEFAULT_LIMITS.MESSAGE_RETAIN_MS;
  return shouldKnow ? ("forgotten" as const) : undefined;
}
