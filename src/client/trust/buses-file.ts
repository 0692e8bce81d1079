/**
 * The buses that the user has named, in `buses.json` beside the key: to which bus our agents go, and as whom, is the user's to
 * say. So it is read as the peers file is, and a fault in it is told and guessed around nowhere.
 *
 * ```json
 * { "work": { "url": "https://bus.example", "key": "work.key", "profile": "private" }, "home": { "url": "https://a, https://b" } }
 * ```
 */

import { isAbsolute, join, dirname } from "node:path";
import * as z from "zod/mini";
import { isName } from "../../protocol/schema.ts";
import { parseBusUrl, type BusUrl, type BusUrlRefusalCode } from "../bus/bus-url.ts";
import { repeatedKey } from "../hosts/jsonc.ts";
import { OTHERS_MAY_NOT, quote, readPrivateFile, type FileRefusal } from "./private-file.ts";

/** Origins of one bus, for redundancy. Each costs a socket and a roster look at every send. */
export const URLS_MAX = 4;
/** Far above what anybody is on. */
export const NAMED_BUSES_MAX = 64;
const FILE_MAX_BYTES = 64 * 1_024;
const PATH_MAX_CHARS = 1_024;

/** Where a bus may be: on the internet, or on a private network too, as a company's or a tailnet's. */
export type BusProfile = "public" | "private";

export interface NamedBus {
  readonly name: string;
  readonly urls: readonly BusUrl[];
  /** Path of the key that is used there; absent: the usual one. */
  readonly key?: string;
  readonly profile: BusProfile;
}

export type BusesFileRefusal =
  | FileRefusal
  /** `why` is a stable code; `entry` the name that has the fault, the user's own word, and `field` a field of it. */
  | {
      readonly refused: "bad_buses_file";
      readonly path: string;
      readonly mend: string;
      readonly why: string;
      readonly entry?: string;
      readonly field?: string;
    };

// Strict: a mistyped `key` that is passed over would show the usual identity where another was wanted.
const entrySchema = z.strictObject({
  url: z.string("bad_url"),
  key: z.optional(
    z.string("bad_key_path").check(z.minLength(1, "bad_key_path"), z.maxLength(PATH_MAX_CHARS, "bad_key_path")),
  ),
  profile: z.optional(z.enum(["public", "private"], "bad_profile")),
});

/** The buses by name, in the file's order; no file is no buses. Read anew at each call: it is asked for seldom. */
export function readBuses(path: string): ReadonlyMap<string, NamedBus> | BusesFileRefusal {
  const file = readPrivateFile(path, { forbiddenMode: OTHERS_MAY_NOT.write, maxBytes: FILE_MAX_BYTES });
  if (file === undefined) return new Map();
  if ("refused" in file) return file;
  const bad = (why: string, entry?: string, field?: string): BusesFileRefusal => ({
    refused: "bad_buses_file",
    path,
    mend: `cat ${quote(path)}`,
    why,
    ...(entry !== undefined && { entry }),
    ...(field !== undefined && { field }),
  });
  let value: unknown;
  try {
    value = JSON.parse(file.text);
  } catch {
    return bad("not_json");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return bad("not_an_object");
  const entries = Object.entries(value);
  if (entries.length > NAMED_BUSES_MAX) return bad("too_many");
  const buses = new Map<string, NamedBus>();
  for (const [name, value] of entries) {
    // A name that reads as an address would hide which of the two is meant.
    if (!isName(name) || name.includes("://") || name.includes(",")) return bad("bad_name");
    const bus = readEntry(name, value, dirname(path));
    if (typeof bus === "string") return bad(bus, name);
    buses.set(name, bus);
  }
  // Last, when what it names is known to be a name and a field.
  const [entry, field] = repeatedKey(file.text) ?? [];
  if (entry !== undefined) return bad(field === undefined ? "repeated_name" : "repeated_field", entry, field);
  return buses;
}

/** @returns a stable code where it is none */
function readEntry(name: string, value: unknown, directory: string): NamedBus | string {
  const read = z.safeParse(entrySchema, value);
  if (!read.success) {
    const [issue] = read.error.issues;
    return issue?.code === "unrecognized_keys"
      ? "unknown_field"
      : issue?.path.length === 0
        ? "not_an_object"
        : issue!.message;
  }
  const { url, key, profile = "public" } = read.data;
  const urls = readBusUrls(url, profile);
  if ("why" in urls) return urls.why;
  // Beside the file, so that the folder can be moved as a whole.
  const path = key === undefined ? undefined : isAbsolute(key) ? key : join(directory, key);
  return { name, urls: urls.urls, profile, ...(path !== undefined && { key: path }) };
}

/** The origins of one bus, separated by commas; the first is preferred. */
export function readBusUrls(
  text: string,
  profile: BusProfile,
):
  | { readonly urls: readonly BusUrl[] }
  | { readonly why: BusUrlRefusalCode; readonly url: string }
  | { readonly why: "bus_count"; readonly count: number } {
  const urls = new Map<string, BusUrl>();
  for (const part of text.split(",").map((each) => each.trim())) {
    if (part === "") continue;
    const url = parseBusUrl(part, { allowPrivate: profile === "private" });
    if ("refusal" in url) return { why: url.refusal, url: part };
    urls.set(url.origin, url);
  }
  if (urls.size < 1 || urls.size > URLS_MAX) return { why: "bus_count", count: urls.size };
  return { urls: [...urls.values()] };
}
