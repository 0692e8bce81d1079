import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import type { Key } from "../../src/protocol/address.ts";
import { BATCH_MAX, DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { clock } from "../../src/durable/clock.ts";
import { connectIdentity } from "../../src/worker/ask.ts";
import {
  ask,
  bindings,
  entry,
  freezeAt,
  must,
  newKey,
  passTime,
  sendMany,
  sendOne,
  session,
  stubOf,
  take,
  waitingIds,
} from "../support/objects.ts";

const { SENDER_SHARE, INBOX_MAX_MESSAGES, INBOX_MAX_BYTES, KNOCKS_MAX, INBOXES_MAX } = DEFAULT_LIMITS;
const NOW = 4_000_000_000_000; // far ahead: an alarm that lies in the past of the real clock would ring by itself

async function identityWith(...contacts: Key[]): Promise<Key> {
  const key = newKey();
  await must(key, "contacts", { contacts, ts: 1 });
  return key;
}

async function fill(key: Key, sender: Key, to: string | undefined, count: number): Promise<void> {
  for (let left = count; left > 0; left -= BATCH_MAX) {
    const results = await sendMany(
      key,
      Array.from({ length: Math.min(left, BATCH_MAX) }, () => entry(sender, to)),
    );
    for (const result of results) expect(result).toMatchObject({ state: "stored" });
  }
}

describe("an inbox keeps until ack", () => {
  it("hands out the same messages in order until they are acked, and each leaves a receipt", async () => {
    const sender = newKey();
    const key = await identityWith(sender);
    await sendMany(
      key,
      ["a", "b", "c"].map((msgId) => entry(sender, "s1", { msgId })),
    );
    expect(await waitingIds(key, "s1")).toEqual(["a", "b", "c"]);
    await evictDurableObject(stubOf(key));
    const { items = [] } = await take(key, "s1");
    expect(items.map((item) => item.envelope.payload.msg_id)).toEqual(["a", "b", "c"]);
    const handles = [items[0]!.ack, items[2]!.ack];
    expect(await must(key, "ack", { session: session("s1"), acks: handles })).toEqual({ removed: 2 });
    expect(await must(key, "ack", { session: session("s1"), acks: handles })).toEqual({ removed: 0 });
    expect(await waitingIds(key, "s1")).toEqual(["b"]);
    const { receipts } = await must(key, "receipts", { sender, msgIds: ["a", "b", "never"] });
    expect(receipts.map((receipt) => receipt.state)).toEqual(["acked", "stored", "unknown"]);
  });

  it("lets acks ride on the next poll", async () => {
    const key = newKey();
    await sendMany(
      key,
      ["a", "b"].map((msgId) => entry(key, "s1", { msgId })),
    );
    const { items = [] } = await take(key, "s1", { max: 1 });
    expect((await take(key, "s1", { acks: [items[0]!.ack] })).items).toHaveLength(1);
    expect(await waitingIds(key, "s1")).toEqual(["b"]);
  });

  it("refuses a handle of another inbox, and then removes nothing at all", async () => {
    const key = newKey();
    await sendMany(key, [entry(key, "s1"), entry(key, "s2")]);
    const mine = (await take(key, "s1")).items![0]!.ack;
    const sibling = (await take(key, "s2")).items![0]!.ack;
    expect(await ask(key, "ack", { session: session("s1"), acks: [mine, sibling] })).toEqual({ refused: "bad_ack" });
    expect(await waitingIds(key, "s1")).toHaveLength(1);
    expect(await waitingIds(key, "s2")).toHaveLength(1);
  });

  it("does not hand the mail of an away session to its live sibling", async () => {
    const key = newKey();
    await sendOne(key, entry(key, "asleep", { msgId: "for the sleeper" }));
    expect(await waitingIds(key, "awake")).toEqual([]);
    expect(await waitingIds(key, "asleep")).toEqual(["for the sleeper"]);
  });

  it("gives mail to the bare key to exactly one session, the first that polls", async () => {
    const key = newKey();
    await sendMany(key, [entry(key, undefined, { msgId: "a" }), entry(key, "second", { msgId: "b" })]);
    expect(await waitingIds(key, "first")).toEqual(["a"]);
    expect(await waitingIds(key, "second")).toEqual(["b"]);
    expect(await waitingIds(key, "first")).toEqual(["a"]);
    expect(await sendOne(key, entry(key, undefined, { msgId: "a" }))).toMatchObject({ state: "duplicate" });
  });
});

describe("retrying is free", () => {
  it("answers duplicate before and after the ack, and conflict for other bytes", async () => {
    const sender = newKey();
    const key = await identityWith(sender);
    const one = entry(sender, "s1", { msgId: "m" });
    expect(await sendOne(key, one)).toMatchObject({ state: "stored" });
    expect(await sendOne(key, one)).toMatchObject({ state: "duplicate" });
    expect(await sendOne(key, { ...one, digest: "other" })).toEqual({ refused: "msg_id_conflict" });
    const { items } = await take(key, "s1");
    await must(key, "ack", { session: session("s1"), acks: [items![0]!.ack] });
    await evictDurableObject(stubOf(key));
    expect(await sendOne(key, one)).toMatchObject({ state: "duplicate" });
    expect(await sendOne(key, { ...one, digest: "other" })).toEqual({ refused: "msg_id_conflict" });
    expect(await waitingIds(key, "s1")).toEqual([]);
  });

  it("keeps ids apart by sender, by recipient and by route", async () => {
    const [a, b] = [newKey(), newKey()];
    const [key, other] = [await identityWith(a, b), await identityWith(a)];
    for (const [to, one] of [
      [key, entry(a, "s1", { msgId: "m" })],
      [key, entry(b, "s1", { msgId: "m" })],
      [key, entry(a, "s2", { msgId: "m" })],
      [other, entry(a, "s1", { msgId: "m" })],
    ] as const) {
      expect(await sendOne(to, one)).toMatchObject({ state: "stored" });
    }
    expect(await waitingIds(key, "s1")).toEqual(["m", "m"]);
  });

  it("answers a known id even when the inbox is full", async () => {
    const sender = newKey();
    const key = await identityWith(sender);
    const first = entry(sender, "s1");
    await sendOne(key, first);
    await fill(key, sender, "s1", SENDER_SHARE - 1);
    expect(await sendOne(key, entry(sender, "s1"))).toMatchObject({ refused: "sender_quota" });
    expect(await sendOne(key, first)).toMatchObject({ state: "duplicate" });
  });
});

describe("only contacts fill an inbox", () => {
  it("answers a stranger like a key that nobody has seen, and stores nothing", async () => {
    const [stranger, unknown] = [newKey(), newKey()];
    const key = await identityWith(newKey());
    expect(await sendOne(key, entry(stranger, "s1"))).toEqual({ refused: "not_paired" });
    expect(await sendOne(unknown, entry(stranger, "s1"))).toEqual({ refused: "not_paired" });
    expect(await waitingIds(key, "s1")).toEqual([]);
  });

  it("follows the newest contact list, whichever came last", async () => {
    const [a, b] = [newKey(), newKey()];
    const key = newKey();
    await must(key, "contacts", { contacts: [a], ts: 10 });
    expect(await ask(key, "contacts", { contacts: [b], ts: 9 })).toMatchObject({ refused: "stale" });
    expect(await ask(key, "contacts", { contacts: [b], ts: 10 })).toMatchObject({ refused: "stale" });
    expect(await must(key, "contacts", { contacts: [a], ts: 10 })).toMatchObject({ count: 1 });
    await evictDurableObject(stubOf(key));
    expect(await sendOne(key, entry(a, "s1"))).toMatchObject({ state: "stored" });
    expect(await sendOne(key, entry(b, "s1"))).toEqual({ refused: "not_paired" });
  });

  it("takes one pending knock from each stranger, hands it out like mail, and forgets it after a day", async () => {
    const stranger = newKey();
    const key = await identityWith();
    const knock = (msgId: string) => entry(stranger, "s1", { msgId, kind: "pair_request" });
    freezeAt(NOW);
    expect(await sendOne(key, knock("k1"))).toEqual({ state: "stored", msg_id: "k1" });
    expect(await sendOne(key, knock("k1"))).toEqual({ state: "duplicate", msg_id: "k1" });
    expect(await sendOne(key, knock("k2"))).toMatchObject({ refused: "knock_limit" });
    expect(await waitingIds(key, "s1")).toEqual(["k1"]);
    freezeAt(NOW + DEFAULT_LIMITS.KNOCK_RETAIN_MS);
    expect(await waitingIds(key, "s1")).toEqual([]);
    expect(await sendOne(key, knock("k2"))).toMatchObject({ state: "stored" });
  });

  it("frees a stranger's place by the ack, after which its retry is still a duplicate", async () => {
    const stranger = newKey();
    const key = newKey();
    const knock = (msgId: string) => entry(stranger, "s1", { msgId, kind: "pair_request" });
    await sendOne(key, knock("k1"));
    const { items } = await take(key, "s1");
    expect(await must(key, "ack", { session: session("s1"), acks: [items![0]!.ack] })).toEqual({ removed: 1 });
    expect(await sendOne(key, knock("k1"))).toMatchObject({ state: "duplicate" });
    expect((await must(key, "receipts", { sender: stranger, msgIds: ["k1"] })).receipts).toMatchObject([
      { state: "acked" },
    ]);
    expect(await sendOne(key, knock("k2"))).toMatchObject({ state: "stored" });
  });

  it("bounds all knocks together, also the next of a sender whose last was acked", async () => {
    const key = newKey();
    const patient = newKey();
    const knock = (sender: Key, msgId: string) => entry(sender, "s1", { msgId, kind: "pair_request" });
    await sendOne(key, knock(patient, "first"));
    const { items } = await take(key, "s1");
    await must(key, "ack", { session: session("s1"), acks: [items![0]!.ack] });
    for (let i = 0; i < KNOCKS_MAX; i++)
      expect(await sendOne(key, knock(newKey(), "k"))).toMatchObject({ state: "stored" });
    expect(await sendOne(key, knock(patient, "second"))).toMatchObject({ refused: "knock_limit" });
  });

  it("neither counts a knock past its time nor lets it be acked, also before a late alarm", async () => {
    const key = newKey();
    await sendOne(key, entry(newKey(), "s1", { kind: "pair_request" }));
    const { items } = await take(key, "s1");
    passTime(DEFAULT_LIMITS.KNOCK_RETAIN_MS);
    expect(await must(key, "ack", { session: session("s1"), acks: [items![0]!.ack] })).toEqual({ removed: 0 });
    const nonce = { nonce: "n1", expiresAtMs: clock.now() + 121_000 };
    const { webSocket } = await connectIdentity(bindings, { key, session: session("s1"), nonce });
    const welcome = new Promise((resolve) => {
      webSocket!.addEventListener("message", ({ data }) => resolve(JSON.parse(data as string)), { once: true });
    });
    webSocket!.accept();
    expect(await welcome).toMatchObject({ t: "welcome", queued: 0 });
    webSocket!.close();
  });

  it("bounds all knocks together, and never lets them displace mail", async () => {
    const friend = newKey();
    const key = await identityWith(friend);
    await sendOne(key, entry(friend, "s1", { msgId: "mail" }));
    for (let i = 0; i < KNOCKS_MAX; i++) {
      expect(await sendOne(key, entry(newKey(), "s1", { kind: "pair_request" }))).toMatchObject({ state: "stored" });
    }
    expect(await sendOne(key, entry(newKey(), "s1", { kind: "pair_request" }))).toMatchObject({
      refused: "knock_limit",
    });
    expect(await waitingIds(key, "s1")).toContain("mail");
    expect(await sendOne(key, entry(friend, "s1"))).toMatchObject({ state: "stored" });
  });
});

describe("a full inbox refuses, and what it holds stays", () => {
  it("by one sender's share, per inbox", async () => {
    const [a, b] = [newKey(), newKey()];
    const key = await identityWith(a, b);
    await fill(key, a, "s1", SENDER_SHARE);
    expect(await sendOne(key, entry(a, "s1"))).toEqual({ refused: "sender_quota", retry_after_s: 30 });
    expect(await sendOne(key, entry(b, "s1"))).toMatchObject({ state: "stored", queued: SENDER_SHARE + 1 });
    expect(await sendOne(key, entry(a, "s2"))).toMatchObject({ state: "stored", queued: 1 });
  });

  it("by its count of messages, counted the same after the object slept", async () => {
    const senders = Array.from({ length: INBOX_MAX_MESSAGES / SENDER_SHARE }, newKey);
    const late = newKey();
    const key = await identityWith(...senders, late);
    for (const sender of senders) await fill(key, sender, "s1", SENDER_SHARE);
    await evictDurableObject(stubOf(key));
    expect(await sendOne(key, entry(late, "s1"))).toEqual({ refused: "queue_full", retry_after_s: 30 });
    const { items } = await take(key, "s1", { max: 1 });
    await must(key, "ack", { session: session("s1"), acks: [items![0]!.ack] });
    expect(await sendOne(key, entry(late, "s1"))).toMatchObject({ state: "stored", queued: INBOX_MAX_MESSAGES });
  });

  it("by its bytes", async () => {
    const key = newKey();
    const payload = JSON.stringify({ msg_id: "big", text: "é".repeat(30_000) }); // 60 000 bytes in 30 000 characters
    const count = Math.floor(INBOX_MAX_BYTES / new TextEncoder().encode(payload).length);
    for (let i = 0; i < count; i++)
      expect(await sendOne(key, entry(key, "s1", { payload }))).toMatchObject({ state: "stored" });
    expect(await sendOne(key, entry(key, "s1", { payload }))).toMatchObject({ refused: "queue_full" });
    expect(await sendOne(key, entry(key, "s1"))).toMatchObject({ state: "stored", queued: count + 1 });
  });

  it("by the same bounds for mail to the bare key, once a session that is connected owns it", async () => {
    const [friend, late] = [newKey(), newKey()];
    const key = await identityWith(friend, late);
    const nonce = { nonce: "n1", expiresAtMs: Date.now() + 121_000 };
    const socket = await connectIdentity(bindings, { key, session: session("s1"), nonce });
    socket.webSocket!.accept(); // held to the end: one that nobody holds is collected, and closes
    await fill(key, friend, undefined, SENDER_SHARE);
    expect(await sendOne(key, entry(friend, undefined))).toMatchObject({ refused: "sender_quota" });
    expect(await sendOne(key, entry(friend, "s1"))).toMatchObject({ refused: "sender_quota" });
    expect(await sendOne(key, entry(late, undefined))).toMatchObject({ state: "stored", queued: SENDER_SHARE + 1 });
    socket.webSocket!.close();
  });

  it("by the number of inboxes, since a sender may name any session", async () => {
    const key = newKey();
    for (let i = 0; i < INBOXES_MAX; i++) await sendOne(key, entry(key, `s${i}`));
    expect(await sendOne(key, entry(key, "one-more"))).toMatchObject({ refused: "queue_full" });
    expect(await sendOne(key, entry(key, "s0"))).toMatchObject({ state: "stored" });
  });
});

describe("expiry", () => {
  it("lets unacked mail go after its time, with a receipt and a gap that is told until an ack", async () => {
    const key = newKey();
    await sendMany(
      key,
      ["a", "b"].map((msgId) => entry(key, "s1", { msgId, ts: msgId === "a" ? 7 : 8 })),
    );
    passTime(DEFAULT_LIMITS.MESSAGE_RETAIN_MS - 60_000);
    await sendOne(key, entry(key, "s1", { msgId: "c" }));
    passTime(60_000);
    await runDurableObjectAlarm(stubOf(key));
    const answer = await take(key, "s1");
    expect(answer.items?.map((item) => item.envelope.payload.msg_id)).toEqual(["c"]);
    expect(answer.gap).toEqual({ count: 2, oldest_ts: 7 });
    const { receipts } = await must(key, "receipts", { sender: key, msgIds: ["a", "c"] });
    expect(receipts.map((receipt) => receipt.state)).toEqual(["expired", "stored"]);
    // "c" was stored before the loss: a client may have it from an answer that told of none.
    await must(key, "ack", { session: session("s1"), acks: [answer.items![0]!.ack] });
    await sendOne(key, entry(key, "s1", { msgId: "d" }));
    const next = await take(key, "s1");
    expect(next.gap).toEqual({ count: 2, oldest_ts: 7 });
    await must(key, "ack", { session: session("s1"), acks: [next.items![0]!.ack] });
    await sendOne(key, entry(key, "s1"));
    expect(await take(key, "s1")).not.toHaveProperty("gap");
  });

  it("in the identity's own inbox is told to the session that comes to own it", async () => {
    const key = newKey();
    const ts = clock.now();
    await sendOne(key, entry(key, undefined, { ts }));
    passTime(DEFAULT_LIMITS.MESSAGE_RETAIN_MS);
    await runDurableObjectAlarm(stubOf(key));
    await sendOne(key, entry(key, undefined, { msgId: "b" }));
    expect(await take(key, "s1")).toMatchObject({
      items: [{ envelope: { payload: { msg_id: "b" } } }],
      gap: { count: 1, oldest_ts: ts },
    });
    expect(await take(key, "s2")).not.toHaveProperty("gap");
  });
});

it("uses a nonce once, also after the object slept", async () => {
  const key = newKey();
  const nonce = { nonce: "n1", expiresAtMs: Date.now() + 121_000 };
  expect(await take(key, "s1", { nonce })).toMatchObject({ status: "timeout" });
  await evictDurableObject(stubOf(key));
  expect(await take(key, "s1", { nonce })).toEqual({ refused: "replay" });
});
