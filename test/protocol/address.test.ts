/** Keys, session ids, routes and fingerprints: what is taken, what refused, and that splitting and building agree. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  fingerprint,
  formatRoute,
  isMessageId,
  keyBytes,
  parseKey,
  parseRoute,
  parseSessionId,
  type Key,
  type Route,
  type SessionId,
} from "../../src/protocol/address.ts";
import { encodeBase64url } from "../../src/protocol/base64url.ts";
import keys from "../vectors/keys.json";

const alice = keys.alice.public;
const SMALL_ORDER = `AQ${"A".repeat(41)}`;

describe("a key", () => {
  it.each(Object.values(keys))("is taken in its canonical spelling: $public", (vector) => {
    expect(parseKey(vector.public)).toBe(vector.public);
    expect(keyBytes(vector.public as Key)).toHaveLength(32);
  });

  it.each([
    { text: "", why: "nothing" },
    { text: alice.slice(0, 8), why: "the original's short form" },
    { text: `${alice}=`, why: "padding" },
    { text: `${alice.slice(0, -1)}R`, why: "an unused bit that is set" },
    { text: alice.replace("-", "+"), why: "the other alphabet" },
    { text: ` ${alice}`, why: "a space" },
    { text: SMALL_ORDER, why: "a point of small order, under which anyone can sign" },
    { text: `7v${"_".repeat(39)}38`, why: "a second spelling of such a point, y = p + 1" },
  ])("is refused: $why", ({ text }) => {
    expect(parseKey(text)).toBeUndefined();
  });
});

describe("a session id, and a message id by the same rule", () => {
  it.each([
    { text: "s", why: "one character" },
    { text: "a".repeat(64), why: "sixty-four" },
    { text: "5b1f3d1e-0a55-4c0e-9a0a-6f8f6a3b2c11", why: "a UUID" },
    { text: "A_z-0_9", why: "every class of its alphabet" },
    { text: "-", why: "a dash alone" },
  ])("is taken: $why", ({ text }) => {
    expect(parseSessionId(text)).toBe(text);
    expect(isMessageId(text)).toBe(true);
  });

  it.each([
    { text: "", why: "nothing" },
    { text: "a".repeat(65), why: "sixty-five characters" },
    { text: "a b", why: "a space" },
    { text: "a#b", why: "what separates a route" },
    { text: "a.b", why: "a dot" },
    { text: "a/b", why: "a slash" },
    { text: "a=b", why: "padding" },
    { text: "a\n", why: "a line break at the end" },
    { text: "\na", why: "a line break at the beginning" },
    { text: "a\0", why: "a zero character" },
    { text: "é", why: "a letter of another alphabet" },
    { text: "\uff11", why: "a digit of another width" },
    { text: "a\u200b", why: "a zero-width space" },
  ])("is refused: $why", ({ text }) => {
    expect(parseSessionId(text)).toBeUndefined();
    expect(isMessageId(text)).toBe(false);
  });
});

describe("a route", () => {
  it("is a key and a session, or the bare key for the identity's own inbox", () => {
    expect(parseRoute(`${alice}#s1`)).toStrictEqual({ key: alice, session: "s1" });
    expect(parseRoute(alice)).toStrictEqual({ key: alice });
  });

  it.each([
    { text: "", refused: "bad_route", why: "nothing" },
    { text: "#", refused: "bad_route", why: "a separator alone" },
    { text: "#s1", refused: "bad_route", why: "no key" },
    { text: `${alice}#a#b`, refused: "bad_route", why: "two sessions" },
    { text: `${alice}##`, refused: "bad_route", why: "two separators" },
    { text: "alice#s1", refused: "bad_key", why: "a name in the key's place" },
    { text: `${alice.slice(1)}#s1`, refused: "bad_key", why: "a key too short" },
    { text: `${alice.slice(0, -1)}R#s1`, refused: "bad_key", why: "an alias of the key, which would be another inbox" },
    { text: `${SMALL_ORDER}#s1`, refused: "bad_key", why: "a key of small order" },
    { text: `${alice}=#s1`, refused: "bad_key", why: "a padded key" },
    { text: `${alice}#`, refused: "bad_session", why: "an empty session, which is not the same as none" },
    { text: `${alice}#${"a".repeat(65)}`, refused: "bad_session", why: "a session id too long" },
    { text: `${alice}#a b`, refused: "bad_session", why: "a space" },
    { text: `${alice}#a\n`, refused: "bad_session", why: "a line break" },
    { text: `${alice}%23s1`, refused: "bad_key", why: "a separator still percent-encoded" },
  ])("refuses $why as $refused", ({ text, refused }) => {
    expect(parseRoute(text)).toStrictEqual({ refused });
  });

  it("is built and split without loss", () => {
    const anySession = fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/).map((text) => text as SessionId);
    const anyKey = fc.constantFrom(...Object.values(keys).map((vector) => vector.public as Key));
    const anyRoute: fc.Arbitrary<Route> = fc.record(
      { key: anyKey, session: anySession },
      { requiredKeys: ["key"], noNullPrototype: true },
    );
    fc.assert(
      fc.property(anyRoute, (route) => {
        expect(parseRoute(formatRoute(route))).toStrictEqual(route);
      }),
    );
  });

  it("has one spelling: whatever text is taken is built again from its parts", () => {
    const anyText = fc.oneof(
      fc.string({ unit: fc.constantFrom("#", "s", "-", " "), maxLength: 4 }).map((rest) => alice + rest),
      fc.string({ unit: "binary" }),
    );
    fc.assert(
      fc.property(anyText, (text) => {
        const route = parseRoute(text);
        if ("key" in route) expect(formatRoute(route)).toBe(text);
      }),
    );
  });
});

describe("a fingerprint", () => {
  const withBit = (bit: number): Key => {
    const bytes = keyBytes(alice as Key);
    bytes[bit >> 3]! ^= 0x80 >> (bit & 7);
    return encodeBase64url(bytes) as Key;
  };

  it.each([
    { key: keys.alice.public, expected: "3PWH-VS23-EQF2-KBHU" },
    { key: keys.bob.public, expected: "NIZK-M7RR-BXAL-SAJP" },
    { key: keys.carol.public, expected: "FCMM-2S4R-3EUK-QH7X" },
    { key: "A".repeat(43), expected: "AAAA-AAAA-AAAA-AAAA" },
    { key: `${"_".repeat(42)}8`, expected: "7777-7777-7777-7777" },
  ])("is the base32 that other programs give: $expected", ({ key, expected }) => {
    expect(fingerprint(key as Key)).toBe(expected);
  });

  it("tells keys apart that differ in any of their first 80 bits", () => {
    const all = Array.from({ length: 80 }, (_, bit) => fingerprint(withBit(bit)));
    expect(new Set([...all, fingerprint(alice as Key)]).size).toBe(81);
  });

  it("tells keys apart whose original fingerprints, the first 48 bits, are the same", () => {
    const twin = withBit(60);
    expect(twin.slice(0, 8)).toBe(keys.alice.fingerprint);
    expect(fingerprint(twin)).not.toBe(fingerprint(alice as Key));
  });

  it("says nothing of the rest: it is for people to compare, never a key's name", () => {
    expect(fingerprint(withBit(80))).toBe(fingerprint(alice as Key));
  });

  it("reads from the left: each group of four stands for the next 20 bits", () => {
    const groupsOf = (key: Key) => fingerprint(key).split("-");
    for (const [group, bit] of [0, 20, 40, 60].entries()) {
      const expected = groupsOf(alice as Key).map((text, i) => (i === group ? expect.not.stringMatching(text) : text));
      expect(groupsOf(withBit(bit))).toEqual(expected);
    }
  });

  it("is four groups of four for every key, with no character that is mistaken for another", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        expect(fingerprint(encodeBase64url(bytes) as Key)).toMatch(/^[A-Z2-7]{4}(-[A-Z2-7]{4}){3}$/);
      }),
    );
  });
});
