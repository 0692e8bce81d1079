/** The bus over real HTTP: what the door adds to the objects' rules. */

import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { Agent, newMessageId } from "../support/agent.ts";

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { SENDER_SHARE: "8" } });
});
afterAll(() => bus.stop());

const agent = (options: { now?: () => number; audience?: string } = {}) => Agent.create({ url: bus.url, ...options });

/** Two agents that admit each other. */
async function pair(): Promise<[Agent, Agent]> {
  const [a, b] = [await agent(), await agent()];
  await a.contacts([b.key]);
  await b.contacts([a.key]);
  return [a, b];
}

describe("a poll", () => {
  it("is woken by the send, long before its time", async () => {
    const [a, b] = await pair();
    await b.announce("s");
    const startedMs = performance.now();
    const poll = b.recv({ session: "s", timeoutMs: 20_000 });
    await parked(a, b);
    await a.send(b.route("s"), "wake up");
    expect((await poll).body).toMatchObject({ status: "message", envelope: { payload: { text: "wake up" } } });
    expect(performance.now() - startedMs).toBeLessThan(5_000);
  });

  it("gives way to a newer one of its session, and says so", async () => {
    const [a, b] = await pair();
    await b.announce("s");
    const older = b.recv({ session: "s", timeoutMs: 20_000 });
    await parked(a, b);
    const newer = b.recv({ session: "s", timeoutMs: 20_000 });
    expect(await older).toMatchObject({ status: 409, body: { error: "stale" } });
    await a.send(b.route("s"), "to the newer");
    expect((await newer).body).toMatchObject({ status: "message" });
  });

  it("takes an ack along, and answers a list when max is given", async () => {
    const [a, b] = await pair();
    await a.sendBatch(["one", "two", "three"].map((text) => a.message(b.route("s"), text)));
    const first = await b.recv({ session: "s", timeoutMs: 0, max: 2 });
    const texts = (answer: typeof first) => answer.body.items.map((item: any) => item.envelope.payload.text);
    expect(texts(first)).toEqual(["one", "two"]);
    const handles = first.body.items.map((item: any) => item.ack);
    const second = await b.recv({ session: "s", timeoutMs: 0, max: 2, ack: handles });
    expect(texts(second)).toEqual(["three"]);
    expect((await b.ack("s", second.body.items[0].ack)).body).toEqual({ removed: 1 });
    expect((await b.recv({ session: "s", timeoutMs: 0 })).body).toEqual({ status: "timeout" });
  });

  it("of a client that went away takes no mail with it", async () => {
    const [a, b] = await pair();
    await b.announce("s");
    const abort = new AbortController();
    const poll = b.recv({ session: "s", timeoutMs: 20_000 }, { signal: abort.signal });
    poll.catch(() => undefined);
    await parked(a, b);
    abort.abort();
    await a.send(b.route("s"), "still here");
    expect((await b.recv({ session: "s", timeoutMs: 5_000 })).body).toMatchObject({ status: "message" });
  });

  /** Until the viewer sees the other's session "s" connected. */
  async function parked(viewer: Agent, of: Agent): Promise<void> {
    for (;;) {
      const { body } = await viewer.roster(of.key);
      if (body.roster.some((each: any) => each.session.session_id === "s" && each.connected)) return;
    }
  }
});

describe("a batch", () => {
  it("answers each message, in the order asked, over several recipients", async () => {
    const [a, b] = await pair();
    const stranger = await agent();
    const first = a.message(b.route("s"), "first");
    const { status, body } = await a.sendBatch([
      first,
      a.message(stranger.route("s"), "to a stranger"),
      a.message(a.route("self"), "to myself"),
      first,
    ]);
    expect(status).toBe(200);
    expect(body.results).toMatchObject([
      { state: "stored" },
      { error: "not_paired" },
      { state: "stored" },
      { state: "duplicate" },
    ]);
  });

  it("with one malformed message stores none, and names it", async () => {
    const [a, b] = await pair();
    const good = a.message(b.route("s"), "good");
    const bad = { ...a.message(b.route("s"), "bad"), to: b.route("s") };
    bad.payload = { ...bad.payload, text: "changed after signing" };
    expect(await a.sendBatch([good, bad])).toMatchObject({
      status: 400,
      body: { error: "bad_payload_signature", index: 1 },
    });
    expect((await b.recv({ session: "s", timeoutMs: 0 })).body).toEqual({ status: "timeout" });
  });

  it("may be empty or too long in no case", async () => {
    const [a, b] = await pair();
    expect(await a.sendBatch([])).toMatchObject({ status: 400, body: { error: "bad_field" } });
    const one = a.message(b.route("s"), "x");
    expect(await a.sendBatch(Array.from({ length: 65 }, () => one))).toMatchObject({ status: 400 });
  });
});

describe("the whole-bus roster", () => {
  it("pages through those who show themselves, once each, and through no one else", async () => {
    const shown = await Promise.all(Array.from({ length: 12 }, () => agent()));
    const hidden = await agent();
    for (const each of shown) await each.announce("s", "whole name", { name: "public name" });
    await hidden.announce("s", "whole name");
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const { body } = await hidden.roster(undefined, cursor === undefined ? { limit: 5 } : { limit: 5, cursor });
      expect(body.roster.length).toBeLessThanOrEqual(5);
      for (const each of body.roster) {
        expect(each).toMatchObject({ name: "public name" });
        expect(each.age_ms).toBeGreaterThanOrEqual(0);
        found.push(each.pubkey);
      }
      cursor = body.cursor;
    } while (cursor !== undefined);
    expect(found.toSorted()).toEqual(expect.arrayContaining(shown.map((each) => each.key as string).toSorted()));
    expect(new Set(found).size).toBe(found.length);
    expect(found).not.toContain(hidden.key);

    await shown[0]!.unregister("s");
    const after = (await hidden.roster(undefined, { limit: 200 })).body;
    expect(after.roster.map((each: any) => each.pubkey)).not.toContain(shown[0]!.key);
  });

  it("refuses a page size or cursor that is none", async () => {
    const a = await agent();
    for (const query of ["limit=0", "limit=201", "limit=x", "cursor=x", "limit=1&limit=2", "identity=x&limit=1"]) {
      expect(await a.request("GET", `/roster?${query}`)).toMatchObject({ status: 400, body: { error: "bad_query" } });
    }
    expect(await a.request("GET", "/roster?identity=x")).toMatchObject({ status: 400, body: { error: "bad_key" } });
  });
});

describe("a token", () => {
  it("from a wrong clock is told the bus's time, and with that offset works", async () => {
    const fast = await agent({ now: () => Date.now() + 3_600_000 });
    const refused = await fast.roster();
    expect(refused).toMatchObject({ status: 401, body: { error: "clock_skew" } });
    expect(Math.abs(refused.body.now_ms - Date.now())).toBeLessThan(5_000);
    const offset = refused.body.now_ms - (Date.now() + 3_600_000);
    const mended = await agent({ now: () => Date.now() + 3_600_000 + offset });
    expect((await mended.roster()).status).toBe(200);
  });

  it("may be signed for any of the bus's origins, and for no other", async () => {
    expect((await (await agent({ audience: `http://localhost:${bus.port}` })).roster()).status).toBe(200);
    expect(await (await agent({ audience: "https://bus.example" })).roster()).toMatchObject({
      status: 401,
      body: { error: "bad_signature" },
    });
  });
});

it("takes no body of a signer for a refusal of its own, whatever its fields say", async () => {
  const a = await agent();
  for (const body of [
    { refused: "x" },
    { refused: "bad_json", status: 200 },
    { refused: "stale", retry_after_s: "a\nb" },
  ]) {
    for (const [method, target] of [
      ["POST", "/ack"],
      ["POST", "/send"],
      ["PUT", "/contacts"],
    ] as const) {
      expect(await a.request(method, target, body)).toMatchObject({ status: 400, body: { error: "unknown_field" } });
    }
  }
  expect(await a.request("GET", "/health?token=x")).toMatchObject({ status: 400, body: { error: "bad_query" } });
});

it("tells a refused sender when to come again, and keeps what is stored", async () => {
  const [a, b] = await pair();
  for (let i = 0; i < 8; i++) expect((await a.send(b.route("s"), `message ${i}`)).status).toBe(202);
  const refused = await a.send(b.route("s"), "one too many");
  expect(refused).toMatchObject({ status: 429, body: { error: "sender_quota" } });
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  expect((await b.recv({ session: "s", timeoutMs: 0, max: 64 })).body.items).toHaveLength(8);
});

it("with OVERFLOW=evict lets the oldest of who holds most go, with a receipt and a gap", async () => {
  const evicting = await startBus({
    bundle: inject("bundle"),
    vars: { OVERFLOW: "evict", INBOX_MAX_MESSAGES: "4" },
  });
  try {
    const [much, little, b] = await Promise.all([1, 2, 3].map(() => Agent.create({ url: evicting.url })));
    await b!.contacts([much!.key, little!.key]);
    const ids = [newMessageId(), newMessageId(), newMessageId()];
    await little!.send(b!.route("s"), "oldest of all, but of who holds little");
    for (const msg_id of ids) await much!.send(b!.route("s"), "much", { msg_id });
    expect((await little!.send(b!.route("s"), "one more")).status).toBe(202);
    const { items, gap } = (await b!.recv({ session: "s", timeoutMs: 0, max: 64 })).body;
    expect(items).toHaveLength(4);
    expect(gap).toMatchObject({ count: 1 });
    const { receipts } = (await much!.receipts(b!.key, ids)).body;
    expect(receipts.map((receipt: any) => receipt.state)).toEqual(["evicted", "stored", "stored"]);
  } finally {
    await evicting.stop();
  }
});

it("with ADMISSION=join lets in only who redeemed an invite, until it is forgotten", async () => {
  const seed = new Uint8Array(32).fill(9);
  const key = (await Agent.create({ url: bus.url, seed })).key;
  const closed = await startBus({ bundle: inject("bundle"), vars: { ADMISSION: "join", ADMIN_KEYS: key } });
  try {
    const operator = await Agent.create({ url: closed.url, seed });
    const [guest, stranger] = [await Agent.create({ url: closed.url }), await Agent.create({ url: closed.url })];
    expect(await guest.invite(60_000)).toMatchObject({ status: 403, body: { error: "not_owner" } });
    const { token } = (await operator.invite(60_000)).body;
    expect((await guest.join(token)).status).toBe(200);
    expect(await stranger.join(token)).toMatchObject({ status: 403, body: { error: "join_denied" } });
    expect((await guest.announce("s")).status).toBe(202);
    const before = (await closed.objectFiles()).filter((file) => file.includes("Identity")).length;
    for (const answer of [
      await stranger.announce("s"),
      await stranger.recv({ session: "s", timeoutMs: 0 }),
      await stranger.roster(guest.key),
      await stranger.contacts([]),
      await stranger.send(guest.route("s"), "alice", { kind: "pair_request" }),
      await stranger.forget(),
    ]) {
      expect(answer).toMatchObject({ status: 403, body: { error: "not_admitted" } });
    }
    expect((await closed.objectFiles()).filter((file) => file.includes("Identity"))).toHaveLength(before);
    expect((await guest.forget()).status).toBe(200);
    expect(await guest.announce("s")).toMatchObject({ status: 403, body: { error: "not_admitted" } });
  } finally {
    await closed.stop();
  }
});
