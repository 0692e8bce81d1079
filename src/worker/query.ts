/** Reading query parameters. */

import { refuse, type Refusal } from "../protocol/refusal.ts";

/** A whole number in decimal digits between `min` and `max`, or `fallback` where it is not given. */
export function wholeOf(
  query: ReadonlyMap<string, readonly string[]>,
  name: string,
  min: number,
  max: number,
  fallback: number,
): number | Refusal {
  const [text] = query.get(name) ?? [];
  if (text === undefined) return fallback;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  return value >= min && value <= max ? value : refuse("bad_query");
}
