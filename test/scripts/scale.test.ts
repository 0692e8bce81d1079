/** The reckoning of scale: its queue against the textbook, its parts against what must hold, its document against a rerun. */

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { METERS, readInputs } from "../../scripts/costs.ts";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";
import { Agenda } from "../../scripts/scale/agenda.ts";
import { BEHAVIOUR } from "../../scripts/scale/behaviour.ts";
import { DAY_MS, simulateDay } from "../../scripts/scale/day.ts";
import { ASKED_AT_A_TIME, lookAtAll, PAGES_OF_A_LOOK, shardsFor } from "../../scripts/scale/directory.ts";
import { FULL_RETRY_S, simulateHot, type HotOptions } from "../../scripts/scale/hot.ts";
import { allOf, RECEIPTS_EVERY_MS, reckonMonth } from "../../scripts/scale/month.ts";
import { exponential, randomFrom } from "../../scripts/random.ts";
import { ASKS_FOR_ROOM_EVERY_MS, ROWS } from "../../scripts/scale/rows.ts";
import { sectionsOf, withSections } from "../../scripts/scale/report.ts";
import { DEFAULT_SHARDS, reckon, type Inputs, type Scale } from "../../scripts/scale/run.ts";
import { meanWaitOfMD1Ms, Station } from "../../scripts/scale/station.ts";
import { simulateStorm, type StormOptions } from "../../scripts/scale/storm.ts";
import { ATTEMPTS_PER_MINUTE_MAX, BACKOFF_BASE_MS } from "../../src/client/bus/backoff.ts";
import type { Key } from "../../src/protocol/address.ts";
import { DEFAULT_LIMITS, PAGE_MAX } from "../../src/protocol/constants.ts";
import { isRefusal } from "../../src/protocol/refusal.ts";
import { readSettings } from "../../src/durable/settings.ts";
import { pageOfKeys, type Page } from "../../src/worker/directory-page.ts";

const read = (path: string) => readFile(join(PROJECT_DIR, path), "utf8");
const seed = fc.integer({ min: 0, max: 1e9 });

describe("a queue", () => {
  it("waits as M/D/1 does: what is simulated is the closed formula", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0.1, max: 0.85, noNaN: true }),
        fc.integer({ min: 1, max: 5_000 }),
        seed,
        (load, perS, from) => {
          const random = randomFrom(from);
          const station = new Station({ perS, waitMaxMs: Infinity });
          for (let [nowMs, arrival] = [0, 0]; arrival < 100_000; arrival++) {
            station.take((nowMs += exponential(random, 1_000 / (load * perS))));
          }
          const expected = meanWaitOfMD1Ms(load, perS);
          expect(Math.abs(station.meanWaitMs - expected) / expected).toBeLessThan(0.15);
        },
      ),
      { numRuns: 15, seed: 1 },
    );
  });

  it("serves or refuses each arrival once, in order, and none waits longer than it may", () => {
    const gaps = fc.array(fc.double({ min: 0, max: 20, noNaN: true }), { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(
        gaps,
        fc.integer({ min: 1, max: 1_000 }),
        fc.integer({ min: 0, max: 500 }),
        (gapsMs, perS, waitMaxMs) => {
          const station = new Station({ perS, waitMaxMs });
          let [nowMs, before, served] = [0, 0, 0];
          for (const gapMs of gapsMs) {
            const doneAtMs = station.take((nowMs += gapMs));
            if (doneAtMs === undefined) continue;
            served++;
            expect(doneAtMs).toBeGreaterThanOrEqual(before + 1_000 / perS - 1e-6);
            expect(doneAtMs - nowMs).toBeLessThanOrEqual(waitMaxMs + 1_000 / perS + 1e-6);
            before = doneAtMs;
          }
          expect(station.served).toBe(served);
          expect(station.served + station.refused).toBe(gapsMs.length);
        },
      ),
    );
  });

  it("an agenda gives what was put into it, by time, and at one instant in the order of putting", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 20 })), (times) => {
        const agenda = new Agenda<number>();
        times.forEach((atMs, order) => agenda.put(atMs, order));
        const taken: number[] = [];
        for (let next = agenda.next(); next; next = agenda.next()) taken.push(next.what);
        const expected = times
          .map((atMs, order) => ({ atMs, order }))
          .sort((a, b) => a.atMs - b.atMs || a.order - b.order);
        expect(taken).toEqual(expected.map(({ order }) => order));
      }),
    );
  });
});

const STORM: StormOptions = {
  sessions: 5_000,
  shards: 8,
  shardPerS: 1_000,
  queueMaxMs: 10_000,
  networkMs: 40,
  handshakeMs: 30,
  cutOverMs: 0,
  by: "deployment",
  walkedMax: 2_000,
};

describe("a storm of reconnects", () => {
  const storm = fc.record({
    sessions: fc.integer({ min: 8, max: 100_000 }),
    shards: fc.constantFrom(0, 1, 8, 64),
    queueMaxMs: fc.constantFrom(100, 1_000, 10_000),
    cutOverMs: fc.constantFrom(0, 60_000),
    by: fc.constantFrom("deployment" as const, "sign_again" as const),
  });

  it("brings each client back once, by one dial more than what was refused, and within what the shards can do", () => {
    fc.assert(
      fc.property(storm, seed, (options, from) => {
        const { backAtMs, dials, refused, allBackMs, thinning, sessions } = simulateStorm(
          { ...STORM, ...options, walkedMax: 500 },
          randomFrom(from),
        );
        const { shards, cutOverMs, queueMaxMs } = options;
        const walked = shards === 0 ? sessions / thinning : sessions / shards / thinning;
        expect(backAtMs.length).toBe(Math.round(walked));
        // Nobody's dial times out, since no shard lets anyone wait so long.
        expect(dials).toBeCloseTo(sessions + refused, 3);
        if (shards > 0)
          expect(allBackMs + 1).toBeGreaterThanOrEqual((sessions / shards / STORM.shardPerS) * 1_000 - thinning);
        else
          expect(allBackMs).toBeLessThanOrEqual(
            cutOverMs + BACKOFF_BASE_MS + 2 * STORM.networkMs + STORM.handshakeMs + 1,
          );
        if (queueMaxMs === 10_000 && sessions / Math.max(1, shards) < 10_000) expect(refused).toBe(0);
      }),
      { numRuns: 40 },
    );
  });

  it("no client dials more often in a minute than it may, however long it is refused", () => {
    const { dials, sessions, allBackMs } = simulateStorm({ ...STORM, sessions: 1_000_000 }, randomFrom(1));
    expect(allBackMs).toBeGreaterThan(120_000);
    expect(dials / sessions).toBeLessThan((Math.ceil(allBackMs / 60_000) + 1) * ATTEMPTS_PER_MINUTE_MAX);
  });

  it("says the same whether one in ten or one in forty clients is walked", () => {
    const times = [1_000, 4_000].map(
      (walkedMax) => simulateStorm({ ...STORM, sessions: 400_000, walkedMax }, randomFrom(7)).nearlyAllBackMs,
    );
    expect(Math.abs(times[0]! - times[1]!) / times[1]!).toBeLessThan(0.03);
  });
});

const HOT: HotOptions = {
  senders: 20,
  eachPerS: 2,
  isOnline: true,
  objectPerS: 500,
  refusalCost: 0.5,
  queueMaxMs: 10_000,
  networkMs: 40,
  writesForMs: 5_000,
  forMs: 600_000,
};

describe("a recipient that many write to", () => {
  it("what was written is stored or still waits, each try is answered, and nothing is let in beyond the bounds", () => {
    const options = fc.record({
      senders: fc.integer({ min: 1, max: 50 }),
      eachPerS: fc.integer({ min: 1, max: 40 }),
      isOnline: fc.boolean(),
    });
    fc.assert(
      fc.property(options, seed, (given, from) => {
        const hot = simulateHot({ ...HOT, ...given, forMs: 60_000 }, randomFrom(from));
        const refused = Object.values(hot.refused).reduce((sum, count) => sum + count, 0);
        expect(hot.stored + hot.pending).toBe(hot.written);
        expect(hot.tries - hot.stored - refused).toBeGreaterThanOrEqual(0); // the rest is under way
        expect(hot.atOnce).toBeLessThanOrEqual(hot.stored);
        if (given.isOnline) return;
        const { INBOX_MAX_MESSAGES, SENDER_SHARE } = DEFAULT_LIMITS;
        expect(hot.stored).toBeLessThanOrEqual(Math.min(INBOX_MAX_MESSAGES, given.senders * SENDER_SHARE));
      }),
      { numRuns: 30 },
    );
  });

  it("below what an object bears nobody is refused; after more than that, all is stored in the end", () => {
    const calm = simulateHot(HOT, randomFrom(1));
    expect(calm).toMatchObject({ pending: 0, atOnce: calm.written, tries: calm.written, firstRefusedAtMs: undefined });
    const flooded = simulateHot({ ...HOT, senders: 200, eachPerS: 10 }, randomFrom(1));
    expect(flooded.pending).toBe(0);
    expect(flooded.atOnce).toBeLessThan(flooded.written);
  });
});

describe("the directory", () => {
  it("is asked for a look at all as the door asks it", async () => {
    const shards = fc.integer({ min: 1, max: 40 });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 3_000 }), shards, async (shown, count) => {
        const listed = Array.from(
          { length: count },
          (_, at) => Math.floor(((at + 1) * shown) / count) - Math.floor((at * shown) / count),
        );
        let [shardCalls, firstShardCalls, objectCalls, pages] = [0, 0, 0, 0];
        // Keys of a shard are told by their last characters here; the shard of a cursor is kept beside it.
        const env = {
          DIRECTORY: {
            getByName: (name: string) => ({
              page: async (json: string) => {
                const shard = Number(name.slice("shard-".length));
                const { after, limit } = JSON.parse(json) as { after?: string; limit: number };
                shardCalls++;
                if (shard === 0) firstShardCalls++;
                const from = after === undefined ? 0 : Number(after.split(":")[1]) + 1;
                const found = Math.max(0, Math.min(limit, listed[shard]! - from));
                return JSON.stringify({ keys: Array.from({ length: found }, (_, nth) => `${shard}:${from + nth}`) });
              },
            }),
          },
        };
        const settings = readSettings({ AUDIENCE: "https://bus.example", DIRECTORY_SHARDS: String(count) });
        let page: Page | undefined = { limit: PAGE_MAX, shard: 0 };
        while (page && pages < PAGES_OF_A_LOOK) {
          const found = await pageOfKeys({ env: env as never, settings }, page, true);
          if (isRefusal(found)) throw new Error(found.refused);
          pages++;
          objectCalls += found.keys.length;
          const { cursor } = found;
          page =
            cursor === undefined
              ? undefined
              : { limit: PAGE_MAX, shard: Number(cursor.split(":")[0]), after: cursor as Key };
        }
        expect(lookAtAll(shown, count)).toMatchObject({ pages, shardCalls, firstShardCalls, objectCalls });
      }),
      { numRuns: 60 },
    );
  });

  it("has shards enough for all to be back in time, and a number that spreads evenly", () => {
    for (const online of [0, 1, 9_000, 80_001, 1_000_000, 7_000_000]) {
      const shards = shardsFor(online, 1_000, 10_000);
      expect(online / shards).toBeLessThanOrEqual(10_000);
      expect(65_536 % shards).toBe(0);
    }
  });
});

describe("what is copied here", () => {
  const copies = [
    ["src/client/session/roster-book.ts", "PAGES_SHOWN", PAGES_OF_A_LOOK],
    ["src/client/session/sender.ts", "RECEIPTS_MAX_MS", RECEIPTS_EVERY_MS],
    ["src/worker/directory-page.ts", "ASKED_AT_A_TIME", ASKED_AT_A_TIME],
    ["src/durable/outbound.ts", "LISTING_FULL_RETRY_MS", ASKS_FOR_ROOM_EVERY_MS],
    ["src/durable/mail-desk.ts", "FULL_RETRY_S", FULL_RETRY_S],
  ] as const;

  it.each(copies)("of %s is %s there", async (path, name, value) => {
    const said = new RegExp(`const ${name} = ([\\d_ *]+);`).exec(await read(path))?.[1];
    expect(said?.split("*").reduce((product, factor) => product * Number(factor.replaceAll("_", "")), 1)).toBe(value);
  });

  it("the shards are those of a bus that is told nothing", () => {
    expect(readSettings({ AUDIENCE: "https://bus.example" }).directoryShards).toBe(DEFAULT_SHARDS);
  });

  it("the rows are those of docs/COSTS.md", async () => {
    const lines = (await read("docs/COSTS.md")).split("\n").map((line) => line.split("|").map((cell) => cell.trim()));
    const forOne = (cell: string): number => {
      const of = /^(?:(\d+) n)?(?: ?([-+]) (\d+))?/.exec(cell)!;
      if (of[1] !== undefined) return Number(of[1]) + Number(`${of[2] ?? "+"}${of[3] ?? 0}`);
      return Number(cell.match(/\d+/g)!.at(-1));
    };
    for (const { row, rows_read, rows_written, alarms_set } of Object.values(ROWS)) {
      const cells = lines.find(([, name]) => name === row)?.slice(-4, -1) ?? [];
      expect({ row, cells: cells.map(forOne) }).toEqual({ row, cells: [rows_read, rows_written, alarms_set] });
    }
  });
});

describe("a day and a month", () => {
  let inputs: Inputs;
  beforeAll(async () => {
    inputs = await readInputs();
  });

  it("a day has what people are said to do, and nobody is online who is not", () => {
    const day = simulateDay(2_000, BEHAVIOUR, randomFrom(5));
    const each = (count: number): number => count / day.identities;
    expect(each(day.counts.message)).toBeCloseTo(BEHAVIOUR.messages_a_day, 0);
    expect(each(day.counts.start)).toBeCloseTo(BEHAVIOUR.starts_a_day, 0);
    const breaks = BEHAVIOUR.starts_a_day * BEHAVIOUR.session_h * BEHAVIOUR.breaks_an_hour;
    expect(Math.abs(each(day.counts.connect) - BEHAVIOUR.starts_a_day - breaks)).toBeLessThan(0.2);
    const hours = day.online.reduce((sum, online) => sum + online, 0) / 60 / day.identities;
    expect(Math.abs(hours - BEHAVIOUR.starts_a_day * BEHAVIOUR.session_h)).toBeLessThan(0.3);
    expect(Math.min(...day.online)).toBeGreaterThanOrEqual(0);
    expect(day.online.length * 60_000).toBe(DAY_MS);
  });

  it("a month is the sum of its parts, none below nothing, and none but the looks at all grows by more than the bus", () => {
    const day = simulateDay(500, BEHAVIOUR, randomFrom(5));
    const month = (identities: number, listedMax: number) =>
      reckonMonth({ identities, shards: 8, listedMax, behaviour: BEHAVIOUR, day, dialsAfterDeployment: 1, ...inputs });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e7 }), fc.integer({ min: 1, max: 1e5 }), (identities, listedMax) => {
        const [one, two] = [month(identities, 1e9), month(2 * identities, 1e9)];
        const crowded = month(identities, listedMax);
        for (const meter of METERS) {
          const sum = Object.values(crowded).reduce((total, part) => total + part[meter], 0);
          expect(allOf(crowded)[meter]).toBeCloseTo(sum, 6);
          for (const [part, usage] of Object.entries(one)) {
            expect(usage[meter]).toBeGreaterThanOrEqual(0);
            const twice = two[part as keyof typeof two][meter];
            if (part !== "looks at the whole bus") expect(twice).toBeCloseTo(2 * usage[meter], 3);
          }
          const isCrowded = identities > 8 * listedMax;
          if (!isCrowded) expect(crowded["no room in the directory"][meter]).toBe(0);
          else if (meter === "rows_written") expect(crowded["no room in the directory"][meter]).toBeGreaterThan(0);
        }
        expect(one.storage.stored_gb).toBeCloseTo((identities * inputs.counts.stored_bytes.identity) / 1e9, 6);
      }),
      { numRuns: 30 },
    );
  });
});

describe("docs/SCALE.md", () => {
  let scale: Scale;
  let inputs: Inputs;
  beforeAll(async () => {
    inputs = await readInputs();
    scale = reckon(inputs);
  }, 60_000);

  it("shows what the simulation says now", async () => {
    const document = await read("docs/SCALE.md");
    expect(withSections(document, sectionsOf(scale, inputs.prices)), "run `npm run scale -- --write`").toBe(document);
  });

  it("a day after a deployment nobody is refused who has to sign again: the wave is as wide as the shards made it", () => {
    for (const { how, echo } of scale.storms) if (how !== "open") expect(echo.refused).toBe(0);
  });

  it("says the same of another draw, but for the last digit", () => {
    const other = reckon(inputs, 2);
    const near = (a: number, b: number): void => expect(Math.abs(a - b) / Math.max(a, b)).toBeLessThan(0.15);
    for (const [index, { month }] of scale.months.entries()) {
      for (const meter of METERS) near(allOf(month)[meter], allOf(other.months[index]!.month)[meter]);
    }
    for (const [index, { storm }] of scale.storms.entries())
      near(storm.allBackMs, other.storms[index]!.storm.allBackMs);
  }, 60_000);

  it("has a place for each section, and a section without one is a fault", () => {
    const section = { name: "of nothing", text: "" };
    expect(() => withSections("text", [section])).toThrow("no place");
  });
});

describe("the command", () => {
  const run = promisify(execFile);
  const command = (...args: string[]) => run(process.execPath, [join(PROJECT_DIR, "scripts/scale.ts"), ...args]);

  it("refuses what is no seed or no option", async () => {
    for (const args of [["--seed", "x"], ["--seed", "-1"], ["--nonsense"]]) {
      await expect(command(...args)).rejects.toMatchObject({ code: 1 });
    }
  });
});
