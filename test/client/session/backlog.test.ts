/** How long the first call waits for mail that was there before us, on a clock that the test moves. */

import { expect, it } from "vitest";
import type { Timers } from "../../../src/client/bus/timers.ts";
import { Backlog } from "../../../src/client/session/backlog.ts";

const [HOME, WORK] = ["https://home.example", "https://work.example"];

function rig() {
  const due = new Set<() => void>();
  const timers: Timers = {
    now: () => 0,
    setTimeout: (act) => {
      due.add(act);
      return act;
    },
    clearTimeout: (timer) => void due.delete(timer as () => void),
  };
  const backlog = new Backlog([HOME, WORK], timers);
  let hasCome = false;
  const wait = () => {
    hasCome = false;
    void backlog.come().then(() => (hasCome = true));
  };
  /** Whether whoever waits has gone on. */
  const isOver = async () => {
    await new Promise(setImmediate);
    return hasCome;
  };
  return { backlog, wait, isOver, timeIsOver: () => due.forEach((act) => act()), due };
}

it("waits for nobody before the beginning", async () => {
  const { wait, isOver } = rig();
  wait();
  expect(await isOver()).toBe(true);
});

it("waits until each bus has brought its first mail, has none, or is away", async () => {
  const { backlog, wait, isOver, due } = rig();
  backlog.begin();
  wait();
  expect(await isOver()).toBe(false);
  backlog.settled(HOME);
  backlog.settled(HOME);
  expect(await isOver()).toBe(false);
  backlog.settled(WORK);
  expect(await isOver()).toBe(true);
  expect(due.size).toBe(0);
});

it("waits for a bus that stalls no longer than for a while, and only once", async () => {
  const { backlog, wait, isOver, timeIsOver } = rig();
  backlog.begin();
  backlog.settled(HOME);
  wait();
  expect(await isOver()).toBe(false);
  timeIsOver();
  expect(await isOver()).toBe(true);
  wait();
  expect(await isOver()).toBe(true);
});
