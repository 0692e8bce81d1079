/**
 * PURE. How two keys come to trust each other: knocks that wait for our operator, and knocks of ours that wait for
 * theirs. A state goes in, and a new one comes out with what else is to be done: what to sign and send, whom to add to
 * the peers file. The order that survives a crash: peers file first, then state and outbox in one transaction; all of
 * it may be repeated.
 *
 * Trust begins with a person on each side. An agent may knock, but the answer to its knock then waits for our operator
 * as a stranger's knock does: else a message could talk a model into knocking, and its writer need only accept.
 */

import { formatRoute, type Key, type Route, type SessionId } from "../../protocol/address.ts";
import type { MessageFields } from "../../protocol/canonical.ts";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import { chooseKey, type KeyChoice } from "./key-choice.ts";
import type { Knocking } from "./gate.ts";
import { Operator } from "./operator.ts";

/** What waits for our operator. */
export interface PendingPair {
  /** `knock`: they ask. `answer`: they said yes to a knock that our agent made without the operator. */
  readonly what: "knock" | "answer";
  readonly key: Key;
  /** Only for the human, as in {@link Knocking}. */
  readonly claimed_name: string;
  readonly msg_id: string;
  readonly reply_session?: SessionId;
  /** When it came. */
  readonly at_ms: number;
}

/** A knock of ours that nobody has answered yet. */
export interface SentKnock {
  readonly key: Key;
  /** What the peer is to be called. */
  readonly petname: string;
  readonly by_operator: boolean;
  readonly send: Outgoing;
  /** When it was first made. */
  readonly at_ms: number;
}

/** Plain data, to be kept as JSON. At most one pending and one sent for a key. */
export interface PairingState {
  readonly pending: readonly PendingPair[];
  readonly sent: readonly SentKnock[];
}

/** What to sign and send, and where. Signed with the same fields it has the same bytes, so sending it again is free. */
export interface Outgoing {
  readonly to: string;
  readonly fields: Omit<MessageFields, "from">;
  /** The original takes no knock without a session to answer to. */
  readonly reply_to: string;
}

/** Whom to add to the peers file, and the person's word for it. */
export interface Addition {
  readonly petname: string;
  readonly key: Key;
  readonly operator: Operator;
}

/** What we say of ourselves in a knock or an answer. */
export interface OurSide {
  /** The name that their human sees. */
  readonly name: string;
  readonly route: Route & { readonly session: SessionId };
  /** A fresh id. */
  readonly msg_id: string;
}

export interface PairingRefusal {
  readonly refused:
    /** So many knocks of ours wait for an answer that no other is made. */
    | "too_many_requests"
    /** What was shown to the operator has expired, or was decided meanwhile. */
    | "no_such_request"
    /** The same key has knocked anew, perhaps by another name: look again. */
    | "request_changed";
}

export const NO_PAIRING: PairingState = { pending: [], sent: [] };

/** How long a knock waits for an operator; the bus keeps one no longer. */
export const PENDING_MS = DEFAULT_LIMITS.KNOCK_RETAIN_MS;
/** How long ours may be answered: a day on the bus, a day before their operator, and the answer's own day on the bus. */
export const SENT_MS = 3 * DEFAULT_LIMITS.KNOCK_RETAIN_MS;
/** Four times what a bus holds at once: a human cannot read more, and strangers must not fill a disk. */
export const PENDING_MAX = 64;
/** A human waits for no more answers than this; an agent that knocks at everyone is stopped. */
export const SENT_MAX = 64;

/** The state without what has expired. Every function below begins with it. */
export function prunePairing({ pending, sent }: PairingState, nowMs: number): PairingState {
  return {
    pending: pending.filter(({ at_ms }) => nowMs - at_ms < PENDING_MS),
    sent: sent.filter(({ at_ms }) => nowMs - at_ms < SENT_MS),
  };
}

/** For the gate: whom we have knocked at, and the knock's id. */
export function knockedAt(state: PairingState, nowMs: number): ReadonlyMap<Key, string> {
  return new Map(prunePairing(state, nowMs).sent.map(({ key, send }) => [key, send.fields.msg_id]));
}

/** The pending request that a person means. */
export function choosePending(
  state: PairingState,
  typed: string,
  known: Iterable<Key>,
  nowMs: number,
): { readonly request: PendingPair; readonly weak: boolean } | (KeyChoice & { readonly refused: string }) {
  const { pending } = prunePairing(state, nowMs);
  const choice = chooseKey(
    typed,
    pending.map(({ key }) => key),
    known,
  );
  if ("refused" in choice) return choice;
  return { request: pending.find(({ key }) => key === choice.key)!, weak: choice.weak };
}

/**
 * Keeps a stranger's knock; a later one of the same key replaces it. `kept: false` if too many wait: the later is lost,
 * not the earlier, so that nobody can push out what the operator is looking at. It is acked all the same, since a
 * socket acks in order.
 */
export function receiveKnock(
  state: PairingState,
  knock: Knocking,
  nowMs: number,
): { readonly state: PairingState; readonly kept: boolean } {
  const current = prunePairing(state, nowMs);
  const others = without(current.pending, knock.key);
  if (others.length >= PENDING_MAX) return { state: current, kept: false };
  return { state: putPending(current, pendingOf("knock", knock, nowMs)), kept: true };
}

/**
 * Knocks at a key. While an earlier knock may still lie on the bus it is the same one again, byte for byte, so that
 * their answer fits whichever arrived.
 * @param to one of their sessions: their original client reads no other inbox
 * @param operator about `key`, if a person asked for it; then their answer completes the pairing
 */
export function requestPair(
  state: PairingState,
  { key, petname, to, us }: { readonly key: Key; readonly petname: string; readonly to: Route; readonly us: OurSide },
  nowMs: number,
  operator?: Operator,
): { readonly state: PairingState; readonly send: Outgoing } | PairingRefusal {
  if (operator) Operator.check(operator, key);
  const current = prunePairing(state, nowMs);
  const earlier = current.sent.find((knock) => knock.key === key);
  if (!earlier && current.sent.length >= SENT_MAX) return { refused: "too_many_requests" };
  const isOnBus = earlier !== undefined && nowMs - earlier.at_ms < DEFAULT_LIMITS.KNOCK_RETAIN_MS;
  const send = isOnBus ? earlier.send : outgoing("pair_request", to, us, nowMs);
  const sent: SentKnock = {
    key,
    // A person's name for a peer is not changed by an agent that knocks again.
    petname: !operator && earlier?.by_operator ? earlier.petname : petname,
    by_operator: operator !== undefined || (earlier?.by_operator ?? false),
    send,
    at_ms: isOnBus ? earlier.at_ms : nowMs,
  };
  return { state: { ...current, sent: [...without(current.sent, key), sent] }, send };
}

/**
 * Takes the answer to a knock of ours. `unasked` changes nothing; the gate drops such before it comes here. Where the
 * peers file refuses what is to be added (the name is taken by now), use {@link holdAnswer} instead of `state`.
 */
export function receiveAnswer(
  state: PairingState,
  answer: Knocking & { readonly in_reply_to?: string },
  nowMs: number,
):
  | { readonly outcome: "add"; readonly state: PairingState; readonly add: Addition }
  | { readonly outcome: "waiting"; readonly state: PairingState }
  | { readonly outcome: "unasked" } {
  const current = prunePairing(state, nowMs);
  const knock = current.sent.find(({ key }) => key === answer.key);
  const asked = knock?.send.fields.msg_id;
  if (!knock || (answer.in_reply_to ?? asked) !== asked) return { outcome: "unasked" };
  const { key, petname } = knock;
  if (!knock.by_operator) return { outcome: "waiting", state: holdAnswer(current, answer, nowMs) };
  // A knock of theirs is settled by it too.
  return {
    outcome: "add",
    state: forget(current, key),
    add: { petname, key, operator: Operator.attest(key, "request") },
  };
}

/** Lets an answer wait for the operator. Not counted with the knocks: only whom we knocked at can answer. */
export function holdAnswer(state: PairingState, answer: Knocking, nowMs: number): PairingState {
  return putPending(prunePairing(state, nowMs), pendingOf("answer", answer, nowMs));
}

/**
 * Lets a key in, as the operator decided.
 * @param seen the request as it was shown to them
 * @param petname what they call it; the claimed name is only a proposal
 * @param operator about the request's key
 */
export function acceptPair(
  state: PairingState,
  seen: PendingPair,
  { petname, us }: { readonly petname: string; readonly us: OurSide },
  operator: Operator,
  nowMs: number,
): { readonly state: PairingState; readonly add: Addition; readonly send?: Outgoing } | PairingRefusal {
  Operator.check(operator, seen.key);
  const current = prunePairing(state, nowMs);
  const refusal = refuseSeen(current, seen);
  if (refusal) return refusal;
  const add = { petname, key: seen.key, operator };
  const next = forget(current, seen.key);
  // An answer needs none: they have added us already.
  return seen.what === "answer" ? { state: next, add } : { state: next, add, send: answerKnock(seen, us, nowMs) };
}

/** Turns a key away: nothing is sent, and what it asked is forgotten. An agent's knock at it is withdrawn. */
export function rejectPair(
  state: PairingState,
  seen: PendingPair,
  operator: Operator,
  nowMs: number,
): { readonly state: PairingState } | PairingRefusal {
  Operator.check(operator, seen.key);
  const current = prunePairing(state, nowMs);
  return refuseSeen(current, seen) ?? { state: forget(current, seen.key) };
}

/** The yes to a knock: of one that the operator accepts, or of a contact that knocks again, whom they accepted before. */
export function answerKnock(
  knock: Pick<Knocking, "key" | "msg_id" | "reply_session">,
  us: OurSide,
  nowMs: number,
): Outgoing {
  const { key, reply_session: session } = knock;
  return outgoing("pair_accept", session === undefined ? { key } : { key, session }, us, nowMs, knock.msg_id);
}

function refuseSeen({ pending }: PairingState, seen: PendingPair): PairingRefusal | undefined {
  const now = pending.find(({ key }) => key === seen.key);
  if (!now) return { refused: "no_such_request" };
  return now.msg_id === seen.msg_id && now.what === seen.what ? undefined : { refused: "request_changed" };
}

function putPending(state: PairingState, request: PendingPair): PairingState {
  return { ...state, pending: [...without(state.pending, request.key), request] };
}

function pendingOf(what: PendingPair["what"], knock: Knocking, nowMs: number): PendingPair {
  const { key, claimed_name, msg_id, reply_session } = knock;
  return { what, key, claimed_name, msg_id, ...(reply_session !== undefined && { reply_session }), at_ms: nowMs };
}

function outgoing(
  kind: "pair_request" | "pair_accept",
  to: Route,
  { name, route, msg_id }: OurSide,
  ts: number,
  in_reply_to?: string,
): Outgoing {
  const fields = { to: to.key, ts, kind, msg_id, text: name, ...(in_reply_to !== undefined && { in_reply_to }) };
  return { to: formatRoute(to), fields, reply_to: formatRoute(route) };
}

function forget({ pending, sent }: PairingState, key: Key): PairingState {
  return { pending: without(pending, key), sent: without(sent, key) };
}

function without<Entry extends { readonly key: Key }>(entries: readonly Entry[], key: Key): readonly Entry[] {
  return entries.filter((entry) => entry.key !== key);
}
