/**
 * What a key signed, checked before anything of it is kept: by the door for requests, by a socket's
 * object for frames, with the same checks in the same order. Nothing here reads storage.
 */

import type { Key } from "../protocol/address.ts";
import {
  isTimely,
  verifyAnnouncement,
  verifyUnregister,
  type Announcement,
  type Unregister,
} from "../protocol/announcement.ts";
import { encodeBase64url } from "../protocol/base64url.ts";
import { messageBytes, sha256 } from "../protocol/canonical.ts";
import { isMessageTimely, parseMessage, type Delivery } from "../protocol/message.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { verifySignature } from "../protocol/signature.ts";
import { isWakeLeaseTimely, verifyWakeLease, type WakeLease } from "../protocol/wake-lease.ts";
import type { Entry, Goodbye, Said } from "./calls.ts";
import type { Settings } from "./settings.ts";

/** A delivery that is whole, timely and truly its sender's: whose inbox, and what goes into it. */
export interface Intake {
  readonly to: Key;
  readonly entry: Entry;
}

/**
 * Checks one delivery: schema, sender, route, time, signature, in this order.
 * @param sender the key that signed the request; undefined under ACCESS=open, where the payload's own signature speaks
 */
export async function takeDelivery(
  { to, payload }: Delivery,
  sender: Key | undefined,
  { limits }: Settings,
  nowMs: number,
): Promise<Intake | Refusal> {
  const message = parseMessage(payload, limits);
  if (isRefusal(message)) return message;
  if (sender !== undefined && message.from !== sender) return refuse("sender_mismatch");
  if (to.key !== message.to) return refuse("route_mismatch");
  if (!isMessageTimely(message.ts, nowMs, limits)) return refuse("ts_out_of_range", { now_ms: nowMs });
  const bytes = messageBytes(message);
  // The original signs a knock anew at each try, under the same id: whatever its time, it is the same knock.
  const same = message.kind === "message" ? bytes : messageBytes({ ...message, ts: 0 });
  const [isSigned, digest] = await Promise.all([verifySignature(bytes, message.sig, message.from), sha256(same)]);
  if (!isSigned) return refuse("bad_payload_signature");
  const entry: Entry = {
    sender: message.from,
    ...(to.session === undefined ? {} : { session: to.session }),
    msgId: message.msg_id,
    kind: message.kind,
    ts: message.ts,
    digest: encodeBase64url(digest),
    payload: JSON.stringify(message), // what the object stores, and never reads
  };
  return { to: to.key, entry };
}

/** All deliveries or none: a half-taken batch could not be told from a whole one. A refusal names which. */
export async function takeDeliveries(
  deliveries: readonly Delivery[],
  sender: Key | undefined,
  settings: Settings,
  nowMs: number,
): Promise<Intake[] | Refusal> {
  const taken: Intake[] = [];
  for (const [index, delivery] of deliveries.entries()) {
    const intake = await takeDelivery(delivery, sender, settings, nowMs);
    if (isRefusal(intake)) return { ...intake, index };
    taken.push(intake);
  }
  return taken;
}

/** An announcement with its public part and its lease, all the key's own and of now. */
export async function takeAnnouncement(
  announcement: Announcement,
  { public: shown, wake }: { readonly public?: Announcement | undefined; readonly wake?: WakeLease | undefined },
  { limits, access }: Settings,
  nowMs: number,
): Promise<Said | Refusal> {
  if (shown && !isSameSession(shown, announcement)) return refuse("bad_field");
  if (wake && !isWakeLeaseTimely(wake, announcement, limits)) return refuse("bad_field");
  if (!isTimely(announcement.ts, nowMs, limits)) return refuse("ts_out_of_range", { now_ms: nowMs });
  for (const signed of shown ? [announcement, shown] : [announcement]) {
    if (!(await verifyAnnouncement(signed))) return refuse("bad_payload_signature");
  }
  if (wake && !(await verifyWakeLease(wake, announcement))) return refuse("bad_payload_signature");
  const shownToAll = shown ?? (access === "open" ? announcement : undefined); // the original shows all to all
  return { announcement, ...(shownToAll && { public: shownToAll }), ...(wake && { wake }) };
}

/** A signed goodbye, and those for peers that ride on it. */
export async function takeUnregister(
  unregister: Unregister,
  goodbyes: readonly Delivery[],
  settings: Settings,
  nowMs: number,
): Promise<Goodbye[] | Refusal> {
  if (!isTimely(unregister.ts, nowMs, settings.limits)) return refuse("ts_out_of_range", { now_ms: nowMs });
  if (!(await verifyUnregister(unregister))) return refuse("bad_payload_signature");
  return takeDeliveries(goodbyes, unregister.pubkey, settings, nowMs);
}

/** A second announcement says less of the same session at the same instant, never something of another. */
function isSameSession(a: Announcement, b: Announcement): boolean {
  return a.pubkey === b.pubkey && a.ts === b.ts && a.session.session_id === b.session.session_id;
}
