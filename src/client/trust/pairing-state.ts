/** PURE. What there is between strangers and us: the state that pairing.ts decides on, as plain data. */

import { formatRoute, type Key, type Route, type SessionId } from "../../protocol/address.ts";
import type { MessageFields } from "../../protocol/canonical.ts";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";

/** What waits for our operator. */
export interface PendingPair {
  /** `knock`: they ask. `answer`: they said yes to a knock of our agent. */
  readonly what: "knock" | "answer";
  readonly key: Key;
  /** Only for the human, as in {@link Knocking}. */
  readonly claimed_name: string;
  readonly msg_id: string;
  readonly reply_session?: SessionId;
  /** When it came. */
  readonly at_ms: number;
  /** The operator has accepted, and the peers file is being changed: until then nobody else decides. */
  readonly accepting_until_ms?: number;
}

/** A knock of ours that nobody has answered yet. */
export interface SentKnock {
  readonly key: Key;
  readonly send: Outgoing;
  /** When it was first made. */
  readonly at_ms: number;
}

/** A yes that the peer has not been told: kept until it is in the outbox of one of our sessions. */
export interface OwedAnswer {
  readonly key: Key;
  /** The knock that it answers. */
  readonly knock_id: string;
  readonly reply_session?: SessionId;
  /** Who tells it, and in which words: another that takes over says the same, so the peer hears it once. */
  readonly claim?: { readonly session: SessionId; readonly at_ms: number; readonly send: Outgoing };
}

/** Plain data, to be kept as JSON. At most one of each for a key. */
export interface PairingState {
  readonly pending: readonly PendingPair[];
  readonly sent: readonly SentKnock[];
  readonly owed: readonly OwedAnswer[];
}

/** What to sign and send, and where. Signed with the same fields it has the same bytes, so sending it again is free. */
export interface Outgoing {
  readonly to: string;
  readonly fields: Omit<MessageFields, "from">;
}

/** What we say of ourselves in a knock or an answer. */
export interface OurSide {
  /** The name that their human sees. */
  readonly name: string;
  /** The buses' time, which is signed. */
  readonly ts: number;
}

export const NO_PAIRING: PairingState = { pending: [], sent: [], owed: [] };

/** How long a knock waits for an operator; the bus keeps one no longer. */
export const PENDING_MS = DEFAULT_LIMITS.KNOCK_RETAIN_MS;
/** How long ours may be answered: a day on the bus, a day before their operator, and the answer's own day on the bus. */
export const SENT_MS = 3 * DEFAULT_LIMITS.KNOCK_RETAIN_MS;
/** Four times what a bus holds at once: a human cannot read more, and strangers must not fill a disk. */
export const PENDING_MAX = 64;
/** A human waits for no more answers than this; an agent that knocks at everyone is stopped. */
export const SENT_MAX = 64;
/** Changing the peers file takes milliseconds, seconds where it is locked: who takes longer has died. */
export const ACCEPTING_MS = 30_000;

/** The state without what has expired. What the peer is owed does not. */
export function prunePairing({ pending, sent, owed }: PairingState, nowMs: number): PairingState {
  return {
    pending: pending.filter(({ at_ms }) => nowMs - at_ms < PENDING_MS),
    sent: sent.filter(({ at_ms }) => nowMs - at_ms < SENT_MS),
    owed,
  };
}

/** For the gate: whom we have knocked at, and the knock's id. */
export function knockedAt(state: PairingState, nowMs: number): ReadonlyMap<Key, string> {
  return new Map(prunePairing(state, nowMs).sent.map(({ key, send }) => [key, send.fields.msg_id]));
}

/** A knock, or the answer to one. */
export function outgoing(
  kind: "pair_request" | "pair_accept",
  to: Route,
  { name, ts }: OurSide,
  msg_id: string,
  in_reply_to?: string,
): Outgoing {
  const fields = { to: to.key, ts, kind, msg_id, text: name, ...(in_reply_to !== undefined && { in_reply_to }) };
  return { to: formatRoute(to), fields };
}
