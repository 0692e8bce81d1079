/**
 * `npm run costs`: what a bus costs on Cloudflare, reckoned from the counts of docs/COSTS.md and the platform's prices.
 *
 * An estimate: the rows were counted, the prices were documented, and what could be neither is assumed and said so.
 * Nothing here was read off a bill.
 */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { DEFAULT_LIMITS, POLL_DEFAULT_MS } from "../src/protocol/constants.ts";
import { PROJECT_DIR } from "./local-bus.ts";
import { numberText, table } from "./markdown.ts";

const USAGE = `npm run costs -- [options]
  --sessions N   idle sessions, a month long; 1000 if absent
  --messages N   messages in a month; 1000000 if absent
  --json         the same as JSON`;

/** What the platform bills. Each setAlarm is one of the rows written. */
export type Meter =
  | "worker_requests"
  | "worker_cpu_ms"
  | "object_requests"
  | "object_gb_s"
  | "rows_written"
  | "rows_read"
  | "stored_gb";

/** An amount of each in a month; of what is stored, the average. */
export type Usage = Readonly<Record<Meter, number>>;

export interface Count {
  readonly rows_read: number;
  readonly rows_written: number;
  readonly alarms_set: number;
}

type CallName =
  | "handshake"
  | "handshake_arms"
  | "announce_frame"
  | "closed"
  | "sent_and_pushed"
  | "ack_frame"
  | "ack_frame_of_64"
  | "sent"
  | "poll"
  | "poll_woken"
  | "poll_arms"
  | "acked";

/** docs/costs.json */
export interface Counts {
  readonly counted_on: string;
  readonly calls: Readonly<Record<CallName, Count & { readonly row: string; readonly more?: CallName }>>;
  readonly admission: Count;
  readonly alarm: Count & {
    readonly rows_read_per_receipt: number;
    readonly rows_read_per_nonce: number;
    readonly rows_written_per_nonce_or_receipt_that_goes: number;
    readonly sweep_ms: number;
  };
  readonly wake: { readonly rows_read: number };
  readonly stored_bytes: { readonly identity: number; readonly receipt: number };
}

/** scripts/prices.json */
export interface Prices {
  readonly as_of: string;
  readonly source: string;
  /** Memory that an awake object is billed for, whatever it uses. */
  readonly object_gb: number;
  readonly frames_per_request: number;
  readonly paid: {
    readonly base: number;
    readonly meters: Readonly<Record<Meter, { included: number; unit: number; price: number }>>;
  };
  readonly free: {
    readonly a_day: Readonly<Partial<Record<Meter, number>>>;
    readonly at_a_time: Readonly<Partial<Record<Meter, number>>>;
  };
}

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
const GB = 1e9;

/** What was neither counted nor documented; each on the dear side of what is likely. */
export const ASSUMED = {
  /** Docs' own example takes as much for a handler. A run here takes about 1 ms, but in production a write crosses a network. */
  object_ms: 10,
  /** Door and object together took 0.7 to 1.5 ms a send on a 2.8 GHz core. */
  worker_cpu_ms: 2,
  /** The documentation does not say whether a close is billed as a request, as a frame, or not. */
  requests_a_close: 1,
  /** 4408 once a day. Each deployment, update of the platform or closed lid is one more. */
  connects_a_day: 1,
  /** Around the clock, so that an identity has something to sweep each day; rarer mail is swept more rarely. */
  messages_an_identity_day: 10,
  days_a_month: 30,
} as const;

export const NOTHING: Usage = {
  worker_requests: 0,
  worker_cpu_ms: 0,
  object_requests: 0,
  object_gb_s: 0,
  rows_written: 0,
  rows_read: 0,
  stored_gb: 0,
};
export const METERS = Object.keys(NOTHING) as readonly Meter[];

function each(amountOf: (meter: Meter) => number): Usage {
  return Object.fromEntries(METERS.map((meter) => [meter, amountOf(meter)])) as Usage;
}

export function sum(...usages: readonly Usage[]): Usage {
  return each((meter) => usages.reduce((total, usage) => total + usage[meter], 0));
}

export function times(count: number, usage: Usage): Usage {
  return each((meter) => count * usage[meter]);
}

/** A workload of a month, and what is counted in it. */
export interface Workload {
  readonly name: string;
  readonly amount: number;
  /** What of it fits a free plan: that many at a time, or in a day. */
  readonly unit: "sessions" | "messages a day";
  readonly usage: Usage;
}

/** What happens on a bus, as usage. Each identity has one session: a further one shares its object's alarms. */
export class Model {
  readonly #counts: Counts;
  readonly #prices: Prices;

  constructor(counts: Counts, prices: Prices) {
    this.#counts = counts;
    this.#prices = prices;
  }

  /** A session that is live for a month and does nothing, by socket: pings cost nothing. */
  idleBySocket(sessions: number): Usage {
    const { calls } = this.#counts;
    const day = times(
      ASSUMED.connects_a_day,
      sum(
        this.door(),
        this.admission(),
        this.call(calls.handshake),
        this.rows(calls.handshake_arms),
        this.wake(),
        this.frame(calls.announce_frame),
        this.alarm(), // at midnight, for the nonce
        this.goneNonce(),
        this.alarm(), // a day later, for the 4408
        this.rows(calls.closed), // its last sign of life, before the socket is closed
        this.close(calls.closed),
      ),
    );
    return times(sessions, sum(times(ASSUMED.days_a_month, day), this.identity()));
  }

  /** The same by long poll: a poll is a heartbeat too. */
  idleByPoll(sessions: number): Usage {
    const { calls, alarm } = this.#counts;
    const polls = DAY_MS / POLL_DEFAULT_MS;
    const pollsAHeartbeat = Math.ceil(DEFAULT_LIMITS.HEARTBEAT_MS / POLL_DEFAULT_MS);
    const poll = sum(this.door(), this.call(calls.poll), this.wake(), this.close(), this.goneNonce());
    const day = sum(
      times(polls, poll),
      times(polls / pollsAHeartbeat, { ...NOTHING, rows_written: 1 }), // its sign of life
      times(DAY_MS / MINUTE_MS, this.admission()), // remembered for a minute
      times(DAY_MS / alarm.sweep_ms, sum(this.alarm(), this.rows(calls.poll_arms))),
    );
    return times(sessions, sum(times(ASSUMED.days_a_month, day), this.identity()));
  }

  /** Messages that are each sent by a request, pushed to a socket and acked by a frame for `ackedTogether` of them. */
  messagesBySocket(messages: number, ackedTogether: number): Usage {
    const { calls } = this.#counts;
    const per = sum(
      this.door(),
      this.admission(),
      this.call(calls.sent_and_pushed),
      this.wake(),
      times(1 / ackedTogether, this.frame(this.ackFrame(ackedTogether))),
      times(1 / ASSUMED.messages_an_identity_day, this.alarm()),
      this.remembered(),
    );
    return times(messages, per);
  }

  /** The same to a poll that is held, and acked by the next one. That an idle session polls anyway is not in it. */
  messagesByPoll(messages: number): Usage {
    const { calls } = this.#counts;
    const per = sum(
      times(2, this.door()),
      this.admission(),
      this.call(calls.sent),
      this.call(calls.poll_woken),
      this.wake(),
      this.close(),
      this.goneNonce(),
      this.rows(calls.acked),
      this.remembered(), // by the alarms that sweep nonces each day anyway
    );
    return times(messages, per);
  }

  /** A request to the Worker. */
  door(): Usage {
    return { ...NOTHING, worker_requests: 1, worker_cpu_ms: ASSUMED.worker_cpu_ms };
  }

  rows({ rows_read, rows_written, alarms_set }: Count): Usage {
    return { ...NOTHING, rows_read, rows_written: rows_written + alarms_set };
  }

  run(requests: number): Usage {
    const object_gb_s = (ASSUMED.object_ms / 1_000) * this.#prices.object_gb;
    return { ...NOTHING, object_requests: requests, object_gb_s };
  }

  call(count: Count): Usage {
    return sum(this.run(1), this.rows(count));
  }

  frame(count: Count): Usage {
    return sum(this.run(1 / this.#prices.frames_per_request), this.rows(count));
  }

  close(count: Count = { rows_read: 0, rows_written: 0, alarms_set: 0 }): Usage {
    return sum(this.run(ASSUMED.requests_a_close), this.rows(count));
  }

  /** An alarm of an object that slept. */
  alarm(): Usage {
    return sum(this.call(this.#counts.alarm), this.wake());
  }

  wake(): Usage {
    return { ...NOTHING, rows_read: this.#counts.wake.rows_read };
  }

  /** Asked once a request: a key is remembered for a minute, and mail of one key is mostly rarer. */
  admission(): Usage {
    return this.call(this.#counts.admission);
  }

  /** A nonce that the sweep takes. */
  goneNonce(): Usage {
    const { rows_read_per_nonce: rows_read, rows_written_per_nonce_or_receipt_that_goes: rows_written } =
      this.#counts.alarm;
    return { ...NOTHING, rows_read, rows_written };
  }

  /** Reads and writes of a cumulative ack grow with what it acks; counted at 1 and at 64. */
  ackFrame(messages: number): Count {
    const { ack_frame: one, ack_frame_of_64: many } = this.#counts.calls;
    const at = (field: keyof Count): number => one[field] + ((many[field] - one[field]) / 63) * (messages - 1);
    return { rows_read: at("rows_read"), rows_written: at("rows_written"), alarms_set: at("alarms_set") };
  }

  /** A message's receipt: kept, read by each sweep as long as it is kept, and deleted. */
  remembered(): Usage {
    const { alarm, stored_bytes } = this.#counts;
    const keptMs = DEFAULT_LIMITS.DEDUPE_RETAIN_MS;
    return {
      ...NOTHING,
      rows_read: (keptMs / alarm.sweep_ms) * alarm.rows_read_per_receipt,
      rows_written: alarm.rows_written_per_nonce_or_receipt_that_goes,
      stored_gb: (stored_bytes.receipt / GB) * (keptMs / (ASSUMED.days_a_month * DAY_MS)),
    };
  }

  identity(): Usage {
    return { ...NOTHING, stored_gb: this.#counts.stored_bytes.identity / GB };
  }
}

/** What a month of usage is worth, and what the bill says if the account does nothing else. */
export interface PaidMonth {
  /** At the prices alone, as if nothing were included: what it adds once the allowances are used up. */
  readonly worth: number;
  readonly bill: number;
  /** The meter that the most of `worth` is for. */
  readonly mostly: Meter;
}

export function paidMonth(usage: Usage, { paid }: Prices): PaidMonth {
  const worthOf = (meter: Meter): number => (usage[meter] / paid.meters[meter].unit) * paid.meters[meter].price;
  const overage = METERS.map((meter) => {
    const { included, unit, price } = paid.meters[meter];
    return Math.ceil(Math.max(0, usage[meter] - included) / unit) * price;
  });
  return {
    worth: METERS.reduce((total, meter) => total + worthOf(meter), 0),
    bill: paid.base + overage.reduce((total, part) => total + part, 0),
    mostly: METERS.reduce((most, meter) => (worthOf(meter) > worthOf(most) ? meter : most)),
  };
}

/** What part of the free plan's allowance a workload takes, and what ends first. */
export interface FreeDay {
  readonly share: number;
  readonly first: Meter;
}

export function freeDay(usage: Usage, { free }: Prices): FreeDay {
  const shares = METERS.flatMap((meter) => {
    const aDay = free.a_day[meter];
    const atATime = free.at_a_time[meter];
    if (aDay !== undefined) return [{ meter, share: usage[meter] / ASSUMED.days_a_month / aDay }];
    return atATime === undefined ? [] : [{ meter, share: usage[meter] / atATime }];
  });
  const first = shares.reduce((most, one) => (one.share > most.share ? one : most));
  return { share: first.share, first: first.meter };
}

/** What a busy client's ack frame stands for, as an example; it may be up to 64. */
const ACKED_TOGETHER = 16;

export function workloads(model: Model, sessions: number, messages: number): Workload[] {
  const idle = { amount: sessions, unit: "sessions" } as const;
  const mail = { amount: messages, unit: "messages a day" } as const;
  const of = (count: number): string => numberText(count);
  return [
    { name: `${of(sessions)} idle sessions, by socket`, ...idle, usage: model.idleBySocket(sessions) },
    { name: `${of(sessions)} idle sessions, by long poll`, ...idle, usage: model.idleByPoll(sessions) },
    { name: `${of(messages)} messages to sockets`, ...mail, usage: model.messagesBySocket(messages, 1) },
    {
      name: `– acked ${ACKED_TOGETHER} at a time`,
      ...mail,
      usage: model.messagesBySocket(messages, ACKED_TOGETHER),
    },
    { name: `${of(messages)} messages to long polls`, ...mail, usage: model.messagesByPoll(messages) },
  ];
}

/** Each meter as a table names it. */
export const METER_TEXT: Readonly<Record<Meter, string>> = {
  worker_requests: "Worker requests",
  worker_cpu_ms: "Worker CPU, ms",
  object_requests: "object requests",
  object_gb_s: "object GB-s",
  rows_written: "rows written",
  rows_read: "rows read",
  stored_gb: "stored GB",
};

/** What the tables stand on. */
function notes(counts: Counts, prices: Prices): string {
  return [
    `Counts of ${counts.counted_on}, prices of ${prices.as_of}. ${prices.source}`,
    "",
    "Assumed, each on the dear side:",
    "",
    `- a run of an object takes ${ASSUMED.object_ms} ms, a request ${ASSUMED.worker_cpu_ms} ms of CPU in the Worker;`,
    `- a close of a socket is billed as a request; ${ASSUMED.connects_a_day} connect a day; each identity has one session;`,
    "- objects sleep between messages, and each send asks whether its sender is admitted;",
    `- each identity has mail every day (${ASSUMED.messages_an_identity_day} messages), so each receipt is read by a sweep a day while it is kept.`,
    "",
  ].join("\n");
}

/** The whole report as Markdown. */
export function formatReport(counts: Counts, prices: Prices, all: readonly Workload[]): string {
  const used = table([
    ["in a month", ...METERS.map((meter) => METER_TEXT[meter])],
    ...all.map(({ name, usage }) => [name, ...METERS.map((meter) => numberText(usage[meter]))]),
  ]);
  const price = table([
    ["in a month", "paid plan: worth", "mostly for", "bill", "free plan: of the allowance", "first limit", "what fits"],
    ...all.map(({ name, amount, unit, usage }) => {
      const { worth, mostly, bill } = paidMonth(usage, prices);
      const { share, first } = freeDay(usage, prices);
      const fits = Math.floor((unit === "sessions" ? amount : amount / ASSUMED.days_a_month) / share);
      return [
        name,
        `$${worth.toFixed(2)}`,
        METER_TEXT[mostly],
        `$${bill.toFixed(2)}`,
        `${numberText(share * 100)} %`,
        METER_TEXT[first],
        share > 0 ? `${numberText(fits)} ${unit}` : "any",
      ];
    }),
  ]);
  const reading =
    "`worth` is at the prices alone, without what is included: what the workload adds to a busy account. `bill` is the whole " +
    "month of an account that does nothing else, with the plan's base. The free plan's allowance is a day's.";
  return `${notes(counts, prices)}\n${used}\n\n${price}\n\n${reading}`;
}

export async function readInputs(): Promise<{ counts: Counts; prices: Prices }> {
  const read = async (path: string): Promise<unknown> => JSON.parse(await readFile(join(PROJECT_DIR, path), "utf8"));
  return {
    counts: (await read("docs/costs.json")) as Counts,
    prices: (await read("scripts/prices.json")) as Prices,
  };
}

async function main(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      sessions: { type: "string", default: "1000" },
      messages: { type: "string", default: "1000000" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const [sessions, messages] = [Number(values.sessions), Number(values.messages)];
  if (![sessions, messages].every((count) => Number.isSafeInteger(count) && count >= 0)) throw new Error(USAGE);
  const { counts, prices } = await readInputs();
  const all = workloads(new Model(counts, prices), sessions, messages);
  if (!values.json) return console.log(formatReport(counts, prices, all));
  const results = all.map((workload) => ({
    ...workload,
    paid: paidMonth(workload.usage, prices),
    free: freeDay(workload.usage, prices),
  }));
  console.log(JSON.stringify({ counted_on: counts.counted_on, assumed: ASSUMED, prices, workloads: results }, null, 2));
}

if (import.meta.main) {
  try {
    await main(process.argv.slice(2));
  } catch (fault) {
    console.error((fault as Error).message);
    process.exitCode = 1;
  }
}
