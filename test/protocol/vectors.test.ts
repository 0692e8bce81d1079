/**
 * The frozen bytes: other programs made these files, so that no mistake of ours can agree with itself.
 *
 * They are about bytes and signatures. Some would not pass a schema (an empty text, a `ts` of 2^53 - 1),
 * so what is read here is cast, not parsed.
 */

import { describe, expect, it } from "vitest";
import { keyBytes, parseKey, type Key, type SessionId } from "../../src/protocol/address.ts";
import { verifyAnnouncement, verifyUnregister, type Announcement } from "../../src/protocol/announcement.ts";
import { decodeBase64url, encodeBase64url } from "../../src/protocol/base64url.ts";
import {
  announcementBytes,
  messageBytes,
  sha256,
  tokenBytes,
  unregisterBytes,
  wakeLeaseBytes,
} from "../../src/protocol/canonical.ts";
import { verifyMessage, type Message } from "../../src/protocol/message.ts";
import { parseSignature, verifySignature } from "../../src/protocol/signature.ts";
import { publicKeyOf, sign } from "../../src/protocol/signing.ts";
import { isStrictSignature } from "../../src/protocol/strict-point.ts";
import { formatToken, parseToken, signedTokenBytes, verifyToken, type Token } from "../../src/protocol/token.ts";
import { verifyWakeLease } from "../../src/protocol/wake-lease.ts";
import announcements from "../vectors/announcements.json";
import keys from "../vectors/keys.json";
import messages from "../vectors/messages.json";
import strictness from "../vectors/strictness.json";
import tokens from "../vectors/tokens.json";
import unregisters from "../vectors/unregisters.json";
import wakes from "../vectors/wakes.json";

type Signer = keyof typeof keys;

const seedOf = (signer: string) => decodeBase64url(keys[signer as Signer].seed, 32)!;
const keyOf = (signer: string) => keys[signer as Signer].public as Key;
const hexOf = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const fromHex = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
/** Copied, since one runtime's types leave open what buffer an encoder gives. */
const utf8 = (text: string) => Uint8Array.from(new TextEncoder().encode(text));

it("reads every file: a vector that is not there cannot fail", () => {
  expect({
    keys: Object.keys(keys).length,
    messages: [messages.length, messages.filter(({ valid }) => valid).length],
    announcements: [announcements.length, announcements.filter(({ valid }) => valid).length],
    unregisters: unregisters.length,
    wakes: [wakes.length, wakes.filter(({ valid }) => valid).length],
    tokens: tokens.length,
    strictness: [strictness.length, strictness.filter(({ accept }) => accept).length],
  }).toStrictEqual({
    keys: 3,
    messages: [39, 16],
    announcements: [9, 4],
    unregisters: 2,
    wakes: [13, 4],
    tokens: 4,
    strictness: [10, 1],
  });
});

describe("keys", () => {
  it.each(Object.entries(keys))("derives the public key of %s from the seed", async (signer, vector) => {
    expect(await publicKeyOf(seedOf(signer))).toBe(vector.public);
    expect(parseKey(vector.public)).toBe(vector.public);
    expect(encodeBase64url(seedOf(signer))).toBe(vector.seed);
    expect(encodeBase64url(keyBytes(keyOf(signer)))).toBe(vector.public);
    // The original's fingerprint, which is accepted as input.
    expect(vector.public.slice(0, 8)).toBe(vector.fingerprint);
  });
});

describe("messages", () => {
  it.each(messages.filter(({ valid }) => valid))("signs and verifies: $name", async (vector) => {
    const message = vector.wire as Message;
    const bytes = messageBytes(message);
    expect(hexOf(bytes)).toBe(vector.canonical_hex);
    expect(await sign(bytes, seedOf(vector.signer!))).toBe(message.sig);
    expect(message.from).toBe(keyOf(vector.signer!));
    expect(await verifyMessage(message)).toBe(true);
  });

  it.each(messages.filter(({ valid }) => !valid))("rejects: $name", async ({ wire }) => {
    // Stands for what a bus does: no key is made but by parseKey, so a refused one is never verified with.
    const accepted = parseKey(wire.from) !== undefined && (await verifyMessage(wire as Message));
    expect(accepted).toBe(false);
  });

  it.each([
    { part: "key", names: /small-order|non-canonical/, parse: (wire: Message) => parseKey(wire.from) },
    {
      part: "signature's spelling",
      names: /truncated|padded|alphabet/,
      parse: (wire: Message) => parseSignature(wire.sig),
    },
  ])("rejects by the $part alone where that is what is wrong", ({ names, parse }) => {
    const matching = messages.filter(({ name }) => names.test(name));
    expect(matching.length).toBeGreaterThan(2);
    for (const { wire } of matching) expect(parse(wire as Message)).toBeUndefined();
  });
});

describe("announcements", () => {
  it.each(announcements.filter(({ canonical_hex }) => canonical_hex))("signs: $name", async (vector) => {
    const announcement = vector.wire as Announcement;
    const bytes = announcementBytes(announcement);
    expect(hexOf(bytes)).toBe(vector.canonical_hex);
    expect(await sign(bytes, seedOf(vector.signer!))).toBe(announcement.sig);
    expect(announcement.pubkey).toBe(keyOf(vector.signer!));
  });

  it.each(announcements)("$name: valid is $valid", async ({ wire, valid }) => {
    expect(await verifyAnnouncement(wire as Announcement)).toBe(valid);
  });
});

describe("unregisters", () => {
  it.each(unregisters)("signs and verifies: $name", async (vector) => {
    const pubkey = keyOf(vector.signer);
    const session_id = vector.session_id as SessionId;
    const bytes = unregisterBytes(pubkey, session_id, vector.ts);
    expect(hexOf(bytes)).toBe(vector.canonical_hex);
    expect(await sign(bytes, seedOf(vector.signer))).toBe(vector.sig);

    const unregister = { pubkey, session: { session_id }, ts: vector.ts, sig: vector.sig };
    expect(await verifyUnregister(unregister)).toBe(true);
    expect(await verifyUnregister({ ...unregister, ts: vector.ts + 1 })).toBe(false);
    expect(await verifyUnregister({ ...unregister, session: { session_id: "other" as SessionId } })).toBe(false);
    expect(await verifyUnregister({ ...unregister, pubkey: keyOf("carol") })).toBe(false);
  });
});

describe("leases of what wakes a session", () => {
  const announcedBy = (signer: string, session_id: string) =>
    ({ pubkey: keyOf(signer), session: { session_id } }) as Announcement;

  it.each(wakes.filter(({ valid }) => valid))("signs: $name", async ({ signer, session_id, canonical_hex, wake }) => {
    const bytes = wakeLeaseBytes({ key: keyOf(signer), session_id, ...wake });
    expect(hexOf(bytes)).toBe(canonical_hex);
    expect(await sign(bytes, seedOf(signer))).toBe(wake.sig);
    const changes = [
      verifyWakeLease({ ...wake, path: `${wake.path}x` }, announcedBy(signer, session_id)),
      verifyWakeLease({ ...wake, proven_at_ms: wake.proven_at_ms + 1 }, announcedBy(signer, session_id)),
      verifyWakeLease({ ...wake, until_ms: wake.until_ms - 1 }, announcedBy(signer, session_id)),
      verifyWakeLease(wake, announcedBy(signer, `${session_id}x`)),
      verifyWakeLease(wake, announcedBy(signer === "carol" ? "alice" : "carol", session_id)),
    ];
    expect(new Set(await Promise.all(changes))).toStrictEqual(new Set([false]));
  });

  it.each(wakes)("$name: valid is $valid", async ({ signer, session_id, wake, valid }) => {
    expect(await verifyWakeLease(wake, announcedBy(signer, session_id))).toBe(valid);
  });
});

describe("tokens", () => {
  it.each(tokens)("signs, formats, parses and verifies: $name", async ({ request, ...vector }) => {
    const key = keyOf(vector.signer);
    const { audience, method, target, ts } = request;
    const nonce = fromHex(request.nonce_hex);
    const body = utf8(request.body);
    const bytes = tokenBytes({ key, ts, nonce, audience, method, target, bodyHash: await sha256(body) });
    expect(hexOf(bytes)).toBe(vector.canonical_hex);
    expect(await sign(bytes, seedOf(vector.signer))).toBe(vector.sig);

    const token: Token = { key, ts, nonce: encodeBase64url(nonce), sig: vector.sig };
    expect(formatToken(token)).toBe(vector.token);
    expect(parseToken(vector.token)).toStrictEqual(token);
    expect(await signedTokenBytes(token, { method, target, body }, audience)).toStrictEqual(bytes);
    expect(await verifyToken(token, { method, target, body }, ["https://other.example", audience])).toBe(true);
  });

  it.each(tokens)("binds every part of the request: $name", async ({ signer, request, token }) => {
    const parsed = parseToken(token) as Token;
    const { audience, method, target, ts } = request;
    const body = utf8(request.body);
    const signed = { method, target, body };
    const changes = [
      verifyToken(parsed, { ...signed, method: "PUT" }, [audience]),
      verifyToken(parsed, { ...signed, target: `${target}&` }, [audience]),
      verifyToken(parsed, { ...signed, body: utf8(`${request.body} `) }, [audience]),
      verifyToken(parsed, signed, ["https://other.example"]),
      verifyToken(parsed, signed, []),
      verifyToken({ ...parsed, ts: ts + 1 }, signed, [audience]),
      verifyToken({ ...parsed, nonce: "AAAAAAAAAAAAAAAAAAAAAA" }, signed, [audience]),
      verifyToken({ ...parsed, key: keyOf(signer === "carol" ? "alice" : "carol") }, signed, [audience]),
    ];
    expect(new Set(await Promise.all(changes))).toStrictEqual(new Set([false]));
  });

  const [good] = tokens as [(typeof tokens)[number]];
  const [prefix, key, ts, nonce, sig] = good.token.split(".") as [string, string, string, string, string];
  it.each([
    { token: "", refused: "bad_auth", why: "nothing" },
    { token: ["il2", key, ts, nonce, sig].join("."), refused: "bad_auth", why: "another version" },
    { token: [prefix, key, `0${ts}`, nonce, sig].join("."), refused: "bad_auth", why: "a leading zero" },
    { token: [prefix, key, "-1", nonce, sig].join("."), refused: "bad_auth", why: "a negative time" },
    { token: [prefix, key, "1e3", nonce, sig].join("."), refused: "bad_auth", why: "an exponent" },
    { token: [prefix, key, "9007199254740992", nonce, sig].join("."), refused: "bad_auth", why: "a ts of 2^53" },
    {
      token: [prefix, key, ts, `${nonce.slice(0, -1)}x`, sig].join("."),
      refused: "bad_auth",
      why: "nonce bits unused",
    },
    { token: [prefix, key, ts, nonce.slice(1), sig].join("."), refused: "bad_auth", why: "a short nonce" },
    { token: [prefix, key, ts, nonce, `${sig.slice(0, -1)}x`].join("."), refused: "bad_auth", why: "sig bits unused" },
    { token: [prefix, key, ts, nonce, `${sig}==`].join("."), refused: "bad_auth", why: "a padded signature" },
    { token: `${good.token}\n`, refused: "bad_auth", why: "a line break after it" },
    { token: ` ${good.token}`, refused: "bad_auth", why: "a space before it" },
    { token: `${good.token}.`, refused: "bad_auth", why: "a sixth part" },
    { token: [prefix, "A".repeat(43), ts, nonce, sig].join("."), refused: "bad_key", why: "a key of small order" },
  ])("refuses $why", ({ token, refused }) => {
    expect(parseToken(token)).toStrictEqual(refused === "bad_key" ? { refused, status: 401 } : { refused });
  });
});

describe("strictness", () => {
  it.each(strictness)("case $case: accept is $accept", async (vector) => {
    const key = parseKey(encodeBase64url(fromHex(vector.public_key_hex)));
    const signature = encodeBase64url(fromHex(vector.signature_hex));
    const accepted = key !== undefined && (await verifySignature(fromHex(vector.message_hex), signature, key));
    expect(accepted).toBe(vector.accept);
  });
});

describe("points that are no key, and signatures of two spellings", () => {
  /** Little-endian y of the eight points of small order; two points share each but 1 and p-1. */
  const SMALL_ORDER_Y = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  ];
  /** p = 2^255 - 19, so 19 encodings of 255 bits are not below it. */
  const NOT_BELOW_P = Array.from({ length: 19 }, (_, i) => `${(0xed + i).toString(16)}${"ff".repeat(30)}7f`);

  const withSign = (hex: string) => hex.slice(0, 62) + (Number.parseInt(hex.slice(62), 16) | 0x80).toString(16);
  const bothSigns = (hexes: readonly string[]) => hexes.flatMap((hex) => [hex, withSign(hex)]);
  const isKey = (hex: string) => parseKey(encodeBase64url(fromHex(hex))) !== undefined;
  const good = strictness.find(({ accept }) => accept)!.signature_hex;

  it.each(bothSigns(SMALL_ORDER_Y))("refuses small order: %s", (hex) => expect(isKey(hex)).toBe(false));

  it.each(bothSigns(NOT_BELOW_P))("refuses a second spelling: %s", (hex) => expect(isKey(hex)).toBe(false));

  it.each(bothSigns([...SMALL_ORDER_Y, ...NOT_BELOW_P]))("refuses it as R too: %s", (hex) => {
    expect(isStrictSignature(fromHex(hex + good.slice(64)))).toBe(false);
  });

  it("takes the largest y below p that is not of small order, for the check is no wider than it must be", () => {
    expect(isKey(`eb${"ff".repeat(30)}7f`)).toBe(true);
    for (let i = 1; i <= 30; i++) {
      const oneBitLess = `ff${"ff".repeat(i - 1)}fe${"ff".repeat(30 - i)}7f`;
      expect(isKey(oneBitLess)).toBe(true);
    }
    expect(isKey(`${"ff".repeat(31)}7e`)).toBe(true);
  });

  /** S is below L = 2^252 + 27742317777372353535851937790883648493, or a signature would have two spellings. */
  it.each([
    { s: `${"00".repeat(32)}`, strict: true, why: "S = 0" },
    { s: `ecd3f55c1a631258d69cf7a2def9de14${"00".repeat(15)}10`, strict: true, why: "S = L - 1" },
    { s: `edd3f55c1a631258d69cf7a2def9de14${"00".repeat(15)}10`, strict: false, why: "S = L" },
    { s: `eed3f55c1a631258d69cf7a2def9de14${"00".repeat(15)}10`, strict: false, why: "S = L + 1" },
    { s: `${"00".repeat(31)}20`, strict: false, why: "S = 2^253" },
    { s: "ff".repeat(32), strict: false, why: "S = 2^256 - 1" },
  ])("$why: strict is $strict", ({ s, strict }) => {
    expect(isStrictSignature(fromHex(good.slice(0, 64) + s))).toBe(strict);
  });

  it.each([63, 65])("takes no signature of %i bytes", (length) => {
    expect(isStrictSignature(fromHex(good.padEnd(130, "0").slice(0, 2 * length)))).toBe(false);
  });
});
