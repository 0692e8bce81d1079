/**
 * The steps of the model test: each does to the real object and to the model the same, and compares what both say.
 * A step takes numbers, not times or handles: what they stand for is looked up when it runs, so that a run can shrink.
 */

import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { expect } from "vitest";
import type { Key } from "../../src/protocol/address.ts";
import { isRefusal } from "../../src/protocol/refusal.ts";
import type { PollCall, Stored } from "../../src/durable/calls.ts";
import { clock } from "../../src/durable/clock.ts";
import { connectIdentity } from "../../src/worker/ask.ts";
import { announcement, ask, bindings, freezeAt, must, session, stubOf, take } from "../support/objects.ts";
import type { IdentityModel, Item, Kind, ModelEntry } from "./identity-model.ts";

/** The real object beside what no model of it need know. */
export interface Real {
  readonly key: Key;
  /** Its own key first, then who may be a contact. */
  readonly senders: readonly Key[];
  /** What was signed before, for retries: the same bytes again. */
  readonly signed: Map<string, number>;
  /** The client's ends of sockets, of sessions that the model has one of. */
  readonly clients: Map<string, Client>;
  /** A crash may make the bus forget what it had pushed, until the next run. */
  hasCrashed: boolean;
  nonces: number;
  generation: string | undefined;
}

/** One socket as its client has it. */
interface Client {
  readonly wire: WebSocket;
  /** Frames that came and were not compared yet. */
  readonly frames: Frame[];
  /** The numbers of what was pushed on it. */
  readonly seqs: Map<Item, number>;
  isOver: boolean;
}

interface Frame {
  readonly t: string;
  readonly error?: string;
  readonly items?: readonly { seq: number; envelope: unknown; redelivered?: true }[];
  readonly [field: string]: unknown;
}

type Step = fc.AsyncCommand<IdentityModel, Real>;

export const SESSIONS = ["a", "b", "c", "d"];
/** Where mail goes: the bare key first. */
const ROUTES = ["", ...SESSIONS.slice(0, 3)];
const IDS = ["m0", "m1", "m2", "m3", "m4", "large", "huge"];
const KNOCK_IDS = ["k0", "k1"];
/** By how much a signer's clock may be off, and what lies between. */
const SKEWS_MS = [0, 1, -1, 60_000, -60_000];
const MESSAGE_RETAIN_MS = 14 * 86_400_000;
const NONCE_MS = 121_000;

/** One step: its name and numbers are what a failing run prints. */
function step<Value>(
  name: string,
  values: fc.Arbitrary<Value>,
  run: (value: Value, model: IdentityModel, real: Real) => Promise<void>,
): fc.Arbitrary<Step> {
  return values.map((value) => ({
    check: () => true,
    run: async (model, real) => run(value, model, real),
    toString: () => `${name} ${JSON.stringify(value)}`,
  }));
}

/** Refusals by their code alone: facts of a refusal are told, not promised. */
function bare(answer: object): object {
  if (!isRefusal(answer)) return answer;
  const { refused, retry_after_s } = answer;
  if (["sender_quota", "queue_full", "knock_limit", "session_limit"].includes(refused)) {
    expect(retry_after_s, `${refused} says when to come again`).toBeGreaterThan(0);
  }
  return { refused };
}

/** Compares an answer that tells a generation: it is the same as long as something is kept. */
function expectLife(answer: object, expected: object, real: Real): void {
  const { generation, now_ms, ...rest } = answer as { generation?: string; now_ms?: number };
  expect(bare(rest)).toEqual(expected);
  if (generation === undefined) return;
  if (now_ms !== undefined) expect(now_ms).toBe(clock.now());
  real.generation ??= generation;
  expect(generation, "the generation").toBe(real.generation);
}

const someSession = fc.constantFrom(...SESSIONS);
const someSkew = fc.constantFrom(...SKEWS_MS);

const announceStep = step(
  "announce",
  fc.record({
    id: someSession,
    skewMs: someSkew,
    isShown: fc.boolean(),
    isRetry: fc.boolean(),
    wakeForMs: fc.constantFrom(undefined, 1, 60_000, 3_600_000),
  }),
  async ({ id, skewMs, isShown, isRetry, wakeForMs }, model, real) => {
    const nowMs = clock.now();
    const before = model.sessions.get(id);
    // A captured or repeated announcement passes the door only while its time is near.
    const isSame = isRetry && before !== undefined && Math.abs(nowMs - before.ts) <= 60_000;
    const ts = isSame ? before.ts : nowMs + skewMs;
    const shown = isSame ? before.isShown : isShown;
    const said = announcement(real.key, id, ts);
    // With a retry comes another lease, which is not taken.
    const wakeUntilMs = wakeForMs === undefined ? undefined : nowMs + wakeForMs;
    const wake = wakeUntilMs && { path: "channel", proven_at_ms: nowMs, until_ms: wakeUntilMs, sig: "sig" };
    const answer = await ask(real.key, "announce", {
      announcement: said,
      ...(shown && { public: said }),
      ...(wake && { wake }),
    });
    expectLife(answer, model.announce(id, { ts, sig: said.sig, isShown: shown, wakeUntilMs }, nowMs), real);
  },
);

const unregisterStep = step(
  "unregister",
  fc.record({ id: someSession, skewMs: someSkew, isRetry: fc.boolean() }),
  async ({ id, skewMs, isRetry }, model, real) => {
    const nowMs = clock.now();
    const before = model.tombstones.get(id);
    const ts = isRetry && before && Math.abs(nowMs - before.ts) <= 60_000 ? before.ts : nowMs + skewMs;
    const sig = `bye-${ts}`;
    const answer = await ask(real.key, "unregister", { session: session(id), ts, sig, goodbyes: [] });
    expectLife(answer, model.unregister(id, ts, sig, nowMs), real);
  },
);

const contactsStep = step(
  "contacts",
  fc.record({ who: fc.subarray([1, 2, 3]), aheadMs: fc.constantFrom(1, 0, -1) }),
  async ({ who, aheadMs }, model, real) => {
    const contacts = who.map((number) => real.senders[number]!);
    const ts = (model.contacts?.ts ?? 1) + aheadMs;
    const answer = await ask(real.key, "contacts", { contacts, ts });
    expectLife(answer, model.publish(contacts, ts, clock.now()), real);
  },
);

const enqueueStep = step(
  "enqueue",
  fc.record({
    sender: fc.nat({ max: 3 }),
    entries: fc.array(
      fc.record({
        route: fc.constantFrom(...ROUTES),
        kind: fc.constantFrom<Kind>("message", "message", "message", "message", "pair_request", "pair_accept"),
        id: fc.nat({ max: 6 }),
        variant: fc.constantFrom(0, 0, 0, 0, 1),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  }),
  async ({ sender, entries }, model, real) => {
    const nowMs = clock.now();
    const wanted = entries.flatMap(({ route, kind, id, variant }): ModelEntry[] => {
      const msgId = kind === "message" ? IDS[id]! : `${kind}-${KNOCK_IDS[id % 2]!}`;
      const digest = `${msgId} ${variant}`;
      const name = `${sender} ${digest}`;
      const ts = real.signed.get(name) ?? nowMs;
      if (nowMs - ts >= MESSAGE_RETAIN_MS) return []; // too old for the door
      real.signed.set(name, ts);
      const bytes = payloadOf(msgId, sender).length;
      return [{ sender: real.senders[sender]!, route, msgId, kind, ts, digest, bytes }];
    });
    if (wanted.length === 0) return;
    const call = wanted.map(({ bytes: _, route, ...entry }) => ({
      ...entry,
      sender: entry.sender as Key,
      ...(route === "" ? {} : { session: session(route) }),
      payload: payloadOf(entry.msgId, sender),
    }));
    const answer = (await ask(real.key, "enqueue", { entries: call })) as { results: readonly object[] };
    expect(answer.results).toHaveLength(wanted.length);
    for (const [index, entry] of wanted.entries()) {
      const got = answer.results[index]!;
      if ((got as Stored).state === "stored" && model.isFading(entry, nowMs)) model.dropMemory(entry);
      expect(bare(got), `entry ${index}`).toEqual(model.enqueue(entry, nowMs));
    }
    model.wake(
      wanted.map(({ route }) => route),
      nowMs,
    );
  },
);

/** Every byte is one character; `large` ones fill an inbox by twos, `huge` is larger than any. */
function payloadOf(msgId: string, sender: number): string {
  const length = msgId === "large" ? 400 : msgId === "huge" ? 1_100 : 0;
  return JSON.stringify({ msg_id: msgId, from: sender, pad: "x".repeat(length) });
}

/** Handles that are at hand: of this session, of others, long acked. */
function pickHandles(picks: readonly number[], model: IdentityModel, id: string, strays: boolean): string[] {
  const all = [...model.handles].filter(([, handle]) => strays || handle.session === id).map(([handle]) => handle);
  return all.length === 0 ? [] : picks.map((pick) => all[all.length - 1 - (pick % all.length)]!);
}

/** Polls, and learns the handles of what came. */
export async function poll(
  { id, max, acks }: { id: string; max?: number; acks: readonly string[] },
  model: IdentityModel,
  real: Real,
): Promise<void> {
  const nowMs = clock.now();
  const nonce = `n${real.nonces++}`;
  const once = { nonce, expiresAtMs: nowMs + NONCE_MS };
  const answer: object = await take(real.key, id, { acks, nonce: once, max } as Partial<PollCall>);
  const refused = model.beginPoll(id, acks, nonce, nowMs);
  if ("refused" in refused) return expect(bare(answer)).toEqual(refused);
  const items = model.waiting(id).slice(0, max ?? 1);
  if (items.length === 0) return expect(answer).toEqual({ status: "timeout" });
  const { items: list, ack, envelope, ...rest } = answer as { items?: Came[] } & Came;
  const came = max === undefined ? [{ ack, envelope }] : list!;
  const gap = model.gaps.get(id);
  expect(rest).toEqual({
    status: max === undefined ? "message" : "messages",
    ...(gap && max !== undefined ? { gap: { count: gap.count, oldest_ts: gap.oldestTs } } : {}),
  });
  const expected = items.map(({ entry, atMs }) => ({
    payload: JSON.parse(payloadOf(entry.msgId, real.senders.indexOf(entry.sender as Key))),
    ts: atMs,
  }));
  expect(came.map((one) => one.envelope)).toEqual(expected);
  for (const [index, one] of came.entries()) {
    const known = model.handles.get(one.ack);
    if (known) expect(known.item, "a handle names one message for ever").toBe(items[index]);
    model.learnHandle(id, one.ack, items[index]!);
  }
}

interface Came {
  readonly envelope: unknown;
  readonly ack: string;
}

const takeStep = step(
  "take",
  fc.record({
    id: someSession,
    max: fc.constantFrom(undefined, 1, 2, 64),
    picks: fc.array(fc.nat({ max: 4 }), { maxLength: 2 }),
  }),
  async ({ id, max, picks }, model, real) => {
    await poll({ id, ...(max === undefined ? {} : { max }), acks: pickHandles(picks, model, id, false) }, model, real);
  },
);

const ackStep = step(
  "ack",
  fc.record({
    id: someSession,
    picks: fc.array(fc.nat({ max: 5 }), { minLength: 1, maxLength: 4 }),
    strays: fc.boolean(),
  }),
  async ({ id, picks, strays }, model, real) => {
    const acks = pickHandles(picks, model, id, strays);
    if (acks.length === 0) return;
    const answer = await ask(real.key, "ack", { session: session(id), acks });
    expect(bare(answer)).toEqual(model.ack(id, acks, clock.now()));
  },
);

/** Asks for all ids of a sender. */
export async function compareReceipts(number: number, model: IdentityModel, real: Real): Promise<void> {
  const sender = real.senders[number]!;
  const knocks = ["pair_request", "pair_accept"].flatMap((kind) => KNOCK_IDS.map((id) => `${kind}-${id}`));
  const msgIds = [...IDS, ...knocks, "never-sent"];
  const answer = await must(real.key, "receipts", { sender, msgIds });
  expect(answer.receipts.map(({ msg_id }) => msg_id)).toEqual(msgIds);
  for (const { msg_id, ...receipt } of answer.receipts) {
    const allowed = knocks.includes(msg_id)
      ? [model.knockReceipt(sender, msg_id)].filter((one) => one !== undefined)
      : model.receipts(sender, msg_id, clock.now());
    if (allowed.length > 0) expect(allowed, `the receipt of ${msg_id}`).toContainEqual(receipt);
  }
}

const receiptsStep = step("receipts", fc.nat({ max: 3 }), compareReceipts);

/** Who looks: itself, who may be a contact, a stranger, and the whole-bus roster. */
export async function compareView(number: number, model: IdentityModel, real: Real): Promise<void> {
  const viewer = real.senders[number];
  const answer = await must(real.key, "view", viewer ? { viewer, scope: "identity" } : { scope: "bus" });
  const roster = answer.roster.map(({ session: { session_id: id }, ts, age_ms, connected, wake }) => {
    return { id, ts, age_ms, connected, wake: wake?.until_ms };
  });
  const gone = answer.gone.map(({ pubkey, session_id: id, ts, sig, at_ms }) => {
    expect(pubkey).toBe(real.key);
    return { id, ts, sig, at_ms };
  });
  expect(roster.map(({ age_ms }) => age_ms)).toEqual(roster.map(({ age_ms }) => age_ms).toSorted((a, b) => a - b));
  const expected = model.view(viewer, clock.now());
  expect(sorted(roster), "the roster").toEqual(sorted(expected.roster));
  expect(sorted(gone), "the goodbyes").toEqual(sorted(expected.gone));
}

function sorted<Row extends { readonly id: string }>(rows: readonly Row[]): Row[] {
  return rows.toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

const connectStep = step("connect", someSession, async (id, model, real) => {
  const nowMs = clock.now();
  const nonce = `n${real.nonces++}`;
  const call = { key: real.key, session: session(id), nonce: { nonce, expiresAtMs: nowMs + NONCE_MS } };
  const answer = await connectIdentity(bindings, call);
  const expected = model.connect(id, nonce, nowMs);
  if ("refused" in expected) return expect(bare((await answer.json()) as object)).toEqual(expected);
  const wire = answer.webSocket!;
  const client: Client = { wire, frames: [], seqs: new Map(), isOver: false };
  wire.addEventListener("message", ({ data }) => void client.frames.push(JSON.parse(data as string) as Frame));
  wire.addEventListener("close", () => void (client.isOver = true));
  wire.accept();
  const older = real.clients.get(id);
  real.clients.set(id, client);
  if (older) await until(() => older.isOver, "the older socket's end");
  await breathe();
  freezeAt(nowMs + 1); // so that no two were connected at the same time
});

/** Compares all that a socket was told so far. The bus refuses an ack of what it never pushed, behind all it said before. */
const hearStep = step("hear", someSession, async (id, model, real) => {
  const client = await openClient(id, model, real);
  if (!client) return;
  client.wire.send(JSON.stringify({ t: "ack", through: Number.MAX_SAFE_INTEGER }));
  await until(() => client.frames.some(({ t }) => t === "err"), "a refusal");
  model.frame(id, clock.now());
  const { told } = model.sockets.get(id)!;
  const came = client.frames.splice(0).flatMap((frame) => {
    if (frame.t === "messages") return frame.items!.map((item) => ({ t: "item", ...item }));
    return frame.t === "err" ? [] : [frame];
  });
  const expected = told.splice(0);
  expect(came.map(({ t }) => t)).toEqual(expected.map(({ t }) => t));
  for (const [index, one] of expected.entries()) {
    const frame = came[index]! as Frame & { seq: number; redelivered?: true };
    if (one.t === "welcome") expect(frame["queued"], "what waits at the welcome").toBe(one.queued);
    else if (one.t === "gap") expect(frame).toEqual(one);
    else {
      client.seqs.set(one.item, frame.seq);
      const { entry, atMs } = one.item;
      const payload: unknown = JSON.parse(payloadOf(entry.msgId, real.senders.indexOf(entry.sender as Key)));
      expect(frame["envelope"]).toEqual({ payload, ts: atMs });
      const isMarked = frame.redelivered === true;
      if (isMarked || !real.hasCrashed) expect(isMarked, "what was pushed before is marked").toBe(one.wasPushed);
    }
  }
});

const ackThroughStep = step(
  "ack through",
  fc.record({ id: someSession, pick: fc.nat({ max: 4 }) }),
  async ({ id, pick }, model, real) => {
    const client = await openClient(id, model, real);
    const pushed = [...(client?.seqs ?? [])];
    if (!client || pushed.length === 0) return;
    const [item, through] = pushed[pushed.length - 1 - (pick % pushed.length)]!;
    client.wire.send(JSON.stringify({ t: "ack", through }));
    client.wire.send(JSON.stringify({ t: "ack", through: Number.MAX_SAFE_INTEGER }));
    const before = client.frames.length;
    await until(() => client.frames.slice(before).some(({ t }) => t === "err"), "the end of the ack");
    model.ackThrough(id, item, clock.now());
  },
);

const closeStep = step("close", someSession, async (id, model, real) => {
  const client = await openClient(id, model, real);
  if (!client) return;
  client.wire.close(1000);
  await until(() => client.isOver, "the close");
  await breathe();
  model.disconnect(id, clock.now());
});

/** The client of a session whose socket is open. */
async function openClient(id: string, model: IdentityModel, real: Real): Promise<Client | undefined> {
  await closeOld(model, real);
  return model.sockets.has(id) ? real.clients.get(id) : undefined;
}

/** Sockets that are a day old are closed by the alarm, which may be late, but not by the days that make a session gone. */
export async function closeOld(model: IdentityModel, real: Real): Promise<void> {
  const isOld = [...model.sockets.values()].some(({ sinceMs }) => clock.now() - sinceMs >= model.socketLifeMs);
  if (isOld) await ring(1, model, real);
}

async function until(isSo: () => boolean, what: string): Promise<void> {
  for (let i = 0; i < 2_000; i++) {
    if (isSo()) return;
    await breathe();
  }
  throw new Error(`there was no ${what}`);
}

/** Lets the runtime's own events come. */
function breathe(): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, 1));
}

const viewStep = step("view", fc.nat({ max: 4 }), compareView);

const censusStep = step("census", fc.constant(0), async (_, model, real) => {
  expect(await ask(real.key, "census", {})).toEqual(model.census(clock.now()));
});

const forgetStep = step("forget", fc.boolean(), async (isReplay, model, real) => {
  const nowMs = clock.now();
  const last = `n${real.nonces - 1}`;
  // Past its window the door refuses the token that it came in, whether or not the nonce is still remembered.
  const nonce = isReplay && (model.nonces.get(last) ?? 0) > nowMs ? last : `n${real.nonces++}`;
  const expected = model.forget(nonce, nowMs);
  const answer = await ask(real.key, "forget", { nonce: { nonce, expiresAtMs: nowMs + NONCE_MS } });
  expect(bare(answer)).toEqual("refused" in expected ? expected : { forgotten: true });
  if ("refused" in expected) return;
  const former = real.generation;
  real.generation = undefined;
  if (former === undefined) return;
  // Whatever it says next, it is another life.
  const next = (await ask(real.key, "contacts", { contacts: [], ts: 1 })) as { generation: string };
  model.publish([], 1, clock.now());
  expect(next.generation).not.toBe(former);
  real.generation = next.generation;
});

const jumpStep = step(
  "jump",
  fc.oneof(
    fc.record({ boundary: fc.nat({ max: 40 }), byMs: fc.constantFrom(-1, 0, 1) }),
    fc.record({ ms: fc.constantFrom(1, 30_000, 90_000, 3_600_000, 86_400_000) }),
  ),
  async (jump, model) => {
    const nowMs = clock.now();
    if ("ms" in jump) return freezeAt(nowMs + jump.ms);
    const ahead = model
      .boundaries()
      .filter((atMs) => atMs + jump.byMs > nowMs)
      .toSorted((a, b) => a - b);
    if (ahead.length > 0) freezeAt(ahead[jump.boundary % ahead.length]! + jump.byMs);
  },
);

/** Lets the alarm ring, as late as it is, and perhaps once more. */
export async function ring(times: number, model: IdentityModel, real: Real): Promise<void> {
  for (let i = 0; i < times; i++) {
    const nowMs = clock.now();
    const atMs = await runInDurableObject(stubOf(real.key), (_, state) => state.storage.getAlarm());
    expect(atMs ?? Infinity, "the alarm is set in time").toBeLessThanOrEqual(Math.max(model.dueAtMs(), nowMs));
    if (!(await runDurableObjectAlarm(stubOf(real.key)))) continue;
    const before = [...model.sockets.keys()];
    model.ring(nowMs);
    for (const id of before.filter((each) => !model.sockets.has(each))) {
      await until(() => real.clients.get(id)!.isOver, "the close of a socket that is too old");
    }
    await breathe();
    if (!model.isKept(nowMs)) real.generation = undefined; // may be a ghost by now, and then its next life is another
  }
}

const ringStep = step("ring", fc.constantFrom(1, 2), ring);

const sleepStep = step("sleep", fc.constantFrom("evict", "abort"), async (how, model, real) => {
  if (how === "abort") {
    await closeOld(model, real);
    await abortAllDurableObjects();
    model.crash();
    real.hasCrashed = true;
  } else {
    // Rejects where there is nothing to put to sleep, which is as good.
    await evictDurableObject(stubOf(real.key)).catch(() => undefined);
    model.sleep();
  }
  // No object starts again within the millisecond: numbers grow with the clock, also past what left no trace.
  freezeAt(clock.now() + 1);
});

export const STEPS: readonly fc.Arbitrary<Step>[] = [
  announceStep,
  unregisterStep,
  contactsStep,
  enqueueStep,
  enqueueStep,
  enqueueStep,
  takeStep,
  takeStep,
  ackStep,
  ackStep,
  connectStep,
  hearStep,
  ackThroughStep,
  closeStep,
  receiptsStep,
  viewStep,
  // A life that ends leaves nothing for the next steps to meet.
  fc.oneof({ weight: 4, arbitrary: censusStep }, { weight: 1, arbitrary: forgetStep }),
  jumpStep,
  jumpStep,
  ringStep,
  sleepStep,
];
