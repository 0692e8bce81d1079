/** The checker on histories that are good and histories that are not: each promise is broken once, and found. */

import { describe, expect, it } from "vitest";
import { checkHistory, type Verdict } from "./checker.ts";
import { History, mergeHistories, parseHistory, type HistoryItem } from "./history.ts";

const BOB = "bob";
const ALICE = "alice#desk";
const DAY = 86_400_000;

interface Run {
  readonly history: History;
  /** Moves the clock of the history. */
  pass(ms: number): void;
  send(msgId: string, fields?: { to?: string; from?: string; sum?: string }): ReturnType<History["invoke"]>;
  sent(msgId: string, fields?: { to?: string; from?: string; sum?: string }): void;
  recv(items: readonly string[], by?: string): void;
  ack(items: readonly string[], by?: string): void;
  read(msgId: string, by?: string): void;
  announced(session: string): void;
  closed(session: string): void;
  saw(...sessions: string[]): void;
}

function run(act: (run: Run) => void): Verdict {
  let nowMs = 0;
  const history = new History(() => nowMs++);
  const items = (ids: readonly string[]): HistoryItem[] => ids.map((msg_id) => ({ from: BOB, msg_id }));
  const send: Run["send"] = (msg_id, fields = {}) =>
    history.invoke({ op: "send", from: BOB, to: ALICE, msg_id, ...fields });
  act({
    history,
    pass: (ms) => void (nowMs += ms),
    send,
    sent: (msgId, fields) => send(msgId, fields).ok(),
    recv: (ids, by = ALICE) => history.invoke({ op: "recv", by }).ok({ items: items(ids) }),
    ack: (ids, by = ALICE) => history.invoke({ op: "ack", by, items: items(ids) }).ok(),
    read: (msg_id, by = ALICE) => history.read(by, { from: BOB, msg_id }),
    announced: (session) => history.invoke({ op: "announce", key: BOB, session }).ok(),
    closed: (session) => history.invoke({ op: "unregister", key: BOB, session }).ok(),
    saw: (...sessions) => history.invoke({ op: "view", key: BOB }).ok({ sessions }),
  });
  // As it is read again from a file.
  return checkHistory(parseHistory(history.toLines()));
}

const rulesOf = ({ violations }: Verdict) => violations.map(({ rule }) => rule);

describe("a good history", () => {
  it.each<{ why: string; act: (run: Run) => void }>([
    {
      why: "sent, handed out, read, acked, and all that was sent is read",
      act: ({ history, sent, recv, read, ack }) => {
        sent("1");
        sent("2");
        recv(["1", "2"]);
        read("1");
        read("2");
        ack(["1", "2"]);
        recv([]);
        history.drained([ALICE]);
      },
    },
    { why: "handed out again before the ack", act: ({ sent, recv }) => (sent("1"), recv(["1"]), recv(["1"])) },
    {
      why: "handed out by a poll that was asked before the ack was answered",
      act: ({ history, sent, ack }) => {
        sent("1");
        const poll = history.invoke({ op: "recv", by: ALICE });
        ack(["1"]);
        poll.ok({ items: [{ from: BOB, msg_id: "1" }] });
      },
    },
    {
      why: "handed out again after an ack that nobody knows of",
      act: ({ history, sent, recv }) => {
        sent("1");
        recv(["1"]);
        history.invoke({ op: "ack", by: ALICE, items: [{ from: BOB, msg_id: "1" }] }).unknown();
        recv(["1"]);
      },
    },
    {
      why: "not read, but nobody knows whether it was stored, it was refused, or its inbox still holds it",
      act: ({ history, send, sent }) => {
        send("1").unknown();
        send("2").fail("queue_full");
        sent("3", { to: "alice#other" });
        send("4");
        history.drained([ALICE]);
      },
    },
    {
      why: "read, though only a retry was answered and the first try is not known",
      act: ({ history, send, sent, read }) => {
        send("1").unknown();
        sent("1");
        read("1");
        history.drained([ALICE]);
      },
    },
    {
      why: "read before its answer came",
      act: ({ send, read }) => {
        const call = send("1");
        read("1");
        call.ok();
      },
    },
    {
      why: "two that were sent at the same time come in either order",
      act: ({ send, read }) => {
        const [one, two] = [send("1"), send("2")];
        one.ok();
        two.ok();
        read("2");
        read("1");
      },
    },
    {
      why: "the later one first, where the earlier was stored only by its retry",
      act: ({ send, sent, read }) => {
        send("1").unknown();
        sent("2");
        sent("1");
        read("2");
        read("1");
      },
    },
    {
      why: "two routes have no order",
      act: ({ sent, read }) => {
        sent("1", { to: "alice#other" });
        sent("2");
        read("2");
        read("1", "alice#other");
      },
    },
    {
      why: "mail to the bare key, read by one session",
      act: ({ sent, read }) => (sent("1", { to: "alice" }), read("1")),
    },
    {
      why: "the same id to two routes, each read once",
      act: ({ sent, read }) => (sent("1"), sent("1", { to: "alice#other" }), read("1"), read("1", "alice#other")),
    },
    { why: "a session that announced itself is there", act: ({ announced, saw }) => (announced("a"), saw("a")) },
    {
      why: "silent for three days it is gone",
      act: ({ announced, pass, saw }) => (announced("a"), pass(3 * DAY), saw()),
    },
    { why: "unregistered it is gone", act: ({ announced, closed, saw }) => (announced("a"), closed("a"), saw()) },
    {
      why: "unregistered by a call whose end is not known, either is true",
      act: ({ history, announced, saw }) => {
        announced("a");
        history.invoke({ op: "unregister", key: BOB, session: "a" }).unknown();
        saw();
        saw("a");
      },
    },
    {
      why: "announced again after it was closed",
      act: ({ announced, closed, saw }) => (announced("a"), closed("a"), announced("a"), saw("a")),
    },
  ])("$why", ({ act }) => {
    expect(run(act).violations).toEqual([]);
  });
});

describe("a bad history", () => {
  it.each<{ rules: string[]; why: string; act: (run: Run) => void }>([
    {
      rules: ["lost"],
      why: "a send that was answered is not there",
      act: ({ history, sent, read }) => {
        sent("1");
        sent("2");
        read("2");
        history.drained([ALICE]);
      },
    },
    {
      rules: ["lost"],
      why: "a retry was answered as a duplicate, and it is not there",
      act: ({ history, send, sent }) => {
        send("1").unknown();
        sent("1");
        history.drained([ALICE]);
      },
    },
    {
      rules: ["lost"],
      why: "it was handed out, and the application never had it",
      act: ({ history, sent, recv, ack }) => {
        sent("1");
        recv(["1"]);
        ack(["1"]);
        history.drained([ALICE]);
      },
    },
    { rules: ["nowhere"], why: "nobody sent it", act: ({ recv }) => recv(["1"]) },
    {
      rules: ["nowhere"],
      why: "it was pushed, and nobody sent it",
      act: ({ history }) => history.pushed(ALICE, [{ from: BOB, msg_id: "1" }]),
    },
    {
      rules: ["nowhere"],
      why: "it was refused each time",
      act: ({ send, read }) => (send("1").fail("not_paired"), read("1")),
    },
    { rules: ["nowhere"], why: "it came before it was sent", act: ({ sent, read }) => (read("1"), sent("1")) },
    { rules: ["nowhere"], why: "it went to a sibling", act: ({ sent, read }) => (sent("1"), read("1", "alice#other")) },
    {
      rules: ["nowhere"],
      why: "its words are others",
      act: ({ history, sent }) => {
        sent("1", { sum: "x" });
        history.read(ALICE, { from: BOB, msg_id: "1", sum: "y" });
      },
    },
    {
      rules: ["read twice"],
      why: "the application has it twice",
      act: ({ sent, read }) => (sent("1"), read("1"), read("1")),
    },
    {
      rules: ["read twice"],
      why: "two sessions have what was for the key",
      act: ({ sent, read }) => (sent("1", { to: "alice" }), read("1"), read("1", "alice#other")),
    },
    {
      rules: ["redelivered"],
      why: "it came again after its ack was answered",
      act: ({ sent, recv, ack }) => (sent("1"), recv(["1"]), ack(["1"]), recv(["1"])),
    },
    {
      rules: ["order"],
      why: "the second came first",
      act: ({ sent, read }) => (sent("1"), sent("2"), read("2"), read("1")),
    },
    {
      rules: ["order"],
      why: "the bus handed the second out first, whatever the application made of it",
      act: ({ sent, recv }) => (sent("1"), sent("2"), recv(["2"]), recv(["1"])),
    },
    {
      rules: ["order"],
      why: "the first came after the third, past one that was sent at the same time",
      act: ({ send, sent, read }) => {
        sent("1");
        const [two, three] = [send("2"), send("3")];
        two.ok();
        three.ok();
        read("3");
        read("1");
        read("2");
      },
    },
    {
      rules: ["gone"],
      why: "nobody closed it",
      act: ({ announced, pass, saw }) => (announced("a"), pass(2 * DAY), saw()),
    },
    {
      rules: ["gone"],
      why: "its unregister was refused",
      act: ({ history, announced, saw }) => {
        announced("a");
        history.invoke({ op: "unregister", key: BOB, session: "a" }).fail("stale");
        saw();
      },
    },
    {
      rules: ["gone"],
      why: "it came back after its end",
      act: ({ announced, closed, saw }) => (announced("a"), closed("a"), announced("a"), saw()),
    },
    {
      rules: ["revived"],
      why: "it was closed",
      act: ({ announced, closed, saw }) => (announced("a"), closed("a"), saw("a")),
    },
    {
      rules: ["revived"],
      why: "an announcement after its end was refused",
      act: ({ history, announced, closed, saw }) => {
        announced("a");
        closed("a");
        history.invoke({ op: "announce", key: BOB, session: "a" }).fail("stale");
        saw("a");
      },
    },
  ])("$rules: $why", ({ rules, act }) => {
    expect(rulesOf(run(act))).toEqual(rules);
  });

  it.each([
    { why: "an end without a beginning", lines: `{"t":"ok","call":1,"at_ms":0}` },
    {
      why: "two ends",
      lines: `{"t":"invoke","call":1,"at_ms":0,"op":"view","key":"k"}\n{"t":"unknown","call":1,"at_ms":0}\n{"t":"ok","call":1,"at_ms":0}`,
    },
    {
      why: "two beginnings",
      lines: `{"t":"invoke","call":1,"at_ms":0,"op":"view","key":"k"}\n{"t":"invoke","call":1,"at_ms":0,"op":"view","key":"k"}`,
    },
  ])("malformed: $why", ({ lines }) => {
    expect(rulesOf(checkHistory(parseHistory(lines)))).toEqual(["malformed"]);
  });

  it("is refused where a line is no event", () => {
    expect(() => parseHistory(`{"t":"note","at_ms":0,"text":"x"}\n{"t":"sent"}\n`)).toThrow("line 2 is no event");
    expect(() => parseHistory(`{"t":"read","at_ms":0,"by":"a","from":"b","msg_id":"1","sun":"typo"}`)).toThrow(
      "line 1",
    );
  });
});

it("counts what there was to be found wrong", () => {
  const { counted } = run(({ sent, send, recv, read, ack, announced, saw }) => {
    sent("1");
    send("2").unknown();
    send("2").unknown();
    recv(["1"]);
    read("1");
    ack(["1"]);
    announced("a");
    saw("a");
  });
  expect(counted).toEqual({ sent: 2, acknowledged: 1, handedOut: 1, read: 1, acked: 1, views: 1 });
});

it("puts the logs of several processes together", () => {
  let nowMs = 0;
  const [bob, alice] = [new History(() => nowMs), new History(() => nowMs)];
  const call = bob.invoke({ op: "send", from: BOB, to: ALICE, msg_id: "1" });
  const other = alice.invoke({ op: "recv", by: ALICE });
  nowMs = 5;
  call.ok();
  nowMs = 6;
  other.ok({ items: [{ from: BOB, msg_id: "1" }] });
  expect(checkHistory(mergeHistories([bob.events, alice.events]))).toMatchObject({
    violations: [],
    counted: { acknowledged: 1, handedOut: 1 },
  });
});
