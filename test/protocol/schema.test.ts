/**
 * The field rules of messages, announcements and unregisters: one change to a good one, and the code it gets.
 *
 * Shape only: a change breaks the signature too, which is another check and another file's.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isTimely, parseAnnouncement, parseRosterEntry, unregisterSchema } from "../../src/protocol/announcement.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { parseJsonText } from "../../src/protocol/json.ts";
import { isKnock, isMessageTimely, KINDS, parseMessage, STATUSES } from "../../src/protocol/message.ts";
import { isRefusal } from "../../src/protocol/refusal.ts";
import { isName, list, parse, whole, word } from "../../src/protocol/schema.ts";
import announcements from "../vectors/announcements.json";
import keys from "../vectors/keys.json";
import messages from "../vectors/messages.json";

type Fields = Record<string, unknown>;
/** What a row does to a good record: fields set, or with `undefined` taken away. */
interface Row {
  readonly change: Fields;
  readonly code: string;
  readonly why: string;
}
type Taken = Omit<Row, "code">;

const message: Fields = messages[0]!.wire;
const announcement: Fields = announcements[0]!.wire;
const session = announcement["session"] as Fields;
const [alice, bob] = [keys.alice.public, keys.bob.public];
const SMALL_ORDER = `AQ${"A".repeat(41)}`;

const changed = (good: Fields, change: Fields): Fields => JSON.parse(JSON.stringify({ ...good, ...change }));
const codeOf = (result: object) => (isRefusal(result) ? result.refused : "taken");
const readMessage = (change: Fields) => parseMessage(changed(message, change), DEFAULT_LIMITS);
const readAnnouncement = (change: Fields) => parseAnnouncement(changed(announcement, change));
const inSession = (change: Fields) => readAnnouncement({ session: changed(session, change) });

/** The class of reference 6.3, first and last of each range, and what sort of harm each does. */
const INVISIBLE: readonly { char: string; why: string }[] = [
  { char: "\0", why: "a zero character" },
  { char: "\n", why: "a line break" },
  { char: "\r", why: "a carriage return" },
  { char: "\t", why: "a tab" },
  { char: "\u001b", why: "what begins an ANSI escape" },
  { char: "\u001f", why: "the last of C0" },
  { char: "\u007f", why: "DEL" },
  { char: "\u0080", why: "the first of C1" },
  { char: "\u0085", why: "the next line of C1" },
  { char: "\u009b", why: "the CSI of C1" },
  { char: "\u009f", why: "the last of C1" },
  { char: "\u00ad", why: "a soft hyphen" },
  { char: "\u034f", why: "a grapheme joiner" },
  { char: "\u061c", why: "the Arabic letter mark" },
  { char: "\u115f", why: "a Hangul filler" },
  { char: "\u1160", why: "another" },
  { char: "\u17b4", why: "an inherent vowel of Khmer" },
  { char: "\u17b5", why: "another" },
  { char: "\u180b", why: "a Mongolian variation selector" },
  { char: "\u180e", why: "the Mongolian vowel separator" },
  { char: "\u180f", why: "the last Mongolian selector" },
  { char: "\u200b", why: "a zero-width space" },
  { char: "\u200d", why: "a zero-width joiner" },
  { char: "\u200e", why: "a left-to-right mark" },
  { char: "\u200f", why: "a right-to-left mark" },
  { char: "\u2028", why: "a line separator" },
  { char: "\u2029", why: "a paragraph separator" },
  { char: "\u202a", why: "a bidi embedding" },
  { char: "\u202e", why: "a right-to-left override" },
  { char: "\u2060", why: "a word joiner" },
  { char: "\u2066", why: "a bidi isolate" },
  { char: "\u2069", why: "the end of one" },
  { char: "\u206f", why: "the last deprecated format character" },
  { char: "\u3164", why: "a Hangul filler that looks like a space" },
  { char: "\ufe00", why: "the first variation selector" },
  { char: "\ufe0f", why: "the emoji selector" },
  { char: "\ufeff", why: "a byte order mark" },
  { char: "\uffa0", why: "a halfwidth filler" },
  { char: "\ufff0", why: "an unassigned special" },
  { char: "\ufff9", why: "an annotation anchor" },
  { char: "\ufffb", why: "an annotation's end" },
  { char: "\u{1d173}", why: "a musical format character" },
  { char: "\u{1d17a}", why: "the last of them" },
  { char: "\u{e0000}", why: "the first of the tags' plane" },
  { char: "\u{e0041}", why: "a tag letter, which spells hidden text" },
  { char: "\u{e0100}", why: "a supplementary variation selector" },
  { char: "\u{e0fff}", why: "the last of the tags' plane" },
  { char: "\ud800", why: "a high surrogate alone" },
  { char: "\udfff", why: "a low surrogate alone" },
];

describe("a message", () => {
  it("is taken as it is, with what is unsigned", () => {
    expect(parseMessage(message, DEFAULT_LIMITS)).toStrictEqual(message);
    const full = { task_id: "t", status: "result", in_reply_to: "m0", reply_to: `${alice}#s` };
    expect(readMessage(full)).toStrictEqual({ ...message, ...full });
  });

  it.each(
    [
      ["from", "bad_key"],
      ["to", "bad_key"],
      ["text", "bad_text"],
      ["ts", "bad_ts"],
      ["msg_id", "bad_msg_id"],
      ["kind", "bad_kind"],
      ["sig", "bad_sig_format"],
    ].flatMap(([field, code]) => [
      { field: field!, value: undefined, code },
      { field: field!, value: null, code },
      { field: field!, value: {}, code },
      { field: field!, value: [], code },
      { field: field!, value: true, code },
      { field: field!, value: "", code },
      { field: field!, value: { toString: "x" }, code },
    ]),
  )("is refused with `$field` of $value as $code", ({ field, value, code }) => {
    expect(codeOf(readMessage({ [field]: value }))).toBe(code);
  });

  it.each([
    ["task_id", "bad_field"],
    ["in_reply_to", "bad_field"],
    ["status", "bad_status"],
    ["reply_to", "bad_route"],
  ])(
    "is refused with an optional `%s` that is null, empty or no string, as %s: absent has one spelling",
    (field, code) => {
      // A status needs a task, so that its own value is what is refused.
      const task = field === "task_id" ? {} : { task_id: "t" };
      for (const value of [null, "", 7, {}, []]) expect(codeOf(readMessage({ ...task, [field]: value }))).toBe(code);
    },
  );

  const refused: readonly Row[] = [
    { change: { from: SMALL_ORDER }, code: "bad_key", why: "a sender of small order, whom anyone can sign for" },
    { change: { to: `${bob}=` }, code: "bad_key", why: "a recipient in a second spelling" },
    { change: { to: `${bob}#s` }, code: "bad_key", why: "a route in the place of a key" },
    { change: { ts: "1767225600000" }, code: "bad_ts", why: "a time as a string" },
    { change: { ts: 1.5 }, code: "bad_ts", why: "a fraction" },
    { change: { ts: -1 }, code: "bad_ts", why: "a time before 1970" },
    { change: { ts: 2 ** 53 }, code: "bad_ts", why: "a number that JSON does not carry exactly" },
    { change: { ts: 1e300 }, code: "bad_ts", why: "a number past every integer" },
    { change: { msg_id: "a".repeat(65) }, code: "bad_msg_id", why: "an id of 65 characters" },
    { change: { msg_id: "a\n" }, code: "bad_msg_id", why: "an id with a line break" },
    { change: { kind: "system" }, code: "bad_kind", why: "a kind that would speak for the host" },
    { change: { kind: "Message" }, code: "bad_kind", why: "a kind in another case" },
    { change: { kind: "toString" }, code: "bad_kind", why: "a kind that every object has" },
    { change: { task_id: "t", status: "done" }, code: "bad_status", why: "an unknown status" },
    { change: { status: "update" }, code: "bad_status", why: "a status of no task" },
    { change: { task_id: "a".repeat(129) }, code: "bad_field", why: "a task id one byte too long" },
    { change: { in_reply_to: "a".repeat(129) }, code: "bad_field", why: "the same in `in_reply_to`" },
    { change: { task_id: "é".repeat(65) }, code: "bad_field", why: "128 characters are not 128 bytes" },
    { change: { task_id: "a\nb" }, code: "bad_field", why: "a task id of two lines" },
    { change: { in_reply_to: "a\u202eb" }, code: "bad_field", why: "an id with a bidi override" },
    { change: { text: "a".repeat(65_537) }, code: "bad_text", why: "a text one byte too long" },
    { change: { text: "é".repeat(32_769) }, code: "bad_text", why: "the same in characters of two bytes" },
    { change: { text: "a\ud800" }, code: "bad_text", why: "a surrogate alone, which would be signed as U+FFFD" },
    { change: { text: "\udc00\ud800" }, code: "bad_text", why: "a pair the wrong way round" },
    { change: { sig: "A".repeat(85) }, code: "bad_sig_format", why: "a signature too short" },
    { change: { sig: `${"A".repeat(85)}B` }, code: "bad_sig_format", why: "a signature with unused bits set" },
    { change: { reply_to: bob }, code: "bad_route", why: "an answer sent to another key" },
    { change: { reply_to: `${bob}#s` }, code: "bad_route", why: "or to its session" },
    { change: { reply_to: `${alice}#` }, code: "bad_route", why: "an answer to an empty session" },
    { change: { reply_to: `${alice}#a#b` }, code: "bad_route", why: "an answer to two" },
    { change: { reply_to: `${alice}#${"a".repeat(1000)}` }, code: "bad_route", why: "a route longer than any" },
    { change: { kind: "pair_request", text: "a".repeat(65) }, code: "bad_name", why: "a knock with a paragraph" },
    { change: { kind: "pair_request", text: "a\nb" }, code: "bad_name", why: "a knock of two lines" },
    { change: { kind: "pair_accept", text: " a" }, code: "bad_name", why: "an answer to a knock, not trimmed" },
    { change: { kind: "pair_request", text: "" }, code: "bad_text", why: "a knock without a name" },
    { change: { extra: 1 }, code: "unknown_field", why: "a field that nobody signed" },
    { change: { Kind: "message" }, code: "unknown_field", why: "a field in another case" },
    { change: { extra: 1, ts: "x" }, code: "unknown_field", why: "an unknown field, though another is bad too" },
    { change: { age_ms: 5 }, code: "unknown_field", why: "a stamp that only announcements have" },
  ];
  it.each(refused)("is refused as $code: $why", ({ change, code }) => {
    expect(codeOf(readMessage(change))).toBe(code);
  });

  const taken: readonly Taken[] = [
    { change: { text: "a" }, why: "a text of one byte" },
    { change: { text: "a".repeat(65_536) }, why: "a text of exactly the limit" },
    { change: { text: "é".repeat(32_768) }, why: "the same in characters of two bytes" },
    {
      change: {
        text: INVISIBLE.slice(0, -2)
          .map(({ char }) => char)
          .join(""),
      },
      why: "a text of what nobody sees",
    },
    { change: { text: "\u{1f600}\u{10ffff}\ufffd" }, why: "whole code points past the basic plane" },
    { change: { ts: 0 }, why: "the first instant" },
    { change: { ts: Number.MAX_SAFE_INTEGER }, why: "the last that JSON carries" },
    { change: { msg_id: "a".repeat(64) }, why: "the longest id" },
    { change: { task_id: "a".repeat(128), in_reply_to: "a".repeat(128) }, why: "the longest references" },
    { change: { task_id: "build: ünïcode 构建" }, why: "a task named in words" },
    { change: { task_id: "t" }, why: "a task without a status, which is its request" },
    { change: { to: alice }, why: "a message to another session of the same key" },
    { change: { reply_to: alice }, why: "an answer to the identity's own inbox" },
    { change: { kind: "pair_request", text: "a".repeat(64) }, why: "a knock with the longest name" },
    ...KINDS.map((kind) => ({ change: { kind, text: "alice" }, why: `the kind ${kind}` })),
    ...STATUSES.map((status) => ({ change: { task_id: "t", status }, why: `the status ${status}` })),
  ];
  it.each(taken)("is taken: $why", ({ change }) => {
    expect(readMessage(change)).toStrictEqual(changed(message, change));
  });

  it.each(INVISIBLE)("is refused as a knock whose name holds $why", ({ char }) => {
    const knock = { ...message, kind: "pair_request", text: `a${char}b` };
    expect(codeOf(parseMessage(knock, DEFAULT_LIMITS))).toBe(/^[\ud800-\udfff]$/.test(char) ? "bad_text" : "bad_name");
  });

  it("is measured by the limits of the bus that it is given", () => {
    expect(codeOf(parseMessage({ ...message, text: "abc" }, { TEXT_MAX_BYTES: 2 }))).toBe("bad_text");
  });

  it("is a knock by its kind alone", () => {
    expect(KINDS.map((kind) => isKnock({ kind }))).toStrictEqual([false, true, true]);
  });
});

describe("an announcement", () => {
  it("is taken as it is", () => {
    expect(parseAnnouncement(announcement)).toStrictEqual(announcement);
  });

  it.each(
    [
      ["pubkey", "bad_key"],
      ["name", "bad_name"],
      ["session", "bad_session"],
      ["ts", "bad_ts"],
      ["sig", "bad_sig_format"],
    ].flatMap(([field, code]) =>
      [undefined, null, [], 7.5, true, ""].map((value) => ({ field: field!, value, code: code! })),
    ),
  )("is refused with `$field` of $value as $code", ({ field, value, code }) => {
    expect(codeOf(readAnnouncement({ [field]: value }))).toBe(code);
  });

  it.each([undefined, null, "", 7, {}, "a b", "a#b", "a".repeat(65), "a\n"])(
    "is refused with a `session_id` of %j",
    (session_id) => {
      expect(codeOf(inSession({ session_id }))).toBe("bad_session");
    },
  );

  const refused: readonly Row[] = [
    { change: { pubkey: SMALL_ORDER }, code: "bad_key", why: "a key of small order" },
    { change: { name: "a".repeat(65) }, code: "bad_name", why: "a name one byte too long" },
    { change: { name: "é".repeat(33) }, code: "bad_name", why: "64 bytes are not 64 characters" },
    { change: { name: " a" }, code: "bad_name", why: "a space before the name" },
    { change: { name: "a " }, code: "bad_name", why: "a space after it" },
    { change: { name: "a\u00a0" }, code: "bad_name", why: "a space of another width after it" },
    { change: { name: " " }, code: "bad_name", why: "a name of nothing but space" },
    { change: { ts: "1" }, code: "bad_ts", why: "a time as a string" },
    { change: { ts: 2 ** 53 }, code: "bad_ts", why: "a number that JSON does not carry exactly" },
    { change: { age_ms: 5 }, code: "unknown_field", why: "a session that stamps its own age" },
    { change: { connected: true }, code: "unknown_field", why: "a session that calls itself connected" },
    { change: { session: { ...session, extra: 1 } }, code: "unknown_field", why: "an unknown field inside" },
  ];
  it.each(refused)("is refused as $code: $why", ({ change, code }) => {
    expect(codeOf(readAnnouncement(change))).toBe(code);
  });

  it.each([
    { field: "cwd", max: 512 },
    { field: "git_root", max: 128 },
    { field: "summary", max: 280 },
  ])("takes a `$field` of $max bytes and refuses one more, null, and what nobody sees", ({ field, max }) => {
    expect(codeOf(inSession({ [field]: "a".repeat(max) }))).toBe("taken");
    expect(codeOf(inSession({ [field]: `é${"a".repeat(max - 2)}` }))).toBe("taken");
    for (const value of ["a".repeat(max + 1), `é${"a".repeat(max - 1)}`, null, 7, {}, "a\nb", "a\u{e0041}b"]) {
      expect(codeOf(inSession({ [field]: value }))).toBe("bad_field");
    }
  });

  it("takes an empty field of a session as an absent one, as the original writes it: both sign the same bytes", () => {
    const empty = { cwd: "", git_root: "", summary: "" };
    expect(inSession(empty)).toMatchObject({ session: { session_id: session["session_id"], ...empty } });
    expect(inSession({ cwd: undefined, git_root: undefined, summary: undefined })).toMatchObject({
      session: { session_id: session["session_id"] },
    });
  });

  it.each(INVISIBLE)("is refused where its name or summary holds $why", ({ char }) => {
    for (const name of [`a${char}b`, `${char}a`, `a${char}`, char]) {
      expect(codeOf(parseAnnouncement({ ...announcement, name }))).toBe("bad_name");
    }
    const summary = { ...announcement, session: { ...session, summary: `a${char}b` } };
    expect(codeOf(parseAnnouncement(summary))).toBe("bad_field");
  });

  it.each(["a", "a".repeat(64), "é".repeat(32), "карол 💻", "名前", "O'Brien & co. <x>", "é", "अ", "a b"])(
    "is taken with the name %j",
    (name) => {
      expect(isName(name)).toBe(true);
      expect(codeOf(readAnnouncement({ name }))).toBe("taken");
    },
  );
});

describe("a roster's entry", () => {
  it.each([{}, { age_ms: 45_000 }, { age_ms: 0, connected: true }])(
    "is an announcement with the bus's %j",
    (stamps) => {
      expect(parseRosterEntry({ ...announcement, ...stamps })).toStrictEqual({ ...announcement, ...stamps });
    },
  );

  it.each([
    { change: { age_ms: "5" }, code: "bad_field" },
    { change: { age_ms: null }, code: "bad_field" },
    { change: { connected: 1 }, code: "bad_field" },
    { change: { extra: 1 }, code: "unknown_field" },
    { change: { name: "a\nb" }, code: "bad_name" },
  ])("is refused with $change as $code", ({ change, code }) => {
    expect(codeOf(parseRosterEntry({ ...announcement, ...change }))).toBe(code);
  });
});

describe("an unregister", () => {
  const good = { pubkey: alice, session: { session_id: "s" }, ts: 1, sig: message["sig"] };
  it.each([
    { change: {}, code: "taken" },
    { change: { pubkey: SMALL_ORDER }, code: "bad_key" },
    { change: { session: {} }, code: "bad_session" },
    { change: { session: "s" }, code: "bad_session" },
    { change: { session }, code: "unknown_field" },
    { change: { name: "a" }, code: "unknown_field" },
    { change: { ts: -1 }, code: "bad_ts" },
    { change: { sig: null }, code: "bad_sig_format" },
  ])("with $change is $code", ({ change, code }) => {
    expect(codeOf(parse(unregisterSchema, changed(good, change)))).toBe(code);
  });
});

describe("fields that every object has", () => {
  const NAMES = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "valueOf"];
  // As text, since an object literal would set a prototype instead of a field.
  const withField = (good: Fields, name: string, value: string) =>
    parseJsonText(`{"${name}":${value},${JSON.stringify(good).slice(1)}`);

  it.each(NAMES)("refuse `%s` as unknown, at the top and inside", (name) => {
    for (const value of ["null", "1", '{"text":"x"}']) {
      expect(codeOf(parseMessage(withField(message, name, value), DEFAULT_LIMITS))).toBe("unknown_field");
      expect(codeOf(parseAnnouncement(withField(announcement, name, value)))).toBe("unknown_field");
      const inner = { ...announcement, session: withField(session, name, value) };
      expect(codeOf(parseAnnouncement(inner))).toBe("unknown_field");
    }
  });

  it("do not stand in for a missing one", () => {
    const { text: _text, ...rest } = message;
    expect(codeOf(parseMessage(Object.assign(Object.create({ text: 7 }), rest), DEFAULT_LIMITS))).toBe("bad_text");
  });
});

describe("for every value", () => {
  it("a message or announcement is read or refused, and never throws", () => {
    const anyField = fc.constantFrom(...Object.keys(message), ...Object.keys(announcement), "status", "reply_to", "x");
    fc.assert(
      fc.property(fc.anything(), anyField, (value, field) => {
        for (const input of [value, { ...message, [field]: value }, { ...announcement, [field]: value }]) {
          expect(() => parseMessage(input, DEFAULT_LIMITS)).not.toThrow();
          expect(() => parseAnnouncement(input)).not.toThrow();
        }
      }),
    );
  });
});

describe("the building blocks", () => {
  it("count from `min` to `max`, both taken", () => {
    const count = whole("bad_field", 1, 3);
    const taken = [0, 1, 3, 4, 1.5, "1", null].map((value) => !isRefusal(parse(count, value)));
    expect(taken).toStrictEqual([false, true, true, false, false, false, false]);
  });

  it("list from `min` to `max` entries, and name the entry's own fault", () => {
    const words = list(word(["a"], "bad_kind"), 2);
    expect(
      [[], ["a"], ["a", "a"], ["a", "a", "a"], ["b"], {}].map((value) => codeOf(parse(words, value))),
    ).toStrictEqual(["bad_field", "taken", "taken", "bad_field", "bad_kind", "bad_field"]);
  });
});

describe("time", () => {
  const now = 1_767_225_600_000;
  it.each([
    { at: now + 60_000, taken: true, why: "a sender whose clock is a minute fast" },
    { at: now + 60_001, taken: false, why: "a millisecond more" },
    { at: now - 1_209_599_999, taken: true, why: "an outbox that waited nearly as long as mail is kept" },
    { at: now - 1_209_600_000, taken: false, why: "past that a bus no longer knows its id" },
  ])("of a message: $why, taken is $taken", ({ at, taken }) => {
    expect(isMessageTimely(at, now, DEFAULT_LIMITS)).toBe(taken);
  });

  it.each([
    { at: now + 60_000, taken: true },
    { at: now + 60_001, taken: false },
    { at: now - 60_000, taken: true },
    { at: now - 60_001, taken: false },
  ])("of an announcement: the skew, either way: $at, taken is $taken", ({ at, taken }) => {
    expect(isTimely(at, now, DEFAULT_LIMITS)).toBe(taken);
  });
});
