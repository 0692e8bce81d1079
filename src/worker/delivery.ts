/** A message on its way to an inbox, as /send and a goodbye carry it: `{to, payload}`. */

import * as z from "zod/mini";
import type { Key, Route } from "../protocol/address.ts";
import { encodeBase64url } from "../protocol/base64url.ts";
import { messageBytes, sha256 } from "../protocol/canonical.ts";
import { isMessageTimely, parseMessage, verifyMessage, type Message } from "../protocol/message.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { record, routeField } from "../protocol/schema.ts";
import type { Entry } from "../durable/calls.ts";
import type { Settings } from "../durable/settings.ts";

export const deliverySchema = record({
  to: routeField,
  payload: z.custom<object>((value) => typeof value === "object" && value !== null, "bad_field"),
});

/** A delivery whose payload is whole, timely and truly its sender's. */
export interface Delivery {
  readonly route: Route;
  readonly message: Message;
}

/**
 * Checks one delivery: schema, sender, route, time, signature, in this order.
 * @param sender the key that signed the request; undefined under ACCESS=open, where the payload's own signature speaks
 */
export async function checkDelivery(
  { to, payload }: z.output<typeof deliverySchema>,
  sender: Key | undefined,
  settings: Settings,
  nowMs: number,
): Promise<Delivery | Refusal> {
  const message = parseMessage(payload, settings.limits);
  if (isRefusal(message)) return message;
  if (sender !== undefined && message.from !== sender) return refuse("sender_mismatch");
  if (to.key !== message.to) return refuse("route_mismatch");
  if (!isMessageTimely(message.ts, nowMs, settings.limits)) return refuse("ts_out_of_range", { now_ms: nowMs });
  return (await verifyMessage(message)) ? { route: to, message } : refuse("bad_payload_signature");
}

/** What the recipient's object is handed: it stores the payload's text and reads nothing in it. */
export async function toEntry({ route, message }: Delivery): Promise<Entry> {
  return {
    sender: message.from,
    ...(route.session === undefined ? {} : { session: route.session }),
    msgId: message.msg_id,
    kind: message.kind,
    ts: message.ts,
    digest: encodeBase64url(await sha256(messageBytes(message))),
    payload: JSON.stringify(message),
  };
}
