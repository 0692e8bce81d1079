/**
 * What one recipient's object bears: sends and looks at its roster by many, offered at rising rates, while its session
 * takes and acks the mail on a socket. Beside it, the platform's floor under the same rates.
 */

import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Prepared, Sender } from "../adapter.ts";
import { floor } from "../adapters/floor.ts";
import { Ledger } from "../ledger.ts";
import { watchLoad } from "../server/load-watch.ts";
import { offer, saturate, type Answered } from "./offered.ts";
import { anySenders, onBus, requestsOf } from "./one-bus.ts";

/** Requests a second, one step after the other. */
const RATES = [100, 200, 400, 600, 800, 1_000, 1_200, 1_400, 1_600, 2_000, 2_400];
const STEP_MS = 2_000;
const LANES = 64;
/** One request in so many is a look at the roster. */
const LOOK_EVERY = 10;
/** It has bent: no step above says more. */
const BENT_P99_MS = 1_000;
const WARM_UP = 500;

export interface Step extends Answered {
  /** Messages that the recipient had, a second, until the last request was answered: less than was sent means an inbox that fills. */
  readonly receivedPerS: number;
  /** Cores, averaged. */
  readonly server: number | undefined;
  readonly others: number | undefined;
}

export async function busUnderLoad(stateDir: string): Promise<Step[]> {
  return onBus(stateDir, {}, async (bus) => {
    const senders = await anySenders(bus, LANES);
    const [route] = await bus.createRecipients(1, senders);
    const key = route!.split("#")[0]!;
    const ledger = new Ledger();
    await bus.openReceiver(route!, ledger);
    const job = (n: number): Prepared => {
      const requests = requestsOf(bus, senders[n % LANES]!);
      return n % LOOK_EVERY === 0 ? requests.look(key) : requests.send(route!, ledger.texts(ledger.mint(1))[0]!);
    };
    return steps(senders, job, () => bus.pids(), ledger);
  });
}

export async function floorUnderLoad(stateDir: string): Promise<Step[]> {
  const dir = await mkdtemp(join(stateDir, "floor-"));
  const system = await floor.start({ dir, counted: false });
  try {
    const senders = await system.createSenders(LANES);
    const [recipient] = await system.createRecipients(1, senders);
    const ledger = new Ledger();
    await system.openReceiver(recipient!, ledger);
    const job = (n: number): Prepared => senders[n % LANES]!.encode(recipient!, ledger.texts(ledger.mint(1)));
    return await steps(senders, job, () => system.pids(), ledger);
  } finally {
    await system.stop();
    await rm(dir, { recursive: true, force: true });
  }
}

async function steps(
  lanes: readonly Sender[],
  job: (n: number) => Prepared,
  pids: () => readonly number[],
  ledger: Ledger,
): Promise<Step[]> {
  const jobs = (count: number): Prepared[] => Array.from({ length: count }, (_, n) => job(n));
  await saturate(lanes, jobs(WARM_UP), STEP_MS);
  const taken: Step[] = [];
  for (const perS of RATES) {
    const ready = jobs((perS * STEP_MS) / 1_000);
    const stopWatch = watchLoad(pids());
    const [startMs, before] = [performance.now(), ledger.received];
    const answered = await offer({ perS, jobs: ready, lanes });
    const receivedPerS = ((ledger.received - before) * 1_000) / (performance.now() - startMs);
    const load = stopWatch();
    taken.push({ ...answered, receivedPerS, server: load?.server, others: load?.others });
    process.stderr.write(`${perS}: ${Math.round(answered.answeredPerS)}/s p99 ${answered.p99Ms.toFixed(1)} ms\n`);
    if (answered.p99Ms > BENT_P99_MS || answered.unanswered > 0) break;
  }
  return taken;
}
