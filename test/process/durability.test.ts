/** Invariant 1: an acknowledged write survives `kill -9` of the bus. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { randomFrom } from "../../scripts/random.ts";
import { checkHistory } from "../history/checker.ts";
import { History, type Invocation, type HistoryItem } from "../history/history.ts";
import { Agent, signAnnouncement, signUnregister, type Answer, type Json } from "../support/agent.ts";

const KILLS = 10;
const SENDERS = 8;
const MESSAGES_EACH = 25;
/** A kill comes up to this long after the send that it was drawn for: before, within or after its commit. */
const KILL_DELAY_MAX_MS = 4;

const seed = Number(process.env["DURABILITY_SEED"] ?? Date.now() % 2 ** 31);
const random = randomFrom(seed);

let dir: string;
let bus: LocalBus;
/** Settles when the bus is there again. */
let up: Promise<void> = Promise.resolve();
let kills = 0;
/** All that was asked, answered and seen. */
const history = new History();
/** Numbers of the sends at which the bus is killed; one in each tenth of them. */
const killAt = Array.from({ length: KILLS }, (_, round) => {
  const sends = (SENDERS * MESSAGES_EACH) / KILLS;
  return Math.floor((round + random()) * sends);
});

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "interlink-durability-"));
  bus = await startBus({ bundle: inject("bundle"), dir });
});

afterAll(async () => {
  await up;
  await bus.stop();
  await rm(dir, { recursive: true, force: true });
});

it(`keeps what it acknowledged through ${KILLS} kills (seed ${seed})`, { timeout: 60_000 }, async () => {
  console.log(`durability: DURABILITY_SEED=${seed}`);
  const senders = await Promise.all(Array.from({ length: SENDERS }, newAgent));
  const reader = await newAgent();
  expect((await reader.contacts(senders.map(({ key }) => key))).status).toBe(200);

  let isSending = true;
  const sends = Promise.all(senders.map((sender) => sendAll(sender, reader))).finally(() => (isSending = false));
  const [sent, read, presence] = await Promise.all([
    sends,
    readAndAck(reader, "read", () => isSending),
    changePresence(await newAgent(), senders[0]!),
  ]);
  await up;
  expect(kills).toBe(KILLS);

  // "read" was emptied while the bus was being killed, "kept" only now.
  const kept = await readAndAck(reader, "kept", () => false);
  for (const [number, sender] of senders.entries()) {
    const ofSender = (texts: readonly string[]) => texts.filter((text) => text.startsWith(`${number} `));
    expect(ofSender(read)).toEqual(textsOf(number).filter((_, n) => n % 2 === 0));
    expect(ofSender(kept)).toEqual(textsOf(number).filter((_, n) => n % 2 === 1));
    const { body } = await sender.receipts(reader.key, sent[number]!);
    expect(body.receipts.map(({ state }: Json) => state)).toEqual(sent[number]!.map(() => "acked"));
  }
  await presence();

  history.drained(["read", "kept"].map((session) => reader.route(session)));
  const { violations, counted } = checkHistory(history.events);
  expect(violations).toEqual([]);
  const all = SENDERS * MESSAGES_EACH;
  expect(counted).toMatchObject({ sent: all, acknowledged: all, read: all, views: 1 });
  expect(counted.acked).toBeGreaterThan(0);
});

/** Sends everything in order, alternating between two inboxes; each again with the same bytes until it is answered. */
async function sendAll(sender: Agent, reader: Agent): Promise<string[]> {
  const number = senderNumber++;
  const ids: string[] = [];
  for (const [n, text] of textsOf(number).entries()) {
    const message = sender.message(reader.route(n % 2 === 0 ? "read" : "kept"), text);
    killIfDue();
    const { answer, tries } = await untilAnswered(() => sender.request("POST", "/send", message), {
      op: "send",
      to: message.to,
      ...itemOf(message.payload),
    });
    const { status, body } = answer;
    const outcomes = tries === 1 ? ["202 stored"] : ["202 stored", "200 duplicate"];
    expect(outcomes, JSON.stringify(body)).toContain(`${status} ${body.state}`);
    ids.push(message.payload.msg_id);
  }
  return ids;
}

/**
 * Reads an inbox and acks it until `goOn` is false and it is empty.
 * @returns texts in the order of their first coming; unacked ones may come again, acked ones may not: the history tells
 */
async function readAndAck(reader: Agent, session: string, goOn: () => boolean): Promise<string[]> {
  const by = reader.route(session);
  const texts = new Set<string>();
  for (;;) {
    const isLast = !goOn();
    const poll = { session, timeoutMs: isLast ? 0 : 200, max: 8 };
    const { body } = (await untilAnswered(() => reader.recv(poll), { op: "recv", by })).answer;
    if (body.status === "timeout" && isLast) return [...texts];
    const items: Json[] = body.items ?? [];
    for (const { payload } of items.map(({ envelope }) => envelope)) {
      if (!texts.has(payload.text)) history.read(by, itemOf(payload));
      texts.add(payload.text);
    }
    if (items.length === 0) continue;
    const handles = items.map(({ ack }) => ack);
    const acking = { op: "ack", by, items: itemsOf(body) } as const;
    expect((await untilAnswered(() => reader.ack(session, handles), acking)).answer.status).toBe(200);
  }
}

/**
 * Announces sessions and closes every second, and publishes contacts, while the bus is being killed.
 * @returns a check that all of it is as it was acknowledged
 */
async function changePresence(agent: Agent, friend: Agent): Promise<() => Promise<void>> {
  const open: Json[] = [];
  const closed: { announcement: Json; goodbye: Json }[] = [];
  const contactsTs: number[] = [];
  const post = async (target: string, body: Json) => {
    const op = target === "/announce" ? "announce" : "unregister";
    const what = { op, key: agent.key, session: body.session.session_id } as const;
    const { answer } = await untilAnswered(() => agent.request("POST", target, body), what);
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
  };
  for (let n = 0; n < 20; n++) {
    const session = { session_id: `p${n}`, cwd: "/work", git_root: "work", summary: `number ${n}` };
    const announcement = signAnnouncement(agent.signer, { name: "present", session, ts: agent.nextTs() });
    await post("/announce", announcement);
    if (n % 2 === 0) open.push(announcement);
    else {
      const goodbye = signUnregister(agent.signer, { session_id: session.session_id, ts: agent.nextTs() });
      await post("/unregister", goodbye);
      closed.push({ announcement, goodbye });
    }
    const ts = agent.nextTs();
    const { answer } = await untilAnswered(() => agent.contacts(n < 19 ? [] : [friend.key], ts));
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    contactsTs.push(ts);
  }
  return async () => {
    const { answer } = await untilAnswered(() => agent.roster(agent.key), { op: "view", key: agent.key });
    const { roster, gone } = answer.body;
    const bare = roster.map(({ age_ms: _age, connected: _connected, ...announcement }: Json) => announcement);
    expect(sorted(bare)).toEqual(sorted(open));
    expect(sorted(gone.map(({ sig }: Json) => sig))).toEqual(sorted(closed.map(({ goodbye }) => goodbye.sig)));
    for (const { announcement } of closed) {
      const { status, body } = await agent.request("POST", "/announce", announcement);
      expect([status, body.error], "a closed session was revived").toEqual([409, "stale"]);
    }
    const stale = await agent.contacts([], contactsTs.at(-2));
    expect([stale.status, stale.body.error]).toEqual([409, "stale"]);
    expect((await friend.send(agent.route("p0"), "hello")).status).toBe(202);
    expect((await (await newAgent()).send(agent.route("p0"), "hello")).status).toBe(403);
  };
}

let senderNumber = 0;

function textsOf(number: number): string[] {
  return Array.from({ length: MESSAGES_EACH }, (_, n) => `${number} ${n}`);
}

let begun = 0;

function killIfDue(): void {
  if (begun++ < (killAt[0] ?? Infinity)) return;
  killAt.shift();
  const afterMs = random() * KILL_DELAY_MAX_MS;
  up = up.then(async () => {
    await delay(afterMs);
    await bus.kill();
    bus = await startBus({ bundle: inject("bundle"), dir, port: bus.port });
    kills++;
  });
}

/**
 * Repeats a request whose connection broke, once the bus is back. An answer of any kind ends it.
 * @param what each try is, for the history
 */
async function untilAnswered(
  call: () => Promise<Answer>,
  what?: Invocation,
): Promise<{ answer: Answer; tries: number }> {
  for (let tries = 1; ; tries++) {
    const outcome = what && history.invoke(what);
    try {
      const answer = await call();
      if (answer.status >= 300) outcome?.fail(answer.body.error);
      else outcome?.ok({ items: itemsOf(answer.body), sessions: sessionsOf(answer.body) });
      return { answer, tries };
    } catch {
      outcome?.unknown();
      await up;
    }
  }
}

function itemOf({ from, msg_id, text }: Json): HistoryItem {
  return { from, msg_id, sum: text };
}

function itemsOf({ items = [] }: Json): HistoryItem[] {
  return items.map(({ envelope }: Json) => itemOf(envelope.payload));
}

function sessionsOf({ roster = [] }: Json): string[] {
  return roster.map(({ session }: Json) => session.session_id);
}

function newAgent(): Promise<Agent> {
  return Agent.create({ url: bus.url });
}

function sorted(values: readonly Json[]): string[] {
  return values.map((value) => JSON.stringify(value)).sort();
}
