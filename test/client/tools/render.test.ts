/** Every sentence, as a table; and what none of them may say. */

import { describe, expect, it } from "vitest";
import type { RouteTaken, ToolRefusal, WhoAmI } from "../../../src/client/session/agent.ts";
import type { Life } from "../../../src/client/session/outbox-policy.ts";
import { ageOf, durationOf } from "../../../src/client/tools/ages.ts";
import { refusalOf, operatorNeeded, ownRefusal, type OwnCode } from "../../../src/client/tools/render-refusal.ts";
import { commandOf, pairRequestsText, shellWord } from "../../../src/client/tools/render-trust.ts";
import * as render from "../../../src/client/tools/render.ts";
import { wakeSentence } from "../../../src/client/tools/render-wake.ts";
import { NO_WAKE } from "../../../src/client/wake/standing.ts";
import { ALICE, ME, NOW_MS, sessionId, STRANGER } from "../../support/fake-agent.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const [s1, s2] = [sessionId("s1"), sessionId("s2")];
const NAME = `"alice" (${ALICE.fingerprint})`;

/** Only the first hop knows that something left us, so these are never said. */
const UNTRUE = /\b(sent|delivered)\b/i;

describe("ages", () => {
  it.each([
    [-5, "0s"],
    [999, "0s"],
    [59_999, "59s"],
    [MINUTE, "1m"],
    [HOUR - 1, "59m"],
    [DAY - 1, "23h"],
    [DAY, "1 day"],
    [2 * DAY + HOUR, "2 days"],
  ])("%i ms is %s", (ms, words) => expect(durationOf(ms)).toBe(words));

  it("are ago, or just now", () => expect([ageOf(0), ageOf(20 * MINUTE)]).toEqual(["just now", "20m ago"]));
});

describe("who will get it", () => {
  const ROWS: readonly [RouteTaken, tier: string, sentence: string][] = [
    [{ to: "session", session: s1, presence: "live", age_ms: 0 }, "live", "Session s1 is live; delivering."],
    [
      { to: "session", session: s1, presence: "away", age_ms: 20 * MINUTE },
      "away",
      "Session s1 is away (asleep? last seen 20m ago); it will get it when it wakes.",
    ],
    [
      { to: "session", session: s1, presence: "away", age_ms: DAY - 1 },
      "away",
      "Session s1 is away (asleep? last seen 23h ago); it will get it when it wakes.",
    ],
    [
      { to: "session", session: s1, presence: "away", age_ms: 2 * DAY },
      "away_stale",
      "Session s1 is away, last seen 2 days ago, so it may be gone; run discover.",
    ],
    [
      { to: "session", session: s1, presence: "away", age_ms: 20 * MINUTE, live_sibling: s2 },
      "away",
      'Session s1 is away (asleep? last seen 20m ago); it will get it when it wakes. Session s2 of the same identity is live: pass session="s2" to write to that one instead.',
    ],
    [
      { to: "session", session: s1, presence: "away", age_ms: 2 * DAY, live_sibling: s2 },
      "away_stale",
      'Session s1 is away, last seen 2 days ago, so it may be gone; run discover. Session s2 of the same identity is live: pass session="s2" to write to that one instead.',
    ],
    [
      { to: "remembered", session: s1 },
      "gone",
      "Session s1 is not on the roster (closed, or long dead); this may never be read; run discover.",
    ],
    [
      { to: "identity" },
      "gone",
      "No session of theirs is on the roster; this waits for the first that comes, and may never be read; run discover.",
    ],
    [
      { to: "unseen", session: s1 },
      "unknown",
      "The roster could not be read, so nobody knows who is there; it waits for session s1.",
    ],
    [
      { to: "unseen" },
      "unknown",
      "The roster could not be read, so nobody knows who is there; it waits for the first of their sessions that comes.",
    ],
  ];

  it.each(ROWS)("%j", (route, tier, sentence) => {
    expect(render.tierSentence(route)).toBe(sentence);
    expect(render.tierOf(route)).toBe(tier);
    expect(sentence).not.toMatch(UNTRUE);
  });
});

describe("where a message stands", () => {
  const at_ms = NOW_MS - 5 * MINUTE;
  const ROWS: readonly [Life, reason: string | undefined, sentence: string][] = [
    [
      { state: "pending", lanes: {} },
      undefined,
      "pending. It is kept on this machine and no bus has stored it yet; it is tried again by itself.",
    ],
    [
      {
        state: "pending",
        lanes: {
          a: { state: "pending", attempts: 2, since_ms: NOW_MS, next_at_ms: NOW_MS + 12_000, why: "no_answer" },
          b: { state: "pending", attempts: 0, since_ms: NOW_MS, next_at_ms: NOW_MS + 30_000, why: "queue_full" },
          c: { state: "refused", code: "not_admitted", retry: "after_admission" },
        },
      },
      "no_answer, queue_full, not_admitted",
      'pending. It is kept on this machine and no bus has stored it yet (bus "a" did not answer, next try in 12s; bus "b" says queue_full: The inbox is full; nothing that it holds was dropped, next try in 30s; bus "c" refused it, not_admitted: The key is not admitted to this bus; ask its operator for an invite and join); it is tried again by itself.',
    ],
    [
      { state: "pending", lanes: {}, was_stored: true },
      undefined,
      "pending. A bus held it and has forgotten it, so the recipient may have it or not; it is tried again by itself.",
    ],
    [
      { state: "stored", at_ms, buses: ["a"] },
      undefined,
      "stored. The bus keeps it until the recipient's machine has it.",
    ],
    [
      { state: "refused", at_ms, bus: "a", code: "not_paired", retry: "after_pairing" },
      "not_paired",
      'refused by bus "a", not_paired: The recipient has not admitted this sender; knock first with a pair_request. Pair first (request_pair), then write it anew.',
    ],
    [
      { state: "refused", at_ms, bus: "a", code: "not_admitted", retry: "after_admission" },
      "not_admitted",
      'refused by bus "a", not_admitted: The key is not admitted to this bus; ask its operator for an invite and join. Ask your operator: the bus must admit this key first.',
    ],
    [
      { state: "refused", at_ms, bus: "a", code: "too_large", retry: "with_other_words" },
      "too_large",
      'refused by bus "a", too_large: The body is larger than the bus takes. Change the text and write it anew.',
    ],
    [
      { state: "refused", at_ms, bus: "a", code: "msg_id_conflict", retry: "as_a_new_message" },
      "msg_id_conflict",
      'refused by bus "a", msg_id_conflict: The `msg_id` was used for other bytes; mint a new one. Write it anew, as another message.',
    ],
    [
      { state: "refused", at_ms, bus: "<a>", code: "bad_kind" },
      "bad_kind",
      'refused by bus "\\u003ca\\u003e", bad_kind: A `kind` is message, pair_request or pair_accept. It is not tried again.',
    ],
    [
      { state: "acked", at_ms },
      undefined,
      "acked 5m ago. The recipient's machine has it; whether it was read is not known.",
    ],
    [
      { state: "expired", at_ms, why: "not_stored" },
      "not_stored",
      "expired. No bus holds it. Write it anew if it still matters.",
    ],
    [
      { state: "expired", at_ms, why: "not_stored", last: "a<b" },
      "not_stored",
      'expired. No bus holds it (last: "a\\u003cb"). Write it anew if it still matters.',
    ],
    [
      { state: "expired", at_ms, why: "never_acked" },
      "never_acked",
      "expired. It waited on the bus and the recipient never took it. Write it anew if it still matters.",
    ],
    [
      { state: "evicted", at_ms },
      undefined,
      "evicted. The bus dropped it to make room, before the recipient took it. Write it anew if it still matters.",
    ],
  ];

  it.each(ROWS)("%j", (life, reason, sentence) => {
    expect(render.lifeSentence(life, NOW_MS)).toBe(sentence);
    expect(render.lifeReason(life)).toBe(reason);
    expect(sentence).not.toMatch(UNTRUE);
  });

  it("says who is there only of a message that somebody holds", () => {
    const route = { to: "session", session: s1, presence: "live", age_ms: 0 } as const;
    for (const [life] of ROWS) {
      const said = render.sentFeedback({ peer: ALICE, msg_id: "m1", life, route }, NOW_MS);
      expect(said.startsWith(`Message m1 for ${NAME}: ${life.state}`)).toBe(true);
      expect(said.includes("is live"), said).toBe(life.state === "pending" || life.state === "stored");
    }
  });
});

describe("refusals", () => {
  const sessions = [
    { session: s1, presence: "live", age_ms: 2_000 },
    { session: s2, presence: "away", age_ms: HOUR },
  ] as const;
  const ROWS: readonly [ToolRefusal, string][] = [
    [{ code: "unknown_peer" }, "unknown_peer: No peer has that name, fingerprint or key. Call list_peers."],
    [
      { code: "unknown_peer", candidates: ["al<i>ce", "bob"] },
      'unknown_peer: No peer has that name, fingerprint or key. Near: "al\\u003ci\\u003ece", "bob". Call list_peers.',
    ],
    [
      { code: "ambiguous", candidates: ["m1", "m12"] },
      'ambiguous: That is the beginning of several, so nothing was done. It may be "m1", "m12". Give more of it, or the whole.',
    ],
    [
      { code: "several_live", sessions },
      "several_live: Several of the peer's sessions are live and none was talked with. Sessions: s1 (live, seen 2s ago), s2 (away, seen 1h ago). Pass session.",
    ],
    [
      { code: "bus_refused", detail: "rate_limited" },
      "bus_refused: The bus refused (rate_limited: Too many requests). Change what it names, or tell your operator.",
    ],
    [
      { code: "bad_file", detail: "/home/a<b>/peers.json" },
      "bad_file: A file of the identity or of the peers cannot be used (/home/a\\u003cb\\u003e/peers.json). Tell your operator which one.",
    ],
  ];
  it.each(ROWS)("%j", (refusal, message) => {
    expect(refusalOf(refusal)).toEqual({ code: refusal.code, message });
  });

  it("all begin with their code and end with a next step", () => {
    const codes = (
      "unknown_peer ambiguous unknown_session several_live several_away oneself unknown_message unknown_task unknown_request " +
      "needs_operator petname_taken bad_name bad_key bad_text bad_field not_connected bus_refused files_locked bad_file"
    ).split(" ") as ToolRefusal["code"][];
    for (const code of codes)
      expect(refusalOf({ code }).message).toMatch(new RegExp(`^${code}: [A-Z].*\\. [A-Z].*\\.$`));
    for (const code of ["declined", "dismissed", "changed", "internal"] as OwnCode[])
      expect(ownRefusal(code).message).toMatch(new RegExp(`^${code}: [A-Z].*\\. [A-Z].*\\.$`));
  });

  it("name the operator's command last, so that it can be copied", () => {
    expect(operatorNeeded(commandOf.accept("AAAA-BBBB", "bob")).message).toBe(
      "needs_operator: Only your operator may change who is trusted, so nothing was changed. Ask them to do it, in a terminal: interlink-edge pair accept AAAA-BBBB --as bob",
    );
  });
});

describe("commands", () => {
  it.each([
    ["bob", "bob"],
    ["Bjørn-2", "Bjørn-2"],
    ["a b", "$'a b'"],
    ["it's", "$'it\\u0027s'"],
    ["$(id)", "$'\\u0024\\u0028id\\u0029'"],
    ["a\\b", "$'a\\u005cb'"],
    ["<b>&", "$'\\u003cb\\u003e\\u0026'"],
    ["😀", "$'\\U0001f600'"],
    ["", "$''"],
  ])("%j is the word %s", (text, word) => expect(shellWord(text)).toBe(word));

  it("take a name that looks like an option", () => {
    expect(commandOf.accept("F", "-x")).toBe("interlink-edge pair accept F --as=-x");
    expect(commandOf.add("-x", "K")).toBe("interlink-edge peers add -- -x K");
    expect(commandOf.remove("-x")).toBe("interlink-edge peers remove -- -x");
  });
});

describe("headlines", () => {
  const me: WhoAmI = {
    name: "lap<top>",
    key: ME.key,
    fingerprint: ME.fingerprint,
    session: s1,
    bus: "https://bus.example",
    connection: "connected",
    presence: { presence: "live", age_ms: 2_000 },
    readiness: { read_roster: "ready", send: "ready", receive: "ready", trust: "ready", wake: "no_wake_path" },
    unread: 2,
    pending: 0,
  };
  it.each([
    [render.mailSentence(0, 0), "No unread messages."],
    [render.mailSentence(1, 0), "1 message, none left unread. Each line is one message, as JSON."],
    [render.mailSentence(5, 3), "5 messages, 3 more unread. Each line is one message, as JSON."],
    [render.historySentence(ALICE, 0, undefined), `No messages with ${NAME} here.`],
    [
      render.historySentence(ALICE, 2, 7),
      `2 messages with ${NAME}, the oldest first; unread mail is not among them. What came before: before=7.`,
    ],
    [
      render.historySentence(ALICE, 1, undefined),
      `1 message with ${NAME}, the oldest first; unread mail is not among them. Nothing before them is kept.`,
    ],
    [
      render.discoverSentence({ count: 2, left: 3 }, { view_age_ms: 0 }),
      "2 sessions on the roster. 3 more not shown: name a peer. Read just now.",
    ],
    [
      render.discoverSentence({ count: 2, left: 0 }, { view_age_ms: 0, partial: true }),
      "2 sessions on the roster. Not all strangers were read: there may be more. Read just now.",
    ],
    [
      render.discoverSentence({ count: 0, left: 0 }, { view_age_ms: 90_000, stale_because: "no_answer" }),
      'No session is on the roster. This view is 1m old: "no_answer".',
    ],
    [render.pendingSentence(0, []), "No message waits to be stored. No open tasks."],
    [
      render.pendingSentence(2, [{ task_id: "t", peer: ALICE, state: "open", owed_by: "us", changed_at_ms: 0 }]),
      "2 messages not stored yet. Open tasks: 1 wait for us, 0 for a peer.",
    ],
    [
      render.whoamiSentence(me, wakeSentence(NO_WAKE)),
      `We are "lap\\u003ctop\\u003e" (${ME.fingerprint}), session s1, on bus "https://bus.example": connected. The bus sees this session as live, last sign 2s ago. Nothing wakes this session when mail comes: call check_messages. 2 unread, 0 not stored yet.`,
    ],
    [pairRequestsText([], NOW_MS), "No pairing request waits."],
  ])("%s", (said, wanted) => {
    expect(said).toBe(wanted);
    expect(said).not.toMatch(UNTRUE);
  });

  it("tell of a bus that does not see us", () => {
    const { presence: _, ...unseen } = me;
    const away = { ...unseen, connection: "evicted", reason: "not_admitted" } as const;
    expect(render.whoamiSentence(away, wakeSentence(NO_WAKE))).toContain(
      'evicted ("not_admitted"). The bus could not be asked',
    );
    expect(render.whoamiSentence({ ...me, presence: { presence: "gone" } }, wakeSentence(NO_WAKE))).toContain(
      "does not list this session, or not yet",
    );
  });

  it("name no stranger among those who knock", () => {
    const request = { ...STRANGER, request_id: "r", claimed_name: "Mallory", at_ms: NOW_MS - 2 * MINUTE };
    const said = (what: "knock" | "answer") => pairRequestsText([{ ...request, what }], NOW_MS);
    expect(said("knock")).toBe(
      `1 pairing request for your operator to decide. interlink-edge pair list shows them the names.\n${STRANGER.fingerprint} asks to pair, 2m ago: interlink-edge pair accept ${STRANGER.fingerprint} --as PETNAME`,
    );
    expect(said("answer")).toContain(`${STRANGER.fingerprint} said yes to your agent's request to pair, 2m ago: `);
  });
});
