/** What is put in trouble: a bus with its state on disk, people with a network, a clock and two sessions each; and how each kind of trouble is made and ended. */

import { execFile } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { PROJECT_DIR, startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { startBlackHoleProxy, type BlackHoleProxy } from "../support/black-hole-proxy.ts";
import { moveClock } from "../support/moved-clock.ts";
import { readerOf, writerOf } from "./mail.ts";
import type { Disturbance } from "./plan.ts";
import { fillDisk, IGNORING_QUOTA } from "./quota.ts";
import { isRunning, NODE_ARGS, Seat, stopped } from "./seat.ts";

const run = promisify(execFile);
const BIN = join(PROJECT_DIR, "src/client/cli/bin.ts");
/** Shortened, so that a silence of minutes is one of seconds. */
const LIMITS = { HEARTBEAT_MS: "2000", LIVE_MS: "6000" };
const BUS_TRIES = 5;
const WATCH_MS = 200;

type Undo = () => void | Promise<void>;

interface Person {
  readonly name: string;
  readonly proxy: BlackHoleProxy;
  readonly clock: string;
  readonly env: Record<string, string>;
}

export class World {
  readonly seats: readonly Seat[];
  /** What nobody did to the bus. */
  readonly oddities: string[] = [];
  readonly #people: readonly Person[];
  readonly #startBus: () => Promise<LocalBus>;
  #bus: LocalBus;
  #isBusWanted = true;
  /** Of the processes of the bus that were killed, or had a full disk: that they end is no wonder. */
  readonly #harmed = new Set<number>();
  #isOver = false;
  readonly #watch: Promise<void>;

  private constructor(dir: string, people: readonly Person[], bus: LocalBus, start: () => Promise<LocalBus>) {
    this.#people = people;
    this.#bus = bus;
    this.#startBus = start;
    this.seats = people.flatMap(({ name, env }) =>
      [writerOf(name), readerOf(name)].map((id) => new Seat({ id, person: name, env, log: join(dir, `${id}.log`) })),
    );
    this.#watch = this.#keepBus();
  }

  /** Bus and people, who are peers of each other. Nobody sits yet. */
  static async make(dir: string, bundle: string, names: readonly string[]): Promise<World> {
    let port: number | undefined;
    const proxies = await Promise.all(names.map(() => startBlackHoleProxy(() => port!)));
    const vars = { ...LIMITS, AUDIENCE: proxies.map(({ url }) => url).join(), LOG: "faults", ADMISSION: "open" };
    const options = { bundle, dir: join(dir, "bus"), vars, through: IGNORING_QUOTA };
    const bus = await startBus(options);
    port = bus.port;
    const people = names.map((name, index): Person => {
      const home = join(dir, name);
      mkdirSync(home);
      const [proxy, clock] = [proxies[index]!, join(home, "clock")];
      moveClock(clock, 0);
      const { PATH = "" } = process.env;
      const at = { INTERLINK_URL: proxy.url, INTERLINK_NAME: name, MOVED_CLOCK: clock };
      return { name, proxy, clock, env: { PATH, HOME: home, TMPDIR: home, ...LIMITS, ...at } };
    });
    const cli = (person: Person, ...args: string[]) => run(process.execPath, [...NODE_ARGS, BIN, ...args], person);
    const keys = await Promise.all(
      people.map(async (person) => /[\w-]{43}/.exec((await cli(person, "key")).stdout)![0]),
    );
    await Promise.all(
      people.map(async (person) => {
        for (const [index, { name }] of people.entries()) {
          if (name !== person.name) await cli(person, "peers", "add", name, keys[index]!, "--yes");
        }
      }),
    );
    return new World(dir, people, bus, () => startBus({ ...options, port: bus.port }));
  }

  /** Makes trouble, and ends it when its time is over. */
  async disturb(disturbance: Disturbance): Promise<void> {
    const undo = await this.#begin(disturbance);
    await delay(disturbance.forMs);
    await undo();
  }

  /** Ends whatever was begun: all that is still in trouble is well after this. */
  async heal(): Promise<void> {
    for (const seat of this.seats) seat.isWanted = true;
    for (const { proxy, clock } of this.#people) {
      proxy.delay(0);
      proxy.release();
      moveClock(clock, 0);
    }
  }

  /** Ends every process. */
  async close(): Promise<void> {
    await Promise.all(this.seats.map((seat) => seat.close()));
    this.#isOver = true;
    await this.#watch;
    await this.#bus.stop();
    await Promise.all(this.#people.map(({ proxy }) => proxy.close()));
  }

  async #begin({ kind, whom, byMs = 0, toward = "client" }: Disturbance): Promise<Undo> {
    const seat = this.seats.find(({ id }) => id === whom)!;
    const { proxy, clock } = this.#people.find(({ name }) => name === whom) ?? this.#people[0]!;
    switch (kind) {
      case "bus-kill":
        this.#isBusWanted = false;
        this.#harmed.add(this.#bus.pid);
        await this.#bus.kill();
        return () => void (this.#isBusWanted = true);
      case "bus-stop":
        return stopped([this.#bus.pid]);
      case "bus-disk":
        this.#harmed.add(this.#bus.pid);
        return fillDisk(this.#bus.pid);
      case "agent-kill":
        seat.kill("agent");
        return () => {};
      case "agent-stop":
        return seat.stop("agent");
      case "agent-disk":
        seat.isDiskFull = true;
        return seat.agent === undefined ? () => {} : fillDisk(seat.agent);
      case "supervisor-kill":
        seat.onMayHaveLeft();
        seat.kill("supervisor");
        return () => void (seat.isWanted = true);
      case "tree-kill":
        // One that is just being started hears of it as of a host that closes.
        if (seat.agent === undefined) seat.onMayHaveLeft();
        seat.kill("tree");
        return () => void (seat.isWanted = true);
      case "tree-stop":
        return seat.stop("tree");
      case "net-delay":
        proxy.delay(byMs);
        return () => proxy.delay(0);
      case "net-cut":
        proxy.cut();
        return () => {};
      case "net-half":
        proxy.halfClose(toward);
        return () => {};
      case "net-hole":
        proxy.blackHole();
        return () => proxy.release();
      case "clock-move":
        moveClock(clock, byMs);
        return () => moveClock(clock, 0);
    }
  }

  /** Starts the bus where it is wanted and not there, as whoever runs it does. */
  async #keepBus(): Promise<void> {
    for (let fails = 0; !this.#isOver; await delay(WATCH_MS)) {
      if (isRunning(this.#bus.pid) || !this.#isBusWanted) continue;
      if (!this.#harmed.has(this.#bus.pid)) {
        this.#harmed.add(this.#bus.pid);
        this.oddities.push(`the bus ended by itself: ${this.#bus.output().slice(-2_000)}`);
      }
      try {
        this.#bus = await this.#startBus();
        fails = 0;
      } catch (error) {
        if (++fails === BUS_TRIES) this.oddities.push(`the bus could not be started: ${String(error)}`);
      }
    }
  }
}
