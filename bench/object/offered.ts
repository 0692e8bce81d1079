/**
 * Load that does not wait for answers: requests leave by the clock at a given rate, as those of many senders do, and
 * each is timed from when it was due. A server that is behind shows it as waiting, not as a slower client.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { Prepared, Sender } from "../adapter.ts";
import { percentile } from "../stats.ts";

export interface Offered {
  readonly perS: number;
  /** Requests; the run lasts as long as they take at the rate, and then until the last is answered. */
  readonly jobs: readonly Prepared[];
  /** Each carries one request at a time, whoever signed it. */
  readonly lanes: readonly Sender[];
}

export interface Answered {
  readonly offeredPerS: number;
  /** Answered well within the time of the load, a second. */
  readonly answeredPerS: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly refused: number;
  readonly unanswered: number;
}

/** After the last was due: what has not been answered then was not. */
const LATE_MAX_MS = 5_000;

export async function offer({ perS, jobs, lanes }: Offered): Promise<Answered> {
  const startMs = performance.now();
  const endMs = startMs + (jobs.length * 1_000) / perS;
  const dueMs = (job: number): number => startMs + (job * 1_000) / perS;
  const free = [...lanes];
  const waits: number[] = [];
  let [begun, inTime, refused, flying] = [0, 0, 0, 0];

  const carry = async (job: number, lane: Sender): Promise<void> => {
    flying++;
    try {
      await lane.send(jobs[job]!);
      const nowMs = performance.now();
      waits.push(nowMs - dueMs(job));
      if (nowMs <= endMs) inTime++;
    } catch {
      refused++;
    } finally {
      flying--;
      free.push(lane);
      next();
    }
  };
  const next = (): void => {
    while (begun < jobs.length && free.length > 0 && dueMs(begun) <= performance.now())
      void carry(begun++, free.pop()!);
  };
  while ((begun < jobs.length || flying > 0) && performance.now() < endMs + LATE_MAX_MS) {
    next();
    await delay(1);
  }
  return {
    offeredPerS: perS,
    answeredPerS: (inTime * 1_000) / (endMs - startMs),
    p50Ms: waits.length > 0 ? percentile(waits, 50) : Infinity,
    p99Ms: waits.length > 0 ? percentile(waits, 99) : Infinity,
    refused,
    unanswered: jobs.length - waits.length - refused,
  };
}

/** Requests answered a second with one in flight on each lane, until `ms` are over or there are no more jobs. */
export async function saturate(lanes: readonly Sender[], jobs: readonly Prepared[], ms: number): Promise<number> {
  const startMs = performance.now();
  let [next, done] = [0, 0];
  await Promise.all(
    lanes.map(async (lane) => {
      while (next < jobs.length && performance.now() < startMs + ms) {
        await lane.send(jobs[next++]!);
        done++;
      }
    }),
  );
  return (done * 1_000) / (performance.now() - startMs);
}
