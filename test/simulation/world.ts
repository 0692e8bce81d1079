/** One run: the bus, the people and their sessions on one scheduler, what is done to them, and what was seen. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { History } from "../history/history.ts";
import type { Code } from "./code.ts";
import { Dice } from "./dice.ts";
import { Dead, Life, Place, current } from "./life.ts";
import { Network, type Wire } from "./network.ts";
import { Bus } from "./platform/bus.ts";
import type { BusSocket } from "./platform/bus-socket.ts";
import { CALM, healed, type Profile } from "./profile.ts";
import { EPOCH_MS, Scheduler } from "./scheduler.ts";
import { Seat, TOKEN, type Person } from "./seat.ts";

export interface Finding {
  readonly rule: string;
  readonly what: string;
}

/** The bus's words of its own faults that a lost call brings about, and nothing else. */
const LOST_CALL = /Network connection lost/;

export class World {
  readonly dice: Dice;
  readonly scheduler = new Scheduler();
  readonly history = new History(() => Math.floor(this.scheduler.nowMs - EPOCH_MS));
  readonly findings: Finding[] = [];
  readonly network: Network;
  readonly bus: Bus;
  readonly code: Code;
  readonly people: Person[] = [];
  readonly seats: Seat[] = [];
  profile: Profile = CALM;
  /** Messages that the bus has had on its disk. */
  readonly stored = new Set<string>();
  /** Sessions that were on a roster. */
  readonly seen = new Set<string>();
  /** The bus has lost its storage: the order in which it stored is not the order in which it is told again. */
  hasLostStorage = false;
  /** The troubles of this run, also when they are over. */
  every: Profile["every"] = {};
  /** Nothing that ends is started again. */
  isOver = false;
  /** How long a bus that was killed stays away. */
  busAwayMs = (): number => this.dice.spread(50, 60_000);
  #tokens = 0;
  readonly #folder: string;
  /** What each route has acked, as far as the bus has it on its disk. */
  readonly #acked = new Map<string, Set<string>>();
  readonly #pushed = new WeakMap<BusSocket, { readonly seq: number; readonly msgId: string }[]>();

  /** @param folder an empty one, for the clients' files */
  constructor(seed: number, code: Code, folder: string) {
    this.dice = new Dice(seed);
    this.code = code;
    this.#folder = folder;
    this.scheduler.onFault = (fault, where) => this.fault(fault, where);
    this.network = new Network(this);
    this.bus = new Bus(this, code.bus);
    this.bus.onPush = (socket, data) => this.#pushedOn(socket, data);
    this.bus.onAnswer = (method, value) => this.#answered(method, value);
    this.bus.onHandled = (socket, data) => this.#handledOn(socket, data);
  }

  diskMs(): number {
    return this.dice.spread(0.2, this.profile.diskMs);
  }

  /** Between the bus's own parts. */
  hopMs(): number {
    return this.dice.spread(0.05, 5);
  }

  pipeMs(): number {
    return this.dice.spread(0.1, 20);
  }

  nextToken(): number {
    return ++this.#tokens;
  }

  /** People who know each other, each on a machine of their own, and their sessions. */
  settle(names: Readonly<Record<string, readonly string[]>>): void {
    for (const name of Object.keys(names)) {
      const place = new Place(name);
      const folder = join(this.#folder, name);
      mkdirSync(join(folder, "trust"), { recursive: true, mode: 0o700 });
      const paths = {
        key: join(folder, "trust", "id.key"),
        peers: join(folder, "trust", "peers.json"),
        stateDirectory: join(folder, "state"),
      };
      writeFileSync(paths.key, `${Buffer.from(this.dice.bytes(32)).toString("base64url")}\n`, { mode: 0o600 });
      const identity = this.code.loadIdentity(paths.key);
      if (!identity || "refused" in identity) throw new Error("the key that was just written cannot be read");
      this.people.push({ name, place, key: identity.key, paths });
    }
    for (const person of this.people) {
      const others = this.people.filter((other) => other !== person);
      const peers = Object.fromEntries(others.map(({ name, key }) => [name, { key }]));
      writeFileSync(person.paths.peers, `${JSON.stringify(peers, null, 2)}\n`, { mode: 0o600 });
      for (const session of names[person.name]!) this.seats.push(new Seat(this, session, person));
    }
  }

  seat(name: string): Seat {
    const found = this.seats.find((seat) => seat.name === name);
    if (!found) throw new Error(`no session is called ${name}`);
    return found;
  }

  fail(what: string, rule = "world"): void {
    this.scheduler.note(`FOUND ${rule}: ${what}`);
    this.findings.push({ rule, what });
  }

  fault(fault: unknown, where: string): void {
    if (fault instanceof Dead) return;
    const text = fault instanceof Error ? (fault.stack ?? String(fault)) : String(fault);
    this.fail(`${where}: ${text.split("\n").slice(0, 6).join(" | ")}`, "fault");
  }

  /** A line of the bus's log. */
  onLog(line: string, life: Life): void {
    if (!/fault/.test(line)) return;
    if (LOST_CALL.test(line)) return this.scheduler.note("a lost call, logged", life);
    this.fail(line.slice(0, 600), "fault");
  }

  onBusDown(): void {
    if (this.isOver) return;
    this.scheduler.after(this.busAwayMs(), "start of the bus", () => {
      if (!this.bus.isUp) this.bus.restart();
    });
  }

  /** A frame of the bus's, on its way to a client. */
  onFrame({ life }: Wire, data: string): void {
    const frame = JSON.parse(data.startsWith("{") ? data : "{}") as { t?: string; items?: readonly PushedItem[] };
    if (frame.t !== "messages") return;
    const seat = this.seats.find((each) => each.life === life);
    if (!seat) return;
    const items = frame.items!.flatMap(({ envelope: { payload } }) => {
      const [token, from] = TOKEN.exec(payload.text) ?? [];
      return token === undefined || from === undefined ? [] : [{ from, msg_id: token, sum: payload.text }];
    });
    if (items.length === 0) return;
    this.scheduler.note(`the bus hands ${items.map(({ msg_id }) => msg_id).join(", ")} to ${seat.name}`);
    this.history.pushed(seat.route, items);
  }

  /** All that the bus kept is gone: what was acked may come again, and is known to who has it. */
  loseStorage(): void {
    this.bus.loseStorage();
    this.hasLostStorage = true;
    this.#acked.clear();
    for (const seat of this.seats) seat.mayBeGone();
  }

  /** Ends all trouble: the network is whole, bus and sessions are started, the clocks are left or agree. */
  heal(): void {
    const { clocksAgree } = this.profile;
    this.profile = healed(this.profile);
    this.scheduler.note("all heals");
    this.network.lighten();
    this.bus.life.diesAt = Infinity;
    for (const host of this.bus.hosts) host.diesIn(Infinity);
    if (!this.bus.isUp) this.bus.restart();
    // A machine that sleeps goes on doing so, until it wakes.
    for (const { place } of this.people) {
      place.fullUntilMs = 0;
      if (clocksAgree) place.offsetMs = this.bus.place.offsetMs;
    }
    for (const seat of this.seats) {
      if (seat.life) seat.life.diesAt = Infinity;
      seat.reopen();
    }
  }

  /** A client that is nobody's, for what an operator would do. */
  async withBus<T>(person: Person, work: (http: InstanceType<Code["BusHttp"]>) => Promise<T>): Promise<T> {
    const life = new Life(`operator of ${person.name}`, this, new Place("operator"));
    return current.run(life, async () => {
      const signer = this.code.loadIdentity(person.paths.key);
      const url = this.code.parseBusUrl("http://127.0.0.1:9440");
      if (!signer || "refused" in signer || "refusal" in url) throw new Error("no identity, or no bus");
      const timers = {
        now: () => life.now(),
        setTimeout: (run: () => void, delayMs: number) => this.scheduler.after(delayMs, "timer", run, life),
        clearTimeout: (timer: unknown) => {
          if (timer) (timer as { isOff: boolean }).isOff = true;
        },
      };
      const http = new this.code.BusHttp({ url, signer, clock: new this.code.BusClock(timers.now), timers });
      return work(http);
    });
  }

  #answered(method: string, value: unknown): void {
    if (method !== "enqueue") return;
    const { results = [] } = JSON.parse(value as string) as { results?: { state?: string; msg_id?: string }[] };
    for (const { state, msg_id } of results) if (state === "stored" && msg_id !== undefined) this.stored.add(msg_id);
  }

  #pushedOn(socket: BusSocket, data: string): void {
    const frame = JSON.parse(data) as { t?: string; items?: readonly PushedItem[] };
    if (frame.t !== "messages") return;
    const route = routeOf(socket);
    const pushed = this.#pushed.get(socket) ?? [];
    for (const { seq, envelope } of frame.items!) {
      const { msg_id: msgId } = envelope.payload;
      pushed.push({ seq, msgId });
      if (this.#acked.get(route)?.has(msgId) === true) this.fail(`${msgId} to ${route}`, "redelivered");
    }
    this.#pushed.set(socket, pushed);
  }

  #handledOn(socket: BusSocket, data: string): void {
    const frame = JSON.parse(data) as { t?: string; through?: number };
    if (frame.t !== "ack") return;
    const route = routeOf(socket);
    const acked = this.#acked.get(route) ?? new Set();
    for (const { seq, msgId } of this.#pushed.get(socket) ?? []) if (seq <= frame.through!) acked.add(msgId);
    this.#acked.set(route, acked);
  }
}

interface PushedItem {
  readonly seq: number;
  readonly envelope: { readonly payload: { readonly from: string; readonly msg_id: string; readonly text: string } };
}

function routeOf(socket: BusSocket): string {
  const { key, session } = socket.deserializeAttachment() as { key: string; session: string };
  return `${key}#${session}`;
}
