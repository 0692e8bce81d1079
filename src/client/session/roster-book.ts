/**
 * What is known of who is there: each bus's last roster of an identity, with its age, and all buses' merged into one.
 *
 * A failed look is no proof of absence: the last view is kept and grows older. A bus that does not answer in time is
 * not waited for.
 */

import type { Key, SessionId } from "../../protocol/address.ts";
import { PAGE_MAX } from "../../protocol/constants.ts";
import { isOk, type BusRefusal, type Outcome, type Unreachable } from "../bus/outcome.ts";
import type { Departure, RosterSession, RosterView } from "../bus/roster-view.ts";
import type { Timers } from "../bus/timers.ts";
import type { BusLink } from "./bus-link.ts";
import { within } from "./within.ts";

/** An identity's sessions, their ages as of now. */
export interface IdentityView {
  readonly sessions: readonly RosterSession[];
  /** Sessions that said goodbye and have not come back. */
  readonly gone: readonly SessionId[];
  /** Since the youngest part of it was read. */
  readonly age_ms: number;
  /** No bus could be asked now: why. */
  readonly stale_because?: string;
}

/** Who shows themselves to all. */
export interface Everyone {
  readonly sessions: readonly RosterSession[];
  /** There may be more: a bus has further pages, or could not be read to the end in time. */
  readonly isPartial: boolean;
  /** No bus could be asked now: why. */
  readonly stale_because?: string;
}

interface Kept {
  readonly view: Pick<RosterView, "roster" | "gone">;
  readonly at_ms: number;
}

/** Longest wait for a roster: a person waits for the tool that asks. */
const LOOK_MAX_MS = 2_500;
/** How long the other buses have, once one has answered: one that stalls holds up nothing. */
const OTHERS_MAX_MS = 300;
/** Pages of strangers that a look reads: two hundred identities, each asked by the bus, are more than anyone looks through. */
export const PAGES_SHOWN = 1;
/** Pages that are gone through for a key of which somebody gave the beginning. */
export const PAGES_SEARCHED = 5;
/** Identities whose views are kept. */
const KEPT_MAX = 2_048;

/** A bus that can be asked, with or without a session there. */
export type RosterSource = Pick<BusLink, "name" | "http">;

export class RosterBook {
  readonly #links: readonly RosterSource[];
  readonly #timers: Timers;
  readonly #kept = new Map<string, Kept>();
  /** Identities of which something is known to have changed since. */
  readonly #doubted = new Set<Key>();

  constructor(links: readonly RosterSource[], timers: Timers) {
    this.#links = links;
    this.#timers = timers;
  }

  /**
   * The roster of an identity.
   * @param maxAgeMs a view no older than this is taken as it is
   * @returns `unseen`: no bus could ever be asked, and why; else the view, which `stale_because` marks as an old one
   */
  async of(key: Key, maxAgeMs = 0): Promise<IdentityView | { readonly unseen: string }> {
    if (this.#isAhead(key)) this.#doubted.add(key);
    const known = this.#merged(key);
    if (known && known.age_ms < maxAgeMs && !this.#doubted.has(key)) return known;
    const outcomes = await this.#ofAll((link) =>
      link.http.rosterOf(key).then((outcome) => {
        if (isOk(outcome)) this.#keep(`${link.name} ${key}`, outcome.ok); // also one that comes late
        return outcome;
      }),
    );
    const failure = failureOf(outcomes);
    if (failure === undefined) this.#doubted.delete(key);
    const view = this.#merged(key);
    if (!view) return { unseen: failure ?? "no_bus" };
    return failure === undefined ? view : { ...view, stale_because: failure };
  }

  /** Sessions that show themselves to all, of the first identities on each bus. @param pagesMax of each bus, of PAGE_MAX identities */
  async everyone(pagesMax: number): Promise<Everyone> {
    const views: RosterView[] = [];
    const outcomes = await this.#ofAll((link) => this.#pages(link, pagesMax, views));
    const failure = failureOf(outcomes);
    const isPartial = outcomes.some((outcome) => !isOk(outcome) || outcome.ok.cursor !== undefined);
    const seen = { sessions: mergeSessions(views), isPartial };
    return failure === undefined ? seen : { ...seen, stale_because: failure };
  }

  /** Something is known to have changed: the next look is a new one. */
  forget(key: Key): void {
    this.#doubted.add(key);
  }

  /** Adds the pages to `views` as they come. */
  async #pages(link: RosterSource, pagesMax: number, views: RosterView[]): Promise<Outcome<RosterView>> {
    let cursor: Key | undefined;
    for (let page = 1; ; page++) {
      const outcome = await link.http.rosterPage({ limit: PAGE_MAX, ...(cursor && { cursor }) });
      if (!isOk(outcome)) return outcome;
      views.push(outcome.ok);
      cursor = outcome.ok.cursor;
      if (cursor === undefined || page >= pagesMax) return outcome;
    }
  }

  /** Asks all buses: no longer than a person waits, and little longer than the first of them takes. */
  async #ofAll(ask: (link: RosterSource) => Promise<Outcome<RosterView>>): Promise<Outcome<RosterView>[]> {
    const outcomes = this.#links.map((): Outcome<RosterView> => ({ unreachable: "timeout" }));
    const looks = this.#links.map(async (link, index) => {
      const outcome = (outcomes[index] = await ask(link));
      if (!isOk(outcome)) throw new Error("not seen");
    });
    const all = Promise.allSettled(looks);
    const first = Promise.any(looks).catch(() => all);
    await within<unknown>(first, LOOK_MAX_MS, undefined, this.#timers);
    await within<unknown>(all, OTHERS_MAX_MS, undefined, this.#timers);
    return outcomes.map((outcome) => outcome);
  }

  #keep(name: string, view: RosterView): void {
    if (this.#kept.size >= KEPT_MAX) this.#kept.clear();
    this.#kept.set(name, { view, at_ms: this.#timers.now() });
  }

  #keptOf(key: Key): Kept[] {
    return this.#links.flatMap((link) => this.#kept.get(`${link.name} ${key}`) ?? []);
  }

  /** Read later than it is now: the clock was set back, and nobody knows how old it is. */
  #isAhead(key: Key): boolean {
    const nowMs = this.#timers.now();
    return this.#keptOf(key).some(({ at_ms }) => at_ms > nowMs);
  }

  #merged(key: Key): IdentityView | undefined {
    const nowMs = this.#timers.now();
    const kept = this.#keptOf(key);
    if (kept.length === 0) return undefined;
    const aged = kept.map(({ view, at_ms }) => {
      const passedMs = Math.max(0, nowMs - at_ms);
      return { ...view, roster: view.roster.map((each) => agedBy(each, passedMs)) };
    });
    const sessions = mergeSessions(aged);
    const here = new Set(sessions.map(({ session }) => session.session_id));
    const departed = aged.flatMap(({ gone }) => gone.map(({ session_id }) => session_id));
    const age_ms = Math.max(0, nowMs - Math.max(...kept.map(({ at_ms }) => at_ms)));
    return { sessions, gone: [...new Set(departed)].filter((session) => !here.has(session)), age_ms };
  }
}

function agedBy({ wake, ...session }: RosterSession, passedMs: number): RosterSession {
  const aged = { ...session, age_ms: session.age_ms + passedMs };
  if (!wake || wake.left_ms <= passedMs) return aged;
  const { path, proven_age_ms, left_ms } = wake;
  return { ...aged, wake: { path, proven_age_ms: proven_age_ms + passedMs, left_ms: left_ms - passedMs } };
}

/** Each session once: its newest announcement, its freshest sign of life, and none that said goodbye since, at any bus. */
function mergeSessions(views: readonly Pick<RosterView, "roster" | "gone">[]): RosterSession[] {
  const idOf = (key: Key, session: SessionId) => `${key}#${session}`;
  const departures = new Map<string, Departure>();
  for (const departure of views.flatMap(({ gone }) => gone)) {
    const id = idOf(departure.pubkey, departure.session_id);
    if ((departures.get(id)?.ts ?? -1) < departure.ts) departures.set(id, departure);
  }
  const sessions = new Map<string, RosterSession>();
  for (const each of views.flatMap(({ roster }) => roster)) {
    const id = idOf(each.pubkey, each.session.session_id);
    if (each.ts <= (departures.get(id)?.ts ?? -1)) continue;
    const other = sessions.get(id);
    const newest = other && other.ts > each.ts ? other : each;
    const age_ms = Math.min(each.age_ms, other?.age_ms ?? each.age_ms);
    sessions.set(id, { ...newest, age_ms, connected: each.connected || (other?.connected ?? false) });
  }
  return [...sessions.values()];
}

/** Why nothing could be seen; undefined if at least one bus answered. */
function failureOf(outcomes: readonly Outcome<unknown>[]): string | undefined {
  if (outcomes.some(isOk)) return undefined;
  const [first] = outcomes as (BusRefusal | Unreachable)[];
  return first && ("refused" in first ? first.refused : first.unreachable);
}
