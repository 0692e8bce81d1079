import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import type { Key } from "../../src/protocol/address.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import {
  announce,
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
const { AWAY_RETAIN_MS, GHOST_RETAIN_MS, MESSAGE_RETAIN_MS, DEDUPE_RETAIN_MS } = DEFAULT_LIMITS;
const HOUR = 3_600_000;

function alarmOf(key: Key): Promise<number | null> {
  return runInDurableObject(stubOf(key), (_, state) => state.storage.getAlarm());
}

function tablesOf(key: Key): Promise<string[]> {
  return runInDurableObject(stubOf(key), (_, state) =>
    state.storage.sql
      .exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
      )
      .toArray()
      .map((row) => row.name),
  );
}

async function ringAt(key: Key, ms: number): Promise<void> {
  freezeAt(ms);
  await runDurableObjectAlarm(stubOf(key));
}

describe("one alarm at the soonest due time", () => {
  it("is set by the first announcement, and a heartbeat does not move it", async () => {
    const key = newKey();
    freezeAt(NOW);
    await announce(key, "s1");
    expect(await alarmOf(key)).toBe(NOW + AWAY_RETAIN_MS);
    freezeAt(NOW + 30_000);
    await announce(key, "s1");
    expect(await alarmOf(key)).toBe(NOW + AWAY_RETAIN_MS);
    await ringAt(key, NOW + AWAY_RETAIN_MS);
    expect(await alarmOf(key)).toBe(NOW + 30_000 + AWAY_RETAIN_MS);
  });

  it("is moved forward by something sooner, and goes back after it", async () => {
    const key = newKey();
    freezeAt(NOW);
    await sendOne(key, entry(key, "s1"));
    expect(await alarmOf(key)).toBe(NOW + MESSAGE_RETAIN_MS);
    await announce(key, "s1");
    expect(await alarmOf(key)).toBe(NOW + AWAY_RETAIN_MS);
    await ringAt(key, NOW + AWAY_RETAIN_MS);
    expect(await alarmOf(key)).toBe(NOW + MESSAGE_RETAIN_MS);
  });

  it("is set again at construction where the platform lost it", async () => {
    const key = newKey();
    freezeAt(NOW);
    await announce(key, "s1");
    await runInDurableObject(stubOf(key), (_, state) => state.storage.deleteAlarm());
    freezeAt(NOW + AWAY_RETAIN_MS + HOUR);
    await evictDurableObject(stubOf(key));
    await view(key, key);
    expect(await alarmOf(key)).toBe(NOW + AWAY_RETAIN_MS + HOUR);
  });
});

describe("with nothing left to keep, an identity deletes itself", () => {
  it("a day after its last row went, and then has no table and no alarm", async () => {
    const key = newKey();
    freezeAt(NOW);
    await announce(key, "s1");
    await must(key, "unregister", { session: session("s1"), ts: NOW + 1, sig: "bye", goodbyes: [] });
    await ringAt(key, NOW + AWAY_RETAIN_MS); // set by the session that was closed since: nothing is due
    expect(await alarmOf(key)).toBe(NOW + AWAY_RETAIN_MS + GHOST_RETAIN_MS);
    await ringAt(key, NOW + AWAY_RETAIN_MS + GHOST_RETAIN_MS);
    expect(await tablesOf(key)).toEqual([]);
    expect(await alarmOf(key)).toBeNull();
  });

  it("not while it has contacts, mail, or an id to remember", async () => {
    const [withContacts, withMail, withReceipt] = [newKey(), newKey(), newKey()];
    freezeAt(NOW);
    await must(withContacts, "contacts", { contacts: [newKey()], ts: 1 });
    await sendOne(withMail, entry(withMail, "s1"));
    await sendOne(withReceipt, entry(withReceipt, "s1"));
    const { items } = await take(withReceipt, "s1");
    await must(withReceipt, "ack", { session: session("s1"), acks: [items![0]!.ack] });
    const late = NOW + MESSAGE_RETAIN_MS - 1;
    for (const key of [withContacts, withMail, withReceipt]) {
      await ringAt(key, late);
      await ringAt(key, late);
      expect(await tablesOf(key)).not.toEqual([]);
    }
    await ringAt(withReceipt, NOW + DEDUPE_RETAIN_MS + HOUR);
    await ringAt(withReceipt, NOW + DEDUPE_RETAIN_MS + HOUR + GHOST_RETAIN_MS);
    expect(await tablesOf(withReceipt)).toEqual([]);
    expect(await alarmOf(withContacts)).toBeNull(); // a list alone never ends, so nothing need ring
  });

  it("not if it was used again in between, however late the alarm", async () => {
    const key = newKey();
    freezeAt(NOW);
    await take(key, "s1", { nonce: { nonce: "n", expiresAtMs: NOW + 121_000 } });
    await ringAt(key, NOW + HOUR);
    await ringAt(key, NOW + HOUR); // empty since now
    freezeAt(NOW + HOUR + GHOST_RETAIN_MS - 1);
    await announce(key, "s1");
    await ringAt(key, NOW + HOUR + 2 * GHOST_RETAIN_MS);
    expect((await view(key, key)).roster).toHaveLength(1);
  });

  it("and can be born again in the same instance", async () => {
    const key = newKey();
    await announce(key, "s1", 1, true);
    await must(key, "forget", { nonce: { nonce: "n", expiresAtMs: Date.now() + 121_000 } });
    expect((await view(key, key)).roster).toEqual([]);
    await sendOne(key, entry(key, "s1"));
    await announce(key, "s1", 1);
    expect((await view(key, key)).roster).toHaveLength(1);
    expect((await take(key, "s1")).items).toHaveLength(1);
  });
});

it("reads of an identity that nobody ever was make no table", async () => {
  const key = newKey();
  await view(key, newKey());
  await must(key, "receipts", { sender: newKey(), msgIds: ["m"] });
  await must(key, "ack", { session: session("s1"), acks: ["s1.1"] });
  expect(await sendOne(key, entry(newKey(), "s1"))).toEqual({ refused: "not_paired" });
  expect(await tablesOf(key)).toEqual([]);
});

it("forgets every trace, refuses the replay of that request, and then the nonce goes as well", async () => {
  const key = newKey();
  const nonce = { nonce: "n", expiresAtMs: Date.now() + 121_000 };
  await announce(key, "s1", 1, true);
  await sendOne(key, entry(key, "s1"));
  await must(key, "forget", { nonce });
  expect(await view(key, key)).toMatchObject({ roster: [], gone: [] });
  await announce(key, "s1", 1);
  const again = await must(key, "contacts", { contacts: [key], ts: 1 });
  expect(again.count).toBe(1);
  await evictDurableObject(stubOf(key));
  const { roster } = await view(key, key);
  expect(roster).toHaveLength(1);
  const stub = stubOf(key);
  expect(JSON.parse(await stub.forget(JSON.stringify({ key, nonce })))).toEqual({ refused: "replay" });
  expect((await view(key, key)).roster).toHaveLength(1);
  passTime(HOUR * 2);
  await runDurableObjectAlarm(stub);
  const nonces = await runInDurableObject(stub, (_, state) => state.storage.sql.exec("SELECT * FROM nonce").toArray());
  expect(nonces).toEqual([]);
});

it("a forgotten key that says nothing more leaves nothing, as soon as its used token would be too old", async () => {
  const key = newKey();
  freezeAt(NOW);
  await announce(key, "s1", NOW, true);
  await must(key, "forget", { nonce: { nonce: "n", expiresAtMs: NOW + 121_000 } });
  expect(await alarmOf(key)).toBe(NOW + 121_000);
  await ringAt(key, NOW + 121_000);
  expect(await tablesOf(key)).toEqual([]);
});
