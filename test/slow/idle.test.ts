/**
 * An idle session costs the bus nothing, by the bus's own counters: 200 of them, connected and pinging for a minute
 * with the constants that a deployment has.
 */

import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { shardOf } from "../../src/durable/directory-shards.ts";
import type { Counters } from "../../src/durable/meter.ts";
import type { Key } from "../../src/protocol/address.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { Agent, type Answer, type Json } from "../support/agent.ts";
import { SessionSocket } from "../support/session-socket.ts";

const { HEARTBEAT_MS, LIVE_MS } = DEFAULT_LIMITS;
const SESSIONS = 200;
const IDLE_MS = 60_000;
/** The bus's default: by it a key's place in the directory is known. */
const DIRECTORY_SHARDS = 8;
const AT_A_TIME = 20;
/** A heartbeat that comes this much late is not the bus's doing. */
const SLACK_MS = 5_000;

let bus: LocalBus;
let operator: Agent;
beforeAll(async () => {
  const seed = new Uint8Array(32).fill(1);
  const { key } = await Agent.create({ url: "http://127.0.0.1", seed });
  bus = await startBus({ bundle: inject("bundle"), vars: { ADMIN_KEYS: key, LOG: "faults" } });
  operator = await Agent.create({ url: bus.url, seed });
});
afterAll(() => bus.stop());

it(`${SESSIONS} idle sessions run no object and write no row in ${IDLE_MS} ms, and all stay live`, async () => {
  const agents = await inGroups(Array.from({ length: SESSIONS }), () => Agent.create({ url: bus.url }));
  const sockets = await inGroups(agents, async (agent) => {
    accepted(await agent.announce("s"));
    return SessionSocket.open(agent, "s");
  });
  const hearts = sockets.map((socket, n) => beat(socket, (n / SESSIONS) * HEARTBEAT_MS));

  const lastKey = lastInDirectory(agents.map(({ key }) => key));
  const before = await countersWithoutAsking(lastKey);
  await delay(IDLE_MS); // a minute of wall time is what is claimed
  const after = await countersWithoutAsking(lastKey);

  expect(after.since_ms, "the same isolate counted all the while").toBe(before.since_ms);
  expect(after.requests - before.requests, "requests, of which the first reading was one").toBe(1);
  expect(after.object_runs - before.object_runs, "object runs").toBe(0);
  expect(after.rows_written - before.rows_written, "rows written").toBe(0);
  for (const socket of sockets) {
    expect(socket.close).toBeUndefined();
    expect(socket.pongs).toBeGreaterThanOrEqual(Math.floor(IDLE_MS / HEARTBEAT_MS));
  }

  const seen = await inGroups(agents, async (agent) => accepted(await agent.roster(agent.key)));
  for (const { roster } of seen) {
    expect(roster).toMatchObject([{ connected: true }]);
    expect(roster[0].age_ms).toBeLessThan(Math.min(LIVE_MS, HEARTBEAT_MS + SLACK_MS));
  }
  const woken = await countersWithoutAsking(lastKey);
  // Had the counter stood still for another reason, it would have stood still here.
  expect(woken.object_runs - after.object_runs, "object runs of as many looks").toBe(SESSIONS);
  expect(woken.rows_written - after.rows_written, "rows written by looking").toBe(0);

  for (const heart of hearts) heart.stop();
  await inGroups(sockets, (socket) => socket.end());
  for (const agent of agents) agent.close();
}, 120_000);

/**
 * Reads the isolate's counters by a page of /stats that starts behind the last identity: it asks none, so whatever
 * the objects' counters show is not this reading's.
 */
async function countersWithoutAsking(lastKey: Key): Promise<Counters> {
  const body = accepted(await operator.request("GET", `/stats?limit=1&cursor=${lastKey}`));
  expect(body).toMatchObject({ identities: 0 });
  return body.isolate;
}

/** The key that a walk through the directory comes to last: shard by shard, in each by the key's bytes. */
function lastInDirectory(keys: readonly Key[]): Key {
  const ofLastShard = keys.filter((key) => shardOf(key, DIRECTORY_SHARDS) === DIRECTORY_SHARDS - 1);
  return ofLastShard.toSorted().at(-1)!;
}

/** Pings once a heartbeat, first after `firstMs`. */
function beat(socket: SessionSocket, firstMs: number): { stop(): void } {
  let timer = setTimeout(() => {
    socket.beat();
    timer = setInterval(() => socket.beat(), HEARTBEAT_MS);
  }, firstMs);
  return { stop: () => clearInterval(timer) };
}

async function inGroups<From, To>(all: readonly From[], work: (one: From) => Promise<To>): Promise<To[]> {
  const done: To[] = [];
  for (let from = 0; from < all.length; from += AT_A_TIME) {
    done.push(...(await Promise.all(all.slice(from, from + AT_A_TIME).map(work))));
  }
  return done;
}

function accepted({ status, body }: Answer): Json {
  expect(status, JSON.stringify(body)).toBeLessThan(300);
  return body;
}
