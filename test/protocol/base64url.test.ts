/** One spelling for one value: the codec is a bijection, and everything else is refused. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeBase64url, encodeBase64url } from "../../src/protocol/base64url.ts";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const utf8 = (text: string) => new TextEncoder().encode(text);
/** The runtime's own encoder, as a second opinion. */
const viaRuntime = (bytes: Uint8Array) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");

describe("known values", () => {
  it.each([
    ["", ""],
    ["f", "Zg"],
    ["fo", "Zm8"],
    ["foo", "Zm9v"],
    ["foob", "Zm9vYg"],
    ["fooba", "Zm9vYmE"],
    ["foobar", "Zm9vYmFy"],
    ["?>", "Pz4"],
    ["~~~", "fn5-"],
    ["???", "Pz8_"],
  ])("%j is %j", (plain, encoded) => {
    expect(encodeBase64url(utf8(plain))).toBe(encoded);
    expect(decodeBase64url(encoded, utf8(plain).length)).toStrictEqual(utf8(plain));
  });
});

describe("a bijection", () => {
  it("gives back the bytes of every encoding, which is the runtime's but for alphabet and padding", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        const text = encodeBase64url(bytes);
        expect(text).toBe(viaRuntime(bytes));
        expect(decodeBase64url(text, bytes.length)).toStrictEqual(new Uint8Array(bytes));
      }),
    );
  });

  it("decodes no text but the encoding of what it decodes to", () => {
    const anyText = fc.string({ unit: fc.constantFrom(...ALPHABET), minLength: 22, maxLength: 22 });
    fc.assert(
      fc.property(anyText, (text) => {
        const bytes = decodeBase64url(text, 16);
        if (bytes) expect(encodeBase64url(bytes)).toBe(text);
      }),
    );
  });

  it.each([
    { bytes: 32, characters: 43, last: 16, why: "a key has two unused bits" },
    { bytes: 64, characters: 86, last: 4, why: "a signature has four" },
    { bytes: 16, characters: 22, last: 4, why: "a nonce has four" },
    { bytes: 33, characters: 44, last: 64, why: "a multiple of three has none" },
  ])("takes $last of 64 last characters of $bytes bytes: $why", ({ bytes, characters, last }) => {
    const taken = [...ALPHABET].filter((c) => decodeBase64url("A".repeat(characters - 1) + c, bytes) !== undefined);
    expect(taken).toHaveLength(last);
  });
});

describe("refuses", () => {
  const key = "2-x6y1skC6UE9Ki5X15EO_qnIUzMzsRxM3u703bUXWQ";
  it.each([
    { text: "", why: "nothing" },
    { text: key.slice(1), why: "a character too few" },
    { text: `A${key}`, why: "a character too many" },
    { text: `${key}=`, why: "padding" },
    { text: `${key.slice(0, -1)}=`, why: "padding in the place of a character" },
    { text: key.replace("-", "+").replace("_", "/"), why: "the other alphabet" },
    { text: `${key.slice(0, -1)}R`, why: "an unused bit that is set" },
    { text: ` ${key.slice(1)}`, why: "a space" },
    { text: `${key.slice(0, -1)}\n`, why: "a line break" },
    { text: `${key.slice(0, -1)}\0`, why: "a zero character" },
    { text: `${key.slice(0, -1)}é`, why: "a character above the table of ASCII" },
    { text: `${key.slice(0, -1)}\u0141`, why: "a character whose low byte is a letter's" },
    { text: `${key.slice(0, -2)}\u{1f600}`, why: "a character of two units" },
    { text: `${key.slice(0, -1)}\ud800`, why: "half of one" },
  ])("$why", ({ text }) => {
    expect(decodeBase64url(text, 32)).toBeUndefined();
  });

  it("the encoding of another number of bytes", () => {
    for (const length of [0, 31, 33, 64]) expect(decodeBase64url(key, length)).toBeUndefined();
  });
});
