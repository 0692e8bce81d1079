/**
 * What crosses the wire, read by both ends: tokens, routes, announcements, goodbyes, messages, a client's frames.
 *
 * Each is refused with a code of the closed list, or it is a value that reads back as itself; and no changed one holds under
 * a signature that was made for another.
 */

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatRoute, parseRoute } from "../../src/protocol/address.ts";
import {
  parseAnnouncement,
  unregisterSchema,
  verifyAnnouncement,
  verifyUnregister,
} from "../../src/protocol/announcement.ts";
import { announcementBytes, messageBytes, unregisterBytes, wakeLeaseBytes } from "../../src/protocol/canonical.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { parseClientFrame } from "../../src/protocol/frames.ts";
import { parseJsonText } from "../../src/protocol/json.ts";
import { parseMessage, verifyMessage } from "../../src/protocol/message.ts";
import { isRefusal, type Refusal } from "../../src/protocol/refusal.ts";
import { parse } from "../../src/protocol/schema.ts";
import { formatToken, parseToken, verifyToken } from "../../src/protocol/token.ts";
import { verifyWakeLease, wakeLeaseSchema } from "../../src/protocol/wake-lease.ts";
import { Agent, signAnnouncement, signerOf, signMessage, signUnregister, signWake } from "../support/agent.ts";
import { expectCode, fuzzed, near, promptly, SLOW } from "./inputs.ts";

const AUDIENCE = "http://bus.example";
const TS = 1_800_000_000_000;
const signer = await signerOf(new Uint8Array(32).fill(7));
const other = await signerOf(new Uint8Array(32).fill(8));
const session = { session_id: "s1", cwd: "/work", git_root: "work", summary: "busy" };

const announcement = signAnnouncement(signer, { name: "agent", session, ts: TS });
const bare = signAnnouncement(signer, { name: "\u00e4gent", session: { session_id: "s2" }, ts: TS });
const lease = signWake(signer, "s1", { path: "inbox_socket", proven_at_ms: TS, until_ms: TS + 3_600_000 });
const goodbye = signUnregister(signer, { session_id: "s1", ts: TS });
const mail = signMessage(signer, { to: other.key, text: "hello \u{1f600}", ts: TS, msg_id: "m1" });
const task = signMessage(signer, {
  to: other.key,
  text: "do it",
  ts: TS,
  msg_id: "m2",
  task_id: "t1",
  status: "update",
  in_reply_to: "m1",
  reply_to: `${signer.key}#s1`,
});

describe("a token", () => {
  const agent = Agent.create({ url: AUDIENCE, seed: new Uint8Array(32).fill(7), now: () => TS });
  const request = { method: "POST", target: "/send", body: Uint8Array.from([0x7b, 0x7d]) };

  it("is refused, or written as it is read; and holds for its request as it was made alone", SLOW, async () => {
    const made = (await agent).token({ ...request, body: "{}" }, { nonce: new Uint8Array(16).fill(1) });
    expect(await verifyToken(parseToken(made) as never, request, [AUDIENCE])).toBe(true);
    await fc.assert(
      fc.asyncProperty(near(made), async (text) => {
        const token = promptly(() => parseToken(text));
        if (isRefusal(token)) return void expect(["bad_auth", "bad_key"]).toContain(token.refused);
        expect(formatToken(token)).toBe(text);
        if (await verifyToken(token, request, [AUDIENCE])) expect(text).toBe(made);
      }),
      fuzzed(),
    );
  });
});

describe("a route", () => {
  it("is refused, or written as it is read", SLOW, () => {
    fc.assert(
      fc.property(near(`${signer.key}#s1`, other.key), (text) => {
        const route = promptly(() => parseRoute(text));
        if (isRefusal(route)) expect(["bad_route", "bad_key", "bad_session"]).toContain(route.refused);
        else expect(formatRoute(route)).toBe(text);
      }),
      fuzzed(),
    );
  });
});

/** One kind of what is signed. */
interface Paper<T> {
  readonly what: string;
  readonly valid: readonly object[];
  read(value: unknown): T | Refusal;
  verify(value: T): Promise<boolean>;
  bytes(value: T): Uint8Array;
}

function describePaper<T extends object>({ what, valid, read, verify, bytes }: Paper<T>): void {
  describe(what, () => {
    it("is refused, or reads back as itself; and holds only with what was signed", SLOW, async () => {
      const signed = valid.map((each) => Buffer.from(bytes(read(each) as T)).toString("hex"));
      for (const each of valid) expect(await verify(read(each) as T)).toBe(true);
      await fc.assert(
        fc.asyncProperty(near(...valid.map((each) => JSON.stringify(each))), async (text) => {
          const parsed = promptly(() => parseJsonText(text));
          if (isRefusal(parsed)) return expectCode(parsed.refused);
          const value = promptly(() => read(parsed.object));
          if (isRefusal(value)) return expectCode(value.refused);
          expect(read(JSON.parse(JSON.stringify(value)))).toEqual(value);
          if (await verify(value)) expect(signed).toContain(Buffer.from(bytes(value)).toString("hex"));
        }),
        fuzzed(),
      );
    });
  });
}

describePaper({
  what: "an announcement",
  valid: [announcement, bare],
  read: parseAnnouncement,
  verify: verifyAnnouncement,
  bytes: announcementBytes,
});
describePaper({
  what: "a goodbye",
  valid: [goodbye],
  read: (value) => parse(unregisterSchema, value),
  verify: verifyUnregister,
  bytes: ({ pubkey, session: { session_id }, ts }) => unregisterBytes(pubkey, session_id, ts),
});
describePaper({
  what: "a lease of what wakes a session",
  valid: [lease],
  read: (value) => parse(wakeLeaseSchema, value),
  verify: (value) => verifyWakeLease(value, announcement),
  bytes: (value) => wakeLeaseBytes({ key: signer.key, session_id: session.session_id, ...value }),
});
describePaper({
  what: "a message",
  valid: [mail, task],
  read: (value) => parseMessage(value, DEFAULT_LIMITS),
  verify: verifyMessage,
  bytes: messageBytes,
});

describe("a client's frame", () => {
  const to = `${other.key}#s1`;
  const frames = [
    { t: "announce", announcement, public: bare, wake: lease },
    { t: "ack", through: 3 },
    { t: "unregister", ts: TS, sig: goodbye.sig, goodbyes: [{ to, payload: mail }] },
  ].map((frame) => JSON.stringify(frame));

  it("is refused, or reads back as itself", SLOW, () => {
    fc.assert(
      fc.property(near(...frames), (text) => {
        const frame = promptly(() => parseClientFrame(text));
        if (isRefusal(frame)) return expectCode(frame.refused);
        const goodbyes = "goodbyes" in frame ? (frame.goodbyes ?? []) : [];
        const said = goodbyes.map((each) => ({ ...each, to: formatRoute(each.to) }));
        const again = JSON.stringify(goodbyes.length > 0 ? { ...frame, goodbyes: said } : frame);
        // What is not read yet may hold numbers that JSON has not.
        expect(JSON.stringify(parseClientFrame(again))).toBe(JSON.stringify(frame));
      }),
      fuzzed(2),
    );
  });
});
