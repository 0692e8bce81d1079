/**
 * Inputs for the fuzz: valid ones with some damage, above all, since what is nearly right comes further than noise.
 *
 * `FUZZ_RUNS=20000 npm run fuzz` draws more. A failure prints its seed: `FUZZ_SEED` draws the very same inputs again.
 */

import process from "node:process";
import * as fc from "fast-check";
import { expect } from "vitest";
import { isRefusalCode } from "../../src/protocol/refusal.ts";
import { HOSTILE } from "../support/hostile.ts";

const RUNS = Number(process.env["FUZZ_RUNS"] || 300);
const SEED = Number(process.env["FUZZ_SEED"] || Date.now() % 2 ** 31);

/** How often, and from which seed. @param share of the runs, where one costs much */
export function fuzzed(share = 1): { numRuns: number; seed: number } {
  return { numRuns: Math.max(10, Math.ceil(RUNS * share)), seed: SEED };
}

/** For a test whose runs touch disks, sockets or signatures. */
export const SLOW = { timeout: 60_000 + RUNS * 200 };

/** Words that mean something to some reader, or have broken one. */
const WORDS: readonly string[] = [
  HOSTILE.filter((text) => text.length <= 4_096),
  ['"', "\\", "{", "}", "[", "]", ",", ":", "=", ".", "#", "'", "/", "//", "/*", "*/", "'''", '"""', "=\n"],
  ["\n", "\r", "\r\n", "\t", "\0", "\ufeff", "%00", "%23", "?", "&", " ", "\u00a0", "=="],
  ["null", "true", "{}", "[]", '""', "-1", "-0", "0.5", "1e999", "9007199254740993", "\\ud800", "\\u0000"],
  ['"__proto__":{},', '"constructor":1,', '"refused":"x",', '"toString":null,', '{"toString":null,"valueOf":null}'],
  ["[", '{"a":', "/*"].map((text) => text.repeat(300)),
  [" ", "\n", "\\"].map((text) => text.repeat(3_001)),
].flat();

interface Change {
  readonly how: "flip" | "cut" | "end" | "repeat" | "move" | "insert";
  readonly at: number;
  readonly to: number;
  readonly length: number;
  readonly times: number;
  readonly word: string;
}

const change: fc.Arbitrary<Change> = fc.record({
  how: fc.constantFrom("flip", "cut", "end", "repeat", "move", "insert", "insert"),
  at: fc.nat(),
  to: fc.nat(),
  length: fc.oneof({ weight: 4, arbitrary: fc.nat(4) }, fc.nat(80)),
  times: fc.oneof({ weight: 8, arbitrary: fc.nat(3) }, fc.constantFrom(63, 64, 65, 3_000)),
  word: fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...WORDS) }, fc.string({ unit: "binary", maxLength: 8 })),
});
export const changes = fc.array(change, { minLength: 1, maxLength: 4 });

function once(text: string, { how, at, to, length, times, word }: Change): string {
  const start = at % (text.length + 1);
  const piece = text.slice(start, start + length);
  const end = start + piece.length;
  const rest = text.slice(0, start) + text.slice(end);
  switch (how) {
    case "flip":
      return (
        text.slice(0, start) + String.fromCharCode(text.charCodeAt(start) ^ (1 << (to % 8))) + text.slice(start + 1)
      );
    case "cut":
      return rest;
    case "end":
      return text.slice(0, start);
    case "repeat":
      return text.slice(0, end) + piece.repeat(times) + text.slice(end);
    case "move":
      return rest.slice(0, to % (rest.length + 1)) + piece + rest.slice(to % (rest.length + 1));
    case "insert":
      return text.slice(0, start) + word + text.slice(start);
  }
}

/** The text after the changes, in their order. */
export function changed(text: string, all: readonly Change[]): string {
  return all.reduce(once, text);
}

/** The same for bytes; a word is put in as UTF-8, and may tear a character. */
export function changedBytes(bytes: Uint8Array, all: readonly Change[]): Buffer {
  const latin1 = (data: Uint8Array) => Buffer.from(data).toString("latin1");
  const words = all.map((each) => ({ ...each, word: latin1(Buffer.from(each.word)) }));
  return Buffer.from(changed(latin1(bytes), words), "latin1");
}

/** Values of the wrong kind, or at an end of the right one. */
const VALUES: readonly unknown[] = [
  [null, true, "", "x", "__proto__", "\ud800", "x".repeat(5_000), [], {}, [[]], [null], ["x", 1]],
  [0, -1, 0.5, 1e308, 2 ** 53, Number.MAX_SAFE_INTEGER, { toString: null, valueOf: null }, { length: 1 }],
].flat();
/** JSON has a way to write it, and no number for it. */
const ENDLESS = "1e999";

interface Reshape {
  readonly at: number;
  readonly to: unknown;
}

const reshape: fc.Arbitrary<Reshape> = fc.record({
  at: fc.nat(),
  to: fc.oneof(fc.constantFrom(...VALUES), fc.constantFrom(undefined, ENDLESS), fc.jsonValue({ maxDepth: 3 })),
});
const reshapes = fc.array(reshape, { minLength: 1, maxLength: 3 });

/** JSON with values in the place of others, or without them; other text as it is. */
function reshaped(text: string, all: readonly Reshape[]): string {
  let root: { "": unknown };
  try {
    root = { "": JSON.parse(text) };
  } catch {
    return text;
  }
  for (const { at, to } of all) {
    const places = placesIn(root);
    const [within, key] = places[at % places.length]!;
    if (to === undefined && !Array.isArray(within)) delete within[key];
    else within[key] = structuredClone(to);
    if (!("" in root)) return "";
  }
  return JSON.stringify(root[""]).replaceAll(JSON.stringify(ENDLESS), ENDLESS);
}

type Container = Record<string, unknown>;

function placesIn(within: object): (readonly [within: Container, key: string])[] {
  return Object.entries(within).flatMap(([key, value]) => [
    [within as Container, key] as const,
    ...(typeof value === "object" && value !== null ? placesIn(value) : []),
  ]);
}

const sometimes = <T>(arbitrary: fc.Arbitrary<T>) => ({ weight: 1, arbitrary });

/** Valid, valid with changes, a hostile text, or anything at all. */
export function near(...valid: readonly string[]): fc.Arbitrary<string> {
  const sound = fc.constantFrom(...valid);
  return fc.oneof(
    { weight: 9, arbitrary: fc.tuple(sound, changes).map(([text, all]) => changed(text, all)) },
    { weight: 6, arbitrary: fc.tuple(sound, reshapes).map(([text, all]) => reshaped(text, all)) },
    sometimes(sound),
    sometimes(fc.constantFrom(...HOSTILE)),
    sometimes(fc.string({ unit: "binary", maxLength: 200 })),
    sometimes(fc.json()),
  );
}

export function nearBytes(...valid: readonly Uint8Array[]): fc.Arbitrary<Buffer> {
  const sound = fc.constantFrom(...valid);
  const reshapedBytes = (bytes: Uint8Array, all: readonly Reshape[]) =>
    Buffer.from(reshaped(Buffer.from(bytes).toString(), all));
  return fc.oneof(
    { weight: 9, arbitrary: fc.tuple(sound, changes).map(([bytes, all]) => changedBytes(bytes, all)) },
    { weight: 6, arbitrary: fc.tuple(sound, reshapes).map(([bytes, all]) => reshapedBytes(bytes, all)) },
    sometimes(sound.map((bytes) => Buffer.from(bytes))),
    sometimes(fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes))),
  );
}

/** Far above what any of these takes, far below what a person takes for a hang. */
const PROMPT_MS = 2_000;

/** Runs it, and sees that it took no time to speak of. */
export function promptly<T>(work: () => T): T {
  const beganMs = performance.now();
  const result = work();
  expect(performance.now() - beganMs, "milliseconds").toBeLessThan(PROMPT_MS);
  return result;
}

/** A refusal of the protocol is one of its closed list. */
export function expectCode(code: unknown): void {
  expect(typeof code === "string" && isRefusalCode(code), `${String(code)} is a code`).toBe(true);
}
