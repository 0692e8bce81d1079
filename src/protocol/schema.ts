/** How this room uses zod: a schema's every issue is one of our codes, and a failed parse is a refusal. */

import * as z from "zod/mini";
import { parseKey, parseRoute, parseSessionId, isMessageId, type Key, type Route, type SessionId } from "./address.ts";
import { isRefusal, isRefusalCode, refuse, type Refusal, type RefusalCode } from "./refusal.ts";
import { parseSignature } from "./signature.ts";
import { byteLength, isVisible } from "./text.ts";
import { NAME_MAX_BYTES } from "./constants.ts";

/** An object with exactly these fields; `code` is what a missing or non-object value gets. */
export function record<Shape extends z.core.$ZodShape>(shape: Shape, code: RefusalCode = "bad_field") {
  return z.strictObject(shape, {
    error: (issue) => (issue.code === "unrecognized_keys" ? "unknown_field" : code),
  });
}

/** A string that `accepts` takes, typed as what it then is. */
export function text<T extends string = string>(code: RefusalCode, accepts: (value: string) => boolean) {
  return z.custom<T>((value) => typeof value === "string" && accepts(value), code);
}

/** One of a few words. */
export function word<const Words extends readonly string[]>(words: Words, code: RefusalCode) {
  return z.enum(words, code);
}

/** A whole number of milliseconds (or a count) from `min` up to what JSON carries exactly. */
export function whole(code: RefusalCode, min = 0, max = Number.MAX_SAFE_INTEGER) {
  return z.custom<number>(
    (value) => Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max,
    code,
  );
}

/** A list of `min` to `max` entries. */
export function list<T extends z.core.SomeType>(entry: T, max: number, min = 1, code: RefusalCode = "bad_field") {
  return z.array(entry, code).check(z.refine((entries) => entries.length >= min && entries.length <= max, code));
}

export const keyField = text<Key>("bad_key", (value) => parseKey(value) !== undefined);
export const sessionIdField = text<SessionId>("bad_session", (value) => parseSessionId(value) !== undefined);
export const messageIdField = text("bad_msg_id", isMessageId);
export const signatureField = text("bad_sig_format", (value) => parseSignature(value) !== undefined);
export const tsField = whole("bad_ts");
export const nameField = text("bad_name", isName);

/** A route, parsed: its own refusals (`bad_route`, `bad_key`, `bad_session`) come through. */
export const routeField = z.pipe(
  z.string("bad_route"),
  z.transform((value: string, context): Route => {
    const route = parseRoute(value);
    if (!isRefusal(route)) return route;
    context.issues.push({ code: "custom", message: route.refused, input: value });
    return z.NEVER;
  }),
);

/** A visible string of at most `maxBytes`. */
export function label(maxBytes: number, minBytes = 0) {
  return text("bad_field", (value) => isLabel(value, minBytes, maxBytes));
}

/** True if a string may be a name: 1 to 64 bytes, trimmed, visible. */
export function isName(value: string): boolean {
  return isLabel(value, 1, NAME_MAX_BYTES) && value.trim() === value;
}

function isLabel(value: string, minBytes: number, maxBytes: number): boolean {
  const length = byteLength(value);
  return length >= minBytes && length <= maxBytes && isVisible(value);
}

/**
 * Runs a schema. An unknown field is named before a bad value, since it may be the cause of it;
 * then the first bad value in the schema's order decides.
 */
export function parse<T extends z.core.$ZodType>(schema: T, value: unknown): z.core.output<T> | Refusal {
  const result = z.safeParse(schema, value);
  if (result.success) return result.data;
  const codes = result.error.issues.map((issue) => issue.message).filter(isRefusalCode);
  return refuse(codes.includes("unknown_field") ? "unknown_field" : (codes[0] ?? "bad_field"));
}
