/** JSON from strangers: what is taken, what each refusal is for, and that nothing throws. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JSON_DEPTH_MAX } from "../../src/protocol/constants.ts";
import { parseJsonObject, parseJsonText } from "../../src/protocol/json.ts";
import { isRefusal } from "../../src/protocol/refusal.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);
const arrays = (depth: number) => `{"a":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;
const objects = (depth: number) => `${'{"a":'.repeat(depth)}0${"}".repeat(depth)}`;

describe("text", () => {
  it.each([
    { text: "", refused: "bad_json", why: "nothing" },
    { text: " ", refused: "bad_json", why: "a space" },
    { text: "null", refused: "bad_json", why: "null is no object" },
    { text: "[]", refused: "bad_json", why: "nor is a list" },
    { text: '"a"', refused: "bad_json", why: "nor a string" },
    { text: "7", refused: "bad_json", why: "nor a number" },
    { text: "{}{}", refused: "bad_json", why: "two objects" },
    { text: '{"a":1', refused: "bad_json", why: "a body cut short" },
    { text: "{'a':1}", refused: "bad_json", why: "the wrong quotes" },
    { text: '{"a":1,}', refused: "bad_json", why: "a trailing comma" },
    { text: '{"a":NaN}', refused: "bad_json", why: "a number that JSON has not" },
    { text: '{"a":"\n"}', refused: "bad_json", why: "a raw line break in a string" },
    { text: "\ufeff{}", refused: "bad_json", why: "a byte order mark" },
    { text: "]]]][[[[", refused: "bad_json", why: "brackets that close before they open" },
    { text: arrays(JSON_DEPTH_MAX + 1), refused: "too_deep", why: "lists one level too deep" },
    { text: objects(JSON_DEPTH_MAX + 1), refused: "too_deep", why: "objects one level too deep" },
    { text: "[".repeat(1_000_000), refused: "too_deep", why: "a million levels, before any parser sees them" },
    { text: `"${"\\\\"}"${"[".repeat(17)}`, refused: "too_deep", why: "an escaped backslash does not hide the quote" },
  ])("refuses $why as $refused", ({ text, refused }) => {
    expect(parseJsonText(text)).toStrictEqual({ refused });
    expect(parseJsonObject(utf8(text))).toStrictEqual({ refused });
  });

  it.each([
    { text: "{}", why: "an empty object" },
    { text: ' \t\r\n{"a":1} ', why: "white space around it" },
    { text: arrays(JSON_DEPTH_MAX), why: "lists as deep as allowed" },
    { text: objects(JSON_DEPTH_MAX), why: "objects as deep as allowed" },
    { text: JSON.stringify({ a: "[".repeat(100) }), why: "brackets inside a string, which are no levels" },
    { text: JSON.stringify({ a: `"${"{".repeat(100)}` }), why: "the same after an escaped quote" },
    { text: JSON.stringify({ a: "\\", b: "[".repeat(100) }), why: "the same after an escaped backslash" },
    { text: JSON.stringify({ a: Array.from({ length: 1000 }, () => [[]]) }), why: "many levels side by side" },
  ])("takes $why", ({ text }) => {
    expect(parseJsonText(text)).toStrictEqual({ object: JSON.parse(text) });
    expect(parseJsonObject(utf8(text))).toStrictEqual({ object: JSON.parse(text) });
  });

  it("keeps a prototype field as a field, so that a schema sees and refuses it", () => {
    const parsed = parseJsonText('{"__proto__":{"admin":true}}');
    const value = isRefusal(parsed) ? {} : parsed.object;
    expect(Object.hasOwn(value, "__proto__")).toBe(true);
    expect("admin" in value).toBe(false);
  });
});

it.each(['{"refused":"stale"}', '{"refused":"no such code"}', '{"refused":"bad_json","status":200}'])(
  "lets no stranger write a refusal of ours: %s",
  (text) => {
    // Taken for one of ours, its code and status would be theirs.
    expect(parseJsonText(text)).toStrictEqual({ object: JSON.parse(text) });
  },
);

describe("bytes", () => {
  const inString = (...bytes: number[]) => Uint8Array.of(...utf8('{"a":"'), ...bytes, ...utf8('"}'));
  it.each([
    { bytes: inString(0xff), why: "a byte that UTF-8 has not" },
    { bytes: inString(0xc3), why: "half a character" },
    { bytes: inString(0xc0, 0xaf), why: "an overlong spelling" },
    { bytes: inString(0xed, 0xa0, 0x80), why: "a surrogate" },
    { bytes: inString(0xf4, 0x90, 0x80, 0x80), why: "a code point past the last" },
    { bytes: Uint8Array.of(0xff, 0xfe, 0x7b, 0, 0x7d, 0), why: "UTF-16" },
  ])("refuses $why as bad_encoding", ({ bytes }) => {
    expect(parseJsonObject(bytes)).toStrictEqual({ refused: "bad_encoding" });
  });

  it("refuses a byte order mark instead of dropping it: a body has one spelling", () => {
    expect(parseJsonObject(Uint8Array.of(0xef, 0xbb, 0xbf, 0x7b, 0x7d))).toStrictEqual({ refused: "bad_json" });
  });
});

describe("for every input", () => {
  it("never throws, and answers an object or a refusal", () => {
    const anyText = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.string({ unit: fc.constantFrom(...'{}[]":,\\a0 \n'), maxLength: 200 }),
      fc.json(),
    );
    fc.assert(
      fc.property(anyText, (text) => {
        const value = parseJsonText(text);
        expect(typeof value === "object" && value !== null && !Array.isArray(value)).toBe(true);
        if (isRefusal(value)) expect(["bad_json", "too_deep"]).toContain(value.refused);
      }),
    );
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        expect(() => parseJsonObject(bytes)).not.toThrow();
      }),
    );
  });

  it("agrees with JSON.parse on every object that is not too deep", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: JSON_DEPTH_MAX - 2 })), (value) => {
        const text = JSON.stringify(value);
        expect(parseJsonText(text)).toStrictEqual({ object: JSON.parse(text) });
      }),
    );
  });
});
