/**
 * PURE. Which key a person means by what they typed: the key, its fingerprint, or a beginning of it.
 *
 * The original shows the first 8 characters of a key. Those are 48 bits, which a stranger can match by trying keys for
 * days, so they choose nothing where any other known key begins alike, and are marked as weak where they do.
 */

import { fingerprint, parseKey, type Key } from "../../protocol/address.ts";

/** `weak`: chosen by 48 bits; show the whole fingerprint and ask before trust is built on it. */
export type KeyChoice =
  | { readonly key: Key; readonly weak: boolean }
  | {
      readonly refused:
        | "unknown_key"
        /** Several begin so; `keys` are those. */
        | "ambiguous_key"
        /** No key, no fingerprint, and too short for a beginning. */
        | "bad_key_choice";
      readonly keys: readonly Key[];
    };

/** 16 characters of a key are 96 bits. */
const PREFIX_MIN_CHARS = 16;
const ORIGINAL_CHARS = 8;
const KEY_CHARS = 43;

/**
 * @param candidates what may be chosen
 * @param known every other key that we know of: peers, and all on the roster; a clash with one makes the original's
 * short form ambiguous
 */
export function chooseKey(typed: string, candidates: Iterable<Key>, known: Iterable<Key> = []): KeyChoice {
  const text = typed.trim();
  const eligible = [...new Set(candidates)];
  if (text.length === ORIGINAL_CHARS) {
    const alike = [...new Set([...eligible, ...known])].filter((key) => key.startsWith(text));
    const choice = choose(alike, true);
    // Alone, but not among those that may be chosen.
    return "key" in choice && !eligible.includes(choice.key) ? { refused: "unknown_key", keys: [] } : choice;
  }
  // A whole key is nobody's beginning.
  if (parseKey(text)) return choose(eligible.filter((key) => key === text));
  const print = text.replace(/[\s-]/g, "").toUpperCase();
  const isPrint = /^[A-Z2-7]{16}$/.test(print);
  if (!isPrint && (text.length < PREFIX_MIN_CHARS || text.length > KEY_CHARS))
    return { refused: "bad_key_choice", keys: [] };
  return choose(
    eligible.filter(
      (key) =>
        (text.length >= PREFIX_MIN_CHARS && key.startsWith(text)) ||
        (isPrint && fingerprint(key).replaceAll("-", "") === print),
    ),
  );
}

function choose(matching: readonly Key[], weak = false): KeyChoice {
  const [only, second] = matching;
  if (!only) return { refused: "unknown_key", keys: [] };
  return second ? { refused: "ambiguous_key", keys: matching } : { key: only, weak };
}
