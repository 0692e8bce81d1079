/**
 * One bus of a session: its socket, its HTTP, its clock, and what is published there. Each stands for itself, so a bus
 * that stalls holds up no other.
 *
 * Whom we admit is published before we announce: who sees us come may write at once, and would be refused for good.
 */

import type { Key, SessionId } from "../../protocol/address.ts";
import type { Gap } from "../bus/answers.ts";
import type { BusItem } from "../bus/bus-frame.ts";
import type { BusUrl } from "../bus/bus-url.ts";
import { BusClock } from "../bus/clock.ts";
import { Connection, type ConnectionOptions, type Farewell } from "../bus/connection.ts";
import type { State as ConnectionState } from "../bus/connection-state.ts";
import { BusHttp, isOfLease } from "../bus/http.ts";
import { isOk, type BusRefusal, type Unreachable } from "../bus/outcome.ts";
import type { Outgoing } from "../bus/outgoing.ts";
import { signAnnouncement, signUnregister, signWakeLease, type Introduction } from "../bus/sign-presence.ts";
import type { Signer } from "../bus/signer.ts";
import type { Timers } from "../bus/timers.ts";
import { isNews, termsOf, type LeaseTerms, type ProvenPath } from "../wake/lease.ts";
import type { Bus } from "./outbox-policy.ts";

/** What a session is told of one of its buses. */
export interface LinkEars {
  /** The socket is open. Called before anything is published on it. */
  onWelcome(link: BusLink, generation: string): void;
  /** After the welcome: how many messages come next. */
  onQueued(link: BusLink, queued: number): void;
  /** It is not there, or no more; it is dialled again. */
  onAway(link: BusLink): void;
  onMessages(link: BusLink, items: readonly BusItem[], generation: string): void;
  onGap(link: BusLink, gap: Gap): void;
  /** A fault of our own; it is tried again. */
  onFault(fault: unknown): void;
}

export interface LinkOptions {
  readonly url: BusUrl;
  readonly session: SessionId;
  readonly signer: Signer;
  readonly timers: Timers;
  readonly random: () => number;
  readonly heartbeatMs: number;
  /** What tokens are signed for, where the bus is dialled at another address than its own. */
  readonly audience?: string | undefined;
  /** The bus's clock minus ours, as an earlier process left it. */
  readonly offsetMs: number;
  /** What the session says of itself now. */
  readonly introduce: () => Introduction;
  /** How mail wakes the session, as far as it is known; undefined: nothing is. */
  readonly proven: () => ProvenPath | undefined;
  /** Whom we admit now; undefined while the peers file cannot be read, and then nothing is published. */
  readonly contacts: () => readonly Key[] | undefined;
  readonly ears: LinkEars;
  /** As of the connection. */
  readonly openLine?: ConnectionOptions["openLine"];
}

/** First and longest wait before what a bus refused, or did not hear, is published again. */
const REPUBLISH_MIN_MS = 1_000;
const REPUBLISH_MAX_MS = 60_000;

export class BusLink {
  /** The bus's origin. */
  readonly name: Bus;
  readonly http: BusHttp;
  readonly clock: BusClock;
  readonly #options: LinkOptions;
  #connection: Connection;
  /** The contacts that this life of the bus has of us, as one text; undefined: none yet. */
  #published: string | undefined;
  #generation: string | undefined;
  /** The last announcement on this connection: what it told of wakes. Undefined: none yet. */
  #announced: { readonly wake?: LeaseTerms } | undefined;
  /** False on a connection to a bus that refused to be told of wakes. */
  #takesLeases = true;
  #publishing: Promise<void> | undefined;
  #failures = 0;
  #timer: unknown;
  #refusal: BusRefusal | Unreachable | undefined;
  #isClosed = false;

  constructor(options: LinkOptions) {
    const { url, signer, timers, offsetMs } = options;
    const audience = options.audience === undefined ? {} : { audience: options.audience };
    this.#options = options;
    this.name = url.origin;
    this.clock = new BusClock(() => timers.now());
    if (offsetMs !== 0) this.clock.learn(timers.now() + offsetMs);
    this.http = new BusHttp({ url, signer, clock: this.clock, timers, ...audience });
    this.#connection = this.#connect();
  }

  get state(): ConnectionState {
    return this.#connection.state;
  }

  /** What the bus last refused of us, on a connection that is still open. */
  get refusal(): BusRefusal | Unreachable | undefined {
    return this.#refusal;
  }

  start(): void {
    this.#connection.start();
  }

  /**
   * Dials anew what has stopped by another's word: by a goodbye of another process of this session, or by a refusal
   * whose cause may be gone. What we have closed ourselves stays closed.
   */
  startAgain(): void {
    if (this.#isClosed || this.state.at !== "stopped") return;
    this.#connection = this.#connect();
    this.#connection.start();
  }

  /** As {@link Connection.ack}. */
  ack(through: number, generation: string): void {
    this.#connection.ack(through, generation);
  }

  /** Says anew what the session is; on the next welcome if there is no socket. */
  announce(): void {
    const { introduce, signer, session: id } = this.#options;
    const introduction = introduce();
    const ts = this.clock.nextTs();
    // Strangers see that somebody of this name is here, not where it works and at what.
    const { name, session } = introduction;
    const shown = signAnnouncement(signer, { name, session: { session_id: session.session_id } }, ts);
    const wake = this.#takesLeases ? this.#leaseNow() : undefined;
    const lease = wake && signWakeLease(signer, id, wake);
    const isSaid = this.#connection.announce(signAnnouncement(signer, introduction, ts), shown, lease);
    if (isSaid) this.#announced = { ...(wake && { wake }) };
  }

  /** What is known of wakes may be otherwise now: it is announced if that is news to who looks. */
  wakeChanged(): void {
    if (!this.#announced || !this.#takesLeases || this.#isClosed || this.state.at !== "open") return;
    try {
      if (isNews(this.#announced.wake, this.#leaseNow(), this.clock.now())) this.announce();
    } catch (fault) {
      // Who looks at mail, or hears a heartbeat, has nothing to do with it; the next heartbeat tries again.
      this.#options.ears.onFault(fault);
    }
  }

  #leaseNow(): LeaseTerms | undefined {
    const proven = this.#options.proven();
    return proven && termsOf(proven, this.#options.timers.now(), this.clock.offsetMs);
  }

  /** Publishes the contacts if they are others than this life of the bus has; resolves when tried. */
  publish(): Promise<void> {
    // A change made while a publication is under way is published behind it.
    const next = (this.#publishing ?? Promise.resolve()).then(() => this.#publishOnce());
    const settled = next.finally(() => {
      if (this.#publishing === settled) this.#publishing = undefined;
    });
    this.#publishing = settled;
    return settled;
  }

  /**
   * Unregisters, in one frame with the goodbyes where a socket is open, else over HTTP. Final.
   * @param anew the goodbyes dated by this bus's clock, where those were dated by a clock that was wrong
   */
  async leave(
    goodbyes: readonly Outgoing[],
    anew: (clock: BusClock) => Promise<readonly Outgoing[]>,
  ): Promise<Farewell> {
    this.#isClosed = true;
    this.#options.timers.clearTimeout(this.#timer);
    const { signer, session } = this.#options;
    if (this.state.at === "stopped") return "not_connected"; // evicted or superseded: the session is not ours to end
    const wasHere = this.#generation !== undefined;
    const farewell = await this.#connection.unregister(signUnregister(signer, session, this.clock.nextTs()), goodbyes);
    // Never announced here: there is nothing to unregister.
    if (!wasHere || farewell === "unregistered" || farewell === "unconfirmed") return farewell;
    const stillGood = farewell === "refused" ? await anew(this.clock) : goodbyes;
    const said = await this.http.unregister((ts) => signUnregister(signer, session, ts), stillGood);
    return isOk(said) ? "unregistered" : "unconfirmed";
  }

  /** Ends the connection, not the session. Final. */
  close(): void {
    this.#isClosed = true;
    this.#options.timers.clearTimeout(this.#timer);
    this.#connection.close();
    this.http.close();
  }

  #connect(): Connection {
    const { url, session, signer, timers, random, heartbeatMs, audience, ears, openLine } = this.#options;
    return new Connection({
      url,
      session,
      signer,
      clock: this.clock,
      timers,
      random,
      heartbeatMs,
      ...(audience !== undefined && { audience }),
      ...(openLine && { openLine }),
      ears: {
        onWelcome: ({ generation, queued }) => {
          if (generation !== this.#generation) this.#published = undefined;
          this.#generation = generation;
          this.#takesLeases = true; // it may be a newer one
          this.#refusal = undefined;
          this.#failures = 0;
          ears.onWelcome(this, generation);
          ears.onQueued(this, queued);
          void this.#publishThenAnnounce();
        },
        onMessages: (items, generation) => ears.onMessages(this, items, generation),
        onGap: (gap) => ears.onGap(this, gap),
        onState: ({ at }) => {
          if (at === "open") this.wakeChanged(); // with each heartbeat: a proof grows old by itself
          else this.#announced = undefined;
          if (at === "waiting" || at === "stopped") ears.onAway(this);
        },
        onRefused: (why) => this.#hearRefusal(why),
      },
    });
  }

  async #publishThenAnnounce(): Promise<void> {
    try {
      await this.publish();
      if (!this.#isClosed && this.state.at === "open") this.announce();
    } catch (fault) {
      this.#options.ears.onFault(fault);
      this.#again();
    }
  }

  async #publishOnce(): Promise<void> {
    const contacts = this.#options.contacts();
    // Without a socket the welcome comes back to it.
    if (this.#isClosed || this.state.at !== "open" || contacts === undefined) return;
    const generation = this.#generation;
    const text = [...contacts].sort().join(" ");
    if (text === this.#published) return;
    const outcome = await this.http.contacts(contacts);
    if (isOk(outcome)) {
      if (generation === this.#generation) this.#published = text;
      this.#failures = 0;
    } else {
      // Another session of ours published a moment later: nothing is wrong, and ours is said again.
      const isOvertaken = "refused" in outcome && outcome.refused === "stale" && this.#failures === 0;
      if (!isOvertaken) this.#refusal = outcome;
      this.#again(outcome.retryAfterMs);
    }
  }

  #hearRefusal(why: BusRefusal | Unreachable): void {
    if (this.state.at !== "open") return; // of a handshake: its state says it
    if (this.#announced?.wake && "refused" in why && isOfLease(why)) {
      // The bus is older than what it was told, or reads it otherwise: it is not left without the rest.
      this.#takesLeases = false;
      void this.#publishThenAnnounce();
      return;
    }
    this.#refusal = why;
    // The bus does not say which frame it was. To announce again is harmless, and the clock has been learned.
    this.#again(why.retryAfterMs);
  }

  #again(atLeastMs = 0): void {
    if (this.#isClosed) return;
    const { timers, random } = this.#options;
    const delayMs = Math.min(REPUBLISH_MIN_MS * 2 ** this.#failures++, REPUBLISH_MAX_MS);
    timers.clearTimeout(this.#timer);
    const act = () => {
      this.#refusal = undefined; // what is still wrong is refused again
      void this.#publishThenAnnounce();
    };
    this.#timer = timers.setTimeout(act, Math.max(atLeastMs, delayMs * (1 + random()) * 0.5));
  }
}
