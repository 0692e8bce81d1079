/**
 * Hours in minutes: many sessions on one bus whose constants are short, so that what is due in days is due all the time. They
 * ping, get mail, lose their sockets and sign again; others come, say something and fall silent for good. Nothing may grow.
 */

import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { residentBytes } from "../../bench/server/process-stats.ts";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { Agent } from "../support/agent.ts";
import { isRunning } from "../chaos/seat.ts";
import { descriptorsOf } from "./descriptors.ts";
import { SESSION, SoakedSession } from "./soaked-session.ts";
import { medianOf, slopeOf, type Reading } from "./trend.ts";

export interface SoakOptions {
  readonly bundle: string;
  readonly sessions: number;
  readonly minutes: number;
  readonly say: (line: string) => void;
}

const HEARTBEAT_MS = 3_000;
const LIVE_MS = 9_000;
/** Who came and fell silent is gone after this, */
const AWAY_RETAIN_MS = 20_000;
/** its unread mail after this, and whatever is left of it soon after: all by alarms. */
const MESSAGE_RETAIN_MS = 12_000;
const VARS = {
  HEARTBEAT_MS: String(HEARTBEAT_MS),
  LIVE_MS: String(LIVE_MS),
  AWAY_RETAIN_MS: String(AWAY_RETAIN_MS),
  MESSAGE_RETAIN_MS: String(MESSAGE_RETAIN_MS),
  DEDUPE_RETAIN_MS: "60000",
  GHOST_RETAIN_MS: "15000",
  // Each session signs again once a minute.
  SOCKET_MAX_MS: "60000",
  LOG: "faults",
  ADMISSION: "open",
};

const SENDERS = 10;
const SEND_MS = 200;
const BREAK_MS = 2_000;
const GUEST_MS = 3_000;
const AGE_MS = 500;
const SAMPLE_MS = 2_000;
const AT_A_TIME = 20;
/** How late a timer, a request or an alarm may be on a machine that has other work to do. */
const SLACK_MS = 2_500;
/** So long the heap fills, as that of any server does at first. Of a run that is not well longer, memory is told and not judged. */
const WARM_UP_MS = 180_000;
const JUDGED_MIN_MS = 120_000;
/** By how much memory may have grown over the time that counts. The garbage of a heap that nobody presses is some of it. */
const GROWTH_MAX_BYTES = 24e6;
const GROWTH_MAX_PART = 0.1;
/** Sockets beside those of the sessions: of requests, and of sockets that were broken off a moment ago. */
const SOCKETS_BESIDE = SENDERS + 30;
const SETTLE_MAX_MS = 20_000;

class Soak {
  readonly findings: string[] = [];
  readonly memory: Reading[] = [];
  readonly sockets: Reading[] = [];
  sent = 0;
  guests = 0;
  expired = 0;
  ages = 0;
  readonly #bus: LocalBus;
  readonly #sessions: readonly SoakedSession[];
  readonly #senders: readonly Agent[];
  readonly #observer: Agent;
  readonly #counts = new Map<string, number>();
  #isOver = false;
  readonly #guests = new Set<Promise<void>>();

  constructor(bus: LocalBus, sessions: readonly SoakedSession[], senders: readonly Agent[], observer: Agent) {
    this.#bus = bus;
    this.#sessions = sessions;
    this.#senders = senders;
    this.#observer = observer;
  }

  async run(minutes: number, say: (line: string) => void): Promise<void> {
    const startMs = performance.now();
    const jobs = [
      this.#every(SEND_MS, () => this.#send()),
      this.#every(BREAK_MS, async () => anyOf(this.#sessions).breakOff()),
      this.#every(GUEST_MS, async () => this.#welcomeGuest()),
      this.#every(AGE_MS, () => this.#lookAtAge(anyOf(this.#sessions))),
      this.#every(SAMPLE_MS, async () => this.#sample()),
    ];
    say(HEAD);
    for (let minute = 1; minute <= Math.ceil(minutes) && isRunning(this.#bus.pid); minute++) {
      await delay(Math.max(0, startMs + Math.min(minute, minutes) * 60_000 - performance.now()));
      say(this.#row(Math.min(minute, minutes)));
    }
    if (!isRunning(this.#bus.pid)) this.#find("the bus ended by itself");
    this.#isOver = true;
    await Promise.all(jobs);
    await Promise.all(this.#guests);
    await this.#checkMail();
    const isLong = minutes * 60_000 >= WARM_UP_MS + JUDGED_MIN_MS;
    const warmUpMs = isLong ? WARM_UP_MS : (minutes * 60_000) / 3;
    this.#checkGrowth({ fromMs: startMs + warmUpMs, isLong, say });
    for (const [what, count] of this.#counts) this.findings.push(count === 1 ? what : `${what} (${count} times)`);
  }

  /** Each finding once, with how often. */
  #find(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }

  async #every(ms: number, act: () => Promise<void>): Promise<void> {
    while (!this.#isOver) {
      const dueAtMs = performance.now() + ms;
      try {
        await act();
      } catch (error) {
        this.#find(`a request failed: ${String(error)}`);
      }
      while (!this.#isOver && performance.now() < dueAtMs) await delay(Math.min(100, ms));
    }
  }

  async #send(): Promise<void> {
    const { agent } = anyOf(this.#sessions);
    const { status, body } = await anyOf(this.#senders).send(agent.route(SESSION), randomBytes(100).toString("hex"));
    if (status >= 300) this.#find(`a send was answered ${status} ${body?.error}`);
    else this.sent++;
  }

  /** Somebody announces a session, gets one message and is never heard of again. */
  #welcomeGuest(): void {
    const stay = this.#hostGuest().catch((error) => this.#find(`a guest failed: ${String(error)}`));
    this.#guests.add(stay);
    void stay.finally(() => this.#guests.delete(stay));
  }

  async #hostGuest(): Promise<void> {
    const guest = await Agent.create({ url: this.#bus.url });
    const sender = anyOf(this.#senders);
    await accepted(guest.contacts([sender.key, this.#observer.key]));
    await accepted(guest.announce(SESSION));
    guest.close();
    const saidAtMs = Date.now();
    const { to, payload } = sender.message(guest.route(SESSION), "nobody reads this");
    await accepted(sender.request("POST", "/send", { to, payload }));
    this.guests++;
    const stateOf = async () => (await accepted(sender.receipts(guest.key, [payload.msg_id]))).receipts[0].state;
    const sleep = async (untilMs: number) => {
      while (!this.#isOver && Date.now() < untilMs) await delay(100);
      return !this.#isOver;
    };

    if (!(await sleep(saidAtMs + MESSAGE_RETAIN_MS - SLACK_MS))) return;
    if ((await stateOf()) !== "stored") this.#find("a message was gone before its time");
    await this.#checkSilent(guest, saidAtMs);
    if (!(await sleep(saidAtMs + MESSAGE_RETAIN_MS + SLACK_MS))) return;
    const late = await stateOf();
    if (late !== "expired") this.#find(`a message that was due to expire ${SLACK_MS} ms ago is ${late}`);
    else this.expired++;
    await this.#checkSilent(guest, saidAtMs);
    if (!(await sleep(saidAtMs + AWAY_RETAIN_MS + SLACK_MS))) return;
    const { roster } = await accepted(this.#observer.roster(guest.key));
    if (roster.length > 0) this.#find(`a session that was silent for ${AWAY_RETAIN_MS} ms is there`);
  }

  /** The age of one that says nothing is known to us as well. */
  async #checkSilent(guest: Agent, saidAtMs: number): Promise<void> {
    const askedAtMs = Date.now();
    const { roster } = await accepted(this.#observer.roster(guest.key));
    const answeredAtMs = Date.now();
    this.ages++;
    const age = roster[0]?.age_ms;
    if (age === undefined) return this.#find("a session is gone before its time");
    if (age < askedAtMs - saidAtMs - SLACK_MS || age > answeredAtMs - saidAtMs + SLACK_MS) {
      this.#find(`a silent session's age is off by more than ${SLACK_MS} ms`);
    }
  }

  async #lookAtAge(session: SoakedSession): Promise<void> {
    if (!session.isConnected) return;
    const [beat, askedAtMs, wasQuiet] = [session.lastBeat.atMs, Date.now(), session.isQuietSinceBeat];
    const { roster } = await accepted(this.#observer.roster(session.agent.key));
    const isSame = session.lastBeat.atMs === beat && session.isConnected;
    if (!isSame) return;
    this.ages++;
    const age = roster[0]?.age_ms;
    if (age === undefined) return this.#find("a connected session is not there");
    if (age > Date.now() - beat + SLACK_MS) this.#find("a connected session reads older than its last ping");
    if (wasQuiet && session.isQuietSinceBeat && age < askedAtMs - beat - SLACK_MS) {
      this.#find("a connected session reads younger than its last ping");
    }
  }

  #sample(): void {
    const atMs = performance.now();
    this.memory.push({ atMs, value: residentBytes([this.#bus.pid]) });
    const { sockets } = descriptorsOf(this.#bus.pid);
    this.sockets.push({ atMs, value: sockets });
  }

  #row(minute: number): string {
    const { all, sockets } = descriptorsOf(this.#bus.pid);
    const sum = (of: (session: SoakedSession) => number) => this.#sessions.reduce((total, each) => total + of(each), 0);
    const cells = [
      String(minute),
      (residentBytes([this.#bus.pid]) / 1e6).toFixed(1),
      all,
      sockets,
      this.#sessions.filter(({ isConnected }) => isConnected).length,
      sum(({ reconnects }) => reconnects),
      this.sent,
      sum(({ application }) => application.messages.length),
      this.guests,
      this.expired,
      this.ages,
      this.#counts.size,
    ];
    return rowOf(cells);
  }

  /** Whatever was stored for one that stays has come, once. */
  async #checkMail(): Promise<void> {
    const got = () => this.#sessions.reduce((total, { application }) => total + application.messages.length, 0);
    const deadline = performance.now() + SETTLE_MAX_MS;
    while (got() < this.sent && performance.now() < deadline) await delay(50);
    if (got() !== this.sent) this.#find(`${this.sent} were stored for sessions that stay, and ${got()} came`);
    const failures = this.#sessions.reduce((total, each) => total + each.failures, 0);
    if (failures > 0) this.#find(`${failures} handshakes failed`);
    const unmarked = this.#sessions.reduce((total, { application }) => total + application.unmarked.length, 0);
    if (unmarked > 0) this.#find(`${unmarked} came again and were not marked so`);
  }

  #checkGrowth({ fromMs, isLong, say }: { fromMs: number; isLong: boolean; say: (line: string) => void }): void {
    const counted = (readings: readonly Reading[]) => readings.filter(({ atMs }) => atMs >= fromMs);
    const [memory, sockets] = [counted(this.memory), counted(this.sockets)];
    if (memory.length < 2) return this.#find("too short to tell whether anything grows");
    const spanMs = memory.at(-1)!.atMs - memory[0]!.atMs;
    const [grown, usual] = [slopeOf(memory) * spanMs, medianOf(memory.map(({ value }) => value))];
    const most = Math.max(GROWTH_MAX_BYTES, usual * GROWTH_MAX_PART);
    say(
      `memory: ${(usual / 1e6).toFixed(1)} MB, by its slope ${(grown / 1e6).toFixed(1)} MB more in ${(spanMs / 60_000).toFixed(1)} min ` +
        (isLong ? `(at most ${(most / 1e6).toFixed(0)} MB)` : "(too short a run to judge it)"),
    );
    if (isLong && grown > most) this.#find(`memory grew by ${(grown / 1e6).toFixed(1)} MB`);
    const open = medianOf(sockets.map(({ value }) => value));
    const opened = slopeOf(sockets) * spanMs;
    say(`sockets: ${open}, by their slope ${opened.toFixed(1)} more`);
    const bound = this.#sessions.length + SOCKETS_BESIDE;
    if (open > bound) this.#find(`${open} sockets are open, and ${bound} would do`);
    if (opened > SOCKETS_BESIDE / 2) this.#find(`${opened.toFixed(0)} sockets more than at first`);
  }
}

/** @returns what was found; empty: nothing */
export async function runSoak({ bundle, sessions: count, minutes, say }: SoakOptions): Promise<readonly string[]> {
  const bus = await startBus({ bundle, vars: VARS });
  const make = () => Agent.create({ url: bus.url });
  const [senders, observer] = [await inGroups(Array.from({ length: SENDERS }), make), await make()];
  const sessions: SoakedSession[] = [];
  try {
    const trusted = [...senders, observer].map(({ key }) => key);
    sessions.push(
      ...(await inGroups(
        Array.from({ length: count }, (_, index) => index),
        async (index) => {
          const agent = await make();
          await accepted(agent.contacts(trusted));
          await accepted(agent.announce(SESSION));
          agent.close(); // from now on it has its socket alone
          const session = new SoakedSession(agent);
          await session.begin(HEARTBEAT_MS, (index / count) * HEARTBEAT_MS);
          return session;
        },
      )),
    );
    const soak = new Soak(bus, sessions, senders, observer);
    await soak.run(minutes, say);
    // Told once of any bus on loopback.
    const told = bus
      .output()
      .replace(/^.*"no_brake".*\n?/gm, "")
      .trim();
    if (told !== "") soak.findings.push(`the bus logged a fault: ${told.slice(-1_000)}`);
    return soak.findings;
  } finally {
    await Promise.all(sessions.map((session) => session.end().catch(() => {})));
    for (const agent of [...senders, observer]) agent.close();
    await bus.stop();
  }
}

const COLUMNS = [
  "minute",
  "RSS MB",
  "fds",
  "sockets",
  "live",
  "redials",
  "sent",
  "came",
  "guests",
  "expired",
  "ages",
  "findings",
];
const rowOf = (cells: readonly (string | number)[]) =>
  cells.map((cell, index) => String(cell).padStart(COLUMNS[index]!.length)).join("  ");
const HEAD = rowOf(COLUMNS);

async function accepted(answer: ReturnType<Agent["announce"]>) {
  const { status, body } = await answer;
  if (status >= 300) throw new Error(`${status} ${JSON.stringify(body)}`);
  return body;
}

function anyOf<Item>(items: readonly Item[]): Item {
  return items[Math.floor(Math.random() * items.length)]!;
}

async function inGroups<From, To>(all: readonly From[], work: (one: From) => Promise<To>): Promise<To[]> {
  const done: To[] = [];
  for (let from = 0; from < all.length; from += AT_A_TIME) {
    done.push(...(await Promise.all(all.slice(from, from + AT_A_TIME).map(work))));
  }
  return done;
}
