/** The layout of the signed bytes, and that no two records share them. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Key } from "../../src/protocol/address.ts";
import { encodeBase64url } from "../../src/protocol/base64url.ts";
import {
  announcementBytes,
  messageBytes,
  sha256,
  tokenBytes,
  unregisterBytes,
  wakeLeaseBytes,
  type AnnouncementFields,
  type MessageFields,
  type TokenFields,
} from "../../src/protocol/canonical.ts";
import {
  ANNOUNCE_DOMAIN,
  MESSAGE_DOMAIN,
  TOKEN_DOMAIN,
  UNREGISTER_DOMAIN,
  WAKE_DOMAIN,
} from "../../src/protocol/constants.ts";

/** Copied, since one runtime's types leave open what buffer an encoder gives. */
const utf8 = (text: string) => Uint8Array.from(new TextEncoder().encode(text));
const keyOf = (bytes: Uint8Array) => encodeBase64url(bytes) as Key;
const filledWith = (byte: number) => keyOf(new Uint8Array(32).fill(byte));
const join = (...parts: ArrayLike<number>[]) => Uint8Array.from(parts.flatMap((part) => Array.from(part)));

describe("layout, written out by hand", () => {
  it("of a message: keys, time, then the six texts in the protocol's order", () => {
    const message: MessageFields = {
      from: filledWith(1),
      to: filledWith(2),
      ts: 0x0102030405,
      kind: "k",
      msg_id: "id",
      text: "é",
      status: "st",
      task_id: "t",
      in_reply_to: "r",
    };
    expect(messageBytes(message)).toStrictEqual(
      join(
        utf8("interlink-v2\0"),
        new Uint8Array(32).fill(1),
        new Uint8Array(32).fill(2),
        [5, 4, 3, 2, 1, 0, 0, 0],
        [1, 0, 0, 0, 0x6b],
        [2, 0, 0, 0, 0x69, 0x64],
        [2, 0, 0, 0, 0xc3, 0xa9],
        [2, 0, 0, 0, 0x73, 0x74],
        [1, 0, 0, 0, 0x74],
        [1, 0, 0, 0, 0x72],
      ),
    );
  });

  it("of an announcement: the time comes last", () => {
    const session = { session_id: "s", cwd: "c", git_root: "g", summary: "u" };
    expect(announcementBytes({ pubkey: filledWith(3), name: "n", session, ts: 258 })).toStrictEqual(
      join(
        utf8("interlink-announce-v1\0"),
        new Uint8Array(32).fill(3),
        [1, 0, 0, 0, 0x6e],
        [1, 0, 0, 0, 0x73],
        [1, 0, 0, 0, 0x63],
        [1, 0, 0, 0, 0x67],
        [1, 0, 0, 0, 0x75],
        [2, 1, 0, 0, 0, 0, 0, 0],
      ),
    );
  });

  it("of an unregister", () => {
    expect(unregisterBytes(filledWith(4), "s", 1)).toStrictEqual(
      join(utf8("interlink-unregister-v1\0"), new Uint8Array(32).fill(4), [1, 0, 0, 0, 0x73], [1, 0, 0, 0, 0, 0, 0, 0]),
    );
  });

  it("of a lease of what wakes a session: the two times come last, first the earlier", () => {
    const lease = { key: filledWith(8), session_id: "s", path: "p", proven_at_ms: 1, until_ms: 258 };
    expect(wakeLeaseBytes(lease)).toStrictEqual(
      join(
        utf8("interlink-wake-v1\0"),
        new Uint8Array(32).fill(8),
        [1, 0, 0, 0, 0x73],
        [1, 0, 0, 0, 0x70],
        [1, 0, 0, 0, 0, 0, 0, 0],
        [2, 1, 0, 0, 0, 0, 0, 0],
      ),
    );
  });

  it("of a token: nonce and hash have fixed lengths and no prefix", () => {
    const token: TokenFields = {
      key: filledWith(5),
      ts: 1,
      nonce: new Uint8Array(16).fill(6),
      audience: "a",
      method: "m",
      target: "/",
      bodyHash: new Uint8Array(32).fill(7),
    };
    expect(tokenBytes(token)).toStrictEqual(
      join(
        utf8("interlink-auth-v1\0"),
        new Uint8Array(32).fill(5),
        [1, 0, 0, 0, 0, 0, 0, 0],
        new Uint8Array(16).fill(6),
        [1, 0, 0, 0, 0x61],
        [1, 0, 0, 0, 0x6d],
        [1, 0, 0, 0, 0x2f],
        new Uint8Array(32).fill(7),
      ),
    );
  });

  it("hashes no body as no bytes", async () => {
    const hex = Array.from(await sha256(utf8("")), (byte) => byte.toString(16).padStart(2, "0")).join("");
    expect(hex).toBe("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  });
});

describe("what is not signed, and what is the same", () => {
  const message: MessageFields = {
    from: filledWith(1),
    to: filledWith(2),
    ts: 1,
    kind: "message",
    msg_id: "m",
    text: "t",
  };
  const announcement: AnnouncementFields = { pubkey: filledWith(1), name: "n", session: { session_id: "s" }, ts: 1 };

  it("leaves out `reply_to` and `age_ms`, which a bus or a relay may set", () => {
    expect(messageBytes({ ...message, reply_to: "x" } as MessageFields)).toStrictEqual(messageBytes(message));
    const stamped = { ...announcement, age_ms: 5, connected: true } as AnnouncementFields;
    expect(announcementBytes(stamped)).toStrictEqual(announcementBytes(announcement));
  });

  it("encodes an absent optional field as the empty string", () => {
    const empty = { status: "", task_id: "", in_reply_to: "" };
    expect(messageBytes({ ...message, ...empty })).toStrictEqual(messageBytes(message));
    const session = { session_id: "s", cwd: "", git_root: "", summary: "" };
    expect(announcementBytes({ ...announcement, session })).toStrictEqual(announcementBytes(announcement));
  });

  it("takes a `ts` of 2^53 - 1, and no fraction", () => {
    expect(unregisterBytes(filledWith(1), "s", Number.MAX_SAFE_INTEGER).slice(-8)).toStrictEqual(
      Uint8Array.of(255, 255, 255, 255, 255, 255, 31, 0),
    );
    expect(() => unregisterBytes(filledWith(1), "s", 1.5)).toThrow(RangeError);
  });
});

/** Reads the bytes back by the layout alone: what can be read back cannot be shared. */
class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }
  take(length: number): Uint8Array {
    expect(this.#at + length).toBeLessThanOrEqual(this.#bytes.length);
    return this.#bytes.slice(this.#at, (this.#at += length));
  }
  domain(text: string): void {
    expect(new TextDecoder().decode(this.take(text.length))).toBe(text);
  }
  key(): Key {
    return keyOf(this.take(32));
  }
  time(): number {
    return Number(new DataView(this.take(8).buffer).getBigUint64(0, true));
  }
  text(): string {
    const length = new DataView(this.take(4).buffer).getUint32(0, true);
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.take(length));
  }
  end(): void {
    expect(this.#at).toBe(this.#bytes.length);
  }
}

const anyKey = fc.uint8Array({ minLength: 32, maxLength: 32 }).map(keyOf);
const anyTs = fc.maxSafeNat();
/** Texts that look like lengths and domains, beside whole Unicode. */
const anyText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.string({ unit: fc.constantFrom("\0", "\u0001", "\u0004", "a"), maxLength: 12 }),
  fc.constantFrom(MESSAGE_DOMAIN, "\ufeff", "a".repeat(300)),
);

describe("no two different records share bytes", () => {
  it("message", () => {
    const anyMessage = fc.record({
      from: anyKey,
      to: anyKey,
      ts: anyTs,
      kind: anyText,
      msg_id: anyText,
      text: anyText,
      status: anyText,
      task_id: anyText,
      in_reply_to: anyText,
    });
    fc.assert(
      fc.property(anyMessage, (message) => {
        const read = new Reader(messageBytes(message));
        read.domain(MESSAGE_DOMAIN);
        const [from, to, ts] = [read.key(), read.key(), read.time()];
        const [kind, msg_id, text] = [read.text(), read.text(), read.text()];
        const [status, task_id, in_reply_to] = [read.text(), read.text(), read.text()];
        read.end();
        expect({ from, to, ts, kind, msg_id, text, status, task_id, in_reply_to }).toEqual(message);
      }),
    );
  });

  it("announcement", () => {
    const anyAnnouncement = fc.record({
      pubkey: anyKey,
      name: anyText,
      session: fc.record({ session_id: anyText, cwd: anyText, git_root: anyText, summary: anyText }),
      ts: anyTs,
    });
    fc.assert(
      fc.property(anyAnnouncement, (announcement) => {
        const read = new Reader(announcementBytes(announcement));
        read.domain(ANNOUNCE_DOMAIN);
        const [pubkey, name] = [read.key(), read.text()];
        const session = { session_id: read.text(), cwd: read.text(), git_root: read.text(), summary: read.text() };
        const ts = read.time();
        read.end();
        expect({ pubkey, name, session, ts }).toEqual(announcement);
      }),
    );
  });

  it("lease of what wakes a session", () => {
    const anyLease = fc.record({
      key: anyKey,
      session_id: anyText,
      path: anyText,
      proven_at_ms: anyTs,
      until_ms: anyTs,
    });
    fc.assert(
      fc.property(anyLease, (lease) => {
        const read = new Reader(wakeLeaseBytes(lease));
        read.domain(WAKE_DOMAIN);
        const [key, session_id, path] = [read.key(), read.text(), read.text()];
        const [proven_at_ms, until_ms] = [read.time(), read.time()];
        read.end();
        expect({ key, session_id, path, proven_at_ms, until_ms }).toEqual(lease);
      }),
    );
  });

  it("token", () => {
    const anyToken = fc.record({
      key: anyKey,
      ts: anyTs,
      nonce: fc.uint8Array({ minLength: 16, maxLength: 16 }),
      audience: anyText,
      method: anyText,
      target: anyText,
      bodyHash: fc.uint8Array({ minLength: 32, maxLength: 32 }),
    });
    fc.assert(
      fc.property(anyToken, (token) => {
        const read = new Reader(tokenBytes(token));
        read.domain(TOKEN_DOMAIN);
        const [key, ts, nonce] = [read.key(), read.time(), read.take(16)];
        const [audience, method, target] = [read.text(), read.text(), read.text()];
        const bodyHash = read.take(32);
        read.end();
        expect([key, ts, audience, method, target]).toStrictEqual([
          token.key,
          token.ts,
          token.audience,
          token.method,
          token.target,
        ]);
        expect([[...nonce], [...bodyHash]]).toStrictEqual([[...token.nonce], [...token.bodyHash]]);
      }),
    );
  });

  it("of different kinds: no domain tag is the beginning of another", () => {
    const domains = [MESSAGE_DOMAIN, ANNOUNCE_DOMAIN, UNREGISTER_DOMAIN, TOKEN_DOMAIN, WAKE_DOMAIN];
    for (const a of domains) {
      for (const b of domains) expect(a.startsWith(b)).toBe(a === b);
      expect(a.indexOf("\0")).toBe(a.length - 1);
    }
  });
});
