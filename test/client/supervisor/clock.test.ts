/** Two hosts open one session in turn, and the clock is set between them: what the first one's agent read, no other reads. */

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { moveClock } from "../../support/moved-clock.ts";
import { ok, until as eventually } from "../session/support.ts";
import type { Result } from "../tools/clients.ts";
import { isAlive, until } from "./host.ts";
import { drive, peersOf } from "./hosted.ts";

const CLOCK = pathToFileURL(join(import.meta.dirname, "../../support/moved-clock.ts")).href;
const LIMITS = { backoffBaseMs: 10 };
const HOUR_MS = 3_600_000;

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

const bodiesOf = ({ structuredContent }: Result) =>
  (structuredContent!["messages"] as string[]).map((line) => (JSON.parse(line) as { body: string }).body);

it.each([-HOUR_MS, 0, HOUR_MS])("a clock set by %d ms makes nothing unread", { timeout: 60_000 }, async (byMs) => {
  const { bob, dir, env: plain } = await peersOf(bus.url);
  const clock = join(dir, "clock");
  moveClock(clock, 0);
  const env = { ...plain, INTERLINK_SESSION: "desk", MOVED_CLOCK: clock, NODE_OPTIONS: `--import=${CLOCK}` };
  const first = await drive("v2 auto", env, dir, LIMITS);
  await eventually(async () => (await first.call("whoami")).structuredContent!["presence"] === "live", "alice");
  ok(await bob.send({ to: "alice", text: "once" }));
  const read: string[] = [];
  await eventually(async () => {
    read.push(...bodiesOf(await first.call("check_messages")));
    return read.length > 0;
  }, "bob's message");
  const agent = await first.up();
  for (const pid of [agent, first.supervisor()]) process.kill(pid, "SIGKILL");
  await until(() => !isAlive(agent), "the agent's end");

  moveClock(clock, byMs);
  const second = await drive("v2 auto", env, dir, LIMITS);
  // One that ends before it has opened the session leaves what it was to settle to the next.
  process.kill(await second.up(), "SIGKILL");
  await until(() => second.pids().length === 2, "the next process");
  const answer = await second.call("check_messages");
  expect([...read, ...bodiesOf(answer)]).toEqual(["once"]);
  expect(answer.structuredContent!["notices"]).toContainEqual(expect.stringMatching(/may not have arrived/));
});
