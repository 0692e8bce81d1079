/**
 * Who is meant by a name, and which of their sessions a message goes to: the rosters and the memory that
 * protocol/routing decides on.
 */

import { fingerprint, parseSessionId, type Key, type Route, type SessionId } from "../../protocol/address.ts";
import type { Limits } from "../../protocol/constants.ts";
import { classifyPresence } from "../../protocol/presence.ts";
import { chooseRoute, type PeerSession } from "../../protocol/routing.ts";
import type { State } from "../state/store.ts";
import { chooseKey } from "../trust/key-choice.ts";
import type { PeerBook } from "../trust/peer-book.ts";
import { unknownPetname } from "../trust/peer-book.ts";
import type { PeersFile } from "../trust/peers.ts";
import { SELF } from "../trust/petname.ts";
import type { PeerRef, RouteTaken, ToolRefusal } from "./agent.ts";
import type { IdentityView, RosterBook } from "./roster-book.ts";
import { ofChoice, ofPeers, ofRouting } from "./tool-refusal.ts";

/** A message follows another within seconds; what the roster said then still holds. */
const ROSTER_FRESH_MS = 3_000;

export interface AddressingOptions {
  readonly me: Key;
  /** Our own; absent where it is no session that asks. */
  readonly session?: SessionId;
  readonly peers: PeersFile;
  readonly state: { readonly routes: Pick<State["routes"], "sticky" | "unstick"> };
  readonly rosters: RosterBook;
  readonly limits: Pick<Limits, "LIVE_MS" | "AWAY_RETAIN_MS">;
}

/** What a sender said of the session, and what speaks for one. */
export interface Wish {
  readonly asked?: string | undefined;
  /** The session that wrote what is answered; it comes before the one remembered. */
  readonly writer?: SessionId | undefined;
}

/** Where a message goes, and what to say of it. */
export interface Routed {
  readonly to: Route;
  readonly taken: RouteTaken;
}

type Seen = IdentityView | { readonly unseen: string };

export class Addressing {
  readonly #options: AddressingOptions;

  constructor(options: AddressingOptions) {
    this.#options = options;
  }

  /** A peer by petname, key, or fingerprint; `self` for ourselves. */
  find(text: string): PeerRef | ToolRefusal {
    const { me, peers } = this.#options;
    if (text === SELF || text === me) return this.ref(me);
    const book = peers.current();
    if ("refused" in book) return ofPeers(book);
    const named = book.keys.get(text);
    if (named !== undefined) return refIn(book, named);
    const choice = chooseKey(text, book.petnames.keys(), [me]);
    if ("key" in choice) return refIn(book, choice.key);
    return choice.refused === "ambiguous_key" ? ofChoice(choice, "unknown_peer") : ofPeers(unknownPetname(book, text));
  }

  /** How a key is shown: by petname, or by fingerprint where it is no peer (any more). */
  ref(key: Key): PeerRef {
    const { me, peers } = this.#options;
    if (key === me) return { petname: SELF, key, fingerprint: fingerprint(key) };
    const book = peers.current();
    return "refused" in book ? { petname: fingerprint(key), key, fingerprint: fingerprint(key) } : refIn(book, key);
  }

  /** Which session a message to a peer goes to. */
  async route(peer: Key, wish: Wish): Promise<Routed | ToolRefusal> {
    const { rosters } = this.#options;
    const view = await rosters.of(peer, ROSTER_FRESH_MS);
    const routed = this.#choose(peer, wish, view);
    const isOld = "sessions" in view && view.age_ms > 0 && view.stale_because === undefined;
    // An old view serves only to go on with whom we talk: somebody else may have come since.
    const talkingWith = wish.writer ?? this.#options.state.routes.sticky(peer);
    const goesOn = "taken" in routed && routed.taken.to === "session" && routed.taken.session === talkingWith;
    return goesOn || !isOld ? routed : this.#choose(peer, wish, await rosters.of(peer));
  }

  #choose(peer: Key, { asked, writer }: Wish, view: Seen): Routed | ToolRefusal {
    const { me, session: own, state } = this.#options;
    // After the look: a goodbye may have come meanwhile.
    this.#forgetDeparted(peer, view);
    const gone = "sessions" in view ? view.gone : [];
    const sticky = writer !== undefined && !gone.includes(writer) ? writer : state.routes.sticky(peer);
    if ("unseen" in view) return this.#routeBlind(peer, asked, sticky, view.unseen);
    const chosen = chooseRoute({
      sessions: this.sessionsOf(view),
      ...(asked !== undefined && { asked }),
      ...(sticky !== undefined && { sticky }),
      ...(peer === me && own !== undefined && { self: own }),
    });
    if ("refusal" in chosen) return ofRouting(chosen);
    if (chosen.to === "identity") {
      return { to: { key: peer }, taken: view.stale_because === undefined ? { to: "identity" } : { to: "unseen" } };
    }
    const to = { key: peer, session: chosen.session };
    // Of an old view only the choice holds, not who is awake.
    if (view.stale_because !== undefined) return { to, taken: { to: "unseen", session: chosen.session } };
    if (chosen.to === "remembered") return { to, taken: { to: "remembered", session: chosen.session } };
    const { session, presence, age_ms, live_sibling } = chosen;
    return { to, taken: { to: "session", session, presence, age_ms, ...(live_sibling && { live_sibling }) } };
  }

  /** The sessions of a view that are not gone. */
  sessionsOf({ sessions }: IdentityView): PeerSession[] {
    return sessions.flatMap(({ session, age_ms }) => {
      const presence = classifyPresence(age_ms, this.#options.limits);
      return presence === "gone" ? [] : [{ session: session.session_id, presence, age_ms }];
    });
  }

  /** The roster's signed goodbyes say it as a message does. */
  #forgetDeparted(peer: Key, view: Seen): void {
    const { routes } = this.#options.state;
    const sticky = routes.sticky(peer);
    if (sticky !== undefined && "gone" in view && view.gone.includes(sticky)) routes.unstick(peer, sticky);
  }

  /** No roster was ever read: the talk goes on where it was, or waits for whoever comes first. */
  #routeBlind(peer: Key, asked: string | undefined, sticky: SessionId | undefined, why: string) {
    const { me, session: own } = this.#options;
    const known = sticky === own && peer === me ? undefined : sticky;
    if (asked === undefined) {
      if (known === undefined && peer === me) return { code: "not_connected", detail: why } as const;
      const at = known === undefined ? {} : { session: known };
      return { to: { key: peer, ...at }, taken: { to: "unseen", ...at } } as const;
    }
    if (peer === me && asked === own) return { code: "oneself" } as const;
    // What is named may be anyone's id, or a beginning of it: a mistyped one must not become an inbox that nobody reads.
    const isKnown = known !== undefined && parseSessionId(asked) !== undefined && known.startsWith(asked);
    if (!isKnown) return { code: "not_connected", detail: why } as const;
    return { to: { key: peer, session: known }, taken: { to: "unseen", session: known } } as const;
  }
}

function refIn(book: PeerBook, key: Key): PeerRef {
  return { petname: book.petnames.get(key) ?? fingerprint(key), key, fingerprint: fingerprint(key) };
}
