/**
 * The command line at a bus. It asks by our key and is no session there: it shows on no roster, flickers on nobody's
 * screen, holds no lock that an agent wants, and takes no mail.
 */

import type { BusUrl } from "../bus/bus-url.ts";
import { BusClock } from "../bus/clock.ts";
import { BusHttp } from "../bus/http.ts";
import { isOk, type Outcome } from "../bus/outcome.ts";
import type { Signer } from "../bus/signer.ts";
import { systemTimers } from "../bus/timers.ts";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import { Addressing } from "../session/addressing.ts";
import { RosterBook } from "../session/roster-book.ts";
import { reasonOf } from "../tools/render.ts";
import { readBusUrls, type BusProfile } from "../trust/buses-file.ts";
import type { PeersFile } from "../trust/peers.ts";
import { refuse, type ExitCode, type Terminal } from "./terminal.ts";

export interface Asker {
  readonly url: BusUrl;
  readonly http: BusHttp;
  readonly clock: BusClock;
  readonly rosters: RosterBook;
  readonly addressing: Addressing;
}

/** It remembers no talk, so where several sessions would do, it asks which. */
const NO_ROUTES = { sticky: () => undefined, unstick: () => {} };

/** At the first address of a bus, which is the preferred one. @param bus as it was read and accepted before */
export function askerAt(bus: string, profile: BusProfile, signer: Signer, peers: PeersFile): Asker {
  const read = readBusUrls(bus, profile);
  if ("why" in read) throw new Error("a bus that was accepted is none");
  const [url] = read.urls;
  const clock = new BusClock();
  const http = new BusHttp({ url: url!, signer, clock });
  const rosters = new RosterBook([{ name: url!.origin, http }], systemTimers);
  const options = { me: signer.key, peers, state: { routes: NO_ROUTES }, rosters, limits: DEFAULT_LIMITS };
  return { url: url!, http, clock, rosters, addressing: new Addressing(options) };
}

/** Why the bus did not do it, and what the command ends with. */
export function refuseOutcome(terminal: Terminal, outcome: Outcome<unknown>, url: BusUrl): ExitCode {
  const { words, code, exit } = wordsOfOutcome(outcome, url);
  return refuse(terminal, words, code, exit);
}

export function wordsOfOutcome(
  outcome: Outcome<unknown>,
  { origin }: BusUrl,
): { readonly words: string; readonly code: string; readonly exit: ExitCode } {
  if (isOk(outcome)) throw new Error("a success was to be refused");
  if ("refused" in outcome) {
    return {
      words: `the bus at ${origin} refused: ${reasonOf(outcome.refused)}`.replace(/\.$/, ""),
      code: outcome.refused,
      exit: 1,
    };
  }
  const { unreachable, detail } = outcome;
  const why = detail === undefined ? unreachable : `${unreachable}, ${detail}`;
  return {
    words: `the bus at ${origin} did not answer (${why})`,
    code: "unreachable",
    exit: 4,
  };
}
