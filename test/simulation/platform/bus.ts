/**
 * The bus: the worker's own `fetch` and its objects, each in a stand-in of the platform, with calls that take time and a
 * process that may end and come back.
 */

import { Life, Place, current, lifeNow } from "../life.ts";
import type { World } from "../world.ts";
import type { BusSocket } from "./bus-socket.ts";
import { ObjectHost, type ObjectClass } from "./object-host.ts";
import { SimRequest, SimResponse } from "./web.ts";
import { VARIABLES } from "./variables.ts";

/** What is loaded of the bus: behind the hooks, so not by a static import. */
export interface BusCode {
  readonly IdentityObject: ObjectClass;
  readonly DirectoryObject: ObjectClass;
  readonly default: { fetch(request: Request, env: never): Response | Promise<Response> };
}

export class Bus {
  readonly world: World;
  readonly place = new Place("bus");
  readonly env: Readonly<Record<string, unknown>>;
  life: Life;
  isUp = true;
  /** Told of each frame that an object says to a session, before it is on its way. */
  onPush: ((socket: BusSocket, data: string) => void) | undefined;
  /** Told when a frame was handled and all that was written for it is on the disk. */
  onHandled: ((socket: BusSocket, data: string) => void) | undefined;
  /** Told of what an object answers, when all that it wrote for it is on the disk. */
  onAnswer: ((method: string, value: unknown) => void) | undefined;
  readonly #code: BusCode;
  readonly #hosts = new Map<string, ObjectHost>();
  #door: Life;
  #lives = 0;
  #highestMs = 0;
  #cuts = new Set<() => void>();

  constructor(world: World, code: BusCode) {
    this.world = world;
    this.#code = code;
    this.env = {
      ...VARIABLES,
      IDENTITIES: { getByName: (name: string) => this.#stub(`id ${name}`, code.IdentityObject) },
      DIRECTORY: { getByName: (name: string) => this.#stub(`dir ${name}`, code.DirectoryObject) },
    };
    this.life = this.#born();
    this.#door = new Life("door", world, this.place, this.life);
  }

  get hosts(): readonly ObjectHost[] {
    return [...this.#hosts.values()];
  }

  host(name: string): ObjectHost | undefined {
    return this.#hosts.get(name);
  }

  now(): number {
    return Math.floor(this.world.scheduler.nowMs + this.place.offsetMs);
  }

  /** How far its clock is behind what it has shown before: so long it takes what is new for old. */
  get behindMs(): number {
    return Math.max(0, this.#highestMs - this.now());
  }

  /**
   * A request at the door. Runs in an event of the bus's.
   * @param answer given the answer, if there is one; else `cut` is called, if the bus ends before
   */
  fetch(request: SimRequest, answer: (response: SimResponse) => void, cut: () => void): void {
    this.#cuts.add(cut);
    const fetched = current.run(this.#door, () =>
      Promise.resolve(this.#code.default.fetch(request as unknown as Request, this.env as never)),
    );
    fetched.then(
      (response) => {
        if (this.#cuts.delete(cut)) answer(response as unknown as SimResponse);
      },
      (fault) => this.world.scheduler.onFault(fault, "the door"),
    );
  }

  /** Kills it: memory, sockets, calls under way, and what was not on the disk yet. */
  crash(): void {
    this.life.die("by a kill");
  }

  /** Comes back, with what is on the disks. */
  restart(): void {
    this.life = this.#born();
    this.#door = new Life("door", this.world, this.place, this.life);
    this.isUp = true;
    this.world.scheduler.note("the bus is up");
    for (const host of this.#hosts.values()) host.armAlarm();
  }

  /** All that it kept is gone. Only while it is down. */
  loseStorage(): void {
    if (this.isUp) throw new Error("it runs");
    this.world.scheduler.note("the bus lost its storage");
    this.#hosts.clear();
  }

  /** Its wall clock jumps, and alarms are set by it. */
  jump(byMs: number): void {
    this.#highestMs = Math.max(this.#highestMs, this.now());
    this.place.offsetMs += byMs;
    this.world.scheduler.note(`the clock of the bus is ${this.place.offsetMs} off`);
    for (const host of this.#hosts.values()) host.armAlarm();
  }

  #born(): Life {
    const life = new Life(`bus:${++this.#lives}`, this.world, this.place);
    life.onDeath(() => {
      this.isUp = false;
      // Code of it may still be on the stack.
      this.world.scheduler.atEndOfTurn(() => {
        for (const host of this.#hosts.values()) host.lose();
        const cuts = [...this.#cuts];
        this.#cuts.clear();
        for (const cut of cuts) cut();
        this.world.onBusDown();
      });
    });
    return life;
  }

  #hostOf(name: string, kind: ObjectClass): ObjectHost {
    const known = this.#hosts.get(name);
    if (known) return known;
    const host = new ObjectHost(this, name, kind);
    this.#hosts.set(name, host);
    return host;
  }

  /** Methods of an object, and its `fetch`, as another may call them. */
  #stub(name: string, kind: ObjectClass): object {
    const caller = lifeNow();
    const call = (method: string, ...args: unknown[]) =>
      this.#call(caller, this.#hostOf(name, kind), method, (object) =>
        (object as Record<string, (...all: unknown[]) => unknown>)[method]!(...args),
      );
    return new Proxy(
      {},
      {
        get: (_, method) => {
          if (method === "fetch") {
            return (url: string, init?: { headers?: Record<string, string> }) =>
              call("fetch", new SimRequest(url, init ?? {}));
          }
          return (...args: unknown[]) => call(String(method), ...(structuredClone(args) as unknown[]));
        },
      },
    );
  }

  #call(caller: Life, host: ObjectHost, method: string, work: (object: object) => unknown): Promise<unknown> {
    const { scheduler, dice, profile } = this.world;
    return new Promise((resolve, reject) => {
      const answer = (how: string, tell: () => void) => {
        if (caller.isDead) return;
        scheduler.after(this.world.hopMs(), `${how} ${host.name} ${method}`, tell, caller);
      };
      // As the platform says it of a call whose object went away: nobody knows whether it ran.
      const lost = () => reject(Object.assign(new Error("Network connection lost."), { retryable: true }));
      const call = { fail: () => answer("lost", lost) };
      const arrive = () => {
        host.calls.add(call);
        const settle = (how: string, tell: () => void) => {
          if (host.calls.delete(call)) answer(how, tell);
        };
        host.enter(method, work).then(
          (value) =>
            host.output(() => {
              this.onAnswer?.(method, value);
              settle("answer", () => resolve(value instanceof SimResponse ? value : structuredClone(value)));
            }),
          (fault) => host.output(() => settle("fault", () => reject(fault as Error))),
        );
      };
      caller.output(() => {
        if (dice.chance(profile.lostCall)) {
          if (dice.chance(0.5)) return call.fail(); // before it ran
          scheduler.after(
            this.world.hopMs(),
            `${host.name} ${method}, its answer lost`,
            () => {
              const worked = host.enter(method, work);
              worked.then(
                (value) => host.output(() => this.onAnswer?.(method, value)),
                () => undefined,
              );
              call.fail();
            },
            this.life,
          );
          return;
        }
        scheduler.after(this.world.hopMs(), `${host.name} ${method}`, arrive, this.life);
      });
    });
  }
}
