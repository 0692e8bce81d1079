/** JSON from strangers: bytes in, an object or a refusal out. Never throws, and never recurses into their nesting. */

import { JSON_DEPTH_MAX } from "./constants.ts";
import { refuse, type Refusal } from "./refusal.ts";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A parsed object whose fields are still unchecked. */
export type JsonObject = Record<string, unknown>;

/** The object in a box: a stranger's fields must not lie where a refusal's would, or one could be written by hand. */
export interface Parsed {
  readonly object: JsonObject;
}

/** Refuses with `bad_encoding`, `too_deep` or `bad_json` (anything but one object). */
export function parseJsonObject(bytes: Uint8Array): Parsed | Refusal {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    return refuse("bad_encoding");
  }
  return parseJsonText(text);
}

/** The same for text that is already decoded, as a socket's frames are. */
export function parseJsonText(text: string): Parsed | Refusal {
  if (isTooDeep(text)) return refuse("too_deep");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return refuse("bad_json");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return refuse("bad_json");
  return { object: value as JsonObject };
}

/** Counts brackets outside strings, before parsing: deep nesting overflows a parser's or a copier's stack. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (inString) {
      if (c === 0x5c /* \ */) i++;
      else if (c === 0x22 /* " */) inString = false;
    } else if (c === 0x22) inString = true;
    else if (c === 0x7b /* { */ || c === 0x5b /* [ */) {
      if (++depth > JSON_DEPTH_MAX) return true;
    } else if (c === 0x7d /* } */ || c === 0x5d /* ] */) depth--;
  }
  return false;
}
