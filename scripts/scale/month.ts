/** PURE: a month of a bus of so many identities, part by part, as usage of the platform's meters. */

import { Model, NOTHING, sum, times, type Count, type Counts, type Prices, type Usage } from "../costs.ts";
import type { Behaviour } from "./behaviour.ts";
import { DAY_MS, type Day } from "./day.ts";
import { lookAtAll } from "./directory.ts";
import { PLATFORM } from "./platform.ts";
import { ASKS_FOR_ROOM, ASKS_FOR_ROOM_EVERY_MS, ROWS } from "./rows.ts";

/** What a month is made of. */
export type Part =
  | "presence"
  | "mail"
  | "looks at peers"
  | "looks at the whole bus"
  | "no room in the directory"
  | "deployments"
  | "newcomers"
  | "storage";
export type Month = Readonly<Record<Part, Usage>>;

export interface MonthOptions {
  readonly identities: number;
  readonly shards: number;
  readonly listedMax: number;
  readonly behaviour: Behaviour;
  readonly day: Day;
  /** Dials that one session needs after a deployment, as the storm had it. */
  readonly dialsAfterDeployment: number;
  readonly counts: Counts;
  readonly prices: Prices;
  /** What of the design is tried otherwise. */
  readonly change?: Change;
}

export interface Change {
  /** Pages that a look at the whole bus reads at a time. */
  readonly pagesOfALook?: number;
  /** How often an identity without a place in the directory asks for one. */
  readonly asksForRoomEveryMs?: number;
  /** A page is answered by its shard alone. */
  readonly isPageOfShardAlone?: boolean;
}

/** As sender.ts: the longest wait before receipts of what still waits are asked for. */
export const RECEIPTS_EVERY_MS = 1_800_000;

const MONTH_MS = 30 * DAY_MS;
const SECONDS_A_DAY = 86_400;

export function reckonMonth(options: MonthOptions): Month {
  const { identities, shards, listedMax, behaviour, day, dialsAfterDeployment, counts, prices, change = {} } = options;
  const model = new Model(counts, prices);
  const { calls } = counts;
  /** Of an act of the day, in the month. */
  const monthly = (act: keyof Day["counts"]): number =>
    (day.counts[act] / day.identities) * identities * behaviour.work_days_a_month;

  const online = (mean(day.online) / day.identities) * identities;

  /** One request to the Worker and one call, of an object that sleeps. */
  const ask = (count: Count): Usage => sum(model.door(), model.call(count), model.wake());
  const connect = sum(
    ask(calls.handshake),
    model.admission(),
    model.frame(calls.announce_frame),
    model.close(calls.closed),
    model.goneNonce(),
  );
  const again = sum(model.frame(calls.announce_frame), model.wake());
  const presence = sum(
    times(monthly("connect"), connect),
    times(monthly("start"), sum(model.door(), model.call(ROWS.contacts_again))),
    times(monthly("summary"), again),
    times(online * 24 * behaviour.leases_an_hour * behaviour.work_days_a_month, again),
    times(identities * behaviour.work_days_a_month, sum(model.alarm(), model.rows(calls.handshake_arms))),
  );
  // Each message: a look where the peer is, the send, its ack, and what became of it ten seconds later.
  const message = sum(
    model.admission(),
    ask(ROWS.look),
    model.door(),
    model.call(calls.sent_and_pushed),
    model.frame(model.ackFrame(1)),
    model.remembered(),
    ask(ROWS.receipts),
  );
  const shown = Math.min(identities, shards * listedMax);
  const look = lookAtAll(shown, shards, change.pagesOfALook);
  const looks = monthly("bus_look");
  // The same identities are shown to all: where many look, they hardly sleep.
  const looksPerS = looks / behaviour.work_days_a_month / SECONDS_A_DAY;
  const asleep = Math.exp((-looksPerS * PLATFORM.sleeps_after_ms) / 1_000);
  const everyone = sum(
    times(behaviour.contacts + 1, ask(ROWS.look)),
    times(look.pages, model.door()),
    model.admission(),
    times(look.shardCalls, model.run(1)),
    times(
      change.isPageOfShardAlone ? 0 : look.objectCalls,
      sum(model.call(ROWS.page_each), times(asleep, model.wake())),
    ),
  );
  const cuts = behaviour.deployments_a_month + PLATFORM.updates_a_month;
  return {
    presence,
    mail: sum(
      times(monthly("message"), message),
      times(
        online * behaviour.awaited_peers * behaviour.work_days_a_month * (DAY_MS / RECEIPTS_EVERY_MS),
        ask(ROWS.receipts),
      ),
    ),
    "looks at peers": times(monthly("peer_look"), sum(model.admission(), ask(ROWS.look))),
    "looks at the whole bus": times(looks, everyone),
    "no room in the directory": times(
      (identities - shown) * (MONTH_MS / (change.asksForRoomEveryMs ?? ASKS_FOR_ROOM_EVERY_MS)),
      askForRoom(model),
    ),
    deployments: times(cuts * online, afterDeployment(model, calls, dialsAfterDeployment)),
    newcomers: times(
      identities * behaviour.newcomers_a_month,
      sum(times(2, model.door()), times(5, model.run(1)), model.rows(ROWS.join), model.call(ROWS.first)),
    ),
    storage: times(identities, model.identity()),
  };
}

/** An alarm of an object that slept, and the call of its shard. */
function askForRoom(model: Model): Usage {
  return sum(model.call(ASKS_FOR_ROOM), model.wake(), model.run(1));
}

/** One session: nobody runs a close for a socket that was cut; its object finds out when it starts, and writes a row. */
export function afterDeployment(model: Model, calls: Counts["calls"], dials: number): Usage {
  return sum(
    times(dials, sum(model.door(), model.admission())),
    model.call(calls.handshake),
    model.wake(),
    model.rows({ rows_read: 0, rows_written: 1, alarms_set: 0 }),
    model.frame(calls.announce_frame),
    model.goneNonce(),
  );
}

export function allOf(month: Month): Usage {
  return Object.values(month).reduce((total, part) => sum(total, part), NOTHING);
}

function mean(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0) / values.length;
}
