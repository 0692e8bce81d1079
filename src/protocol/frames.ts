/** What may cross a socket, a closed union each way. JSON text, but for the two words that the runtime answers itself. */

import * as z from "zod/mini";
import { announcementSchema } from "./announcement.ts";
import { BATCH_MAX } from "./constants.ts";
import { parseJsonText } from "./json.ts";
import { deliverySchema } from "./message.ts";
import { isRefusal, refuse, sentenceOf, type Refusal, type RefusalFacts } from "./refusal.ts";
import { list, parse, record, signatureField, tsField, whole } from "./schema.ts";
import { wakeLeaseSchema } from "./wake-lease.ts";

/** Offered with the token as subprotocols; the bus selects this one. */
export const SUBPROTOCOL = "interlink.v1";
/** Versions of the frames that this bus speaks, told in its welcome. */
export const FRAME_VERSIONS: readonly number[] = [1];

/** A heartbeat and its answer: literal text, so that the runtime answers without waking the object. */
export const PING = "ping";
export const PONG = "pong";

/** Messages pushed on a socket and not yet acked, at most. */
export const WINDOW = 64;
/** Bad frames after which a socket is closed. */
export const BAD_FRAMES_MAX = 3;

/** Why the bus closes a socket. Any other code is the network's word: silence, not death. */
export const CLOSE = {
  unregistered: 4000,
  tooManyErrors: 4400,
  notAuthenticated: 4401,
  notYours: 4403,
  signAgain: 4408,
  superseded: 4409,
  binary: 1003,
  tooLarge: 1009,
} as const;

const t = <Word extends string>(word: Word) => z.literal(word, "bad_frame");

const clientFrames = {
  announce: record(
    {
      t: t("announce"),
      announcement: announcementSchema,
      public: z.optional(announcementSchema),
      wake: z.optional(wakeLeaseSchema),
    },
    "bad_frame",
  ),
  ack: record({ t: t("ack"), through: whole("bad_frame") }, "bad_frame"),
  unregister: record(
    {
      t: t("unregister"),
      ts: tsField,
      sig: signatureField,
      goodbyes: z.optional(list(deliverySchema, BATCH_MAX, 0)),
    },
    "bad_frame",
  ),
} as const;

/** What a client says. */
export type ClientFrame = {
  [Word in keyof typeof clientFrames]: z.output<(typeof clientFrames)[Word]>;
}[keyof typeof clientFrames];

/** Reads a client's frame. Refuses what is not JSON, of no known `t`, or has a field too many, too few or wrong. */
export function parseClientFrame(text: string): ClientFrame | Refusal {
  const parsed = parseJsonText(text);
  if (isRefusal(parsed)) return parsed;
  const word = parsed.object["t"];
  if (typeof word !== "string" || !Object.hasOwn(clientFrames, word)) return refuse("bad_frame");
  return parse(clientFrames[word as keyof typeof clientFrames], parsed.object) as ClientFrame | Refusal;
}

/** A message on its way: `seq` is what it is acked by, on this socket and in this order. */
export interface Item {
  readonly seq: number;
  readonly envelope: { readonly payload: object; readonly ts: number };
  /** It was pushed before. Its absence promises nothing: a bus that crashed does not know. */
  readonly redelivered?: true;
}

/** What the bus says. */
export type BusFrame =
  | { t: "welcome"; generation: string; now_ms: number; queued: number; versions: readonly number[] }
  | { t: "messages"; items: readonly Item[] }
  | { t: "gap"; count: number; oldest_ts: number }
  | ({ t: "err"; error: string; message: string } & Omit<RefusalFacts, "status">);

/** A refusal as a frame. */
export function errorFrame({ refused, status: _status, ...facts }: Refusal): string {
  return JSON.stringify({ t: "err", error: refused, message: sentenceOf(refused), ...facts } satisfies BusFrame);
}
