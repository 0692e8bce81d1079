/**
 * The outbox at work: every try that is due is made, at each bus for itself; what came of it is settled; and now and
 * then a bus is asked what became of what it holds.
 */

import type { Key } from "../../protocol/address.ts";
import type { Message } from "../../protocol/message.ts";
import { parseRoute } from "../../protocol/address.ts";
import { isRefusal } from "../../protocol/refusal.ts";
import type { Stored } from "../bus/answers.ts";
import { isOk, type Outcome as Heard } from "../bus/outcome.ts";
import type { Timers } from "../bus/timers.ts";
import type { BusLink } from "./bus-link.ts";
import type { Changed, Due, Outbox, ReceiptQuestion } from "./outbox.ts";
import type { Bus, Outcome } from "./outbox-policy.ts";
import { within } from "./within.ts";

export interface SenderOptions {
  readonly outbox: Outbox;
  readonly links: readonly BusLink[];
  readonly timers: Timers;
  /** True if a key is one of our peers. */
  readonly isPeer: (key: Key) => boolean;
  /** When a bus was last found to have lost what it kept; undefined: never. */
  readonly newLifeAtMs: (bus: Bus) => number | undefined;
  /** A message's life has changed. */
  readonly onChanged: (changed: Changed) => void;
  /** A fault of our own disk: nothing was settled, and it is tried again. */
  readonly onFault: (fault: unknown) => void;
}

/** First and longest wait before receipts are asked for: most mail is acked within seconds, the rest within days. */
const RECEIPTS_MIN_MS = 10_000;
const RECEIPTS_MAX_MS = 30 * 60_000;
/** Longest wait for receipts that somebody waits for. */
const RECEIPTS_WAIT_MS = 2_500;
/**
 * A bus that lost its storage knows nobody's contacts until each has come back, and refuses in the meantime what it
 * took before. So long, "not paired" of a peer of ours is no answer.
 */
export const NEW_LIFE_PATIENCE_MS = 15 * 60_000;
/** After a fault of our own disk. */
const FAULT_WAIT_MS = 5_000;

export class Sender {
  readonly #options: SenderOptions;
  readonly #links: ReadonlyMap<Bus, BusLink>;
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Messages whose tries are under way, and how many. */
  readonly #flying = new Map<string, number>();
  #timer: unknown;
  #receiptsTimer: unknown;
  #receiptsWaitMs = RECEIPTS_MIN_MS;
  #isClosed = false;

  constructor(options: SenderOptions) {
    this.#options = options;
    this.#links = new Map(options.links.map((link) => [link.name, link]));
  }

  /** Makes what is due now. Call it whenever something was written or has changed. */
  kick(): void {
    if (this.#isClosed) return;
    const { outbox, timers, onChanged, onFault } = this.#options;
    try {
      const { tries, changed, next_at_ms } = outbox.due(timers.now());
      for (const each of changed) onChanged(each);
      for (const due of tries) void this.#try(due);
      this.#arm(next_at_ms);
    } catch (fault) {
      onFault(fault);
      this.#arm(timers.now() + FAULT_WAIT_MS);
    }
  }

  /** A bus is there (again). @param isNewLife it has forgotten what it held */
  welcome(bus: Bus, isNewLife: boolean): void {
    const { outbox, timers, onChanged } = this.#options;
    const nowMs = timers.now();
    if (isNewLife) {
      for (const changed of outbox.forgottenBy(bus, nowMs)) onChanged(changed);
    }
    outbox.hurry(bus, nowMs);
    this.kick();
    this.#askLater(true);
  }

  /** Until a bus stored this message, or all that it is tried at have answered, or the time is over. */
  async tried(msg_id: string, maxMs: number): Promise<void> {
    // None under way: it waits behind others for a bus that is away, and nobody knows how long.
    if (this.#flying.size === 0) return;
    const answered = new Promise<void>((resolve) => {
      const watchers = this.#waiting.get(msg_id) ?? new Set();
      this.#waiting.set(msg_id, watchers.add(resolve));
    });
    await within(answered, maxMs, undefined, this.#options.timers);
    this.#waiting.delete(msg_id);
  }

  /** Asks the buses that hold a message what became of it. */
  async refresh(msg_id: string, to: Key, buses: readonly Bus[]): Promise<void> {
    const asked = buses.map((bus) => this.#ask({ bus, to, msg_ids: [msg_id] }));
    await within(
      Promise.all(asked).then(() => undefined),
      RECEIPTS_WAIT_MS,
      undefined,
      this.#options.timers,
    );
  }

  /** Nothing is sent or settled any more; what is under way is found in the outbox by the next process. */
  close(): void {
    this.#isClosed = true;
    const { timers } = this.#options;
    timers.clearTimeout(this.#timer);
    timers.clearTimeout(this.#receiptsTimer);
    for (const msg_id of this.#waiting.keys()) this.#tell(msg_id);
  }

  #arm(atMs: number | undefined): void {
    const { timers } = this.#options;
    timers.clearTimeout(this.#timer);
    if (atMs !== undefined) this.#timer = timers.setTimeout(() => this.kick(), Math.max(0, atMs - timers.now()));
  }

  async #try({ bus, msg_id, body }: Due): Promise<void> {
    const { outbox, timers, onChanged, onFault } = this.#options;
    const { to: text, payload } = JSON.parse(body) as { to: string; payload: Message };
    const to = parseRoute(text);
    const link = this.#links.get(bus);
    if (isRefusal(to) || !link) return; // neither is ever written
    this.#flying.set(msg_id, (this.#flying.get(msg_id) ?? 0) + 1);
    const heard = await link.http.send({ to, payload });
    const others = this.#flying.get(msg_id)! - 1;
    if (others > 0) this.#flying.set(msg_id, others);
    else this.#flying.delete(msg_id);
    if (this.#isClosed) return;
    try {
      const changed = outbox.settle(msg_id, bus, this.#outcomeOf(heard, bus, to.key), timers.now());
      if (changed) onChanged(changed);
      if (isOk(heard)) this.#askLater(true);
      if (others === 0 || changed?.life.state !== "pending") this.#tell(msg_id);
    } catch (fault) {
      onFault(fault);
    }
    this.kick();
  }

  #outcomeOf(heard: Heard<Stored>, bus: Bus, peer: Key): Outcome {
    if (isOk(heard)) {
      const { presence, age_ms } = heard.ok;
      return { outcome: "stored", ...(presence && { presence }), ...(age_ms !== undefined && { age_ms }) };
    }
    if ("unreachable" in heard) return { outcome: "silence" };
    const { refused, now_ms, retryAfterMs } = heard;
    const mayHaveLost = this.#isYoung(bus) || this.#isUnmet(bus);
    if (refused === "not_paired" && mayHaveLost && this.#options.isPeer(peer)) return { outcome: "silence" };
    const later = retryAfterMs === undefined ? {} : { retry_after_s: Math.ceil(retryAfterMs / 1_000) };
    return { outcome: "refused", refusal: { refused, ...(now_ms !== undefined && { now_ms }), ...later } };
  }

  #isYoung(bus: Bus): boolean {
    const { newLifeAtMs, timers } = this.#options;
    const sinceMs = newLifeAtMs(bus);
    // Of a clock that was set back by more than that nobody knows how long it was.
    return sinceMs !== undefined && Math.abs(timers.now() - sinceMs) < NEW_LIFE_PATIENCE_MS;
  }

  /** Between two welcomes: what answers may be a new life of the bus, which only the next welcome will tell. */
  #isUnmet(bus: Bus): boolean {
    const at = this.#links.get(bus)?.state.at;
    return at === "dialing" || at === "waiting";
  }

  #tell(msg_id: string): void {
    for (const resolve of this.#waiting.get(msg_id) ?? []) resolve();
  }

  /** @param isNews something was stored or is there again, so that an answer is near */
  #askLater(isNews: boolean): void {
    const { timers } = this.#options;
    if (this.#isClosed || (isNews && this.#receiptsWaitMs === RECEIPTS_MIN_MS && this.#receiptsTimer !== undefined))
      return;
    this.#receiptsWaitMs = isNews ? RECEIPTS_MIN_MS : Math.min(this.#receiptsWaitMs * 2, RECEIPTS_MAX_MS);
    timers.clearTimeout(this.#receiptsTimer);
    this.#receiptsTimer = timers.setTimeout(() => void this.#askAll(), this.#receiptsWaitMs);
  }

  async #askAll(): Promise<void> {
    this.#receiptsTimer = undefined;
    const { outbox, timers, onFault } = this.#options;
    try {
      const open = outbox.awaiting(timers.now()).filter(({ bus }) => this.#links.get(bus)?.state.at === "open");
      await Promise.all(open.map((question) => this.#ask(question)));
      // Nothing waits at a bus that is there: the next store or welcome begins anew.
      if (open.length > 0 && this.#receiptsTimer === undefined) this.#askLater(false);
    } catch (fault) {
      onFault(fault);
    }
  }

  async #ask({ bus, to, msg_ids }: ReceiptQuestion): Promise<void> {
    const answer = await this.#links.get(bus)?.http.receipts(to, msg_ids);
    if (this.#isClosed || !answer || !isOk(answer)) return;
    const { outbox, timers, onChanged } = this.#options;
    const receipts = answer.ok.map(({ msg_id, state, at_ms }) => ({
      msg_id,
      state,
      ...(at_ms !== undefined && { at_ms }),
    }));
    for (const changed of outbox.applyReceipts(bus, receipts, timers.now())) onChanged(changed);
    this.kick(); // what a bus forgot is pending again
  }
}
