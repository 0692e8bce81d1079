/**
 * PURE. The JSON lines in which everything that peers wrote reaches a model: messages, and what sessions say of
 * themselves. What is ours to know (who, which key, when it came) is filled in here and cannot be set by a peer.
 *
 * In structured answers too they are strings: a host that prints the structure would undo the escaping of a value.
 */

import type { Key } from "../../protocol/address.ts";
import type { BusShown } from "../session/buses.ts";
import type { Discovered, DiscoveredSession, PeerRef, Shown, TaskShown } from "../session/agent.ts";
import type { Life } from "../session/outbox-policy.ts";
import type { WakeStanding } from "../wake/standing.ts";
import { ageOf } from "./ages.ts";
import { wakeSeen } from "./render-wake.ts";
import { cutEscaped, cutToRoom, isoOf, jsonLine, type Room } from "./escape.ts";

/** Longest body that is shown at once; the rest comes by read_message. */
export const BODY_MAX_BYTES = 8 * 1_024;
/** All bodies of one answer: a few thousand tokens. */
export const BODIES_MAX_BYTES = 16 * 1_024;
const ROOM: Room = { each: BODY_MAX_BYTES, all: BODIES_MAX_BYTES };

/** Received messages, cut to what one answer carries. */
export function messageLines(messages: readonly Shown[]): string[] {
  const bodies = cutToRoom(
    messages.map(({ body }) => body),
    ROOM,
  );
  return messages.map((message, index) => messageLine(message, bodies[index]!));
}

/** A part of one message that begins at `offset`, and where the next begins. */
export function partLine(
  message: Shown & { readonly next_offset?: number },
  offset: number,
): { line: string; next_offset?: number } {
  const body = cutEscaped(message.body, BODY_MAX_BYTES);
  const next = body.length < message.body.length ? offset + body.length : message.next_offset;
  const line = jsonLine({
    ...provenanceOf(message),
    offset,
    truncated: next !== undefined,
    ...(next !== undefined && { next_offset: next }),
    body,
  });
  return next === undefined ? { line } : { line, next_offset: next };
}

function messageLine(message: Shown, body: string, more: object = {}): string {
  const truncated = message.truncated || body.length < message.body.length;
  return jsonLine({
    ...provenanceOf(message),
    ...more,
    truncated,
    // Where read_message goes on.
    ...(truncated && { next_offset: body.length }),
    body,
  });
}

function provenanceOf(message: Shown): object {
  const { bus, from, session, msg_id, task_id, status, in_reply_to, sent_at_ms, received_at_ms, clock_ok } = message;
  return {
    interlink: 1,
    ...(bus !== undefined && { bus }),
    from: from.petname,
    key: from.fingerprint,
    ...(session !== undefined && { session }),
    kind: "message",
    msg_id,
    ...(task_id !== undefined && { task_id }),
    ...(status !== undefined && { status }),
    ...(in_reply_to !== undefined && { in_reply_to }),
    sent: isoOf(sent_at_ms),
    received: isoOf(received_at_ms),
    clock_ok,
  };
}

type HistoryEntry =
  | ({ readonly direction: "in" } & Shown)
  | {
      readonly direction: "out";
      readonly msg_id: string;
      readonly at_ms: number;
      readonly body: string;
      readonly life: Life;
      readonly task_id?: string;
    };

/** Both sides of a talk, in the order in which they are given, all of them: the longest bodies are cut first. */
export function historyLines(peer: PeerRef, entries: readonly HistoryEntry[]): string[] {
  const bodies = cutToRoom(
    entries.map(({ body }) => body),
    ROOM,
  );
  return entries.map((entry, index) => {
    const body = bodies[index]!;
    if (entry.direction === "in") return messageLine(entry, body, { direction: "in" });
    const { msg_id, task_id, at_ms, life } = entry;
    return jsonLine({
      interlink: 1,
      to: peer.petname,
      key: peer.fingerprint,
      kind: "message",
      direction: "out",
      msg_id,
      ...(task_id !== undefined && { task_id }),
      state: life.state,
      written: isoOf(at_ms),
      truncated: body.length < entry.body.length,
      body,
    });
  });
}

type DiscoveredIdentity = Discovered["identities"][number];

/**
 * One session of an identity. Of a stranger only the claimed name is shown, and as a claim: what else it says of itself
 * is for those who trust it.
 */
export function sessionLine(
  identity: DiscoveredIdentity,
  session: DiscoveredSession,
  /** Of our own session only; of another, what it told its contacts. */
  own?: WakeStanding,
): string {
  const { key, fingerprint, peer } = identity;
  const { name, cwd, git_root, summary, presence, age_ms, connected, is_us } = session;
  const isKnown = peer !== undefined || is_us;
  return jsonLine({
    interlink: 1,
    kind: "session",
    ...(peer && { peer: peer.petname }),
    key: fingerprint,
    public_key: key,
    paired: peer !== undefined,
    is_us,
    session: session.session,
    presence,
    last_seen: ageOf(age_ms),
    age_ms,
    connected,
    ...(own ? { wake_path: own.path, wake_proof: own.proof } : peer && { wake: wakeSeen(session.wake) }),
    claimed_name: name,
    ...(isKnown && cwd !== undefined && { cwd }),
    ...(isKnown && git_root !== undefined && { git_root }),
    ...(isKnown && summary !== undefined && { summary }),
  });
}

/** A peer as the human named it. */
export function peerLine({ petname, key, fingerprint }: { petname: string; key: Key; fingerprint: string }): string {
  return jsonLine({ interlink: 1, kind: "peer", peer: petname, key: fingerprint, public_key: key });
}

/** A bus, by the user's own name for it. */
export function busLine({ name, address, role, connection, reason, fingerprint, unread, pending }: BusShown): string {
  return jsonLine({
    interlink: 1,
    kind: "bus",
    bus: name,
    address,
    role,
    connection,
    ...(reason !== undefined && { reason }),
    ...(fingerprint !== undefined && { key: fingerprint }),
    unread,
    pending,
  });
}

/** A task that is open; its id may be the peer's own words. */
export function taskLine({ task_id, peer, state, owed_by, changed_at_ms }: TaskShown, nowMs: number): string {
  return jsonLine({
    interlink: 1,
    kind: "task",
    task_id,
    with: peer.petname,
    key: peer.fingerprint,
    state,
    owed_by,
    changed: ageOf(nowMs - changed_at_ms),
  });
}
