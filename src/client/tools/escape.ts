/**
 * PURE. How text that others wrote is put where a model, a terminal or a log reads it: as one line of JSON, with
 * nothing hidden and no markup, that parses back exactly.
 *
 * `<`, `>` and `&` are escaped because hosts mark what is theirs with tags, and a body must not be able to close one.
 */

import { byteLength, escapeInvisible } from "../../protocol/text.ts";

/** The same text without markup and invisible characters, each as `\uXXXX`; inside JSON it parses back to the same value. */
export function escapeMarkup(text: string): string {
  return escapeInvisible(text).replace(/[<>&]/g, (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`);
}

/** One line of JSON. A lone surrogate is escaped by JSON itself, so it too comes back as it was. */
export function jsonLine(value: unknown): string {
  return escapeMarkup(JSON.stringify(value));
}

/** A name or an id within a sentence: in quotes, so that it is seen where it ends. */
export function quoted(text: string): string {
  return jsonLine(text);
}

/** A name as a field of its own, without quotes: an ordinary name stays as it is. */
export function shown(text: string): string {
  return jsonLine(text).slice(1, -1);
}

/** UTF-8 bytes that a text takes once it is escaped. */
export function escapedSize(text: string): number {
  return byteLength(shown(text));
}

/** The longest beginning that takes at most `maxBytes` once escaped, cut between characters. */
export function cutEscaped(text: string, maxBytes: number): string {
  const isIn = (length: number) => escapedSize(text.slice(0, wholeLength(text, length))) <= maxBytes;
  if (isIn(text.length)) return text;
  let fits = 0;
  let over = text.length;
  while (over - fits > 1) {
    const middle = (fits + over) >> 1;
    if (isIn(middle)) fits = middle;
    else over = middle;
  }
  return text.slice(0, wholeLength(text, fits));
}

/** The length without a last half of a pair, which would be no character and takes more room than the whole. */
function wholeLength(text: string, length: number): number {
  const isSplit = /[\ud800-\udbff]/.test(text.charAt(length - 1)) && /[\udc00-\udfff]/.test(text.charAt(length));
  return isSplit ? length - 1 : length;
}

/** Bounds of what one answer carries, in bytes of escaped text. */
export interface Room {
  readonly each: number;
  readonly all: number;
}

/** The texts, cut where they are too long; where all together are, the longest are cut and the short ones stay whole. */
export function cutToRoom(texts: readonly string[], { each, all }: Room): string[] {
  const sizes = texts.map((text) => Math.min(escapedSize(text), each));
  let left = all;
  let most = each;
  const ascending = [...sizes].sort((a, b) => a - b);
  for (const [index, size] of ascending.entries()) {
    const share = Math.floor(left / (ascending.length - index));
    if (size > share) {
      most = share;
      break;
    }
    left -= size;
  }
  return texts.map((text) => cutEscaped(text, most));
}

/** An instant for a reader. A peer's clock may name one that no calendar has. */
export function isoOf(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}
