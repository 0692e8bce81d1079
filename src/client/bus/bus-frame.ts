/** A frame of the bus, read as a stranger's words: a closed union, with what is unknown told from what is malformed. */

import * as z from "zod/mini";
import { WINDOW, type BusFrame } from "../../protocol/frames.ts";
import { parseJsonText } from "../../protocol/json.ts";
import { isRefusal } from "../../protocol/refusal.ts";
import { list, tsField, whole } from "../../protocol/schema.ts";
import { envelopeSchema, gapSchema, handleField } from "./answers.ts";
import { readRefusal, type BusRefusal, type Unreachable } from "./outcome.ts";

/** `seq` is what it is acked by; nothing in the payload is verified yet. */
const itemSchema = z.object({
  seq: whole("bad_frame", 1),
  envelope: envelopeSchema,
  redelivered: z.optional(z.literal(true)),
});
const welcomeSchema = z.object({
  generation: handleField,
  now_ms: tsField,
  queued: whole("bad_frame"),
  versions: list(whole("bad_frame"), 64),
});
const messagesSchema = z.object({ items: list(itemSchema, WINDOW) });

export type BusItem = z.output<typeof itemSchema>;

/** What the bus said. `err` is read as every refusal is; one that we do not know is an unknown outcome. */
export type ReadFrame =
  | ({ readonly t: "welcome" } & z.output<typeof welcomeSchema>)
  | { readonly t: "messages"; readonly items: readonly BusItem[] }
  | ({ readonly t: "gap" } & z.output<typeof gapSchema>)
  | { readonly t: "err"; readonly why: BusRefusal | Unreachable }
  /** A frame of a newer bus: to be ignored. */
  | { readonly t: "unknown" };

/**
 * Reads a frame's text.
 * @returns undefined if it is malformed. It must not be skipped: an ack counts up to a number, so the ack of what comes
 * behind would take with it the messages that could not be read
 */
export function readFrame(text: string): ReadFrame | undefined {
  const parsed = parseJsonText(text);
  if (isRefusal(parsed)) return undefined;
  const frame = parsed.object;
  const { t } = frame;
  if (typeof t !== "string") return undefined;
  switch (t as BusFrame["t"]) {
    case "welcome": {
      const read = z.safeParse(welcomeSchema, frame).data;
      return read && { t: "welcome", ...read };
    }
    case "messages": {
      const read = z.safeParse(messagesSchema, frame).data;
      return read && isAscending(read.items) ? { t: "messages", items: read.items } : undefined;
    }
    case "gap": {
      const read = z.safeParse(gapSchema, frame).data;
      return read && { t: "gap", ...read };
    }
    case "err":
      return {
        t: "err",
        why: readRefusal(frame) ?? { unreachable: frame["error"] === "internal" ? "fault" : "bad_answer" },
      };
    default:
      return { t: "unknown" };
  }
}

function isAscending(items: readonly BusItem[]): boolean {
  return items.every(({ seq }, index) => index === 0 || seq > items[index - 1]!.seq);
}
