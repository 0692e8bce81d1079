/** The whole reckoning, from one seed: the same inputs give the same numbers, so that the document can be held to them. */

import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { Model, paidMonth, type Counts, type Prices } from "../costs.ts";
import { dailySweep, threeDaysLater, type Ringing } from "./alarms.ts";
import { BEHAVIOUR } from "./behaviour.ts";
import { simulateDay, type Act, type Day } from "./day.ts";
import { lookAtAll, shardsFor, unevenness, type Look } from "./directory.ts";
import { simulateHot, type Hot } from "./hot.ts";
import { afterDeployment, reckonMonth, type Change, type Month } from "./month.ts";
import { ASSUMED, CAPACITY, PLATFORM } from "./platform.ts";
import { randomFrom } from "../random.ts";
import { ASKS_FOR_ROOM_EVERY_MS } from "./rows.ts";
import { Station, meanWaitOfMD1Ms } from "./station.ts";
import { simulateStorm, type Storm, type StormOptions } from "./storm.ts";

export const SIZES = [1_000, 100_000, 10_000_000];
export const SEED = 1;
/** As settings.ts. */
export const DEFAULT_SHARDS = 8;
/** Of a bus that is made for its size: how long the shards may need when all come at once. */
const BACK_WITHIN_MS = 10_000;
/** Room for those that come, over those that are there. */
const ROOM = 1.25;
/** How many are walked one by one, each for many. */
const WALKED = 10_000;
/** The same of alarms, which take little. */
const ALARMS_WALKED = 200_000;
const DAY_OF = 2_000;

/** What could be otherwise, each alone. */
const CHANGES: readonly { readonly name: string; readonly change: Change }[] = [
  { name: "as it is", change: {} },
  { name: "a look reads five pages", change: { pagesOfALook: 5 } },
  { name: "a page is answered by its shard alone", change: { isPageOfShardAlone: true } },
  { name: "room in the directory is asked for every hour", change: { asksForRoomEveryMs: 3_600_000 } },
];

/** A bus as it is set up. */
export interface Setting {
  readonly identities: number;
  readonly shards: number;
  readonly listedMax: number;
  /** As it comes, or made for the size. */
  readonly isFitted: boolean;
}

export interface DirectoryLoad {
  readonly setting: Setting;
  readonly look: Look;
  /** In the busiest hour, a second. */
  readonly admissionsPerShardS: number;
  readonly looksPerS: number;
  /** Of the first shard, that each look begins with. */
  readonly firstShardPerS: number;
  readonly notListed: number;
}

export interface StormRow {
  readonly setting: Setting;
  readonly how: "join" | "open" | "join, cut over 5 minutes";
  readonly storm: Omit<Storm, "backAtMs">;
  readonly dollars: number;
  /** A day later, when all are asked to sign again. */
  readonly echo: Pick<Storm, "dialsPeakPerS" | "shardPeakPerS" | "refused">;
}

export interface HotRow {
  readonly name: string;
  readonly hot: Hot;
}

export interface Scale {
  readonly day: Day;
  readonly months: readonly { readonly setting: Setting; readonly month: Month }[];
  /** Months of a bus as it comes, were this or that otherwise. */
  readonly changes: readonly { readonly name: string; readonly months: readonly Month[] }[];
  readonly directory: readonly DirectoryLoad[];
  readonly unevenness: readonly { readonly shards: number; readonly most: number }[];
  readonly queue: readonly { readonly load: number; readonly simulatedMs: number; readonly formulaMs: number }[];
  readonly storms: readonly StormRow[];
  readonly hot: readonly HotRow[];
  readonly sweeps: readonly Ringing[];
  readonly expiries: readonly Ringing[];
}

export interface Inputs {
  readonly counts: Counts;
  readonly prices: Prices;
}

export function reckon({ counts, prices }: Inputs, seed = SEED): Scale {
  // A stream for each part: a change of one moves no other.
  const streams = (part: number) => randomFrom(seed * 1_000 + part);
  const day = simulateDay(DAY_OF, BEHAVIOUR, streams(1));
  const online = (identities: number): number => Math.round((day.onlinePeak / day.identities) * identities);
  const settings = SIZES.flatMap((identities) => settingsFor(identities, online(identities)));

  const storms = settings.flatMap((setting, index) => {
    const isPlain = setting.isFitted || setting.identities === SIZES[0];
    const hows: StormRow["how"][] = isPlain ? ["join"] : ["join", "join, cut over 5 minutes", "open"];
    return hows.map((how, nth) =>
      stormRow({
        setting,
        how,
        sessions: online(setting.identities),
        counts,
        prices,
        part: 100 + 10 * index + nth,
        streams,
      }),
    );
  });
  const monthOf = (setting: Setting, change: Change): Month => {
    const { storm } = storms.find((row) => row.setting === setting && row.how === "join")!;
    const dialsAfterDeployment = storm.dials / storm.sessions;
    return reckonMonth({ ...setting, behaviour: BEHAVIOUR, day, dialsAfterDeployment, counts, prices, change });
  };
  return {
    day,
    months: settings.map((setting) => ({ setting, month: monthOf(setting, {}) })),
    changes: CHANGES.map(({ name, change }) => ({
      name,
      months: settings.filter(({ isFitted }) => !isFitted).map((setting) => monthOf(setting, change)),
    })),
    directory: settings.map((setting) => directoryLoad(setting, day)),
    unevenness: [8, 64, 256, 1_000].map((shards) => ({ shards, most: unevenness(1_000_000, shards, streams(2)) })),
    queue: [0.5, 0.8, 0.9, 0.95].map((load) => queueRow(load, streams(3))),
    storms,
    hot: HOT.map(({ name, ...options }, index) => ({
      name,
      hot: simulateHot({ ...OBJECT, ...options }, streams(200 + index)),
    })),
    sweeps: SIZES.map((identities) => dailySweep(identities, ALARMS_WALKED, streams(4))),
    expiries: SIZES.map((identities) =>
      threeDaysLater(online(identities), ALARMS_WALKED, BEHAVIOUR.works_h, streams(5)),
    ),
  };
}

function settingsFor(identities: number, sessionsOnline: number): Setting[] {
  const asItComes = { identities, shards: DEFAULT_SHARDS, listedMax: DEFAULT_LIMITS.LISTED_MAX, isFitted: false };
  const shards = shardsFor(sessionsOnline, CAPACITY.reads_per_s, BACK_WITHIN_MS);
  const listedMax = Math.max(DEFAULT_LIMITS.LISTED_MAX, Math.ceil((ROOM * identities) / shards / 1_000) * 1_000);
  const isSame = shards === asItComes.shards && listedMax === asItComes.listedMax;
  return isSame ? [asItComes] : [asItComes, { identities, shards, listedMax, isFitted: true }];
}

interface StormInputs extends Inputs {
  readonly setting: Setting;
  readonly how: StormRow["how"];
  readonly sessions: number;
  readonly part: number;
  readonly streams: (part: number) => () => number;
}

function stormRow({ setting, how, sessions, counts, prices, part, streams }: StormInputs): StormRow {
  const options: StormOptions = {
    sessions,
    shards: how === "open" ? 0 : setting.shards,
    shardPerS: CAPACITY.reads_per_s,
    queueMaxMs: ASSUMED.queue_max_ms,
    networkMs: ASSUMED.network_ms,
    handshakeMs: ASSUMED.handshake_ms,
    cutOverMs: how === "join, cut over 5 minutes" ? PLATFORM.update_delay_max_ms : 0,
    by: "deployment",
    walkedMax: WALKED,
  };
  const { backAtMs, ...storm } = simulateStorm(options, streams(part));
  const again = simulateStorm({ ...options, by: "sign_again", cutAtMs: backAtMs }, streams(part + 5));
  const usage = afterDeployment(new Model(counts, prices), counts.calls, storm.dials / sessions);
  const { dialsPeakPerS, shardPeakPerS, refused } = again;
  return {
    setting,
    how,
    storm,
    dollars: sessions * paidMonth(usage, prices).worth,
    echo: { dialsPeakPerS, shardPeakPerS, refused },
  };
}

function directoryLoad(setting: Setting, day: Day): DirectoryLoad {
  const { identities, shards, listedMax } = setting;
  const peakPerS = (acts: readonly Act[]): number => {
    const hours = Array.from({ length: 24 }, (_, hour) => acts.reduce((sum, act) => sum + day.byHour[act][hour]!, 0));
    return (Math.max(...hours) / 3_600) * (identities / day.identities);
  };
  const shown = Math.min(identities, shards * listedMax);
  const look = lookAtAll(shown, shards);
  const notListed = identities - shown;
  // Each of these acts asks once whether its key is admitted; who is not listed asks for room now and then.
  const forRoomPerS = notListed / (ASKS_FOR_ROOM_EVERY_MS / 1_000);
  const admissionsPerShardS = (peakPerS(["connect", "message", "peer_look", "bus_look"]) + forRoomPerS) / shards;
  const looksPerS = peakPerS(["bus_look"]);
  return {
    setting,
    look,
    admissionsPerShardS,
    looksPerS,
    notListed,
    firstShardPerS: admissionsPerShardS + looksPerS * look.firstShardCalls,
  };
}

function queueRow(load: number, random: () => number): Scale["queue"][number] {
  const perS = CAPACITY.reads_per_s;
  const station = new Station({ perS, waitMaxMs: Infinity });
  let nowMs = 0;
  for (let arrival = 0; arrival < 300_000; arrival++) {
    nowMs -= Math.log(1 - random()) * (1_000 / (load * perS));
    station.take(nowMs);
  }
  return { load, simulatedMs: station.meanWaitMs, formulaMs: meanWaitOfMD1Ms(load, perS) };
}

const OBJECT = {
  objectPerS: CAPACITY.writes_per_s,
  refusalCost: CAPACITY.writes_per_s / CAPACITY.reads_per_s,
  queueMaxMs: ASSUMED.queue_max_ms,
  networkMs: ASSUMED.network_ms,
};
const MINUTE_MS = 60_000;
const LONG = { writesForMs: MINUTE_MS, forMs: MINUTE_MS } as const;
const BURST = { writesForMs: 10_000, forMs: 10 * MINUTE_MS } as const;

/** The one of which the document speaks. */
export const BURST_NAME = "online, 100 write 10 a second each, for 10 s";

const HOT = [
  { name: "online, 100 write 1 a second each, for a minute", senders: 100, eachPerS: 1, isOnline: true, ...LONG },
  { name: "online, 100 write 4 a second each, for a minute", senders: 100, eachPerS: 4, isOnline: true, ...LONG },
  { name: "online, 100 write 6 a second each, for a minute", senders: 100, eachPerS: 6, isOnline: true, ...LONG },
  { name: BURST_NAME, senders: 100, eachPerS: 10, isOnline: true, ...BURST },
  { name: "online, 1 000 write 2 a second each, for 10 s", senders: 1_000, eachPerS: 2, isOnline: true, ...BURST },
  { name: "online, one writes 200 a second, for 10 s", senders: 1, eachPerS: 200, isOnline: true, ...BURST },
  { name: "away, 100 write 1 a second each, for a minute", senders: 100, eachPerS: 1, isOnline: false, ...LONG },
  { name: "away, one writes 5 a second, for a minute", senders: 1, eachPerS: 5, isOnline: false, ...LONG },
] as const;
