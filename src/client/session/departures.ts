/**
 * Sessions of peers that took their leave: told with the next tool result, once.
 *
 * It is no mail: there is nothing to answer, and the words are a program's. What is known is that they said so.
 */

export interface Departure {
  /** Our own name for the peer. */
  readonly petname: string;
  /** It is the session that our next message would have gone to. */
  readonly wasOurs: boolean;
}

/** Peers named at a time. */
const KEPT_MAX = 20;

export class Departures {
  readonly #kept = new Map<string, Departure>();

  note(departure: Departure): void {
    const { petname, wasOurs } = departure;
    const isKnown = this.#kept.get(petname)?.wasOurs ?? false;
    if (this.#kept.size >= KEPT_MAX && !this.#kept.has(petname)) return;
    this.#kept.set(petname, { petname, wasOurs: wasOurs || isKnown });
  }

  /** A line for each peer; the next call has none of it. */
  take(): string[] {
    const lines = [...this.#kept.values()].map(describeDeparture);
    this.#kept.clear();
    return lines;
  }
}

/** Our own names and no word of theirs, as all that a notice says. */
function describeDeparture({ petname, wasOurs }: Departure): string {
  return wasOurs
    ? `${petname}: the session that you talked with says that it has ended; discover shows who else is there`
    : `${petname}: a session that you were not talking with says that it has ended`;
}
