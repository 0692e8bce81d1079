/**
 * What the door asks of the objects.
 *
 * Every call is one JSON text each way: a copier recurses into nesting that a parser survives, and an
 * older object must be able to ignore a field of a newer door while a deployment is under way. So
 * fields are only ever added, as optional ones. A refusal is an answer; a throw is a fault.
 */

import type { Key, SessionId } from "../protocol/address.ts";
import type { Announcement } from "../protocol/announcement.ts";
import type { Presence } from "../protocol/presence.ts";
import type { Refusal } from "../protocol/refusal.ts";
import type { WakeLease } from "../protocol/wake-lease.ts";

/** One verified message on its way into an inbox. */
export interface Entry {
  readonly sender: Key;
  /** Absent for the identity's own inbox. */
  readonly session?: SessionId;
  readonly msgId: string;
  readonly kind: "message" | "pair_request" | "pair_accept";
  /** The message's own time. */
  readonly ts: number;
  /** SHA-256 of the signed bytes: tells a retry from a reuse of the id. */
  readonly digest: string;
  /** The payload as JSON, which the object stores and never reads. */
  readonly payload: string;
}

/** What became of one {@link Entry}. */
export interface Stored {
  readonly state: "stored" | "duplicate";
  readonly msg_id: string;
  /** Of the addressed session, or of the identity's freshest; absent for a knock, which learns nothing. */
  readonly presence?: Presence;
  /** Absent where presence is gone: there is no sign of life to measure from. */
  readonly age_ms?: number;
  /** Messages that wait in that inbox, this one included; absent for a knock. */
  readonly queued?: number;
}

export interface Life {
  /** Which life of the identity's storage this is: another one has forgotten all that was published. */
  readonly generation: string;
  readonly now_ms: number;
}

export type ReceiptState = "stored" | "acked" | "expired" | "evicted" | "unknown";

export interface Receipt {
  readonly msg_id: string;
  readonly state: ReceiptState;
  /** When it came to that state; absent for `unknown`. */
  readonly at_ms?: number;
}

/** What a session says of itself, at one moment. */
export interface Said {
  readonly announcement: Announcement;
  /** What is shown to all; absent: the session is hidden from those who are no contacts. */
  readonly public?: Announcement;
  /** Shown to contacts alone. */
  readonly wake?: WakeLease;
}

/** A session as a roster shows it. `wake` is there for the identity and its contacts, and until it is past. */
export type Seen = Announcement & { readonly age_ms: number; readonly connected: boolean; readonly wake?: WakeLease };

export interface View {
  readonly roster: readonly Seen[];
  readonly gone: readonly { pubkey: Key; session_id: string; ts: number; sig: string; at_ms: number }[];
  readonly view_at_ms: number;
}

/** A single-use token's nonce, and until when it must be remembered. */
export interface Nonce {
  readonly nonce: string;
  readonly expiresAtMs: number;
}

/** A signed goodbye to a peer, for the bus to send on. */
export interface Goodbye {
  readonly to: Key;
  readonly entry: Entry;
}

/** Of an identity's object: operation → what it takes, what it answers beside a {@link Refusal}. */
export interface IdentityCalls {
  announce: { call: { key: Key } & Said; answer: Life };
  /** Without `sig`, the original's unsigned shape under ACCESS=open. */
  unregister: {
    call: { key: Key; session: SessionId; ts: number; sig?: string; goodbyes: readonly Goodbye[] };
    answer: Life;
  };
  /** `viewer` absent: anyone, under ACCESS=open. `scope` bus: only what is shown to all. */
  view: { call: { key: Key; viewer?: Key; scope: "identity" | "bus" }; answer: View };
  enqueue: { call: { key: Key; entries: readonly Entry[] }; answer: { results: readonly (Stored | Refusal)[] } };
  ack: { call: { key: Key; session: SessionId; acks: readonly string[] }; answer: { removed: number } };
  contacts: {
    call: { key: Key; contacts: readonly Key[]; ts: number };
    answer: { count: number; generation: string };
  };
  receipts: { call: { key: Key; sender: Key; msgIds: readonly string[] }; answer: { receipts: readonly Receipt[] } };
  forget: { call: { key: Key; nonce: Nonce }; answer: { forgotten: true } };
  census: { call: { key: Key }; answer: Census };
}

export type Call<Operation extends keyof IdentityCalls> = IdentityCalls[Operation]["call"];
export type Answer<Operation extends keyof IdentityCalls> = IdentityCalls[Operation]["answer"] | Refusal;

/** What one identity adds to an operator's counters. */
export interface Census {
  readonly sessions_live: number;
  readonly sessions_away: number;
  readonly queued: number;
  /** Age of the oldest unacked message; absent without one. */
  readonly oldest_unacked_ms?: number;
}

/** A socket's handshake, whose token used up a nonce. */
export interface SocketCall {
  readonly key: Key;
  readonly session: SessionId;
  readonly nonce: Nonce;
}

/** A poll comes as a request, because it may be answered by a socket. */
export interface PollCall {
  readonly key: Key;
  readonly session: SessionId;
  /** Absent: the original's shape, one message without a list around it. */
  readonly max?: number;
  readonly acks: readonly string[];
  /** Absent under ACCESS=open. */
  readonly nonce?: Nonce;
}

type Nothing = Record<string, never>;
/** Whether a shard lists as many as it may. */
interface Full {
  readonly isFull?: true;
}

/** Of a directory object. Invites are found by their hash's shard, all else by the key's. */
export interface DirectoryCalls {
  /** The key has an object; `isShown`: with a session that shows itself to all. `isFull`: there was no room to list it. */
  list: { call: { key: Key; isShown: boolean }; answer: Full };
  unlist: { call: { key: Key }; answer: Nothing };
  /** Keys above `after`, in order; with `isShown` only those that show themselves, else `isFull` says that hidden ones may be missing. */
  page: { call: { after?: Key; limit: number; isShown: boolean }; answer: { keys: readonly Key[] } & Full };
  isAdmitted: { call: { key: Key }; answer: { isAdmitted: boolean } };
  admit: { call: { key: Key }; answer: Nothing };
  useNonce: { call: { nonce: Nonce }; answer: Nothing };
  putInvite: { call: { hash: string; expiresAtMs: number }; answer: Nothing };
  takeInvite: { call: { hash: string; key: Key }; answer: Nothing };
  removeInvite: { call: { hash: string }; answer: Nothing };
  forget: { call: { key: Key }; answer: Nothing };
}

/** An object's methods for its calls: JSON text in and out. */
export type Methods<Calls> = { [Operation in keyof Calls]: (json: string) => string | Promise<string> };
