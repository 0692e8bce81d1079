/**
 * Which part of a request is the object's. Here the Worker and the object share one thread; on the platform the Worker
 * runs elsewhere, and as often as is needed. So the same request is measured with and without its object.
 */

import { Ledger } from "../ledger.ts";
import type { Prepared } from "../adapter.ts";
import { watchLoad } from "../server/load-watch.ts";
import { saturate } from "./offered.ts";
import { anySenders, onBus, requestsOf, type AnySender } from "./one-bus.ts";

const LANES = 64;
const MS = 3_000;
/** More than a run can use. */
const JOBS = 9_000;

export interface Share {
  readonly what: string;
  readonly perS: number;
  /** Of the server's CPU, a request. */
  readonly cpuUs: number;
}

export async function shares(stateDir: string): Promise<Share[]> {
  return onBus(stateDir, { ADMISSION: "open" }, async (bus) => {
    const senders = await anySenders(bus, LANES);
    const [route] = await bus.createRecipients(1, senders);
    const key = route!.split("#")[0]!;
    const ledger = new Ledger();
    const text = (): string => ledger.texts(ledger.mint(1))[0]!;
    const of = (make: (requests: ReturnType<typeof requestsOf>) => Prepared): Prepared[] =>
      Array.from({ length: JOBS }, (_, n) => make(requestsOf(bus, senders[n % LANES]!)));
    const pids = (): readonly number[] => bus.pids();
    await saturate(senders, of((requests) => requests.send(route!, text())).slice(0, 1_000), MS);
    return [
      await measure(
        "a send",
        senders,
        pids,
        of((requests) => requests.send(route!, text())),
      ),
      await measure(
        "the same, refused before its object",
        senders,
        pids,
        of((r) => r.sendInVain(route!, text())),
      ),
      await measure(
        "a look at one roster",
        senders,
        pids,
        of((requests) => requests.look(key)),
      ),
    ];
  });
}

/** A key that is not admitted costs its directory shard one read, each time. */
export async function shardReads(stateDir: string): Promise<Share[]> {
  return onBus(stateDir, { ADMISSION: "join", DIRECTORY_SHARDS: "1" }, async (bus) => {
    const senders = await anySenders(bus, LANES);
    const jobs = Array.from({ length: JOBS }, (_, n) => requestsOf(bus, senders[n % LANES]!).knockAtTheDoor());
    await saturate(senders, jobs.splice(0, 1_000), MS);
    return [await measure("whether a key is admitted", senders, () => bus.pids(), jobs)];
  });
}

async function measure(
  what: string,
  senders: readonly AnySender[],
  pids: () => readonly number[],
  jobs: readonly Prepared[],
): Promise<Share> {
  const stopWatch = watchLoad(pids());
  const perS = await saturate(senders, jobs, MS);
  const load = stopWatch();
  return { what, perS, cpuUs: load ? (load.server * 1e6) / perS : Number.NaN };
}
