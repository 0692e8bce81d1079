/** What tests inside workerd share: identities without keys of their own, since objects verify nothing, and time that moves. */

import { env } from "cloudflare:workers";
import { afterEach } from "vitest";
import type { Key, SessionId } from "../../src/protocol/address.ts";
import type { Announcement } from "../../src/protocol/announcement.ts";
import { encodeBase64url } from "../../src/protocol/base64url.ts";
import { isRefusal } from "../../src/protocol/refusal.ts";
import type { Entry, IdentityCalls, PollCall } from "../../src/durable/calls.ts";
import { clock } from "../../src/durable/clock.ts";
import type { Env } from "../../src/durable/env.ts";
import { askIdentity, pollIdentity } from "../../src/worker/ask.ts";

export const bindings = env as unknown as Env;

const realNow = clock.now;
let offsetMs = 0;

/** Moves the bus's clock; alarms do not ring by this, so tests ring them. */
export function passTime(ms: number): void {
  offsetMs += ms;
  clock.now = () => realNow() + offsetMs;
}

/** Stops the clock at an instant, for tests of a boundary. */
export function freezeAt(ms: number): void {
  clock.now = () => ms;
}

afterEach(() => {
  offsetMs = 0;
  clock.now = realNow;
});

/** A key that was never used: tests share storage, so each takes new ones. */
export function newKey(): Key {
  return encodeBase64url(crypto.getRandomValues(new Uint8Array(32))) as Key;
}

export const session = (id: string) => id as SessionId;

export function stubOf(key: Key) {
  return bindings.IDENTITIES.getByName(key);
}

/** Asks an identity's object as the door does. */
export function ask<Operation extends keyof IdentityCalls>(
  key: Key,
  operation: Operation,
  call: Omit<IdentityCalls[Operation]["call"], "key">,
) {
  return askIdentity(bindings, key, operation, call);
}

/** The same where a refusal would be the test's own mistake. */
export async function must<Operation extends keyof IdentityCalls>(
  key: Key,
  operation: Operation,
  call: Omit<IdentityCalls[Operation]["call"], "key">,
): Promise<IdentityCalls[Operation]["answer"]> {
  const answer = await ask(key, operation, call);
  if (isRefusal(answer)) throw new Error(`${operation} was refused: ${answer.refused}`);
  return answer;
}

export function announcement(
  pubkey: Key,
  id: string,
  ts = clock.now(),
  fields: Partial<Announcement> = {},
): Announcement {
  return { pubkey, name: "agent", session: { session_id: session(id) }, ts, sig: `sig-${ts}`, ...fields };
}

/** Announces a session now, shown to all if `isPublic`. */
export function announce(key: Key, id: string, ts = clock.now(), isPublic = false) {
  const said = announcement(key, id, ts);
  return ask(key, "announce", isPublic ? { announcement: said, public: said } : { announcement: said });
}

let lastId = 0;

export function entry(sender: Key, to: string | undefined, fields: Partial<Entry> = {}): Entry {
  const msgId = fields.msgId ?? `m${++lastId}`;
  return {
    sender,
    ...(to === undefined ? {} : { session: session(to) }),
    msgId,
    kind: "message",
    ts: clock.now(),
    digest: `digest of ${msgId}`,
    payload: JSON.stringify({ msg_id: msgId }),
    ...fields,
  };
}

/** Sends one entry and returns its result. */
export async function sendOne(key: Key, one: Entry) {
  return (await must(key, "enqueue", { entries: [one] })).results[0]!;
}

export async function sendMany(key: Key, entries: readonly Entry[]) {
  return (await must(key, "enqueue", { entries })).results;
}

/** Polls without waiting; the parsed answer of a list. */
export async function take(key: Key, id: string, call: Partial<PollCall> = {}) {
  const response = await pollIdentity(bindings, { key, session: session(id), acks: [], max: 64, ...call }, false);
  return (await response.json()) as {
    status?: string;
    items?: { envelope: { payload: { msg_id: string }; ts: number }; ack: string }[];
    gap?: { count: number; oldest_ts: number };
    refused?: string;
  };
}

/** Ids that wait for a session, in order. */
export async function waitingIds(key: Key, id: string): Promise<string[]> {
  return ((await take(key, id)).items ?? []).map((item) => item.envelope.payload.msg_id);
}

export function view(key: Key, viewer?: Key) {
  return must(key, "view", viewer ? { viewer, scope: "identity" } : { scope: "bus" });
}
