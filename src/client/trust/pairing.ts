/**
 * PURE. How two keys come to trust each other: knocks that wait for our operator, knocks of ours that wait for theirs,
 * and answers that are still to be told. A state goes in, and a new one comes out with what else is to be done.
 *
 * The state is the identity's: all its sessions and commands share it, and each decision is one transaction over it. The
 * order that survives a crash: the peers file, then the state, then an outbox; all of it may be repeated.
 *
 * Trust begins with a person on each side. An agent may knock, but the answer to its knock then waits for our operator
 * as a stranger's knock does: else a message could talk a model into knocking, and its writer need only accept.
 */

import type { Key, Route } from "../../protocol/address.ts";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import { chooseKey, type KeyChoice } from "./key-choice.ts";
import type { Knocking } from "./gate.ts";
import { Operator } from "./operator.ts";
import { owe } from "./owed-answers.ts";
import {
  ACCEPTING_MS,
  outgoing,
  PENDING_MAX,
  prunePairing,
  SENT_MAX,
  type Outgoing,
  type OurSide,
  type PairingState,
  type PendingPair,
} from "./pairing-state.ts";

export interface PairingRefusal {
  readonly refused:
    /** So many knocks of ours wait for an answer that no other is made. */
    | "too_many_requests"
    /** What was shown to the operator has expired, or was decided meanwhile. */
    | "no_such_request"
    /** The same key has knocked anew, perhaps by another name: look again. */
    | "request_changed"
    /** It is being accepted at this moment, elsewhere. */
    | "being_accepted";
}

/** The pending request that a person means. */
export function choosePending(
  state: PairingState,
  typed: string,
  known: Iterable<Key>,
  nowMs: number,
): { readonly request: PendingPair; readonly weak: boolean } | Extract<KeyChoice, { readonly refused: string }> {
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
  knock: Omit<Knocking, "digest">,
  nowMs: number,
): { readonly state: PairingState; readonly kept: boolean } {
  const current = prunePairing(state, nowMs);
  const others = without(current.pending, knock.key);
  if (others.length >= PENDING_MAX) return { state: current, kept: false };
  return { state: putPending(current, pendingOf("knock", knock, nowMs)), kept: true };
}

/** A contact that knocks again is told again that it is one: the operator has let it in before. */
export function receiveKnockOfPeer(state: PairingState, knock: Knocking, nowMs: number): PairingState {
  const current = prunePairing(state, nowMs);
  return { ...current, pending: without(current.pending, knock.key), owed: owe(current.owed, knock) };
}

/**
 * Knocks at a key. While an earlier knock may still lie on the bus it is the same one again, byte for byte, so that
 * their answer fits whichever arrived.
 * @param to one of their sessions: their original client reads no other inbox
 * @param msg_id a fresh one
 */
export function requestPair(
  state: PairingState,
  { key, to, us, msg_id }: { readonly key: Key; readonly to: Route; readonly us: OurSide; readonly msg_id: string },
  nowMs: number,
): { readonly state: PairingState; readonly send: Outgoing } | PairingRefusal {
  const current = prunePairing(state, nowMs);
  const earlier = current.sent.find((knock) => knock.key === key);
  if (!earlier && current.sent.length >= SENT_MAX) return { refused: "too_many_requests" };
  if (earlier && nowMs - earlier.at_ms < DEFAULT_LIMITS.KNOCK_RETAIN_MS) return { state: current, send: earlier.send };
  const send = outgoing("pair_request", to, us, msg_id);
  return { state: { ...current, sent: [...without(current.sent, key), { key, send, at_ms: nowMs }] }, send };
}

/**
 * Takes the answer to a knock of ours. Not counted with the knocks: only whom we knocked at can answer. `unasked`
 * changes nothing; the gate drops such before it comes here.
 * @param isPeer their key was let in meanwhile: then both have agreed, and nothing is left to decide
 */
export function receiveAnswer(
  state: PairingState,
  answer: Knocking & { readonly in_reply_to?: string },
  isPeer: boolean,
  nowMs: number,
): { readonly outcome: "waiting" | "agreed" | "unasked"; readonly state: PairingState } {
  const current = prunePairing(state, nowMs);
  const asked = current.sent.find(({ key }) => key === answer.key)?.send.fields.msg_id;
  if (asked === undefined || (answer.in_reply_to ?? asked) !== asked) return { outcome: "unasked", state: current };
  if (isPeer) return { outcome: "agreed", state: forget(current, answer.key) };
  const isKept = current.pending.some((each) => each.key === answer.key && isSame(each, "answer", answer.msg_id));
  const next = isKept ? current : putPending(current, pendingOf("answer", answer, nowMs));
  return { outcome: "waiting", state: next };
}

/**
 * The operator lets a key in: nobody else decides from now on. The peers file is to be changed next, and then
 * {@link admit} takes it from there; where the file refuses, {@link abandonAccept}.
 * @param seen the request as it was shown to them
 * @param operator about the request's key
 */
export function beginAccept(
  state: PairingState,
  seen: PendingPair,
  operator: Operator,
  nowMs: number,
): { readonly state: PairingState } | PairingRefusal {
  Operator.check(operator, seen.key);
  const current = prunePairing(state, nowMs);
  const request = stillThere(current, seen, nowMs);
  if ("refused" in request) return request;
  return { state: putPending(current, { ...request, accepting_until_ms: nowMs + ACCEPTING_MS }) };
}

/** The peers file did not take it: the request waits as before. */
export function abandonAccept(state: PairingState, { key, what, msg_id }: PendingPair): PairingState {
  const pending = state.pending.map((each) => {
    if (each.key !== key || !isSame(each, what, msg_id)) return each;
    const { accepting_until_ms: _over, ...request } = each;
    return request;
  });
  return { ...state, pending };
}

/**
 * What follows from the peers file, whoever changed it: who waits here and is in it was accepted, and a knock of theirs
 * is to be answered. An answer needs none, for they have added us already. Who is not in it is owed nothing.
 */
export function admit(state: PairingState, isPeer: (key: Key) => boolean, nowMs: number): PairingState {
  const current = prunePairing(state, nowMs);
  const accepted = current.pending.filter(({ key }) => isPeer(key));
  const next = accepted.reduce((so, request) => {
    const rest = forget(so, request.key);
    return request.what === "knock" ? { ...rest, owed: owe(rest.owed, request) } : rest;
  }, current);
  return { ...next, owed: next.owed.filter(({ key }) => isPeer(key)) };
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
  const request = stillThere(current, seen, nowMs);
  return "refused" in request ? request : { state: forget(current, seen.key) };
}

function stillThere({ pending }: PairingState, seen: PendingPair, nowMs: number): PendingPair | PairingRefusal {
  const now = pending.find(({ key }) => key === seen.key);
  if (!now) return { refused: "no_such_request" };
  if (!isSame(now, seen.what, seen.msg_id)) return { refused: "request_changed" };
  const leftMs = (now.accepting_until_ms ?? nowMs) - nowMs;
  return leftMs > 0 && leftMs <= ACCEPTING_MS ? { refused: "being_accepted" } : now;
}

const isSame = (request: PendingPair, what: PendingPair["what"], msg_id: string): boolean =>
  request.what === what && request.msg_id === msg_id;

function putPending(state: PairingState, request: PendingPair): PairingState {
  return { ...state, pending: [...without(state.pending, request.key), request] };
}

function pendingOf(what: PendingPair["what"], knock: Omit<Knocking, "digest">, nowMs: number): PendingPair {
  const { key, claimed_name, msg_id, reply_session } = knock;
  return { what, key, claimed_name, msg_id, ...(reply_session !== undefined && { reply_session }), at_ms: nowMs };
}

function forget(state: PairingState, key: Key): PairingState {
  return { ...state, pending: without(state.pending, key), sent: without(state.sent, key) };
}

function without<Entry extends { readonly key: Key }>(entries: readonly Entry[], key: Key): readonly Entry[] {
  return entries.filter((entry) => entry.key !== key);
}
