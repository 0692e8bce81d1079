/** What a session remembers: receiving, reading once, the history, tasks, routes, and what is let go. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HISTORY_RETAIN_MS, SEEN_RETAIN_MS } from "../../../src/client/state/retention.ts";
import type { State } from "../../../src/client/state/store.ts";
import { ANN, arrival, BOB, DAY, newPath, open, session, T0 } from "./state-fixture.ts";

const ALL = { max: 1_000, maxBytes: 10_000_000 };
const verdicts = (state: State, ...batch: ReturnType<typeof arrival>[]) =>
  state.receive(batch, T0).map(({ verdict }) => verdict);
const take = (state: State, limits = ALL) =>
  state.inbox.takeUnread(limits, T0 + 1).messages.map(({ msg_id }) => msg_id);

describe("receive", () => {
  it("says what is new, also within one batch, and by sender and id together", () => {
    const { state } = open();
    expect(verdicts(state, arrival("a"), arrival("b"), arrival("a"))).toEqual(["new", "new", "duplicate"]);
    expect(verdicts(state, arrival("a"), arrival("a", { from: BOB }))).toEqual(["duplicate", "new"]);
    expect(take(state)).toEqual(["a", "b", "a"]);
  });

  it("collapses the copy of another bus, and keeps the first of two messages under one id", () => {
    const { state } = open();
    expect(verdicts(state, arrival("a"), arrival("a", { bus: "second" }))).toEqual(["new", "duplicate"]);
    expect(verdicts(state, arrival("a", { digest: "other", text: "forged" }))).toEqual(["conflict"]);
    expect(state.inbox.takeUnread(ALL, T0).messages).toMatchObject([{ text: "text of a", bus: "main" }]);
  });

  it("is all or nothing", () => {
    const { state } = open();
    const broken = arrival("b", { ts: undefined as unknown as number });
    expect(() => state.receive([arrival("a"), broken], T0)).toThrow();
    expect(state.inbox.unreadCount()).toBe(0);
    expect(verdicts(state, arrival("a"))).toEqual(["new"]);
  });

  it("gives back every field, and every text byte for byte", () => {
    const path = newPath();
    const texts = [
      "x",
      "Привет",
      "漢字",
      "👩‍👩‍👧",
      "שלום\u202e",
      "a\r\nb",
      "\0 before and after \0",
      "\ufeffbom",
      "y".repeat(65_536),
    ];
    const { state } = open(path);
    const full = {
      session: session("s1"),
      task_id: "t",
      status: "update",
      in_reply_to: "m0",
      clock_ok: false,
    } as const;
    state.receive(
      texts.map((text, n) => arrival(`m${n}`, { text, ...full })),
      T0 + 3,
    );
    state.close();
    const { messages } = open(path).state.inbox.takeUnread(ALL, T0 + 9);
    expect(messages.map(({ text }) => text)).toEqual(texts);
    expect(messages[0]).toEqual({
      ...arrival("m0", { text: "x", ...full }),
      seq: 1,
      received_at_ms: T0 + 3,
      read_at_ms: T0 + 9,
    });
  });
});

describe("reading", () => {
  it("gives each message once, in order, also over a restart", () => {
    const path = newPath();
    const { state } = open(path);
    verdicts(state, arrival("a"), arrival("b"), arrival("c"));
    expect(state.inbox.takeUnread({ max: 2, maxBytes: 1_000 }, T0)).toMatchObject({ left: 1 });
    state.close();
    const again = open(path).state;
    expect(verdicts(again, arrival("a"), arrival("d"))).toEqual(["duplicate", "new"]);
    expect(take(again)).toEqual(["c", "d"]);
    expect(take(again)).toEqual([]);
  });

  it("stops before the bytes are over, but never at nothing", () => {
    const { state } = open();
    verdicts(state, arrival("a", { text: "я".repeat(50) }), arrival("b", { text: "x" }), arrival("c", { text: "x" }));
    expect(take(state, { max: 9, maxBytes: 10 })).toEqual(["a"]);
    expect(take(state, { max: 9, maxBytes: 1 })).toEqual(["b"]);
    expect(take(state, { max: 0, maxBytes: 1 })).toEqual([]);
  });

  it("marks nothing when it lists, counts or finds", () => {
    const { state } = open();
    verdicts(state, arrival("aab"), arrival("aac"), arrival("b_c", { from: BOB }));
    expect(state.inbox.unread(2).map(({ msg_id }) => msg_id)).toEqual(["aab", "aac"]);
    expect(state.inbox.unreadByPeer()).toEqual([
      { from: ANN, count: 2, oldest_at_ms: T0 },
      { from: BOB, count: 1, oldest_at_ms: T0 },
    ]);
    expect(state.inbox.find("aa")).toHaveLength(2);
    expect(state.inbox.find("b_")).toHaveLength(1);
    expect(state.inbox.find("bxc")).toHaveLength(0);
    expect(state.inbox.unreadCount()).toBe(3);
  });

  it("takes one by its number, whose text then is not given again with the rest", () => {
    const { state } = open();
    verdicts(state, arrival("a"), arrival("b"));
    const [, second] = state.inbox.unread(2);
    expect(state.inbox.takeOne(second!.seq, T0 + 1)).toMatchObject({ msg_id: "b", read_at_ms: T0 + 1 });
    expect(state.inbox.takeOne(second!.seq, T0 + 2)).toMatchObject({ msg_id: "b", read_at_ms: T0 + 1 });
    expect(state.inbox.takeOne(99, T0)).toBeUndefined();
    expect(take(state)).toEqual(["a"]);
  });

  it("names after a restart what a call took and nobody confirmed", () => {
    const path = newPath();
    const { state } = open(path);
    verdicts(state, arrival("a"), arrival("b"));
    const [first] = state.inbox.takeUnread({ max: 1, maxBytes: 99 }, T0).messages;
    state.inbox.confirmHanded([first!.seq]);
    take(state);
    state.close();
    const { inbox } = open(path).state;
    const handed = inbox.handed();
    expect(handed.map(({ msg_id }) => msg_id)).toEqual(["b"]);
    inbox.confirmHanded(handed.map(({ seq }) => seq));
    expect(inbox.handed()).toEqual([]);
  });

  it("property: whatever comes in what order, each (from, id) is taken exactly once and nothing is lost", () => {
    const step = fc.oneof(
      fc.record({
        do: fc.constant("receive" as const),
        ids: fc.array(fc.tuple(fc.constantFrom(ANN, BOB), fc.constantFrom("a", "b", "c", "d", "e")), { maxLength: 6 }),
      }),
      fc.record({ do: fc.constant("take" as const), max: fc.integer({ min: 0, max: 4 }) }),
      fc.record({ do: fc.constant("reopen" as const) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
        const path = newPath();
        let { state } = open(path);
        const sent = new Set<string>();
        const had: string[] = [];
        const takeInto = (max: number) => {
          const { messages } = state.inbox.takeUnread({ max, maxBytes: 1_000 }, T0);
          had.push(...messages.map(({ from, msg_id }) => `${from} ${msg_id}`));
        };
        for (const each of steps) {
          if (each.do === "take") takeInto(each.max);
          else if (each.do === "reopen") {
            state.close();
            state = open(path).state;
          } else {
            for (const [from, id] of each.ids) sent.add(`${from} ${id}`);
            state.receive(
              each.ids.map(([from, id]) => arrival(id, { from })),
              T0,
            );
          }
        }
        takeInto(99);
        state.close();
        expect(had.toSorted()).toEqual([...sent].toSorted());
      }),
      { numRuns: 40 },
    );
  });
});

describe("history", () => {
  it("shows both directions in their order, by pages, without what is unread", () => {
    const { state } = open();
    const write = (msg_id: string) => {
      const payload = JSON.stringify({ msg_id, text: `said ${msg_id}` });
      state.outbox.add(
        { msg_id, peer: ANN, route: ANN, kind: "message", payload, ts: T0, life: { state: "acked", at_ms: T0 } },
        T0,
      );
    };
    verdicts(state, arrival("in1"), arrival("elsewhere", { from: BOB }));
    write("out1");
    verdicts(state, arrival("in2"));
    take(state);
    write("out2");
    verdicts(state, arrival("unread"));
    const ids = (page: ReturnType<State["history"]>) => page.entries.map(({ message }) => message.msg_id);
    expect(ids(state.history(ANN, { max: 9 }))).toEqual(["in1", "out1", "in2", "out2"]);
    const last = state.history(ANN, { max: 3 });
    expect(ids(last)).toEqual(["out1", "in2", "out2"]);
    const first = state.history(ANN, { max: 3, beforeSeq: last.before_seq! });
    expect(ids(first)).toEqual(["in1"]);
    expect(first.before_seq).toBeUndefined();
  });
});

describe("what a message brings with it", () => {
  it("makes answers stick to the session that wrote, until its goodbye", () => {
    const { state } = open();
    verdicts(state, arrival("a", { session: session("s1") }), arrival("b", { session: session("s2") }));
    verdicts(state, arrival("a", { session: session("s1") })); // a redelivery is no news
    expect(state.routes.sticky(ANN)).toBe("s2");
    state.routes.unstick(ANN, session("s1"));
    expect(state.routes.sticky(ANN)).toBe("s2");
    state.routes.unstick(ANN, session("s2"));
    expect(state.routes.sticky(ANN)).toBeUndefined();
  });

  it("remembers the id of what is no mail, and nothing else of it", () => {
    const { state } = open();
    const goodbye = arrival("g", { session: session("s1") });
    expect([state.inbox.remember(goodbye, T0), state.inbox.remember(goodbye, T0)]).toEqual(["new", "duplicate"]);
    expect(state.inbox.remember({ ...goodbye, digest: "other" }, T0)).toBe("conflict");
    expect(verdicts(state, goodbye)).toEqual(["duplicate"]);
    expect([state.inbox.unreadCount(), state.routes.sticky(ANN)]).toEqual([0, undefined]);
  });

  it("moves the task between us and its sender, and no other's", () => {
    const { state } = open();
    verdicts(state, arrival("a", { task_id: "t" }), arrival("b", { task_id: "t", from: BOB, status: "result" }));
    expect(state.tasks.open()).toMatchObject([{ peer: ANN, task_id: "t", opened_by: "peer", owes: "us" }]);
    verdicts(state, arrival("c", { task_id: "t", status: "canceled" }), arrival("d", { task_id: "t" }));
    expect(state.tasks.open()).toEqual([]);
    expect(state.tasks.get(ANN, "t")).toMatchObject({ state: "canceled", opening_msg_id: "a", last_msg_id: "c" });
  });
});

describe("small facts", () => {
  it("are kept by name", () => {
    const path = newPath();
    const { state } = open(path);
    expect([state.meta.generation("main"), state.meta.clockOffsetMs("main")]).toEqual([undefined, 0]);
    state.meta.setGeneration("main", "g1");
    state.meta.setClockOffsetMs("main", -7_200_000);
    state.meta.set("x", "1");
    state.meta.set("x", undefined);
    state.close();
    const { meta } = open(path).state;
    expect([meta.generation("main"), meta.clockOffsetMs("main"), meta.get("x")]).toEqual(["g1", -7_200_000, undefined]);
  });
});

describe("letting go", () => {
  it("never touches what is unread, and still knows its id", () => {
    const { state } = open();
    verdicts(state, arrival("a"));
    expect(state.prune(T0 + 1_000 * DAY)).toBe(0);
    expect(verdicts(state, arrival("a"))).toEqual(["duplicate"]);
    expect(take(state)).toEqual(["a"]);
  });

  it("forgets what was read after its time, and an id only when no bus can bring it again", () => {
    const { state } = open();
    verdicts(state, arrival("a"));
    state.inbox.confirmHanded(state.inbox.takeUnread(ALL, T0).messages.map(({ seq }) => seq));
    expect(state.prune(T0 + HISTORY_RETAIN_MS - 1)).toBe(0);
    expect(verdicts(state, arrival("a"))).toEqual(["duplicate"]);
    expect(state.prune(T0 + HISTORY_RETAIN_MS)).toBe(1);
    expect(state.prune(T0 + HISTORY_RETAIN_MS)).toBe(1);
    expect(state.history(ANN, { max: 9 }).entries).toEqual([]);
    expect(SEEN_RETAIN_MS).toBeLessThan(HISTORY_RETAIN_MS);
  });
});

it("stays fast with 10 000 messages", { timeout: 60_000 }, () => {
  const path = newPath();
  const { state } = open(path);
  const began = performance.now();
  for (let batch = 0; batch < 10_000 / 50; batch++) {
    state.receive(
      Array.from({ length: 50 }, (_, n) =>
        arrival(`m${batch}-${n}`, { text: "x".repeat(1_000), from: n % 2 ? ANN : BOB }),
      ),
      T0,
    );
  }
  const receivedMs = performance.now() - began;
  state.close();
  const reopening = performance.now();
  const again = open(path).state;
  const openedMs = performance.now() - reopening;
  const reading = performance.now();
  expect(again.inbox.unreadByPeer()).toHaveLength(2);
  expect(
    again.receive(
      Array.from({ length: 50 }, (_, n) => arrival(`m7-${n}`)),
      T0,
    ),
  ).toHaveLength(50);
  for (let n = 0; n < 50; n++) again.inbox.takeUnread({ max: 20, maxBytes: 100_000 }, T0);
  expect(again.history(ANN, { max: 50 }).entries).toHaveLength(50);
  const readMs = performance.now() - reading;
  console.log(
    `10 000 messages: received in ${receivedMs | 0} ms, opened in ${openedMs | 0} ms, read in ${readMs | 0} ms`,
  );
  expect(receivedMs).toBeLessThan(20_000);
  expect(openedMs).toBeLessThan(2_000);
  expect(readMs).toBeLessThan(4_000);
});
