import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import type { Key } from "../../src/protocol/address.ts";
import { DEFAULT_LIMITS, WAKE_LEASE_MAX_MS } from "../../src/protocol/constants.ts";
import { classifyPresence } from "../../src/protocol/presence.ts";
import {
  announce,
  announcement,
  ask,
  entry,
  freezeAt,
  must,
  newKey,
  passTime,
  sendOne,
  session,
  stubOf,
  take,
  view,
} from "../support/objects.ts";

const NOW = 4_000_000_000_000; // far ahead: an alarm that lies in the past of the real clock would ring by itself
const { AWAY_RETAIN_MS, LIVE_MS, SESSIONS_MAX } = DEFAULT_LIMITS;

async function presenceAfter(ageMs: number): Promise<string> {
  const key = newKey();
  freezeAt(NOW);
  await announce(key, "s1");
  freezeAt(NOW + ageMs);
  await evictDurableObject(stubOf(key)); // asleep in between: nothing that counts is in memory
  const { roster } = await view(key, key);
  return roster.length === 0 ? "gone" : classifyPresence(roster[0]!.age_ms, DEFAULT_LIMITS);
}

describe("silence is not death", () => {
  const rows = [
    { ageMs: 0, expected: "live", why: "just announced" },
    { ageMs: LIVE_MS - 1, expected: "live", why: "two heartbeats may be lost" },
    { ageMs: LIVE_MS, expected: "away", why: "three are missed: probably asleep" },
    { ageMs: AWAY_RETAIN_MS - 1, expected: "away", why: "a long weekend" },
    { ageMs: AWAY_RETAIN_MS, expected: "gone", why: "three days" },
  ];
  for (const { ageMs, expected, why } of rows) {
    it(`reads ${expected} at an age of ${ageMs} ms: ${why}`, async () => {
      expect(await presenceAfter(ageMs)).toBe(expected);
    });
  }

  it("answers rightly when read once after three days asleep, before any alarm ran", async () => {
    const key = newKey();
    freezeAt(NOW);
    await announce(key, "old");
    freezeAt(NOW + AWAY_RETAIN_MS - 1_000);
    await announce(key, "young");
    freezeAt(NOW + AWAY_RETAIN_MS);
    const { roster } = await view(key, key);
    expect(roster.map((each) => [each.session.session_id, each.age_ms])).toEqual([["young", 1_000]]);
  });

  it("keeps the other sessions' due times when one expires", async () => {
    const key = newKey();
    freezeAt(NOW);
    await announce(key, "old");
    freezeAt(NOW + 60_000);
    await announce(key, "young");
    freezeAt(NOW + AWAY_RETAIN_MS);
    await runDurableObjectAlarm(stubOf(key));
    expect((await view(key, key)).roster.map((each) => each.session.session_id)).toEqual(["young"]);
    freezeAt(NOW + AWAY_RETAIN_MS + 60_000);
    await runDurableObjectAlarm(stubOf(key));
    expect((await view(key, key)).roster).toEqual([]);
  });

  it("changes nothing wrongly when the alarm rings hours late, twice, or after a revival", async () => {
    const key = newKey();
    freezeAt(NOW);
    await announce(key, "s1");
    await announce(key, "s2");
    freezeAt(NOW + AWAY_RETAIN_MS - 5_000);
    await announce(key, "s2");
    freezeAt(NOW + AWAY_RETAIN_MS + 7 * 3_600_000);
    await announce(key, "s1"); // revived before the late alarm
    await runDurableObjectAlarm(stubOf(key));
    await runDurableObjectAlarm(stubOf(key));
    const { roster } = await view(key, key);
    expect(roster.map((each) => [each.session.session_id, each.age_ms])).toEqual([
      ["s1", 0],
      ["s2", 7 * 3_600_000 + 5_000],
    ]);
  });

  it("is gone after three days also before a late alarm: no poll, ack or goodbye finds it", async () => {
    const [key, stranger] = [newKey(), newKey()];
    freezeAt(NOW);
    for (const id of ["polls", "acks", "closes"]) await announce(key, id, NOW, true);
    freezeAt(NOW + AWAY_RETAIN_MS);
    await take(key, "polls");
    await must(key, "ack", { session: session("acks"), acks: ["acks.1"] });
    const bye = { session: session("closes"), ts: NOW + AWAY_RETAIN_MS, sig: "bye", goodbyes: [] };
    await must(key, "unregister", bye);
    expect((await view(key, key)).roster).toEqual([]);
    expect((await view(key, stranger)).gone).toEqual([]); // as after the alarm, nobody knows that it was shown
  });

  it("counts a poll and an ack as signs of life, also after the object slept", async () => {
    const key = newKey();
    await announce(key, "polls");
    await announce(key, "acks");
    passTime(LIVE_MS);
    await take(key, "polls");
    await must(key, "ack", { session: session("acks"), acks: ["acks.1"] });
    await evictDurableObject(stubOf(key));
    for (const each of (await view(key, key)).roster) expect(each.age_ms).toBeLessThan(1_000);
  });
});

describe("unregister is death", () => {
  it("closes a session at once, and shows the signed goodbye", async () => {
    const key = newKey();
    const ts = NOW + 5;
    freezeAt(NOW);
    await announce(key, "s1");
    freezeAt(NOW + 10);
    await must(key, "unregister", { session: session("s1"), ts, sig: "bye", goodbyes: [] });
    const { roster, gone } = await view(key, key);
    expect(roster).toEqual([]);
    expect(gone).toEqual([{ pubkey: key, session_id: "s1", ts, sig: "bye", at_ms: NOW + 10 }]);
  });

  it("is not undone by an announcement that was made before it, also after the object slept", async () => {
    const key = newKey();
    freezeAt(NOW);
    await announce(key, "s1", NOW);
    await must(key, "unregister", { session: session("s1"), ts: NOW + 50, sig: "bye", goodbyes: [] });
    await evictDurableObject(stubOf(key));
    expect(await announce(key, "s1", NOW + 40)).toMatchObject({ refused: "stale" });
    expect(await announce(key, "s1", NOW)).toMatchObject({ refused: "stale" });
    expect((await view(key, key)).roster).toEqual([]);
    await must(key, "announce", { announcement: announcement(key, "s1", NOW + 51) });
    expect((await view(key, key)).gone).toEqual([]);
  });

  it("wins over a heartbeat that was on its way, even for a session that was never announced", async () => {
    const key = newKey();
    freezeAt(NOW);
    await must(key, "unregister", { session: session("s1"), ts: NOW + 1, sig: "bye", goodbyes: [] });
    expect(await announce(key, "s1", NOW)).toMatchObject({ refused: "stale" });
  });

  it("may be repeated, but not by an older one", async () => {
    const key = newKey();
    freezeAt(NOW);
    await announce(key, "s1", NOW);
    const bye = { session: session("s1"), ts: NOW + 1, sig: "bye", goodbyes: [] };
    await must(key, "unregister", bye);
    await must(key, "unregister", bye);
    expect(await ask(key, "unregister", { ...bye, ts: NOW })).toMatchObject({ refused: "stale" });
    await must(key, "announce", { announcement: announcement(key, "s1", NOW + 2) });
    expect(await ask(key, "unregister", bye)).toMatchObject({ refused: "stale" });
  });

  it("shows a goodbye that was signed anew to whom it showed the first", async () => {
    const [key, stranger] = [newKey(), newKey()];
    freezeAt(NOW);
    await announce(key, "s1", NOW, true);
    for (const ts of [NOW + 1, NOW + 2]) {
      await must(key, "unregister", { session: session("s1"), ts, sig: `bye-${ts}`, goodbyes: [] });
    }
    expect((await view(key, stranger)).gone).toMatchObject([{ session_id: "s1", ts: NOW + 2 }]);
  });

  it("sends the goodbyes on to peers that admit the sender", async () => {
    const [leaver, peer, stranger] = [newKey(), newKey(), newKey()];
    await must(peer, "contacts", { contacts: [leaver], ts: 1 });
    const goodbyes = [
      { to: peer, entry: entry(leaver, "p1", { msgId: "bye" }) },
      { to: stranger, entry: entry(leaver, "x1", { msgId: "bye" }) },
    ];
    await must(leaver, "unregister", { session: session("s1"), ts: 5, sig: "bye", goodbyes });
    expect((await take(peer, "p1")).items).toHaveLength(1);
    expect(await take(stranger, "x1")).toEqual({ status: "timeout" });
  });
});

describe("announcements", () => {
  it("never let an older one replace a newer one, and take a retry as the same", async () => {
    const key = newKey();
    freezeAt(NOW);
    const first = announcement(key, "s1", NOW, { name: "first" });
    await must(key, "announce", { announcement: first });
    expect(await announce(key, "s1", NOW - 1)).toMatchObject({ refused: "stale" });
    expect(await ask(key, "announce", { announcement: { ...first, name: "other", sig: "other" } })).toMatchObject({
      refused: "stale",
    });
    freezeAt(NOW + 30_000);
    await must(key, "announce", { announcement: first });
    const { roster } = await view(key, key);
    expect(roster).toMatchObject([{ name: "first", age_ms: 30_000 }]); // who captured it cannot keep the session live
  });

  it("refuse a session above SESSIONS_MAX, until one is gone", async () => {
    const key = newKey();
    freezeAt(NOW);
    for (let i = 0; i < SESSIONS_MAX; i++) await must(key, "announce", { announcement: announcement(key, `s${i}`) });
    expect(await announce(key, "one-more")).toMatchObject({ refused: "session_limit", retry_after_s: 3_600 });
    expect((await view(key, key)).roster).toHaveLength(SESSIONS_MAX);
    await must(key, "announce", { announcement: announcement(key, "s0", NOW + 1) });
    await must(key, "unregister", { session: session("s5"), ts: NOW + 1, sig: "bye", goodbyes: [] });
    await must(key, "announce", { announcement: announcement(key, "one-more") });
  });

  it("show themselves whole to contacts, as their public part to others, and without one not at all", async () => {
    const [key, friend, other] = [newKey(), newKey(), newKey()];
    await must(key, "contacts", { contacts: [friend], ts: 1 });
    const whole = announcement(key, "shown", 5, { name: "whole" });
    await must(key, "announce", { announcement: whole, public: { ...whole, name: "public" } });
    await must(key, "announce", { announcement: announcement(key, "hidden", 5) });
    const names = async (viewer?: typeof key) => (await view(key, viewer)).roster.map((each) => each.name).toSorted();
    expect(await names(friend)).toEqual(["agent", "whole"]);
    expect(await names(key)).toEqual(["agent", "whole"]);
    expect(await names(other)).toEqual(["public"]);
    expect(await names(undefined)).toEqual(["public"]);
  });

  it("keep their generation over sleep, and have another after being forgotten", async () => {
    const key = newKey();
    const first = await must(key, "announce", { announcement: announcement(key, "s1", 1) });
    await evictDurableObject(stubOf(key));
    const again = await must(key, "announce", { announcement: announcement(key, "s1", 2) });
    expect(again.generation).toBe(first.generation);
    await must(key, "forget", { nonce: { nonce: "n", expiresAtMs: Date.now() + 1_000 } });
    const later = await must(key, "announce", { announcement: announcement(key, "s1", 1) });
    expect(later.generation).not.toBe(first.generation);
  });
});

describe("what wakes a session", () => {
  const lease = (fields = {}) => {
    return { path: "inbox_socket", proven_at_ms: NOW, until_ms: NOW + WAKE_LEASE_MAX_MS, sig: "sig", ...fields };
  };
  let lastTs = NOW;
  const say = (key: Key, wake?: ReturnType<typeof lease>, id = "s1") => {
    const said = announcement(key, id, ++lastTs);
    return must(key, "announce", { announcement: said, public: said, ...(wake && { wake }) });
  };
  const wakesOf = async (key: Key, viewer?: Key) => (await view(key, viewer)).roster.map(({ wake }) => wake);

  it("is kept with the announcement, replaced by the next, and taken back by one without", async () => {
    const key = newKey();
    freezeAt(NOW);
    await say(key, lease());
    expect(await wakesOf(key, key)).toEqual([lease()]);
    await say(key, lease({ path: "channel" }));
    expect(await wakesOf(key, key)).toEqual([lease({ path: "channel" })]);
    await say(key);
    expect((await view(key, key)).roster[0]).not.toHaveProperty("wake");
  });

  it("is of one session, and is not taken back by its sibling's", async () => {
    const key = newKey();
    freezeAt(NOW);
    await say(key, lease(), "s1");
    await say(key, undefined, "s2");
    const { roster } = await view(key, key);
    expect(Object.fromEntries(roster.map(({ session: { session_id }, wake }) => [session_id, wake]))).toEqual({
      s1: lease(),
      s2: undefined,
    });
  });

  it("is the first one's where an announcement is repeated with another, or without", async () => {
    const key = newKey();
    freezeAt(NOW);
    const said = announcement(key, "s1", NOW);
    await must(key, "announce", { announcement: said, wake: lease() });
    await must(key, "announce", { announcement: said });
    await must(key, "announce", { announcement: said, wake: lease({ path: "channel" }) });
    expect(await wakesOf(key, key)).toEqual([lease()]);
  });

  it("is shown to the identity and its contacts, to nobody else, and not on the whole bus's roster", async () => {
    const [key, friend, other] = [newKey(), newKey(), newKey()];
    freezeAt(NOW);
    await must(key, "contacts", { contacts: [friend], ts: 1 });
    await say(key, lease());
    const seenBy = async (viewer: Key | undefined, scope: "identity" | "bus") => {
      const { roster } = await must(key, "view", { ...(viewer && { viewer }), scope });
      expect(roster).toHaveLength(1);
      return "wake" in roster[0]!;
    };
    expect(await seenBy(key, "identity")).toBe(true);
    expect(await seenBy(friend, "identity")).toBe(true);
    expect(await seenBy(other, "identity")).toBe(false);
    expect(await seenBy(undefined, "identity")).toBe(false);
    for (const viewer of [key, friend, other, undefined]) expect(await seenBy(viewer, "bus")).toBe(false);
  });

  it("is left away from the very millisecond at which it is past, and the session stays", async () => {
    const key = newKey();
    freezeAt(NOW);
    await say(key, lease({ until_ms: NOW + 5_000 }));
    freezeAt(NOW + 4_999);
    expect(await wakesOf(key, key)).toEqual([lease({ until_ms: NOW + 5_000 })]);
    freezeAt(NOW + 5_000);
    expect(await wakesOf(key, key)).toEqual([undefined]);
    expect((await view(key, key)).roster[0]).not.toHaveProperty("wake");
  });

  it("outlives the object's sleep, and what is written of the session's presence", async () => {
    const key = newKey();
    freezeAt(NOW);
    await say(key, lease());
    await evictDurableObject(stubOf(key));
    expect(await wakesOf(key, key)).toEqual([lease()]);
    freezeAt(NOW + DEFAULT_LIMITS.HEARTBEAT_MS);
    await take(key, "s1"); // a sign of life that costs a row
    await evictDurableObject(stubOf(key));
    expect(await wakesOf(key, key)).toEqual([lease()]);
  });

  it("goes with its session, and does not come back with it", async () => {
    const key = newKey();
    freezeAt(NOW);
    await say(key, lease());
    await must(key, "unregister", { session: session("s1"), ts: ++lastTs, sig: "bye", goodbyes: [] });
    await say(key);
    expect(await wakesOf(key, key)).toEqual([undefined]);
  });

  it("is not known of a session from before there was a place for it, and is of its next announcement", async () => {
    const key = newKey();
    freezeAt(NOW);
    await say(key, lease());
    const columns = "SELECT name FROM pragma_table_info('session')";
    await runInDurableObject(stubOf(key), (_, { storage: { sql } }) => {
      sql.exec("ALTER TABLE session DROP COLUMN wake");
      sql.exec("DELETE FROM schema_step WHERE step > 1");
      expect(sql.exec(columns).toArray()).toHaveLength(6); // as the first step made it
    });
    await evictDurableObject(stubOf(key));
    const { roster } = await view(key, key);
    expect(roster).toMatchObject([{ session: { session_id: "s1" }, age_ms: 0 }]);
    expect(roster[0]).not.toHaveProperty("wake");
    await say(key, lease());
    expect(await wakesOf(key, key)).toEqual([lease()]);
    await evictDurableObject(stubOf(key));
    expect(await wakesOf(key, key)).toEqual([lease()]);
    await runInDurableObject(stubOf(key), (_, { storage: { sql } }) => {
      expect(sql.exec("SELECT step FROM schema_step").toArray()).toEqual([{ step: 1 }, { step: 2 }]);
    });
  });
});

it("tells a sender the presence of the addressed session, not of its sibling", async () => {
  const key = newKey();
  freezeAt(NOW);
  await announce(key, "sleeper");
  freezeAt(NOW + LIVE_MS + 1_000);
  await announce(key, "awake");
  expect(await sendOne(key, entry(key, "sleeper"))).toMatchObject({
    presence: "away",
    age_ms: LIVE_MS + 1_000,
    queued: 1,
  });
  expect(await sendOne(key, entry(key, "awake"))).toMatchObject({ presence: "live", age_ms: 0 });
  expect(await sendOne(key, entry(key, undefined))).toMatchObject({ presence: "live", age_ms: 0 });
  const toNobody = await sendOne(key, entry(key, "never-seen"));
  expect(toNobody).toMatchObject({ presence: "gone" });
  expect(toNobody).not.toHaveProperty("age_ms");
});
