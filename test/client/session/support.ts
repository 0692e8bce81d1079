/** Sessions for tests: identities in folders of their own, and a bounded wait for what they come to. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, inject, onTestFinished } from "vitest";
import { startBus, type LocalBus, type Variables } from "../../../scripts/local-bus.ts";
import { isToolRefusal, type Agent, type Sent, type ToolRefusal } from "../../../src/client/session/agent.ts";
import {
  isSessionRefusal,
  openSession,
  type Session,
  type SessionOptions,
} from "../../../src/client/session/session.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import type { Key } from "../../../src/protocol/address.ts";

/** Long above what any step takes here. */
const WAIT_MAX_MS = 15_000;
const POLL_MS = 5;

/** A user's folder: key, peers and sessions. Gone with its test. */
export interface Home {
  readonly name: string;
  readonly dir: string;
}

export function newHome(name: string): Home {
  const dir = mkdtempSync(join(tmpdir(), "interlink-session-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return { name, dir };
}

export function optionsOf({ name, dir }: Home, bus: string, options: Partial<SessionOptions> = {}): SessionOptions {
  const [key, peers, stateDirectory] = [join(dir, "id.key"), join(dir, "peers.json"), join(dir, "sessions")];
  return { key, peers, stateDirectory, bus, name, session: `${name}-1`, wakeCalmMs: 0, ...options };
}

/** An open session, closed with its test. */
export async function open(home: Home, bus: string, options: Partial<SessionOptions> = {}): Promise<Session> {
  const opened = await openSession(optionsOf(home, bus, options));
  if (isSessionRefusal(opened)) throw new Error(JSON.stringify(opened));
  onTestFinished(() => opened.close(1_000));
  return opened;
}

/** A session that is connected and on the roster. */
export async function begin(home: Home, bus: string, options: Partial<SessionOptions> = {}): Promise<Session> {
  const session = await open(home, bus, options);
  session.begin();
  await isThere(session);
  return session;
}

export async function isThere(session: Agent): Promise<void> {
  await until(async () => (await session.whoami()).presence?.presence === "live", "presence");
}

/** The answer, or the test fails with the refusal. */
export function ok<T extends object>(answer: T | ToolRefusal): T {
  if (isToolRefusal(answer)) throw new Error(JSON.stringify(answer));
  return answer as T;
}

/** Until something is so. */
export async function until<T>(look: () => T | Promise<T>, what: string): Promise<NonNullable<T>> {
  const deadline = Date.now() + WAIT_MAX_MS;
  for (;;) {
    const seen = await look();
    if (seen) return seen as NonNullable<T>;
    if (Date.now() > deadline) throw new Error(`never: ${what}`);
    await delay(POLL_MS);
  }
}

/** The texts that a session gets, as many as there should be. */
export async function received(session: Agent, count: number): Promise<string[]> {
  const texts: string[] = [];
  await until(async () => {
    const { messages } = await session.checkMessages({ max: 64, maxBytes: 1_000_000 });
    texts.push(...messages.map(({ body }) => body));
    return texts.length >= count;
  }, `${count} messages`);
  expect(texts).toHaveLength(count);
  return texts;
}

/** Knocks, and both humans say yes. */
export async function pair(a: Agent, nameOfB: string, b: Agent, nameOfA: string): Promise<void> {
  const [ours, theirs] = [await a.whoami(), await b.whoami()];
  ok(await a.requestPair({ key: theirs.key, petname: nameOfB }));
  await accept(b, ours.key, nameOfA);
  await accept(a, theirs.key, nameOfB);
}

/** Waits for a request of a key, and accepts it as its operator. */
export async function accept(session: Agent, key: Key, petname: string): Promise<void> {
  const request = await until(
    async () => (await session.pairRequests()).find((each) => each.key === key),
    "a pair request",
  );
  ok(await session.acceptPair(request.request_id, petname, Operator.attest(key, "elicitation")));
}

/** Two sessions of two identities that are peers. */
export async function pairOf(bus: string, options: Partial<SessionOptions> = {}) {
  const homes = [newHome("ann"), newHome("bob")] as const;
  const [ann, bob] = [await begin(homes[0], bus, options), await begin(homes[1], bus, options)];
  await pair(ann, "bob", bob, "ann");
  for (const session of [ann, bob]) session.notices(); // what their beginnings had to tell
  return { ann, bob, homes };
}

/** A message's life, once it is one of these. */
export function reaches(session: Agent, { msg_id }: Pick<Sent, "msg_id">, ...states: string[]) {
  return until(async () => {
    const { life } = ok(await session.messageStatus(msg_id));
    return states.includes(life.state) ? life : undefined;
  }, states.join(" or "));
}

/** A bus of one test's own, with a state that outlives its process. */
export async function ownBus(vars: Variables = {}) {
  const dir = mkdtempSync(join(tmpdir(), "interlink-session-bus-"));
  const options = { bundle: inject("bundle"), vars: { LOG: "faults", ...vars } };
  let running: LocalBus = await startBus({ ...options, dir });
  const { url, port } = running;
  const dirs = [dir];
  onTestFinished(async () => {
    await running.stop();
    for (const each of dirs) rmSync(each, { recursive: true, force: true });
  });
  return {
    url,
    port,
    kill: () => running.kill(),
    /** @param isAnew with nothing of what it kept */
    async restart(isAnew = false) {
      if (isAnew) dirs.push(mkdtempSync(join(tmpdir(), "interlink-session-bus-")));
      running = await startBus({ ...options, dir: dirs.at(-1)!, port });
    },
  };
}
