/**
 * Which session of a peer a message goes to, or why that must be asked first. Reads no clock, no
 * roster and no memory: all three come in as arguments.
 *
 * Silence is not death: mail for an away session is never rerouted to its sibling. And no guess: where
 * two sessions would do, the sender is asked.
 */

import type { SessionId } from "./address.ts";
import type { Presence } from "./presence.ts";

/** One session of the peer, as the roster shows it. */
export interface PeerSession {
  readonly session: SessionId;
  /** What is gone is not on a roster. */
  readonly presence: Exclude<Presence, "gone">;
  /** The bus's own: milliseconds since the session's last sign of life. */
  readonly age_ms: number;
}

export interface RoutingQuestion {
  /** The peer's sessions on the roster, each id once, in any order. */
  readonly sessions: readonly PeerSession[];
  /** What the sender named: a whole session id, or the beginning of one. Absent: nothing was named. */
  readonly asked?: string;
  /** The session that we last talked with. */
  readonly sticky?: SessionId;
  /** Our own session, where the peer is our own identity. */
  readonly self?: SessionId;
}

/** Where a message goes. `on_roster` is false where it will wait for a session that nobody sees now. */
export type Destination =
  | (PeerSession & {
      readonly to: "session";
      readonly on_roster: true;
      /** A session that is awake, named where the remembered one is away; only the sender may prefer it. */
      readonly live_sibling?: SessionId;
    })
  /** The inbox of the session we last talked with, which has left the roster. */
  | { readonly to: "remembered"; readonly on_roster: false; readonly session: SessionId }
  /** The identity's own inbox, for the first of its sessions that comes. */
  | { readonly to: "identity"; readonly on_roster: false };

/**
 * Why the sender must say more. `sessions` is what there is to choose from: live before away, then the
 * freshest first; one's own is never among them.
 */
export interface RoutingRefusal {
  readonly refusal: RoutingRefusalCode;
  readonly sessions: readonly PeerSession[];
}

/** Reasons of this client's own; no bus says them, so they are not among the codes of refusal.ts. */
export type RoutingRefusalCode =
  /** What was named is the beginning of several; these are listed. */
  | "ambiguous"
  /** What was named is nobody's. */
  | "unknown_session"
  | "several_live"
  | "several_away"
  /** What was named is ourselves, or there is nobody else of our identity. */
  | "oneself";

/** The decision. Its rows stand in the code, from the first that applies; each has its reason beside it. */
export function chooseRoute({ sessions, asked, sticky, self }: RoutingQuestion): Destination | RoutingRefusal {
  const others = sessions.filter(({ session }) => session !== self).sort(byFreshness);
  // Our own session may be remembered from a note to ourselves; it is no one to talk with.
  const remembered = sticky === self ? undefined : sticky;
  return asked === undefined ? chooseUnasked(others, remembered, self) : chooseAsked(asked, others, remembered, self);
}

/** The sender named a session: that one or none, whatever its presence and whoever else is awake. */
function chooseAsked(
  asked: string,
  others: readonly PeerSession[],
  remembered: SessionId | undefined,
  self: SessionId | undefined,
): Destination | RoutingRefusal {
  // A whole id comes before prefixes, since it may be the beginning of another's id.
  const whole = others.find(({ session }) => session === asked);
  if (whole) return toSession(whole);
  // A message to oneself would come back as a peer's.
  if (asked === self) return { refusal: "oneself", sessions: others };
  // It is off the roster but was real: it may wake, and mail does not depend on presence.
  if (asked === remembered) return toRemembered(remembered);
  // Nothing is the beginning of everything, so it would name whoever happens to be alone.
  const matching = asked === "" ? [] : others.filter(({ session }) => session.startsWith(asked));
  if (matching.length > 1) return { refusal: "ambiguous", sessions: matching };
  const [only] = matching;
  if (only) return toSession(only);
  // "Unknown" would be untrue of a short form of our own id.
  if (asked !== "" && self?.startsWith(asked)) return { refusal: "oneself", sessions: others };
  // A mistyped id must not become an inbox that nobody reads.
  return { refusal: "unknown_session", sessions: others };
}

/** The sender named none: go on where the talk was, else take the only one there is. */
function chooseUnasked(
  others: readonly PeerSession[],
  remembered: SessionId | undefined,
  self: SessionId | undefined,
): Destination | RoutingRefusal {
  const live = others.filter(({ presence }) => presence === "live");
  const sticky = others.find(({ session }) => session === remembered);
  // It holds the other half of the talk. Asleep it will wake and read; its sibling knows nothing of it.
  if (sticky) return toSession(sticky, sticky.presence === "away" ? live[0]?.session : undefined);

  const [awake, secondAwake] = live;
  // Two are awake and neither was talked with: a guess would split the talk.
  if (awake && secondAwake) return { refusal: "several_live", sessions: others };
  // The one remembered was closed or is long dead; who is awake can answer now.
  if (awake) return toSession(awake);

  const [asleep, secondAsleep] = others;
  // Which of them wakes first says nothing of which is meant.
  if (asleep && secondAsleep) return { refusal: "several_away", sessions: others };
  // Alone and asleep: it reads its mail when it wakes.
  if (asleep) return toSession(asleep);

  // Nobody is seen. A closed session may be resumed under its old id, and its inbox outlives presence.
  if (remembered !== undefined) return toRemembered(remembered);
  // Ours is the only session that would read our identity's own inbox, so this too is a message to oneself.
  if (self !== undefined) return { refusal: "oneself", sessions: others };
  // Never talked with: whoever of the identity comes first.
  return { to: "identity", on_roster: false };
}

function toSession({ session, presence, age_ms }: PeerSession, sibling?: SessionId): Destination {
  const destination = { to: "session", on_roster: true, session, presence, age_ms } as const;
  return sibling === undefined ? destination : { ...destination, live_sibling: sibling };
}

function toRemembered(session: SessionId): Destination {
  return { to: "remembered", on_roster: false, session };
}

/** Live before away, then by age; the id last, so that the roster's own order never decides. */
function byFreshness(a: PeerSession, b: PeerSession): number {
  if (a.presence !== b.presence) return a.presence === "live" ? -1 : 1;
  if (a.age_ms !== b.age_ms) return a.age_ms - b.age_ms;
  return a.session < b.session ? -1 : 1;
}
