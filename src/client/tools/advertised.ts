/** PURE. A tool's schemas as they are listed, and how they are applied, where the two are to differ. */

import type { StandardSchemaWithJSON } from "@modelcontextprotocol/server";
import type * as z from "zod/v4";

/** What was passed: as the tool wants it, or why it is not. */
export type Passed<Args> =
  | { readonly args: Args }
  | { readonly wrong: readonly z.core.$ZodIssue[]; readonly given: Readonly<Record<string, unknown>> };

/**
 * Arguments: listed as they are, refused by nobody. The SDK would refuse in a text of its own, without a code and without
 * a structure; so what is wrong is found by the same reading, and the tool answers it as every other refusal.
 */
export function lenient<Input extends z.ZodObject>(
  schema: Input,
): StandardSchemaWithJSON<z.input<Input>, Passed<z.output<Input>>> {
  const { vendor, version, jsonSchema } = standardOf(schema);
  const validate = (value: unknown) => {
    const read = schema.safeParse(value);
    return { value: read.success ? { args: read.data } : { wrong: read.error.issues, given: Object(value) } };
  };
  return { "~standard": { vendor, version, jsonSchema, validate } };
}

/**
 * Answers: listed as open to more. A host may have its list from before an update, and clients of the SDK throw an answer
 * away that has a field which the list rules out.
 */
export function open(schema: z.ZodObject): StandardSchemaWithJSON<unknown, unknown> {
  const { vendor, version, jsonSchema, validate } = standardOf(schema);
  const output: typeof jsonSchema.output = (options) => withoutLids(jsonSchema.output(options));
  return { "~standard": { vendor, version, validate, jsonSchema: { ...jsonSchema, output } } };
}

function standardOf(schema: z.ZodObject): StandardSchemaWithJSON["~standard"] {
  return schema["~standard"] as unknown as StandardSchemaWithJSON["~standard"];
}

function withoutLids(json: Record<string, unknown>): Record<string, unknown> {
  const isLid = (key: string, value: unknown) => key === "additionalProperties" && value === false;
  return JSON.parse(JSON.stringify(json, (key, value: unknown) => (isLid(key, value) ? undefined : value)));
}
