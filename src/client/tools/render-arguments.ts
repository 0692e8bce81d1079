/**
 * PURE. Arguments that a tool cannot take, in words: which field, and what it must be. The validator's own words are not
 * used; a model would be told of its insides, and they change with its version.
 */

import type * as z from "zod/v4";
import type { ToolRefusal } from "../session/agent.ts";
import { quoted, shown } from "./escape.ts";
import { refusalOf, type Failure } from "./render-refusal.ts";

/** Whoever passes a hundred wrong fields learns from the first ones. */
const FAULTS_MAX = 5;
/** A field that does not exist may be named by anything. */
const NAME_MAX_CHARS = 64;

/** Codes that a schema gives as the message of a check, so that what is wrong has one code wherever it is found. */
const CODES: ReadonlySet<string> = new Set<ToolRefusal["code"]>(["bad_text", "bad_name", "bad_key"]);

/** @param issues what was found, in the order of the fields @param known the tool's fields */
export function argumentRefusal(
  issues: readonly z.core.$ZodIssue[],
  given: Readonly<Record<string, unknown>>,
  known: readonly string[],
): Failure {
  const faults = issues.flatMap((issue) => faultsOf(issue, given, known));
  const told = faults.slice(0, FAULTS_MAX);
  const more = faults.length > told.length ? [`${faults.length - told.length} more`] : [];
  const fields = [...new Set(told.map(({ field }) => field))];
  const [first] = issues;
  if (issues.length === 1 && CODES.has(first!.message)) {
    const code = first!.message as ToolRefusal["code"];
    const why = first!.code === "too_small" ? "empty" : "too_long";
    return { ...refusalOf(code === "bad_text" ? { code, detail: why } : { code }), fields };
  }
  const sentence = [...told.map(({ says }) => says), ...more].join("; ");
  return {
    code: "bad_field",
    message: `bad_field: ${sentence}. Nothing was done; see the tool's description.`,
    fields,
  };
}

interface Fault {
  readonly field: string;
  readonly says: string;
}

function faultsOf(
  issue: z.core.$ZodIssue,
  given: Readonly<Record<string, unknown>>,
  known: readonly string[],
): readonly Fault[] {
  if (issue.code === "unrecognized_keys") {
    const has = known.length === 0 ? "the tool takes no fields" : `its fields are ${known.join(", ")}`;
    return issue.keys.map((key) => {
      const name = key.slice(0, NAME_MAX_CHARS);
      return { field: shown(name), says: `${quoted(name)} is no field of this tool, ${has}` };
    });
  }
  const field = String(issue.path[0] ?? "");
  const isMissing = issue.code === "invalid_type" && given[field] === undefined;
  return [{ field, says: isMissing ? `${field} is missing` : `${field} must be ${wantedBy(issue)}` }];
}

function wantedBy(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return WANTED[issue.expected] ?? `a ${issue.expected}`;
    case "too_small":
      if (issue.origin !== "string") return `at least ${issue.minimum}`;
      return issue.minimum === 1 ? "at least 1 character long" : `at least ${issue.minimum} characters long`;
    case "too_big":
      return `at most ${issue.maximum}${issue.origin === "string" ? " characters long" : ""}`;
    case "invalid_value":
      return `one of ${issue.values.join(", ")}`;
    default:
      return "of another form";
  }
}

const WANTED: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
};
