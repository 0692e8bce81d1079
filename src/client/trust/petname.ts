/**
 * PURE. What we call a peer: which names are allowed, which look alike, and which may have been meant.
 *
 * A petname is the only name of a sender that a model sees, so it must not pass for something else: for `self`,
 * for a key, or for a fingerprint.
 */

import { parseKey } from "../../protocol/address.ts";
import { isName } from "../../protocol/schema.ts";

/** How a message of our own identity is shown; no peer may be called so, however it is spelled. */
export const SELF = "self";

const FINGERPRINT = /^[A-Z2-7]{4}(-?[A-Z2-7]{4}){3}$/i;

/** Names offered for an unknown one, at most. */
const NEAR_MAX = 3;
/** Slips of a finger that still count as near: two, but never half of a short name. */
const NEAR_EDITS_MAX = 2;

/** Why a text is no petname, or undefined. */
export function refusePetname(text: string): "bad_petname" | "reserved_petname" | undefined {
  if (!isName(text)) return "bad_petname";
  const isTaken = skeletonOf(text) === skeletonOf(SELF) || parseKey(text) !== undefined || FINGERPRINT.test(text);
  return isTaken ? "reserved_petname" : undefined;
}

/** What a person should know before they take a name; no reason to refuse it. */
export interface PetnameWarning {
  /** Existing petnames that look the same or nearly so. */
  readonly looks_like: readonly string[];
  /** It mixes Latin, Greek and Cyrillic letters, which no language does. */
  readonly is_mixed: boolean;
}

/** The warning for a new name beside the existing ones; undefined if there is nothing to say. */
export function warnOf(name: string, others: Iterable<string>): PetnameWarning | undefined {
  const skeleton = skeletonOf(name);
  const looks_like = [...others].filter((other) => other !== name && skeletonOf(other) === skeleton);
  const is_mixed = SCRIPTS.filter((script) => script.test(name)).length > 1;
  return is_mixed || looks_like.length > 0 ? { looks_like, is_mixed } : undefined;
}

const SCRIPTS = [/\p{Script=Latin}/u, /\p{Script=Greek}/u, /\p{Script=Cyrillic}/u];

/** Small letters and signs in the shape of a Latin letter, each beside it; case is folded first. */
const LOOKALIKES: ReadonlyMap<string, string> = new Map(
  [
    "аa вb еe һh іl јj кk мm нh оo рp сc тt уy хx ѕs ԁd ԛq ԝw ѵv ӏl гr ьb пn", // Cyrillic
    "αa βb εe ηn ιl κk νv οo ρp τt υu χx γy", // Greek
    "ıl il 1l |l 0o 5s $s", // Latin, digits, signs
  ].flatMap((line) => line.split(" ").map((pair) => [pair[0]!, pair[1]!] as const)),
);

/**
 * The same text for names that look alike: compatibility forms, accents, case, separators, and the letters above
 * are levelled. It does not catch other scripts (Armenian, Cherokee, Han), shapes of several letters but `rn`,
 * `cl` and `vv`, and names that differ in sense alone (`alice` and `alice-laptop`). The fingerprint is what tells keys apart.
 */
export function skeletonOf(name: string): string {
  const plain = name
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/[\p{P}\p{Z}]/gu, "-");
  return Array.from(plain, (letter) => LOOKALIKES.get(letter) ?? letter)
    .join("")
    .replaceAll("rn", "m")
    .replaceAll("cl", "d")
    .replaceAll("vv", "w");
}

/** The names that may have been meant by one that nobody has: same look, a beginning, or few slips; the likeliest first. */
export function nearNames(name: string, names: Iterable<string>): string[] {
  const wanted = skeletonOf(name.slice(0, 64));
  if (wanted === "") return [];
  const scored = [...names].map((candidate) => ({ candidate, distance: distanceOf(wanted, skeletonOf(candidate)) }));
  return scored
    .filter(({ distance }) => distance <= NEAR_EDITS_MAX)
    .sort((a, b) => a.distance - b.distance || (a.candidate < b.candidate ? -1 : 1))
    .slice(0, NEAR_MAX)
    .map(({ candidate }) => candidate);
}

function distanceOf(wanted: string, name: string): number {
  if (wanted === name) return 0;
  if (wanted.length >= 2 && (name.startsWith(wanted) || wanted.startsWith(name))) return 1;
  const edits = editsBetween(wanted, name);
  return edits * 2 < Math.max(wanted.length, name.length) ? edits : Infinity;
}

/** Insertions, deletions, replacements and swaps of neighbours that lead from one text to the other. */
function editsBetween(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      let least = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, beforeLast[j - 2]! + 1);
      row.push(least);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length]!;
}
