/**
 * What common calls cost in rows. Rows are what the platform bills most for, so a change that adds one must show
 * itself here. Each row of docs/COSTS.md is counted in costs-document.test.ts.
 */

import { runDurableObjectAlarm } from "cloudflare:test";
import { beforeAll, describe, expect, it } from "vitest";
import {
  announce,
  announcement,
  ask,
  entry,
  must,
  newKey,
  sendMany,
  sendOne,
  session,
  stubOf,
  take,
  view,
} from "../support/objects.ts";
import { costOf, countRows } from "../support/rows.ts";

beforeAll(countRows);

describe("rows written and alarms set", () => {
  it("send: the message and its id; the first one also arms the alarm", async () => {
    const key = newKey();
    await announce(key, "s1");
    await sendOne(key, entry(key, "s1"));
    expect(await costOf(() => sendOne(key, entry(key, "s1")))).toMatchObject({ written: 2, alarms: 0 });
  });

  it("send: reads no more from a long queue than from a short one", async () => {
    const key = newKey();
    await announce(key, "s1");
    await sendOne(key, entry(key, "s1"));
    const short = await costOf(() => sendOne(key, entry(key, "s1")));
    for (let i = 0; i < 3; i++)
      await sendMany(
        key,
        Array.from({ length: 64 }, () => entry(key, "s1")),
      );
    const long = await costOf(() => sendOne(key, entry(key, "s1")));
    expect(long.read).toBe(short.read);
  });

  it("duplicate: nothing", async () => {
    const key = newKey();
    const one = entry(key, "s1");
    await sendOne(key, one);
    expect(await costOf(() => sendOne(key, one))).toMatchObject({ written: 0, alarms: 0 });
  });

  it("a refused stranger: nothing", async () => {
    const key = newKey();
    await must(key, "contacts", { contacts: [], ts: 1 });
    expect(await costOf(() => sendOne(key, entry(newKey(), "s1")))).toMatchObject({ written: 0, alarms: 0 });
  });

  it("recv of a batch: nothing of the mail; the nonce that single use asks for", async () => {
    const key = newKey();
    await announce(key, "s1");
    await sendMany(
      key,
      Array.from({ length: 10 }, () => entry(key, "s1")),
    );
    expect(await costOf(() => take(key, "s1"))).toMatchObject({ written: 0, alarms: 0 });
    const nonce = (name: string) => ({ nonce: { nonce: name, expiresAtMs: Date.now() + 121_000 } });
    await take(key, "s1", nonce("first"));
    expect(await costOf(() => take(key, "s1", nonce("second")))).toMatchObject({ written: 1, alarms: 0 });
  });

  it("ack of a batch: each message and its receipt", async () => {
    const key = newKey();
    await announce(key, "s1");
    await sendMany(
      key,
      Array.from({ length: 11 }, () => entry(key, "s1")),
    );
    const acks = (await take(key, "s1")).items!.map((item) => item.ack);
    const ackAll = (handles: string[]) => must(key, "ack", { session: session("s1"), acks: handles });
    await ackAll(acks.slice(0, 1));
    expect(await costOf(() => ackAll(acks.slice(1)))).toMatchObject({ written: 20, alarms: 0 });
  });

  it("announce that changes nothing but time: one row", async () => {
    const key = newKey();
    await announce(key, "s1", 1, true);
    const said = announcement(key, "s1", 2);
    expect(await costOf(() => ask(key, "announce", { announcement: said, public: said }))).toMatchObject({
      written: 1,
      alarms: 0,
    });
  });

  it("roster and receipts: nothing", async () => {
    const key = newKey();
    await announce(key, "s1");
    expect(await costOf(() => view(key, key))).toMatchObject({ written: 0, alarms: 0 });
    expect(await costOf(() => must(key, "receipts", { sender: key, msgIds: ["a"] }))).toMatchObject({ written: 0 });
  });

  it("alarm: two rows and two alarms with nothing due, and each remembered id read twice", async () => {
    const key = newKey();
    await announce(key, "s1");
    const remember = async () => {
      await sendMany(
        key,
        Array.from({ length: 64 }, () => entry(key, "s1")),
      );
      const acks = (await take(key, "s1")).items!.map((item) => item.ack);
      await must(key, "ack", { session: session("s1"), acks });
    };
    const ring = () => costOf(() => runDurableObjectAlarm(stubOf(key)));
    await remember();
    const one = await ring();
    await remember();
    const two = await ring();
    expect(one).toMatchObject({ written: 2, alarms: 2 });
    expect((two.read - one.read) / 64).toBe(2);
    expect(one.read - 64 * 2).toBe(20);
  });
});
