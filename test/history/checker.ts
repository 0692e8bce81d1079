/**
 * PURE: what a history shows to be broken. It knows no bus and no client, only what was asked, answered and seen.
 *
 * | rule        | what is promised                                                                                  |
 * |-------------|---------------------------------------------------------------------------------------------------|
 * | malformed   | the history is one: every end has its beginning                                                   |
 * | lost        | a send that was answered yes is read, once its inbox is drained                                   |
 * | nowhere     | nothing is handed out or read that was not sent there before, in the same words                   |
 * | read twice  | the application has each message once                                                             |
 * | redelivered | what an ack was answered for is not handed out to who asks later                                  |
 * | order       | of one sender to one route, what was answered before the next was sent comes before it            |
 * | gone        | a session that announced itself is there, unless it was unregistered or silent for the time given |
 * | revived     | a session that was unregistered is not there, unless it announced itself again                    |
 *
 * Where two calls overlap, or one's end is not known, either order may be true, and nothing is concluded.
 */

import type { HistoryEvent, HistoryItem, Invocation } from "./history.ts";

export interface Violation {
  readonly rule: "malformed" | "lost" | "nowhere" | "read twice" | "redelivered" | "order" | "gone" | "revived";
  /** Which event shows it, by its place. */
  readonly at: number;
  readonly what: string;
}

export interface Verdict {
  readonly violations: readonly Violation[];
  /** What there was to be found wrong: a history of nothing breaks no promise. */
  readonly counted: Readonly<Record<"sent" | "acknowledged" | "handedOut" | "read" | "acked" | "views", number>>;
}

export interface CheckOptions {
  /** How long a silent session is kept. */
  readonly awayRetainMs: number;
}

interface Call {
  readonly invocation: Invocation;
  readonly begun: number;
  readonly begunAtMs: number;
  end?: { readonly at: number; readonly event: Extract<HistoryEvent, { t: "ok" | "fail" | "unknown" }> };
}

type CallOf<Op extends Invocation["op"]> = Call & { readonly invocation: Extract<Invocation, { op: Op }> };

/** One message to one route, however often it was sent. */
interface Sent {
  readonly calls: CallOf<"send">[];
  read?: number;
  /** When it first came out of the bus, or to the application where that is all that is known. */
  seen?: number;
}

/** Checks a whole history. */
export function checkHistory(
  events: readonly HistoryEvent[],
  { awayRetainMs }: CheckOptions = { awayRetainMs: 3 * 86_400_000 },
): Verdict {
  const violations: Violation[] = [];
  const found = (rule: Violation["rule"], at: number, what: string) => void violations.push({ rule, at, what });
  const calls = callsIn(events, found);
  const callsOf = <Op extends Invocation["op"]>(op: Op) =>
    calls.filter((call): call is CallOf<Op> => call.invocation.op === op);
  const sent = Map.groupBy(callsOf("send"), ({ invocation: { from, to, msg_id } }) => nameOf(to, from, msg_id));
  const messages = new Map<string, Sent>([...sent].map(([name, ofOne]) => [name, { calls: ofOne }]));

  /** Finds what an item is; says so if it was never sent, was refused each time, or says something else. */
  const recognise = (by: string, { from, msg_id, sum }: HistoryItem, at: number): Sent | undefined => {
    const [key = ""] = by.split("#");
    const name = [by, key].map((route) => nameOf(route, from, msg_id)).find((each) => messages.has(each));
    const message = name === undefined ? undefined : messages.get(name)!;
    const before = message?.calls.filter((call) => call.begun < at && call.end?.event.t !== "fail") ?? [];
    if (before.length === 0) found("nowhere", at, `${msg_id} of ${from} at ${by} was never sent there`);
    else if (sum !== undefined && before.every((call) => (call.invocation.sum ?? sum) !== sum)) {
      found("nowhere", at, `${msg_id} of ${from} at ${by} is not what was sent`);
    } else return message;
    return undefined;
  };

  /** By when each was first known to be acked. */
  const ackedAt = new Map<string, number>();
  const acks = callsOf("ack").filter(({ end }) => end?.event.t === "ok");
  for (const { invocation, end } of acks.toSorted((a, b) => a.end!.at - b.end!.at)) {
    for (const { from, msg_id } of invocation.items) {
      const name = nameOf(invocation.by, from, msg_id);
      if (!ackedAt.has(name)) ackedAt.set(name, end!.at);
    }
  }
  const handOut = (by: string, items: readonly HistoryItem[], at: number, askedAt: number) => {
    for (const one of items) {
      const message = recognise(by, one, at);
      if (message) message.seen ??= at;
      if ((ackedAt.get(nameOf(by, one.from, one.msg_id)) ?? Infinity) < askedAt) {
        found("redelivered", at, `${one.msg_id} of ${one.from} came to ${by} again after its ack`);
      }
    }
    return items.length;
  };

  let handedOut = 0;
  let read = 0;
  const ended = new Map(calls.filter(({ end }) => end).map((call) => [call.end!.at, call]));
  for (const [at, event] of events.entries()) {
    if (event.t === "pushed") handedOut += handOut(event.by, event.items, at, -1); // on a socket that may be older
    const call = event.t === "ok" ? ended.get(at) : undefined;
    if (call?.invocation.op === "recv" && event.t === "ok") {
      handedOut += handOut(call.invocation.by, event.items ?? [], at, call.begun);
    }
    if (event.t !== "read") continue;
    read++;
    const message = recognise(event.by, event, at);
    if (!message) continue;
    if (message.read !== undefined) found("read twice", at, `${event.msg_id} of ${event.from} at ${event.by}`);
    message.read ??= at;
    message.seen ??= at;
  }

  checkLost(events, messages, found);
  checkOrder(messages, found);
  checkPresence(callsOf("announce"), callsOf("unregister"), callsOf("view"), awayRetainMs, found);
  const acknowledged = [...messages.values()].filter(isAcknowledged).length;
  const views = callsOf("view").filter(({ end }) => end?.event.t === "ok").length;
  return {
    violations: violations.toSorted((a, b) => a.at - b.at),
    counted: { sent: messages.size, acknowledged, handedOut, read, acked: acks.length, views },
  };
}

type Found = (rule: Violation["rule"], at: number, what: string) => void;

function callsIn(events: readonly HistoryEvent[], found: Found): Call[] {
  const calls = new Map<number, Call>();
  for (const [at, event] of events.entries()) {
    if (event.t === "invoke") {
      const { t: _, call, at_ms, ...invocation } = event;
      if (calls.has(call)) found("malformed", at, `call ${call} begins twice`);
      else calls.set(call, { invocation: invocation as Invocation, begun: at, begunAtMs: at_ms });
    } else if (event.t === "ok" || event.t === "fail" || event.t === "unknown") {
      const call = calls.get(event.call);
      if (!call) found("malformed", at, `call ${event.call} ends and never began`);
      else if (call.end) found("malformed", at, `call ${event.call} ends twice`);
      else call.end = { at, event };
    }
  }
  return [...calls.values()];
}

/** Only drained inboxes are looked at: in another it may still wait. */
function checkLost(events: readonly HistoryEvent[], messages: ReadonlyMap<string, Sent>, found: Found): void {
  for (const [at, event] of events.entries()) {
    if (event.t !== "drained") continue;
    for (const { calls, read = Infinity } of messages.values()) {
      const [{ invocation }] = calls as [CallOf<"send">];
      const isHere = event.inboxes.includes(invocation.to);
      const isAnswered = calls.some(({ end }) => end?.event.t === "ok" && end.at < at);
      if (isHere && isAnswered && read > at)
        found("lost", at, `${invocation.msg_id} of ${invocation.from} to ${invocation.to}`);
    }
  }
}

/** Sorted by when each was first sent, a message must not come out before one that was answered before it was sent. */
function checkOrder(messages: ReadonlyMap<string, Sent>, found: Found): void {
  const routes = Map.groupBy(
    messages.values(),
    ({ calls: [first] }) => `${first!.invocation.from} ${first!.invocation.to}`,
  );
  for (const [route, ofRoute] of routes) {
    const seen = ofRoute.filter((message) => message.seen !== undefined).toSorted((a, b) => a.seen! - b.seen!);
    // The latest beginning of all that came out so far: who was answered before it should have come before it.
    let latest: Sent | undefined;
    for (const message of seen) {
      const answered = Math.min(...message.calls.map(({ end }) => (end?.event.t === "ok" ? end.at : Infinity)));
      if (latest && answered < begunOf(latest)) {
        const [first, second] = [message, latest].map(({ calls }) => calls[0]!.invocation.msg_id);
        found("order", message.seen!, `${first} came after ${second}, and was stored before that was sent (${route})`);
      }
      if (!latest || begunOf(message) > begunOf(latest)) latest = message;
    }
  }
}

function checkPresence(
  announces: readonly CallOf<"announce">[],
  unregisters: readonly CallOf<"unregister">[],
  views: readonly CallOf<"view">[],
  awayRetainMs: number,
  found: Found,
): void {
  const taken = <Op extends "announce" | "unregister">(calls: readonly CallOf<Op>[]) =>
    calls.filter(({ end }) => end?.event.t !== "fail");
  for (const view of views) {
    const { end } = view;
    if (end?.event.t !== "ok") continue;
    const { key } = view.invocation;
    const ofKey = (calls: readonly CallOf<"announce" | "unregister">[]) =>
      calls.filter(({ invocation, begun }) => invocation.key === key && begun < end.at);
    const [said, closed] = [ofKey(taken(announces)), ofKey(taken(unregisters))];
    const isKnown = (call: Call) => call.end?.event.t === "ok" && call.end.at < view.begun;
    for (const session of new Set([...said, ...closed].map(({ invocation }) => invocation.session))) {
      const of = (calls: typeof said) => calls.filter(({ invocation }) => invocation.session === session);
      const isThere = end.event.sessions?.includes(session) ?? false;
      const birth = of(said).findLast(isKnown);
      const death = of(closed).findLast(isKnown);
      // Only what was over before the other began is surely before it.
      const mayBeDead = of(closed).some((each) => !birth || !isOver(each, birth));
      const mayLive = of(said).some((each) => !death || !isOver(each, death));
      if (birth && !isThere && !mayBeDead && end.event.at_ms - birth.begunAtMs < awayRetainMs) {
        found("gone", end.at, `${session} of ${key} is not there, and nobody closed it`);
      }
      if (death && isThere && !mayLive) found("revived", end.at, `${session} of ${key} was closed, and is there`);
    }
  }
}

function isOver(first: Call, second: Call): boolean {
  return first.end?.event.t === "ok" && first.end.at < second.begun;
}

function isAcknowledged({ calls }: Sent): boolean {
  return calls.some(({ end }) => end?.event.t === "ok");
}

function begunOf({ calls }: Sent): number {
  return Math.min(...calls.map(({ begun }) => begun));
}

function nameOf(route: string, from: string, msgId: string): string {
  return JSON.stringify([route, from, msgId]);
}
