/**
 * What comes in: verified → to me? → contact, self or knock? → fresh? → new?
 *
 * Only a contact's word, or our own, passes as a message. A stranger can only knock, and of a knock nothing but a
 * count may reach a model: its name is for the human. What is dropped is acked and gone, so nothing is dropped that
 * a later look could accept.
 *
 * {@link verifyPayload} asks the signature; {@link decide} is PURE, and its argument's type can be had only from the
 * former, so that the first step is never skipped.
 */

import { createHash } from "node:crypto";
import { parseRoute, type Key, type Route, type SessionId } from "../../protocol/address.ts";
import { messageBytes } from "../../protocol/canonical.ts";
import type { Limits } from "../../protocol/constants.ts";
import { parseMessage, verifyMessage, type Message } from "../../protocol/message.ts";
import { isRefusal, type RefusalCode } from "../../protocol/refusal.ts";
import { SELF } from "./petname.ts";

declare const VERIFIED: unique symbol;
/** A message whose signature is its sender's. Made only by {@link verifyPayload}. */
export type VerifiedMessage = Message & { readonly [VERIFIED]: true };

/** The bus's limits, as far as they bear on what is accepted. */
export type GateLimits = Pick<Limits, "TEXT_MAX_BYTES" | "CLOCK_SKEW_MS" | "MESSAGE_RETAIN_MS">;

/** What is known when a message comes. */
export interface GateWorld {
  readonly me: Key;
  readonly session: SessionId;
  /**
   * The inbox that the bus took it from: the route that the socket or poll asked for. The signature covers no
   * session, so this is the bus's word, which can confuse our own sessions but nothing else.
   */
  readonly inbox: Route;
  /** From the peers file. */
  readonly petnames: ReadonlyMap<Key, string>;
  /** Whom we have knocked at: their key → the knock's `msg_id`. */
  readonly knocked: ReadonlyMap<Key, string>;
  /** The digest under which (`from`, `msg_id`) is on our disk; undefined if it is not. */
  readonly knownDigest: string | undefined;
  /** Our clock, set right by the bus's. */
  readonly nowMs: number;
  readonly limits: GateLimits;
}

export type DropReason =
  /** Of a shape that no client of ours sends; `refused` says which rule it breaks. */
  | "malformed"
  | "bad_signature"
  /** To another key. */
  | "not_mine"
  /** To another session of ours, which has its own inbox. */
  | "other_session"
  /** Our own message, come back. */
  | "echo"
  /** A knock of our own key. */
  | "self_knock"
  /** A stranger's mail. */
  | "not_paired"
  /** An answer to a knock that we did not make, or not any more. */
  | "unasked_accept"
  /** Older than any bus keeps mail and than we remember ids: a replay could not be told from it. */
  | "too_old"
  /** Its id is on our disk with other bytes. */
  | "id_conflict";

/** What is to be done with it. In all cases the bus is acked once that is on disk. */
export type Verdict =
  | {
      readonly verdict: "accept";
      readonly message: VerifiedMessage;
      /** A petname, or `self`; the only name of the sender to show. */
      readonly sender: string;
      /** The sender's session, where the message says one: where an answer goes. */
      readonly reply_session?: SessionId;
      readonly digest: string;
      /** False if it is dated ahead of our clock by more than the skew: shown, but its time is not to be trusted. */
      readonly clock_ok: boolean;
    }
  | ({ readonly verdict: "knock" } & Knocking)
  /** A contact knocks: it has lost its side of the pairing, or never got our answer. Nothing changes here. */
  | ({ readonly verdict: "knock_again"; readonly petname: string } & Knocking)
  | ({ readonly verdict: "pair_accept"; readonly in_reply_to?: string } & Knocking)
  /** On our disk already; to be acked again. */
  | { readonly verdict: "duplicate" }
  | { readonly verdict: "drop"; readonly reason: DropReason; readonly refused?: RefusalCode };

/** What a knock, or the answer to one, says. */
export interface Knocking {
  readonly key: Key;
  /** Whatever the stranger calls itself: only for the human, never for a model. 1 to 64 bytes, visible. */
  readonly claimed_name: string;
  readonly msg_id: string;
  /** The session that it came from, where it says one; an answer goes there. */
  readonly reply_session?: SessionId;
  readonly digest: string;
}

/**
 * How old a message may be. A sender's bus takes it until it is MESSAGE_RETAIN_MS old and then keeps it as long again,
 * and each end's clock may be off. Ids are to be remembered as long: see {@link rememberUntil}.
 */
export function readableMs(limits: GateLimits): number {
  return 2 * (limits.MESSAGE_RETAIN_MS + limits.CLOCK_SKEW_MS);
}

/** Until when a message's id must be remembered, since until then the gate would let it in again. */
export function rememberUntil(message: Pick<Message, "ts">, nowMs: number, limits: GateLimits): number {
  return Math.max(message.ts, nowMs) + readableMs(limits);
}

/** SHA-256 of the signed bytes, as 64 hex characters: what makes two messages of one id the same. */
export function digestOf(message: Message): string {
  return createHash("sha256").update(messageBytes(message)).digest("hex");
}

/**
 * Reads a payload and asks its signature. Never throws.
 * @param verify the signature's check; default: the one predicate of the protocol
 */
export async function verifyPayload(
  payload: unknown,
  limits: GateLimits,
  verify: (message: Message) => Promise<boolean> = verifyMessage,
): Promise<VerifiedMessage | (Verdict & { readonly verdict: "drop" })> {
  const message = parseMessage(payload, limits);
  if (isRefusal(message)) return { verdict: "drop", reason: "malformed", refused: message.refused };
  return (await verify(message)) ? (message as VerifiedMessage) : { verdict: "drop", reason: "bad_signature" };
}

/** The decision on a verified message; each row has its reason beside it. */
export function decide(message: VerifiedMessage, world: GateWorld): Verdict {
  const { me, session, inbox, limits, nowMs } = world;
  // To me? The bus goes by its route, so a message may lie where it was not signed for.
  if (message.to !== me || inbox.key !== me) return drop("not_mine");
  if (inbox.session !== undefined && inbox.session !== session) return drop("other_session");

  // Contact, self or knock? Before the rest, so that a stranger's mail is not even remembered.
  const replySession = replySessionOf(message);
  const refused = message.from === me ? refuseSelf(message, replySession, world) : refuseOther(message, world);
  if (refused) return drop(refused);

  // Fresh? Late is no fault: mail waits for who sleeps. Ahead is a wrong clock, told and not lost.
  if (message.ts < nowMs - readableMs(limits)) return drop("too_old");

  // New? By the sender's id: two buses, or one that did not hear our ack, may bring it twice.
  const digest = digestOf(message);
  if (world.knownDigest !== undefined) {
    return world.knownDigest === digest ? { verdict: "duplicate" } : drop("id_conflict");
  }
  return admit(message, digest, replySession, world);
}

/** Both steps, for who has the world at hand. */
export async function judge(payload: unknown, world: GateWorld): Promise<Verdict> {
  const message = await verifyPayload(payload, world.limits);
  return "verdict" in message ? message : decide(message, world);
}

/** Our own key needs no entry: only its holder can sign so. But it must come from another session, to this one. */
function refuseSelf(
  { kind }: VerifiedMessage,
  replySession: SessionId | undefined,
  { session, inbox }: GateWorld,
): DropReason | undefined {
  if (kind !== "message") return "self_knock";
  // The identity's own inbox is handed to whichever session is first, the sender's too.
  if (inbox.session !== session) return "other_session";
  return replySession === session ? "echo" : undefined;
}

function refuseOther({ from, kind, in_reply_to }: VerifiedMessage, world: GateWorld): DropReason | undefined {
  if (kind === "message") return world.petnames.has(from) ? undefined : "not_paired";
  if (kind === "pair_request") return undefined;
  // The original's early versions name no knock; a named one must be ours, or an old answer could be played again.
  const asked = world.knocked.get(from);
  return asked === undefined || (in_reply_to ?? asked) !== asked ? "unasked_accept" : undefined;
}

function admit(
  message: VerifiedMessage,
  digest: string,
  replySession: SessionId | undefined,
  { me, petnames, nowMs, limits }: GateWorld,
): Verdict {
  const { from, kind, text, msg_id, in_reply_to } = message;
  const petname = petnames.get(from);
  const reply_session = replySession === undefined ? {} : { reply_session: replySession };
  if (kind === "message") {
    const sender = from === me ? SELF : petname;
    // Refused above; said again here so that no later change of order can let a stranger in.
    if (sender === undefined) return drop("not_paired");
    const clock_ok = message.ts <= nowMs + limits.CLOCK_SKEW_MS;
    return { verdict: "accept", message, sender, ...reply_session, digest, clock_ok };
  }
  const knocking = { key: from, claimed_name: text, msg_id, ...reply_session, digest };
  if (kind === "pair_accept") {
    return { verdict: "pair_accept", ...knocking, ...(in_reply_to !== undefined && { in_reply_to }) };
  }
  return petname === undefined ? { verdict: "knock", ...knocking } : { verdict: "knock_again", petname, ...knocking };
}

/** The shape was checked: a `reply_to` is a route of the sender's key, so it can only choose among its sessions. */
function replySessionOf({ reply_to }: VerifiedMessage): SessionId | undefined {
  if (reply_to === undefined) return undefined;
  const route = parseRoute(reply_to);
  return isRefusal(route) ? undefined : route.session;
}

function drop(reason: DropReason): Verdict {
  return { verdict: "drop", reason };
}
