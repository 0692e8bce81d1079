/**
 * What the bus answers, read as a stranger's words: known fields of a known shape, the rest left away, since a newer
 * bus may say more. Each reader gives undefined for what is no answer to its question.
 */

import * as z from "zod/mini";
import { decodeBase64url } from "../../protocol/base64url.ts";
import { BATCH_MAX, RECEIPTS_MAX } from "../../protocol/constants.ts";
import type { JsonObject } from "../../protocol/json.ts";
import { keyField, list, messageIdField, text, tsField, whole, word } from "../../protocol/schema.ts";
import { isVisible } from "../../protocol/text.ts";
import { readRefusal, type BusRefusal, type Unreachable } from "./outcome.ts";

/** Characters of a generation and of an ack handle: a few dozen today. */
const HANDLE_MAX_CHARS = 256;

/** A word of the bus's own that goes back to it as it came. */
export const handleField = text("bad_field", (value) => isHandle(value));

function isHandle(value: string): boolean {
  return value !== "" && value.length <= HANDLE_MAX_CHARS && isVisible(value);
}

const count = whole("bad_field");

const lifeSchema = z.object({ generation: handleField, now_ms: tsField });
const storedSchema = z.object({
  state: word(["stored", "duplicate"], "bad_field"),
  msg_id: messageIdField,
  presence: z.optional(word(["live", "away", "gone"], "bad_field")),
  age_ms: z.optional(count),
  queued: z.optional(count),
});
/** A message on its way to us; nothing in the payload is verified yet. */
export const envelopeSchema = z.object({
  payload: z.custom<object>((value) => typeof value === "object" && value !== null && !Array.isArray(value)),
  ts: tsField,
});
export const gapSchema = z.object({ count, oldest_ts: tsField });
const mailSchema = z.object({
  status: z.literal("messages"),
  items: list(z.object({ envelope: envelopeSchema, ack: handleField }), BATCH_MAX),
  gap: z.optional(gapSchema),
});
const silenceSchema = z.object({ status: z.literal("timeout") });
const contactsSchema = z.object({ count, generation: handleField });
const receiptSchema = z.object({
  msg_id: messageIdField,
  state: word(["stored", "acked", "expired", "evicted", "unknown"], "bad_field"),
  at_ms: z.optional(tsField),
});
const receiptsSchema = z.object({ receipts: list(receiptSchema, RECEIPTS_MAX, 0) });
const inviteSchema = z.object({
  token: text("bad_join_token", (value) => decodeBase64url(value, 32) !== undefined),
  expires_at_ms: tsField,
});
const batchSchema = z.object({ results: list(z.record(z.string(), z.unknown()), BATCH_MAX) });
const pageSchema = z.object({ cursor: z.optional(keyField) });

/** Which life of an identity's storage answers: another one has forgotten all that was published. */
export type Life = z.output<typeof lifeSchema>;
/** `presence`, `age_ms` and `queued` are of the addressed session; absent for a knock, which learns nothing. */
export type Stored = z.output<typeof storedSchema>;
/** A message loss: what left our inbox without our ack. */
export type Gap = z.output<typeof gapSchema>;
export type Receipt = z.output<typeof receiptSchema>;
export type Invite = z.output<typeof inviteSchema>;

/** What a poll brought; no items if its time was over. */
export interface Mail {
  readonly items: readonly { readonly envelope: z.output<typeof envelopeSchema>; readonly ack: string }[];
  readonly gap?: Gap | undefined;
}

/** Reads one answer. */
export type Reader<T> = (answer: JsonObject) => T | undefined | Promise<T | undefined>;

function reader<Schema extends z.core.$ZodType>(schema: Schema): (answer: JsonObject) => z.output<Schema> | undefined {
  return (answer) => z.safeParse(schema, answer).data;
}

export const readLife = reader(lifeSchema);
export const readContacts = reader(contactsSchema);
export const readInvite = reader(inviteSchema);
export const readRemoved = reader(z.object({ removed: count }));
export const readJoined = reader(z.object({ admitted: z.literal(true) }));
export const readForgotten = reader(z.object({ forgotten: z.literal(true) }));
export const readHealth = reader(z.object({ ok: z.literal(true) }));
/** The next page's beginning; an answer without one is the last page. */
export const readPage = reader(pageSchema);

const readStoredAny = reader(storedSchema);
const readReceiptsAny = reader(receiptsSchema);
const readBatchAny = reader(batchSchema);
const readMailAny = reader(mailSchema);
const readSilence = reader(silenceSchema);

/** What became of the message with this id, and of no other. */
export function readStored(msgId: string): Reader<Stored> {
  return (answer) => {
    const stored = readStoredAny(answer);
    return stored?.msg_id === msgId ? stored : undefined;
  };
}

/** One result a message, in the order asked; one that cannot be read leaves the others as they are. */
export function readBatch(msgIds: readonly string[]): Reader<(Stored | BusRefusal | Unreachable)[]> {
  return (answer) => {
    const results = readBatchAny(answer)?.results;
    if (results?.length !== msgIds.length) return undefined;
    return results.map((result, index) => {
      const read = "error" in result ? readRefusal(result) : readStoredAny(result);
      const isOurs = read && ("refused" in read || read.msg_id === msgIds[index]);
      return isOurs ? read : { unreachable: "bad_answer" };
    });
  };
}

/** At most as many messages as were asked for. */
export function readMail(max: number): Reader<Mail> {
  return (answer) => {
    if (readSilence(answer)) return { items: [] };
    const mail = readMailAny(answer);
    return mail && mail.items.length <= max ? { items: mail.items, gap: mail.gap } : undefined;
  };
}

/** Receipts of just the ids asked for, each once; one that is missing is `unknown`. */
export function readReceipts(msgIds: readonly string[]): Reader<Receipt[]> {
  return (answer) => {
    const receipts = readReceiptsAny(answer)?.receipts;
    if (!receipts) return undefined;
    const byId = new Map(receipts.map((receipt) => [receipt.msg_id, receipt]));
    return msgIds.map((msg_id) => byId.get(msg_id) ?? { msg_id, state: "unknown" });
  };
}
