/**
 * One session as a host has it: the agent's process, which may end at any effect; what keeps the pipe and starts the next
 * one; and the model at the end of the pipe, which writes and reads as the tools let it.
 *
 * A message counts as read when the answer that carries it has come out of the pipe. That is what the client promises to do
 * once: an agent that dies takes its answer along, and what it carried is unread again, for the keeper of the pipe tells the
 * next agent what came out. Where the keeper died too nobody can know; then those messages stay read, the next session says
 * how many, and they are in the history. So what is lost of them must be told, and must be found there.
 */

import type { Shown } from "../../src/client/session/agent.ts";
import type { Session } from "../../src/client/session/session.ts";
import { Dead, Life, current, type Place } from "./life.ts";
import { clearTimer, setTimer } from "./globals.ts";
import { BUS_ORIGIN } from "./platform/variables.ts";
import type { Planned } from "./scheduler.ts";
import { FULL_DISK } from "./stand-ins/sqlite.ts";
import type { World } from "./world.ts";

export interface Person {
  readonly name: string;
  readonly place: Place;
  readonly key: string;
  readonly paths: { readonly key: string; readonly peers: string; readonly stateDirectory: string };
}

/** One message that was written here. */
interface Writing {
  readonly token: string;
  readonly to: string;
  readonly text: string;
  readonly call: ReturnType<World["history"]["invoke"]>;
  readonly ask: Parameters<Session["send"]>[0];
}

/** Calls of one host at a time. */
const OPEN_MAX = 4;
/** Milliseconds between an agent's end and the next one, as the supervisor has it. */
const AGAIN_MS = 100;
export const TOKEN = /^#\d+ from ([a-z]+#\w+)/;
const UNCONFIRMED = /^(\d+) messages were marked read/;

export class Seat {
  readonly name: string;
  readonly person: Person;
  readonly world: World;
  session: Session | undefined;
  life: Life | undefined;
  /** It is to be there: if not, somebody has closed it. */
  isWanted = true;
  /** Messages that nobody saw come out, as the next sessions told. */
  told = 0;
  /** Refusals of what was written, by code. */
  readonly noes: Record<string, number> = {};
  /** Faults that a session told of. */
  readonly faults: string[] = [];
  /** Taken by the client, by their tokens. */
  readonly accepted = new Map<string, { readonly to: string; readonly msgId: string }>();
  #lives = 0;
  #keeper = 0;
  #arrived: string[] = [];
  #hasKeeper = false;
  /** A call that takes mail is unanswered: the supervisor lets no other pass meanwhile. */
  #isTaking = false;
  /** Calls that are unanswered. */
  #open = 0;
  /** What is written by those of them whose answers are not in the pipe yet. */
  readonly #unanswered = new Set<Writing>();
  #next: Planned | undefined;

  constructor(world: World, name: string, person: Person) {
    this.world = world;
    this.name = name;
    this.person = person;
  }

  get route(): string {
    return `${this.person.name}#${this.name}`;
  }

  get isUp(): boolean {
    return this.session !== undefined && this.life?.isDead === false;
  }

  /** Something can be asked of it: it is there, its machine is awake, and it waits for nothing. */
  get isReady(): boolean {
    return this.#open === 0 && this.#mayAsk;
  }

  /** As a host may: several calls at once, but behind one that takes mail. */
  get #mayAsk(): boolean {
    const isAwake = this.person.place.frozenUntilMs <= this.world.scheduler.nowMs;
    return this.isUp && isAwake && !this.#isTaking && this.#open < OPEN_MAX;
  }

  /** Starts an agent: the next one of this keeper, or the first of a new one. */
  start(): void {
    if (this.#next) this.#next.isOff = true;
    this.#next = undefined;
    if (this.life?.isDead === false) return;
    const { world, person } = this;
    const life = new Life(`${this.name}:${++this.#lives}`, world, person.place);
    this.life = life;
    this.session = undefined;
    life.onDeath(() => this.#ended());
    this.#hasKeeper = true;
    const witness = { keeper: `${this.name}, keeper ${this.#keeper}`, arrived: this.#arrived };
    const timers = {
      now: () => life.now(),
      setTimeout: (run: () => void, delayMs: number) => setTimer(life, run, delayMs),
      clearTimeout: (timer: unknown) => clearTimer(timer as Planned | undefined),
    };
    const opened = current.run(life, () =>
      world.code.openSession({
        ...person.paths,
        bus: BUS_ORIGIN,
        session: this.name,
        name: person.name,
        timers,
        random: () => world.dice.next(),
        witness,
      }),
    );
    opened.then(
      (session) => {
        if (life.isDead) return;
        if ("refused" in session) return world.fail(`${this.name} was not opened: ${JSON.stringify(session)}`);
        this.session = session;
        current.run(life, () => {
          session.begin();
        });
      },
      (fault) => {
        if (fault instanceof Dead || life.isDead) return;
        if (isFullDisk(fault)) return life.die("of a full disk");
        world.fault(fault, `opening ${this.name}`);
      },
    );
  }

  /** @param withKeeper also what keeps the pipe: nobody knows then what came out */
  kill(withKeeper: boolean): void {
    if (withKeeper) this.#loseKeeper();
    this.life?.die(withKeeper ? "with its keeper" : "by a kill");
  }

  /** Dies before one of its next effects. */
  killAt(effects: number, withKeeper: boolean): void {
    this.dieAt((this.life?.effects ?? 0) + effects, withKeeper);
  }

  /** Dies before an effect of its life, counted from its birth. */
  dieAt(effect: number, withKeeper: boolean): void {
    const { life } = this;
    if (!life || life.isDead) return;
    life.diesAt = effect;
    if (withKeeper) life.onDeath(() => this.#loseKeeper());
  }

  /** From now on it may be off the roster, and nobody knows since when. */
  mayBeGone(): void {
    this.world.history.invoke({ op: "unregister", key: this.person.name, session: this.name }).unknown();
  }

  /** The host ends: a goodbye, for good until somebody opens it again. */
  close(): Promise<void> {
    const { session, life } = this;
    this.isWanted = false;
    this.mayBeGone();
    if (!session || !life || life.isDead) {
      this.kill(true);
      return Promise.resolve();
    }
    return this.#run((here) => here.close(400)).then(
      () => {
        this.kill(true);
      },
      (fault) => {
        if (!(fault instanceof Dead) && !isFullDisk(fault)) this.world.fault(fault, `closing ${this.name}`);
        this.kill(true);
      },
    );
  }

  reopen(): void {
    this.isWanted = true;
    this.start();
  }

  /** What its client knows of a message of its own. */
  async status(msgId: string): Promise<unknown> {
    const known = await this.#run((session) => session.messageStatus(msgId));
    return "life" in known ? known.life : known;
  }

  /** The agent ends between two calls, without a goodbye, for a newer one. */
  handOver(): void {
    if (this.#open === 0) this.kill(false);
  }

  /** Writes to a session, or to whoever of a person there is. */
  write(to: Person, session: Seat | undefined): void {
    if (!this.#mayAsk) return;
    const token = `#${this.world.nextToken()} from ${this.route}`;
    const route = session ? session.route : to.name;
    const call = this.world.history.invoke({ op: "send", from: this.route, to: route, msg_id: token, sum: token });
    this.world.scheduler.note(`${this.name} writes ${token} to ${route}`);
    const ask = { to: to === this.person ? "self" : to.name, text: token, idempotencyKey: token };
    this.#send({ token, to: route, text: token, call, ask: session ? { ...ask, session: session.name } : ask });
  }

  /** Looks for mail. What comes out of the pipe is read. */
  check(): void {
    if (!this.#mayAsk) return;
    this.#isTaking = true;
    const max = this.world.dice.chance(0.3) ? 1 : 20;
    this.#ask(
      async (session) => {
        const { messages } = await session.checkMessages({ max, maxBytes: 20_000 });
        return { messages, notices: session.notices() };
      },
      ({ messages, notices }) => {
        for (const message of messages) this.#read(message);
        this.#hear(notices);
      },
    );
  }

  look(): void {
    if (!this.#mayAsk) return;
    this.#ask(
      (session) => session.discover(),
      () => {},
    );
  }

  /** What the client itself can still show of a talk, once all is quiet. */
  async history(other: Person): Promise<string[]> {
    const seen: string[] = [];
    let before: number | undefined;
    for (;;) {
      const page = await this.#run((session) =>
        session.history({
          with: other === this.person ? "self" : other.name,
          max: 50,
          ...(before !== undefined && { before }),
        }),
      );
      if ("code" in page) return seen;
      for (const entry of page.entries) if (entry.direction === "in") seen.push(entry.body);
      if (page.before === undefined) return seen;
      ({ before } = page);
    }
  }

  /** Runs in the agent's life. */
  #run<T>(work: (session: Session) => T): T {
    return current.run(this.life!, () => work(this.session!));
  }

  #send(writing: Writing): void {
    this.#unanswered.add(writing);
    // A human is looked after by most of what is written, or the budget of replies would soon be spent.
    if (this.world.dice.chance(0.9)) this.#try(() => this.#run((session) => session.humanSeen()));
    this.#ask(
      (session) => session.send(writing.ask),
      (sent) => {
        if ("code" in sent) {
          this.noes[sent.code] = (this.noes[sent.code] ?? 0) + 1;
          writing.call.fail(sent.code);
        } else if (sent.life.state === "refused" || sent.life.state === "expired") {
          const code = sent.life.state === "refused" ? sent.life.code : "expired";
          this.noes[code] = (this.noes[code] ?? 0) + 1;
          writing.call.fail(code);
        } else {
          writing.call.ok();
          this.accepted.set(writing.token, { to: writing.to, msgId: sent.msg_id });
        }
      },
      () => this.#unanswered.delete(writing),
    );
  }

  /**
   * A call of the model's. Its answer is in the pipe as soon as it is made, and outlives the agent, but not the keeper.
   * @param made told when it is made, or when the call has failed and the model is told of a fault
   */
  #ask<T>(work: (session: Session) => Promise<T>, heard: (answer: T) => void, made: () => void = () => {}): void {
    const { life, world } = this;
    const keeper = this.#keeper;
    if (!this.isUp) return; // it has died of what came just before, and its end has settled all
    this.#open++;
    const over = () => {
      if (life !== this.life || life!.isDead) return; // its end has settled them all
      this.#open--;
      if (this.#open === 0) this.#isTaking = false;
    };
    let asked: Promise<T>;
    try {
      asked = this.#run(work);
    } catch (fault) {
      asked = Promise.reject(fault as Error);
    }
    asked.then(
      (answer) => {
        if (life!.isDead) return;
        made();
        world.scheduler.after(world.pipeMs(), `answer to ${this.name}`, () => {
          if (keeper !== this.#keeper) return;
          heard(answer);
          over();
        });
      },
      (fault) => {
        if (fault instanceof Dead || life!.isDead) return;
        if (!isFullDisk(fault)) return world.fault(fault, `a call of ${this.name}`);
        made(); // nobody knows what came of it
        over();
      },
    );
  }

  #try(work: () => void): void {
    try {
      work();
    } catch (fault) {
      if (!(fault instanceof Dead) && !isFullDisk(fault)) this.world.fault(fault, this.name);
    }
  }

  #read({ from, body, msg_id }: Shown): void {
    this.#arrived.push(msg_id);
    this.world.scheduler.note(`${this.name} reads ${body}`);
    const name = from.petname === "self" ? this.person.name : from.petname;
    const [token, writer = ""] = TOKEN.exec(body) ?? [];
    if (token === undefined) return this.world.fail(`${this.name} was shown "${body}", which nobody wrote`);
    if (!writer.startsWith(`${name}#`)) this.world.fail(`${this.name} was shown "${body}" as of ${name}`);
    this.world.history.read(this.route, { from: writer, msg_id: token, sum: body });
  }

  #hear(notices: readonly string[]): void {
    for (const notice of notices) {
      const [, count] = UNCONFIRMED.exec(notice) ?? [];
      if (count !== undefined) this.told += Number(count);
      // Of a full disk it says no more than that SQLite refused.
      const isExpected = this.world.every["full disk"] !== undefined && notice.includes("ERR_SQLITE_ERROR");
      if (notice.startsWith("a fault on this machine") && !isExpected) this.faults.push(notice);
    }
  }

  #ended(): void {
    const { world } = this;
    this.session = undefined;
    this.#open = 0;
    this.#isTaking = false;
    const unanswered = [...this.#unanswered];
    this.#unanswered.clear();
    if (this.isWanted && !world.isOver) {
      const waitMs = this.#hasKeeper ? AGAIN_MS + world.dice.spread(10, 3_000) : world.dice.spread(500, 30_000);
      this.#next = world.scheduler.after(waitMs, `start of ${this.name}`, () => this.start());
    }
    // The keeper asks again under the same key; without it the model never knows.
    const keeper = this.#keeper;
    const again = (writing: Writing, tries: number) => {
      world.scheduler.after(1_000, `again by ${this.name}`, () => {
        if (keeper !== this.#keeper || tries === 0) return;
        if (this.#mayAsk) this.#send(writing);
        else again(writing, tries - 1);
      });
    };
    if (this.#hasKeeper) for (const writing of unanswered) again(writing, 30);
  }

  #loseKeeper(): void {
    this.#keeper++;
    this.#hasKeeper = false;
    this.#arrived = [];
  }
}

function isFullDisk(fault: unknown): boolean {
  return fault instanceof Error && fault.message === FULL_DISK;
}
