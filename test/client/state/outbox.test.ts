/** The outbox on a real file: first to disk, the same bytes at every try, in order, and true words about what became of it. */

import { beforeAll, describe, expect, it } from "vitest";
import { Outbox } from "../../../src/client/session/outbox.ts";
import type { Outcome } from "../../../src/client/session/outbox-policy.ts";
import type { Outgoing } from "../../../src/client/state/outbox-table.ts";
import type { State } from "../../../src/client/state/store.ts";
import type { Key } from "../../../src/protocol/address.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/constants.ts";
import { parseMessage, verifyMessage } from "../../../src/protocol/message.ts";
import { isRefusal, refuse, type RefusalCode, type RefusalFacts } from "../../../src/protocol/refusal.ts";
import { publicKeyOf, sign } from "../../../src/protocol/signing.ts";
import { newPath, open, session, T0 } from "./state-fixture.ts";

const seed = new Uint8Array(32).fill(7);
let key: Key;
let ann: Key;
let bob: Key;
beforeAll(async () => {
  key = await publicKeyOf(seed);
  ann = await publicKeyOf(new Uint8Array(32).fill(8));
  bob = await publicKeyOf(new Uint8Array(32).fill(9));
});

const stored: Outcome = { outcome: "stored", presence: "away", age_ms: 1_000 };
const silence: Outcome = { outcome: "silence" };
const refused = (code: RefusalCode, facts: RefusalFacts = {}): Outcome => ({
  outcome: "refused",
  refusal: refuse(code, facts),
});

function outboxOn(state: State, buses: readonly string[] = ["main"]): Outbox {
  const author = { key, session: session("me"), sign: (bytes: Uint8Array) => sign(bytes, seed) };
  return new Outbox({ state, author, buses: () => buses, random: () => 0 });
}

async function put(outbox: Outbox, text: string, to: Key = ann, fields: object = {}): Promise<Outgoing> {
  const outgoing = await outbox.enqueue({ to: { key: to }, text, ...fields }, T0);
  if (isRefusal(outgoing)) throw new Error(outgoing.refused);
  return outgoing;
}
const textsOf = (outbox: Outbox, nowMs = T0) =>
  outbox.due(nowMs).tries.map(({ body, bus }) => `${bus}: ${JSON.parse(body).payload.text}`);

describe("enqueue", () => {
  it("mints 32 hex characters, and keeps a message that a bus would take", async () => {
    const { state } = open();
    const outbox = outboxOn(state);
    const { msg_id, life } = await put(outbox, "hello \0 мир", ann, { task_id: "t" });
    expect(msg_id).toMatch(/^[0-9a-f]{32}$/);
    expect(life.state).toBe("pending");
    const [due] = outbox.due(T0).tries;
    const { to, payload } = JSON.parse(due!.body);
    const message = parseMessage(payload, DEFAULT_LIMITS);
    if (isRefusal(message)) throw new Error(message.refused);
    expect(await verifyMessage(message)).toBe(true);
    expect(message).toMatchObject({ text: "hello \0 мир", reply_to: `${key}#me`, ts: T0 });
    expect(to).toBe(ann);
    expect(state.tasks.open()).toMatchObject([{ task_id: "t", opened_by: "us", owes: "peer" }]);
  });

  it("is idempotent by id, and refuses other words under it", async () => {
    const { state } = open();
    const outbox = outboxOn(state);
    const first = await put(outbox, "once", ann, { msg_id: "mine" });
    expect(await put(outbox, "once", ann, { msg_id: "mine" })).toEqual(first);
    const draft = { to: { key: ann }, text: "other", msg_id: "mine" };
    expect(await outbox.enqueue(draft, T0)).toEqual(refuse("msg_id_conflict"));
    expect(await outbox.enqueue({ ...draft, to: { key: bob } }, T0)).toEqual(refuse("msg_id_conflict"));
    expect(state.outbox.pendingCount()).toBe(1);
  });

  it("keeps nothing of a message that has a fault of its own", async () => {
    const { state } = open();
    const outbox = outboxOn(state);
    const drafts = [
      { text: "" },
      { text: "x".repeat(65_537) },
      { text: "\ud800" },
      { text: "x", status: "result" as const },
    ];
    for (const draft of drafts) expect(isRefusal(await outbox.enqueue({ to: { key: ann }, ...draft }, T0))).toBe(true);
    expect(state.outbox.pendingCount()).toBe(0);
    await put(outbox, "x".repeat(65_536));
    expect(state.outbox.pendingCount()).toBe(1);
  });

  it("keeps the order of the calls, whatever signing takes", async () => {
    const { state } = open();
    const author = {
      key,
      session: session("me"),
      sign: async (bytes: Uint8Array) => {
        if (slow-- > 0) await new Promise((done) => setTimeout(done, 20));
        return sign(bytes, seed);
      },
    };
    let slow = 1;
    const outbox = new Outbox({ state, author, buses: () => ["main"], random: () => 0 });
    await Promise.all(["a", "b", "c"].map((text) => put(outbox, text)));
    expect(state.outbox.pending(9).map(({ payload }) => JSON.parse(payload).text)).toEqual(["a", "b", "c"]);
  });

  it("dates a message by the bus's clock, once that is known", async () => {
    const { state } = open();
    const outbox = outboxOn(state);
    const { msg_id } = await put(outbox, "a");
    outbox.settle(msg_id, "main", refused("clock_skew", { now_ms: T0 - 7_200_000 }), T0);
    expect((await put(outbox, "b")).ts).toBe(T0 - 7_200_000);
    expect(textsOf(outbox)).toEqual(["main: a"]); // at once
  });
});

describe("sending", () => {
  it("offers one message a route, the next when it left pending, and routes side by side", async () => {
    const { state } = open();
    const outbox = outboxOn(state);
    const { msg_id } = await put(outbox, "1");
    await put(outbox, "2");
    await put(outbox, "to bob", bob);
    await put(outbox, "to a session", ann, { to: { key: ann, session: session("s") } });
    expect(textsOf(outbox)).toEqual(["main: 1", "main: to bob", "main: to a session"]);
    expect(textsOf(outbox)).toEqual([]); // they are under way
    expect(outbox.settle(msg_id, "main", stored, T0)).toMatchObject({ life: { state: "stored", presence: "away" } });
    expect(textsOf(outbox)).toEqual(["main: 2"]);
  });

  it("sends the same bytes at every try, also those of the next process", async () => {
    const path = newPath();
    const { state } = open(path);
    const outbox = outboxOn(state);
    const { msg_id } = await put(outbox, "again");
    const first = outbox.due(T0);
    outbox.settle(msg_id, "main", silence, T0);
    expect(outbox.due(T0)).toEqual({ tries: [], changed: [], next_at_ms: T0 + 500 });
    expect(outbox.due(T0 + 500).tries).toEqual(first.tries);
    state.close();
    expect(outboxOn(open(path).state).due(T0 + 500).tries).toEqual(first.tries);
  });

  it("offers a try again that nobody settled", async () => {
    const outbox = outboxOn(open().state);
    await put(outbox, "x");
    expect(textsOf(outbox)).toHaveLength(1);
    expect(outbox.due(T0 + 59_999)).toMatchObject({ tries: [], next_at_ms: T0 + 60_000 });
    expect(textsOf(outbox, T0 + 60_000)).toHaveLength(1);
  });

  it("keeps what a full bus refused until it may come, and what follows behind it", async () => {
    const { state } = open();
    const outbox = outboxOn(state);
    const { msg_id } = await put(outbox, "1");
    await put(outbox, "2");
    outbox.due(T0);
    outbox.settle(msg_id, "main", refused("queue_full", { retry_after_s: 30 }), T0);
    outbox.hurry("main", T0);
    expect(outbox.due(T0 + 29_999)).toMatchObject({ tries: [], next_at_ms: T0 + 30_000 });
    expect(textsOf(outbox, T0 + 30_000)).toEqual(["main: 1"]);
  });

  it("does not wait longer because the clock was set back, and no full bus hears us sooner than it asked", async () => {
    const path = newPath();
    const { state } = open(path);
    const outbox = outboxOn(state);
    const { msg_id } = await put(outbox, "no answer");
    const full = await put(outbox, "full", bob);
    outbox.settle(msg_id, "main", silence, T0);
    outbox.settle(full.msg_id, "main", refused("queue_full", { retry_after_s: 30 }), T0);
    const backMs = T0 - 3_600_000;
    expect(textsOf(outbox, backMs)).toEqual(["main: no answer"]);
    state.close();
    // The next process finds the wait as it was begun anew, and goes on with it.
    const next = outboxOn(open(path).state);
    expect(textsOf(next, backMs)).toEqual(["main: no answer"]);
    expect(textsOf(next, backMs + 29_999)).toEqual([]);
    expect(textsOf(next, backMs + 30_000)).toEqual(["main: full"]);
  });

  it("hurries what waited for the network when a bus is back", async () => {
    const outbox = outboxOn(open().state);
    const { msg_id } = await put(outbox, "1");
    for (let n = 0; n < 8; n++) outbox.settle(msg_id, "main", silence, T0);
    expect(textsOf(outbox)).toEqual([]);
    outbox.hurry("main", T0);
    expect(textsOf(outbox)).toEqual(["main: 1"]);
  });

  it("lets mail pass a knock that waits for hours", async () => {
    const outbox = outboxOn(open().state);
    const { msg_id } = await put(outbox, "Us", ann, { kind: "pair_request" });
    outbox.settle(msg_id, "main", refused("knock_limit", { retry_after_s: 3_600 }), T0);
    await put(outbox, "mail");
    expect(textsOf(outbox)).toEqual(["main: mail"]);
  });

  it("takes back the task of a message that a bus refused, and goes on with the next", async () => {
    const { state } = open();
    const outbox = outboxOn(state);
    const { msg_id } = await put(outbox, "do it", ann, { task_id: "t" });
    await put(outbox, "next");
    const changed = outbox.settle(msg_id, "main", refused("not_paired"), T0);
    expect(changed).toMatchObject({
      peer: ann,
      life: { state: "refused", code: "not_paired", retry: "after_pairing" },
    });
    expect(state.tasks.open()).toEqual([]);
    expect(textsOf(outbox)).toEqual(["main: next"]);
  });

  it("expires what no bus took in time, with a word, and all that stood behind it", async () => {
    const outbox = outboxOn(open().state);
    const { msg_id } = await put(outbox, "1");
    await put(outbox, "2");
    outbox.settle(msg_id, "main", silence, T0);
    const { tries, changed } = outbox.due(T0 + DEFAULT_LIMITS.MESSAGE_RETAIN_MS);
    expect(tries).toEqual([]);
    expect(changed).toMatchObject([
      { life: { state: "expired", why: "not_stored", last: "no_answer" } },
      { life: { state: "expired", why: "not_stored" } },
    ]);
  });

  it("is not held up by a stalled bus", async () => {
    const outbox = outboxOn(open().state, ["stalled", "main"]);
    const { msg_id } = await put(outbox, "1");
    await put(outbox, "2");
    expect(textsOf(outbox)).toEqual(["stalled: 1", "main: 1"]);
    outbox.settle(msg_id, "main", stored, T0);
    expect(textsOf(outbox)).toEqual(["stalled: 2", "main: 2"]);
    expect(outbox.settle(msg_id, "stalled", silence, T0)).toMatchObject({ life: { state: "stored", buses: ["main"] } });
  });

  it("answers a try of an unknown message with nothing", () => {
    expect(outboxOn(open().state).settle("none", "main", stored, T0)).toBeUndefined();
  });
});

describe("receipts", () => {
  it("are asked for by bus and recipient, and move a message on", async () => {
    const { state } = open();
    const outbox = outboxOn(state, ["main", "spare"]);
    const ids: string[] = [];
    for (const [n, to] of [ann, ann, bob].entries()) {
      const { msg_id } = await put(outbox, String(n), to);
      ids.push(msg_id);
      outbox.settle(msg_id, "main", stored, T0);
    }
    outbox.settle(ids[0]!, "spare", stored, T0);
    expect(outbox.awaiting(T0)).toEqual([
      { bus: "main", to: ann, msg_ids: [ids[0], ids[1]] },
      { bus: "spare", to: ann, msg_ids: [ids[0]] },
      { bus: "main", to: bob, msg_ids: [ids[2]] },
    ]);
    const changed = outbox.applyReceipts(
      "main",
      [
        { msg_id: ids[0]!, state: "acked", at_ms: T0 + 5 },
        { msg_id: ids[1]!, state: "stored", at_ms: T0 },
        { msg_id: ids[2]!, state: "expired", at_ms: T0 + 6 },
        { msg_id: "strange", state: "acked", at_ms: T0 },
        { msg_id: ids[1]!, state: "a word of the future" },
      ],
      T0 + 9,
    );
    expect(changed).toEqual([
      { msg_id: ids[0], peer: ann, life: { state: "acked", at_ms: T0 + 5 } },
      { msg_id: ids[2], peer: bob, life: { state: "expired", at_ms: T0 + 6, why: "never_acked" } },
    ]);
    expect(outbox.awaiting(T0)).toEqual([{ bus: "main", to: ann, msg_ids: [ids[1]] }]);
    expect(outbox.awaiting(T0 + DEFAULT_LIMITS.DEDUPE_RETAIN_MS)).toEqual([]);
  });

  it("send again what a bus has forgotten, in its old place and with the same bytes; a knock they do not", async () => {
    const { state } = open();
    const outbox = outboxOn(state);
    const { msg_id } = await put(outbox, "1", ann, { task_id: "t" });
    const knock = await put(outbox, "Us", bob, { kind: "pair_request" });
    const first = outbox.due(T0).tries.find((each) => each.msg_id === msg_id);
    outbox.settle(msg_id, "main", stored, T0);
    outbox.settle(knock.msg_id, "main", stored, T0);
    await put(outbox, "2");
    const unknown = [msg_id, knock.msg_id].map((id) => ({ msg_id: id, state: "unknown" }));
    expect(outbox.applyReceipts("main", unknown, T0)).toMatchObject([{ msg_id, life: { state: "pending" } }]);
    expect(outbox.due(T0).tries).toEqual([first]);
    outbox.settle(msg_id, "main", refused("not_paired"), T0);
    expect(state.tasks.open(), "the peer may have had it").toMatchObject([{ task_id: "t" }]);
  });

  it("send again all that only a bus of another generation held", async () => {
    const { state } = open();
    const outbox = outboxOn(state, ["main", "spare"]);
    const [a, b] = [await put(outbox, "a"), await put(outbox, "b", bob)];
    outbox.settle(a.msg_id, "main", stored, T0);
    outbox.settle(b.msg_id, "main", stored, T0);
    outbox.settle(b.msg_id, "spare", stored, T0);
    expect(outbox.forgottenBy("main", T0)).toMatchObject([
      { msg_id: a.msg_id, life: { state: "pending" } },
      { msg_id: b.msg_id, life: { state: "stored", buses: ["spare"] } },
    ]);
    expect(state.outbox.get(b.msg_id)!.life).toMatchObject({ state: "stored", buses: ["spare"] });
  });
});

it("finds a message by the beginning of its id", async () => {
  const { state } = open();
  const outbox = outboxOn(state);
  await put(outbox, "1", ann, { msg_id: "abc1" });
  await put(outbox, "2", ann, { msg_id: "abc2" });
  expect(state.outbox.find("abc").map(({ msg_id }) => msg_id)).toEqual(["abc2", "abc1"]);
  expect(state.outbox.find("abc1")).toHaveLength(1);
  expect(state.outbox.find("b")).toHaveLength(0);
});

it("stays fast with 10 000 messages pending", { timeout: 60_000 }, () => {
  const { state } = open();
  const outbox = outboxOn(state);
  state.transaction(() => {
    for (let n = 0; n < 10_000; n++) {
      const route = `${ann}#s${n % 20}`;
      const payload = JSON.stringify({ text: "x".repeat(1_000), n });
      state.outbox.add(
        { msg_id: `m${n}`, peer: ann, route, kind: "message", payload, ts: T0, life: { state: "pending", lanes: {} } },
        T0,
      );
    }
  });
  const began = performance.now();
  for (let round = 0; round < 20; round++) {
    const { tries } = outbox.due(T0);
    expect(tries).toHaveLength(20);
    for (const { msg_id } of tries) outbox.settle(msg_id, "main", stored, T0);
  }
  const ms = performance.now() - began;
  console.log(`400 of 10 000 pending settled in ${ms | 0} ms`);
  expect(ms).toBeLessThan(10_000);
  expect(outbox.awaiting(T0).flatMap(({ msg_ids }) => msg_ids)).toHaveLength(400);
});
