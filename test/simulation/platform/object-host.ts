/**
 * One Durable Object as the platform keeps it: its disk, its alarm and its sockets outlive the instance, which comes at the
 * first event and goes after ten idle seconds, or in a crash.
 *
 * Assumed of the platform (its documents; measured on workerd unless it says documents alone):
 *
 * - Events are handed in one after the other, and an event that awaits lets the next one in. To await storage that is not
 *   SQL (`getAlarm`, `setAlarm`, `deleteAll`) lets none in: here such a call is done at once, and awaiting it is a microtask.
 *   To await `sync()` or another object lets others in.
 * - What an object says (answers, frames, calls of others) waits until all that it wrote before is on the disk.
 * - An alarm rings at least once, maybe late, and again where its handler did not come to its end. Within the handler it
 *   counts as not set.
 * - An instance goes after ten seconds without an event, and nothing under way; sockets that were accepted for hibernation
 *   stay, and so do their attachments and the time of the last automatic answer.
 * - A crash of the object, and one of the bus, ends all its sockets (documents, troubleshooting); the client sees 1006.
 * - `webSocketClose` comes with the socket still listed, closing; the object has to close it itself.
 */

import type { SQLInputValue } from "node:sqlite";
import { Life, current } from "../life.ts";
import type { Planned } from "../scheduler.ts";
import type { Bus } from "./bus.ts";
import { CLOSED, type BusSocket } from "./bus-socket.ts";
import { Disk } from "./disk.ts";

/** The entry points that the platform calls, and those that others call. */
export interface ObjectClass {
  new (ctx: unknown, env: unknown): object;
}

type Handlers = {
  webSocketMessage?(socket: unknown, data: string): Promise<void>;
  webSocketClose?(socket: unknown, code: number, reason: string, isClean: boolean): Promise<void>;
  alarm?(): Promise<void>;
};

interface Call {
  readonly fail: () => void;
}

const IDLE_MS = 10_000;
/** Measured: 2.4 s after a handler that failed. */
const ALARM_AGAIN_MS = 2_400;

export class ObjectHost {
  readonly name: string;
  readonly disk = new Disk();
  /** Calls under way, to be told if the instance goes. */
  readonly calls = new Set<Call>();
  readonly #bus: Bus;
  readonly #kind: ObjectClass;
  #instance: { readonly life: Life; readonly object: object } | undefined;
  #sockets: BusSocket[] = [];
  #autoAnswer: { readonly request: string; readonly response: string } | undefined;
  #busy = 0;
  #lastAtMs = 0;
  #outputs: { readonly behind: number; readonly run: () => void }[] = [];
  #syncs: { readonly behind: number; readonly resolve: () => void }[] = [];
  #isSyncing = false;
  #alarm: Planned | undefined;
  #isRinging = false;
  #instances = 0;

  constructor(bus: Bus, name: string, kind: ObjectClass) {
    this.#bus = bus;
    this.name = name;
    this.#kind = kind;
    this.disk.onWrite = () => this.#sync();
  }

  get isAwake(): boolean {
    return this.#instance !== undefined && !this.#instance.life.isDead;
  }

  /** Nothing is under way that it would have to remember. */
  get isIdle(): boolean {
    return this.#busy === 0 && this.#outputs.length === 0 && this.disk.isSynced && !this.#isRinging;
  }

  get sockets(): readonly BusSocket[] {
    return this.#sockets;
  }

  /** Hands it an event. What it answers is held until what it wrote is on the disk. */
  enter<T>(what: string, work: (object: object) => T | Promise<T>): Promise<T> {
    const { life, object } = this.#wake();
    life.effect(what);
    this.#busy++;
    this.#lastAtMs = this.#bus.world.scheduler.nowMs;
    return current.run(life, () => {
      const worked = (async () => work(object))();
      // What dies in the middle of it neither answers nor fails.
      return new Promise<T>((resolve, reject) => {
        const settle = (tell: () => void) => {
          if (life.isDead) return;
          this.#busy--;
          this.#lastAtMs = this.#bus.world.scheduler.nowMs;
          tell();
        };
        worked.then(
          (value) => settle(() => resolve(value)),
          (fault) => settle(() => reject(fault as Error)),
        );
      });
    });
  }

  /** Runs when all that was written so far is on the disk, and never if it does not come so far. */
  output(run: () => void): void {
    if (this.#outputs.length === 0 && this.disk.isSynced) run();
    else this.#outputs.push({ behind: this.disk.written, run });
  }

  /** Dies before one of the next effects of the instance that is there. */
  diesIn(effects: number): void {
    if (!this.isAwake) return;
    const { life } = this.#instance!;
    life.diesAt = life.effects + effects;
  }

  /** Its memory goes; nothing else does. */
  evict(): void {
    if (!this.isAwake || !this.isIdle) return;
    const { life } = this.#instance!;
    this.#instance = undefined; // so that its end is no crash
    life.die("of idleness");
  }

  /** Its memory, its sockets and what is not on the disk yet go. */
  crash(): void {
    const { life } = this.#instance ?? {};
    if (life && !life.isDead) life.die("in a crash");
    else this.#bus.world.scheduler.atEndOfTurn(() => this.lose()); // its sockets end all the same
  }

  /** Behind a crash of this object or of the bus, when no code of it runs any more. */
  lose(): void {
    this.#instance = undefined;
    this.#busy = 0;
    this.#outputs = [];
    this.#syncs = [];
    this.#isSyncing = false;
    this.disk.crash();
    for (const socket of this.#sockets.splice(0)) {
      socket.sink = { text: () => {}, closed: () => {} };
      socket.readyState = CLOSED;
      socket.peer.hearClose(1006, "", false);
    }
    for (const call of this.calls) call.fail();
    this.calls.clear();
    this.armAlarm();
  }

  /** By what is on the disk, or was not done. */
  armAlarm(): void {
    const { scheduler, dice, profile } = this.#bus.world;
    if (this.#alarm) this.#alarm.isOff = true;
    this.#alarm = undefined;
    const { alarmAtMs } = this.disk;
    if (!this.#bus.isUp || (alarmAtMs === null && !this.#isRinging)) return;
    const waitMs = this.#isRinging ? ALARM_AGAIN_MS : Math.max(0, alarmAtMs! - this.#bus.now());
    this.#isRinging = false;
    const lateMs = dice.chance(profile.lateAlarm) ? dice.spread(100, 60_000) : dice.between(0, 20);
    this.#alarm = scheduler.after(waitMs + lateMs, `alarm ${this.name}`, () => this.#ring(), this.#bus.life);
  }

  #ring(): void {
    const { dice, profile, scheduler } = this.#bus.world;
    this.#alarm = undefined;
    if (this.disk.alarmAtMs !== null) this.disk.setAlarm(null);
    this.#isRinging = true;
    const { life } = this.#bus;
    const rung = this.enter("alarm", (object) => (object as Handlers).alarm?.());
    const over = (isDone: boolean) => {
      if (life.isDead || !this.isAwake) return;
      this.#isRinging = !isDone;
      if (!isDone || this.disk.isSynced) this.armAlarm();
      if (isDone && dice.chance(profile.doubleAlarm)) {
        scheduler.after(
          dice.between(1, 500),
          `alarm again ${this.name}`,
          () => void this.enter("alarm", (object) => (object as Handlers).alarm?.()),
          life,
        );
      }
    };
    rung.then(
      () => over(true),
      () => over(false),
    );
  }

  #wake(): { readonly life: Life; readonly object: object } {
    const { world, env } = this.#bus;
    if (this.#instance && !this.#instance.life.isDead) {
      const isForgotten = this.isIdle && world.scheduler.nowMs - this.#lastAtMs >= IDLE_MS;
      if (!isForgotten) return this.#instance;
      this.evict();
    }
    const life = new Life(`${this.name}:${++this.#instances}`, world, this.#bus.place, this.#bus.life);
    life.output = (run) => this.output(run);
    // Its code may still be on the stack. The end of the whole bus is the bus's to clean up.
    life.onDeath(() =>
      this.#bus.world.scheduler.atEndOfTurn(() => this.#bus.life.isDead || this.#hasLeft(life) || this.lose()),
    );
    const instance: { life: Life; object: object } = { life, object: {} };
    this.#instance = instance;
    life.effect("begins");
    instance.object = current.run(life, () => new this.#kind(this.#context(life), env));
    return instance;
  }

  /** It was let go of, and nothing of it is left to lose. */
  #hasLeft(life: Life): boolean {
    return this.#instance?.life !== life;
  }

  #sync(): void {
    if (this.#isSyncing) return;
    this.#isSyncing = true;
    const { scheduler } = this.#bus.world;
    // The commit is what this turn writes, and no more.
    scheduler.atEndOfTurn(() => {
      if (this.disk.isSynced) {
        this.#isSyncing = false; // rolled back, or lost
        return;
      }
      const { written } = this.disk;
      scheduler.after(this.#bus.world.diskMs(), `synced ${this.name}`, () => this.#synced(written), this.#bus.life);
    });
  }

  #synced(written: number): void {
    if (this.#instance?.life.isDead === true) return;
    this.disk.reach(written);
    this.#isSyncing = false;
    if (!this.disk.isSynced) this.#sync();
    if (!this.#isRinging) this.armAlarm();
    while (this.#outputs[0] && this.#outputs[0].behind <= this.disk.onDisk) this.#outputs.shift()!.run();
    for (const sync of this.#syncs.filter(({ behind }) => behind <= this.disk.onDisk)) sync.resolve();
    this.#syncs = this.#syncs.filter(({ behind }) => behind > this.disk.onDisk);
  }

  #context(life: Life): object {
    const { disk } = this;
    const { scheduler } = this.#bus.world;
    const storage = {
      sql: {
        exec: (sql: string, ...values: SQLInputValue[]) => {
          life.effect(/^\s*SELECT/i.test(sql) ? undefined : (/\w+/.exec(sql)?.[0] ?? ""));
          return disk.exec(sql, values);
        },
      },
      transactionSync: <T>(work: () => T): T => {
        life.effect();
        return disk.transaction(work);
      },
      sync: () =>
        new Promise<void>((resolve) => {
          life.effect();
          if (!disk.isSynced) this.#syncs.push({ behind: disk.written, resolve });
          else scheduler.after(0, `nothing to sync ${this.name}`, resolve, life);
        }),
      getAlarm: async () => disk.alarmAtMs,
      setAlarm: async (atMs: number) => {
        life.effect("setAlarm");
        disk.setAlarm(atMs);
      },
      deleteAlarm: async () => {
        life.effect("deleteAlarm");
        if (disk.alarmAtMs !== null) disk.setAlarm(null);
      },
      deleteAll: async () => {
        life.effect("deleteAll");
        disk.deleteAll();
      },
    };
    return {
      storage,
      id: { name: this.name.slice(this.name.indexOf(" ") + 1) },
      waitUntil: () => {},
      acceptWebSocket: (socket: BusSocket, tags: readonly string[] = []) => {
        socket.tags = tags;
        socket.output = (run) => this.output(run);
        socket.onSend = (data) => this.#bus.onPush?.(socket, data);
        this.#sockets.push(socket);
        socket.take({
          text: (data) => this.#heard(socket, data),
          closed: (code, reason, isClean) => this.#closed(socket, code, reason, isClean),
        });
      },
      getWebSockets: (tag?: string) =>
        tag === undefined ? [...this.#sockets] : this.#sockets.filter(({ tags }) => tags.includes(tag)),
      setWebSocketAutoResponse: (pair: { request: string; response: string }) => {
        this.#autoAnswer = pair;
      },
      getWebSocketAutoResponseTimestamp: ({ autoAnsweredAtMs }: BusSocket) =>
        autoAnsweredAtMs === undefined ? null : new Date(autoAnsweredAtMs),
    };
  }

  /** Runs in an event of the bus's. */
  #heard(socket: BusSocket, data: string): void {
    if (data === this.#autoAnswer?.request) {
      socket.autoAnsweredAtMs = this.#bus.now();
      socket.peer.hear(this.#autoAnswer.response);
      return;
    }
    const handled = this.enter(`frame ${data.slice(0, 14)}`, (object) =>
      (object as Handlers).webSocketMessage?.(socket, data),
    );
    void handled.then(() => this.output(() => this.#bus.onHandled?.(socket, data)));
  }

  #closed(socket: BusSocket, code: number, reason: string, isClean: boolean): void {
    const forget = () => {
      this.#sockets = this.#sockets.filter((other) => other !== socket);
    };
    const handled = this.enter(`closed ${code}`, (object) =>
      (object as Handlers).webSocketClose?.(socket, code, reason, isClean),
    );
    handled.then(forget, forget);
  }
}
