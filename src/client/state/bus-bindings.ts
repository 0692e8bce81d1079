/**
 * Which buses a session was on, for the process that follows this one: the words by which the buses were named, never what
 * they lead to, so that the user's file is asked anew. Another session, and another beginning of this one, has no use for it.
 */

import { rmSync } from "node:fs";
import * as z from "zod/mini";
import { OTHERS_MAY_NOT, readPrivateFile, replacePrivateFile } from "../trust/private-file.ts";

export interface BusBindings {
  /** Where the session began: under another setting the rest counts for nothing. */
  readonly home: string;
  /** Absent: the user closed it, and nothing else became active. */
  readonly active?: string | undefined;
  /** The least recently used first. */
  readonly parked: readonly string[];
}

const MAX_BYTES = 64 * 1_024;
const PARKED_MAX = 64;

const word = z.string().check(z.minLength(1), z.maxLength(2_048));
const bindingsSchema = z.object({
  home: word,
  active: z.optional(word),
  parked: z.array(word).check(z.maxLength(PARKED_MAX)),
});

/** Undefined where there is none that can be used: then the session begins where its settings say. */
export function readBindings(path: string): BusBindings | undefined {
  const file = readPrivateFile(path, { forbiddenMode: OTHERS_MAY_NOT.write, maxBytes: MAX_BYTES });
  if (file === undefined || "refused" in file) return undefined;
  try {
    return z.safeParse(bindingsSchema, JSON.parse(file.text)).data;
  } catch {
    return undefined;
  }
}

/** On disk when it returns. */
export function writeBindings(path: string, bindings: BusBindings): void {
  replacePrivateFile(path, JSON.stringify(bindings));
}

export function dropBindings(path: string): void {
  rmSync(path, { force: true });
}
