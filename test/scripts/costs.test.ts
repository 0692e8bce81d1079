/** The reckoning of costs: against sums made by hand, and what must hold whatever the prices are. */

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ASSUMED,
  formatReport,
  freeDay,
  METERS,
  Model,
  paidMonth,
  readInputs,
  workloads,
  type Counts,
  type Meter,
  type Prices,
  type Usage,
} from "../../scripts/costs.ts";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";

const DAYS = 30;

/** Counts that are told apart in a sum: each call has a power of ten of its own in the rows read. */
const call = (rows_read: number, rows_written = 0, alarms_set = 0) => ({
  row: "",
  rows_read,
  rows_written,
  alarms_set,
});
const COUNTS: Counts = {
  counted_on: "a day",
  calls: {
    handshake: call(1_000, 2),
    handshake_arms: call(0, 1, 1),
    announce_frame: call(10_000, 1),
    closed: call(100_000, 1),
    sent_and_pushed: call(1_000, 2),
    ack_frame: call(10_000, 2),
    ack_frame_of_64: call(73_000, 128),
    sent: call(1_000, 2),
    poll: call(1_000, 1),
    poll_woken: call(10_000, 1),
    poll_arms: call(0, 1, 1),
    acked: call(100_000, 2),
  },
  admission: { rows_read: 1, rows_written: 0, alarms_set: 0 },
  alarm: {
    rows_read: 10_000_000,
    rows_written: 2,
    alarms_set: 2,
    rows_read_per_receipt: 3,
    rows_read_per_nonce: 10,
    rows_written_per_nonce_or_receipt_that_goes: 1,
    sweep_ms: 3_600_000,
  },
  wake: { rows_read: 100 },
  stored_bytes: { identity: 50_000, receipt: 200 },
};
const PRICES: Prices = {
  as_of: "a month",
  source: "made up",
  object_gb: 0.1,
  frames_per_request: 20,
  paid: {
    base: 5,
    meters: {
      worker_requests: { included: 100, unit: 10, price: 1 },
      worker_cpu_ms: { included: 1e9, unit: 1e9, price: 0 },
      object_requests: { included: 100, unit: 10, price: 2 },
      object_gb_s: { included: 10, unit: 10, price: 3 },
      rows_written: { included: 100, unit: 10, price: 4 },
      rows_read: { included: 1e9, unit: 1e9, price: 0 },
      stored_gb: { included: 1, unit: 1, price: 0 },
    },
  },
  free: {
    a_day: { worker_requests: 10, object_requests: 10, object_gb_s: 10, rows_written: 10, rows_read: 10 },
    at_a_time: { stored_gb: 5 },
  },
};
const model = new Model(COUNTS, PRICES);
const NOTHING = Object.fromEntries(METERS.map((meter) => [meter, 0])) as Usage;
const GB_S_A_RUN = (ASSUMED.object_ms / 1_000) * PRICES.object_gb;

describe("by hand", () => {
  it("an idle session by socket: a connect, a frame, two alarms and a close a day", () => {
    const usage = model.idleBySocket(2);
    expect(usage.worker_requests).toBeCloseTo(2 * DAYS * 1);
    // Admission, handshake, frame, alarm for the nonce, alarm for the 4408, close.
    expect(usage.object_requests).toBeCloseTo(2 * DAYS * (1 + 1 + 1 / 20 + 1 + 1 + 1));
    expect(usage.object_gb_s).toBeCloseTo(2 * DAYS * 6 * GB_S_A_RUN);
    // Nonce and session, the alarm's row and the alarm; announcement; two alarms of 2 + 2; the nonce; before and after the close.
    expect(usage.rows_written).toBeCloseTo(2 * DAYS * (2 + 2 + 1 + 4 + 4 + 1 + 2));
    // It sleeps before the connect and before each alarm.
    expect(usage.rows_read).toBeCloseTo(2 * DAYS * (1 + 1_000 + 10_000 + 2 * 100_000 + 2 * 10_000_000 + 10 + 3 * 100));
    expect(usage.stored_gb).toBeCloseTo(2 * 50_000e-9, 12);
  });

  it("an idle session by long poll: 3 456 polls and 24 sweeps a day, a sign of life every other poll", () => {
    const usage = model.idleByPoll(1);
    expect(usage.worker_requests).toBeCloseTo(DAYS * 3_456);
    expect(usage.object_requests).toBeCloseTo(DAYS * (2 * 3_456 + 1_440 + 24));
    expect(usage.rows_written).toBeCloseTo(DAYS * (2 * 3_456 + 1_728 + 24 * (4 + 2)));
    expect(usage.rows_read).toBeCloseTo(DAYS * (3_456 * (1_000 + 100 + 10) + 1_440 + 24 * (10_000_000 + 100)));
  });

  it("a message to a socket: a request, a push that is free, a twentieth for its ack, and its receipt's 15 days", () => {
    const usage = model.messagesBySocket(10, 1);
    const alarms = 1 / ASSUMED.messages_an_identity_day;
    expect(usage.worker_requests).toBeCloseTo(10);
    expect(usage.object_requests).toBeCloseTo(10 * (1 + 1 + 1 / 20 + alarms));
    expect(usage.rows_written).toBeCloseTo(10 * (2 + 2 + 1 + 4 * alarms));
    const sweeps = 15 * 24 * 3;
    expect(usage.rows_read).toBeCloseTo(10 * (1 + 1_000 + 100 + 10_000 + sweeps + alarms * 10_000_100));
    expect(usage.stored_gb).toBeCloseTo((10 * 200e-9) / 2, 12);
  });

  it("an ack of many: read and written once for each, asked once for all", () => {
    const [one, many] = [model.messagesBySocket(64, 1), model.messagesBySocket(64, 64)];
    expect(one.rows_read - many.rows_read).toBeCloseTo(64 * 10_000 - 73_000);
    expect(one.rows_written - many.rows_written).toBeCloseTo(64 * 2 - 128);
    expect(one.object_requests - many.object_requests).toBeCloseTo(63 / 20);
  });

  it("a message to a long poll: two requests, the poll's nonce written and swept, the ack on the next poll", () => {
    const usage = model.messagesByPoll(1);
    expect(usage.worker_requests).toBeCloseTo(2);
    expect(usage.object_requests).toBeCloseTo(1 + 1 + 1 + 1);
    expect(usage.rows_written).toBeCloseTo(2 + 1 + 1 + 2 + 1);
    expect(usage.rows_read).toBeCloseTo(1 + 1_000 + 10_000 + 100 + 10 + 100_000 + 15 * 24 * 3);
  });

  it("a bill: the base, and what is above the allowance in whole units", () => {
    const usage = { ...NOTHING, worker_requests: 100, object_requests: 101, rows_written: 121 };
    expect(paidMonth(usage, PRICES)).toEqual({ worth: 10 + 20.2 + 48.4, bill: 5 + 2 + 3 * 4, mostly: "rows_written" });
  });

  it("a free day: the share of what ends first, by day or by what is stored", () => {
    expect(freeDay({ ...NOTHING, rows_written: 150, rows_read: 60 }, PRICES)).toEqual({
      share: 0.5,
      first: "rows_written",
    });
    expect(freeDay({ ...NOTHING, rows_written: 30, stored_gb: 4 }, PRICES)).toEqual({ share: 0.8, first: "stored_gb" });
  });
});

describe("whatever the amounts", () => {
  const amount = fc.integer({ min: 0, max: 10_000_000 });
  const usages: readonly ((count: number) => Usage)[] = [
    (count) => model.idleBySocket(count),
    (count) => model.idleByPoll(count),
    (count) => model.messagesBySocket(count, 1),
    (count) => model.messagesBySocket(count, 64),
    (count) => model.messagesByPoll(count),
  ];

  it("nothing used costs the base, and nothing of the free plan", () => {
    for (const usageOf of usages) {
      expect(usageOf(0)).toEqual(NOTHING);
      expect(paidMonth(usageOf(0), PRICES)).toMatchObject({ worth: 0, bill: PRICES.paid.base });
      expect(freeDay(usageOf(0), PRICES).share).toBe(0);
    }
  });

  it("more of it never costs less", () => {
    fc.assert(
      fc.property(amount, amount, fc.constantFrom(...usages), (a, b, usageOf) => {
        const [less, more] = [usageOf(Math.min(a, b)), usageOf(Math.max(a, b))];
        for (const meter of METERS) expect(more[meter]).toBeGreaterThanOrEqual(less[meter]);
        expect(paidMonth(more, PRICES).bill).toBeGreaterThanOrEqual(paidMonth(less, PRICES).bill);
        expect(paidMonth(more, PRICES).worth).toBeGreaterThanOrEqual(paidMonth(less, PRICES).worth);
        expect(freeDay(more, PRICES).share).toBeGreaterThanOrEqual(freeDay(less, PRICES).share);
      }),
    );
  });

  it("one more of a meter alone never lowers a bill, and a bill is never below the base", () => {
    const usage = fc.record(
      Object.fromEntries(METERS.map((meter) => [meter, fc.double({ min: 0, max: 1e12, noNaN: true })])) as Record<
        Meter,
        fc.Arbitrary<number>
      >,
    );
    fc.assert(
      fc.property(usage, fc.constantFrom(...METERS), amount, (used, meter, added) => {
        const before = paidMonth(used, PRICES);
        expect(before.bill).toBeGreaterThanOrEqual(PRICES.paid.base);
        expect(paidMonth({ ...used, [meter]: used[meter] + added }, PRICES).bill).toBeGreaterThanOrEqual(before.bill);
      }),
    );
  });
});

describe("the inputs", () => {
  /** The last three columns of a row of COSTS.md as numbers, of a range the upper end; undefined where there is none. */
  function rowOf(text: string, row: string, more: string | undefined): (number | undefined)[] {
    const lines = text.split("\n").map((line) => line.split("|").map((cell) => cell.trim()));
    const from = more === undefined ? 0 : lines.findIndex(([, name]) => name === more) + 1;
    const cells = lines.slice(from).find(([, name]) => name === row);
    if (!cells) throw new Error(`COSTS.md has no row "${row}"`);
    return cells.slice(-4, -1).map((cell) => {
      const numbers = cell.match(/\d+(?: \d{3})*/g);
      return numbers ? Number(numbers.at(-1)!.replaceAll(" ", "")) : undefined;
    });
  }

  it("say what docs/COSTS.md says; a change there is one here too", async () => {
    const text = await readFile(join(PROJECT_DIR, "docs/COSTS.md"), "utf8");
    const { counts } = await readInputs();
    for (const { row, more, rows_read, rows_written, alarms_set } of Object.values(counts.calls)) {
      const [read, written, alarms] = rowOf(text, row, more && counts.calls[more].row);
      expect({ row, rows_read, rows_written, alarms_set }).toEqual({
        row,
        rows_read: read,
        rows_written: written,
        alarms_set: alarms,
      });
    }
  });

  it("are what docs/DEPLOY.md shows", async () => {
    const { counts, prices } = await readInputs();
    const report = formatReport(counts, prices, workloads(new Model(counts, prices), 1_000, 1_000_000));
    expect(
      await readFile(join(PROJECT_DIR, "docs/DEPLOY.md"), "utf8"),
      "paste the output of `npm run costs` anew",
    ).toContain(report);
  });
});

describe("the command", () => {
  const run = promisify(execFile);
  const costs = (...args: string[]) => run(process.execPath, [join(PROJECT_DIR, "scripts/costs.ts"), ...args]);

  it("prints Markdown, and with --json the same for a program", async () => {
    expect((await costs()).stdout).toContain("| 1 000 idle sessions, by socket");
    const { workloads: all } = JSON.parse((await costs("--json", "--sessions", "7", "--messages", "0")).stdout);
    expect(all.map((each: any) => each.amount)).toEqual([7, 7, 0, 0, 0]);
    expect(all.at(-1).paid.bill).toBe(5);
  });

  it("refuses what is no number or no option", async () => {
    for (const args of [["--sessions", "x"], ["--messages", "-1"], ["--messages", "1.5"], ["--nonsense"]]) {
      await expect(costs(...args)).rejects.toMatchObject({ code: 1 });
    }
  });
});
