/** A message as it travels: its fields, their limits, and whether its signature holds. */

import * as z from "zod/mini";
import { messageBytes } from "./canonical.ts";
import { CWD_MAX_BYTES, TASK_ID_MAX_BYTES, type Limits } from "./constants.ts";
import { isRefusal, refuse, type Refusal } from "./refusal.ts";
import {
  isName,
  keyField,
  label,
  messageIdField,
  parse,
  record,
  routeField,
  signatureField,
  text,
  tsField,
  word,
} from "./schema.ts";
import { verifySignature } from "./signature.ts";
import { byteLength, isWholeUnicode } from "./text.ts";

/** A knock is a `pair_request` or its answer; anything else is mail. */
export const KINDS = ["message", "pair_request", "pair_accept"] as const;
export const STATUSES = ["update", "needs_input", "result", "failed", "canceled"] as const;

/** The signed payload of a send, checked for shape but not yet for its signature. */
export type Message = z.output<typeof messageSchema>;

const idField = label(TASK_ID_MAX_BYTES, 1);

const messageSchema = record({
  from: keyField,
  to: keyField,
  text: text("bad_text", (value) => value !== "" && isWholeUnicode(value)),
  ts: tsField,
  msg_id: messageIdField,
  kind: word(KINDS, "bad_kind"),
  task_id: z.optional(idField),
  status: z.optional(word(STATUSES, "bad_status")),
  in_reply_to: z.optional(idField),
  /** Unsigned: where an answer should go, one of the sender's own routes. */
  reply_to: z.optional(text("bad_route", (value) => value.length <= CWD_MAX_BYTES)),
  sig: signatureField,
});

/** A message on its way to an inbox, as /send and a goodbye carry it; the payload is read by {@link parseMessage}. */
export const deliverySchema = record({
  to: routeField,
  payload: z.custom<object>((value) => typeof value === "object" && value !== null, "bad_field"),
});
export type Delivery = z.output<typeof deliverySchema>;

/** True if a message is a knock or an answer to one. */
export function isKnock(message: Pick<Message, "kind">): boolean {
  return message.kind !== "message";
}

/**
 * Reads a message. Refuses what has the wrong shape, an optional field that is null or empty, a
 * `status` without a task, a knock whose text is no name, and a `reply_to` of another key.
 */
export function parseMessage(value: unknown, limits: Pick<Limits, "TEXT_MAX_BYTES">): Message | Refusal {
  const message = parse(messageSchema, value);
  if (isRefusal(message)) return message;
  if (message.status !== undefined && message.task_id === undefined) return refuse("bad_status");
  if (isKnock(message) && !isName(message.text)) return refuse("bad_name");
  if (byteLength(message.text) > limits.TEXT_MAX_BYTES) return refuse("bad_text");
  if (message.reply_to !== undefined) {
    const route = parse(routeField, message.reply_to);
    if (isRefusal(route) || route.key !== message.from) return refuse("bad_route");
  }
  return message;
}

/** True if the signature is the sender's over the message's canonical bytes. */
export function verifyMessage(message: Message): Promise<boolean> {
  return verifySignature(messageBytes(message), message.sig, message.from);
}

/**
 * Whether a message's own time lets a bus take it: at most the skew ahead, and no older than mail is
 * kept, since past that the bus no longer remembers its id.
 */
export function isMessageTimely(
  ts: number,
  nowMs: number,
  limits: Pick<Limits, "CLOCK_SKEW_MS" | "MESSAGE_RETAIN_MS">,
): boolean {
  return ts <= nowMs + limits.CLOCK_SKEW_MS && ts > nowMs - limits.MESSAGE_RETAIN_MS;
}
