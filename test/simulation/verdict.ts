/**
 * What must be so once all has healed: within a bound of virtual time all that was accepted is read once and nothing waits
 * anywhere; and when everybody has gone, nothing is left.
 */

import { checkHistory } from "../history/checker.ts";
import type { Disk } from "./platform/disk.ts";
import { TOKEN, type Seat } from "./seat.ts";
import type { World } from "./world.ts";

/**
 * From all heals to all is quiet. A machine may sleep for ten more minutes, and what was dated by a clock that was ahead waits
 * for its time as long (docs/GUARANTEES.md); the rest is backing off.
 */
const QUIET_MAX_MS = 30 * 60_000;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Rows of the roster that are on the object's disk. */
export function sessionsOf(world: World, key: string): string[] {
  const host = world.bus.host(`id ${key}`);
  if (!host || host.disk.isEmpty) return [];
  return host.disk
    .read("SELECT session_id FROM session ORDER BY session_id")
    .map(({ session_id }) => String(session_id));
}

/** Everybody looks for mail until nothing waits anywhere, for a while at most. */
export async function becomeQuiet(world: World): Promise<void> {
  const { scheduler, seats } = world;
  const untilMs = scheduler.nowMs + QUIET_MAX_MS;
  let quiet = 0;
  while (scheduler.nowMs < untilMs && world.findings.length === 0) {
    for (const seat of seats) seat.check();
    await scheduler.runFor(2_000);
    quiet = restless(world).length === 0 ? quiet + 1 : 0;
    if (quiet >= 3) return;
  }
  for (const what of restless(world)) world.fail(what, "not quiet");
}

/** What still waits, or is not there. */
function restless(world: World): string[] {
  const { seats, people, bus } = world;
  const found: string[] = [];
  for (const seat of seats) {
    if (!seat.isReady) found.push(`${seat.name} is ${seat.isUp ? "busy" : "not up"}`);
    const counts = seat.isUp ? seat.session!.counts() : { unread: 0, pending: 0 };
    if (counts.unread > 0) found.push(`${seat.name} has ${counts.unread} unread`);
    if (counts.pending > 0) found.push(`${seat.name} has ${counts.pending} unsent`);
    if (seat.isUp && seat.session!.standing().connection !== "connected") {
      found.push(`${seat.name} is ${JSON.stringify(seat.session!.standing())}`);
    }
  }
  for (const { name, key } of people) {
    const host = bus.host(`id ${key}`);
    const wanted = seats.filter(({ person }) => person.name === name).map((seat) => seat.name);
    const there = sessionsOf(world, key);
    if (there.join() !== wanted.toSorted().join()) found.push(`the roster of ${name} has ${there.join() || "nobody"}`);
    if (!host || host.disk.isEmpty) continue;
    const waiting = host.disk.read("SELECT count(*) AS n FROM message")[0]!["n"];
    if (waiting !== 0) found.push(`${String(waiting)} messages wait for ${name} on the bus`);
    if (!host.disk.isSynced) found.push(`the object of ${name} has not written all`);
  }
  return found;
}

/** All accepted mail was read once, or was told to be lost in an answer and is in the history. */
export async function checkEnd(world: World): Promise<number> {
  let refusedAfterAll = 0;
  const { seats, history, people } = world;
  const { violations } = checkHistory(history.events);
  for (const { rule, what } of violations) {
    const isOfNoInbox = people.some(({ name }) => what.endsWith(` ${name})`));
    if (rule === "order" && (isOfNoInbox || world.hasLostStorage)) continue;
    // What a bus forgot is sent again, and mail for no session in particular may then come to another one.
    if (rule === "read twice" && world.hasLostStorage && isToNobody(world, what)) continue;
    world.fail(what, rule);
  }
  const read = new Set(history.events.flatMap((event) => (event.t === "read" ? [event.msg_id] : [])));
  for (const seat of seats) {
    for (const fault of seat.faults) world.fail(`${seat.name}: ${fault}`, "fault");
    for (const [token, { to, msgId }] of seat.accepted) {
      if (read.has(token)) continue;
      const readers = seats.filter((each) => each.route === to || each.person.name === to);
      const holders: Seat[] = [];
      for (const reader of readers) if ((await askHistory(world, reader, seat)).includes(token)) holders.push(reader);
      const [holder] = holders;
      if (!holder) {
        const life = await settledLife(world, seat, msgId);
        if (isHonest(world, life, msgId)) refusedAfterAll++;
        else world.fail(`${token} to ${to} was never read; its sender has ${JSON.stringify(life)}`, "lost");
      } else if (holder.told === 0) world.fail(`${token} to ${to} is taken for read, and nobody was told`, "lost");
      else holder.told--;
    }
  }
  return refusedAfterAll;
}

/**
 * Its sender is told that it was refused, and rightly: the bus never had it, for it was dated by a clock that was wrong; or the
 * bus had lost its storage and did not know the recipient's contacts yet, and this client could not know of the loss, since
 * its socket had fallen silent, or not how long ago that was, since its clock had jumped.
 */
function isHonest({ hasLostStorage, every, stored }: World, life: unknown, msgId: string): boolean {
  const { state, code } = (life ?? {}) as { state?: string; code?: string };
  const isUnsure = (["silent", "dark", "jump far"] as const).some((kind) => every[kind] !== undefined);
  if (state !== "refused") return false;
  return (code === "ts_out_of_range" && !stored.has(msgId)) || (code === "not_paired" && hasLostStorage && isUnsure);
}

/** A violation of a message that was written to a person, and no session of theirs. */
function isToNobody({ seats, people }: World, what: string): boolean {
  const [token = ""] = TOKEN.exec(what) ?? [];
  const to = seats.map((seat) => seat.accepted.get(token)?.to).find((each) => each !== undefined);
  return people.some(({ name }) => name === to);
}

async function askHistory(world: World, reader: Seat, writer: Seat): Promise<readonly string[]> {
  const asked = reader.history(writer.person);
  let seen: readonly string[] | undefined;
  void asked.then((all) => (seen = all));
  for (let tries = 0; tries < 100 && !seen; tries++) await world.scheduler.runFor(50);
  return seen ?? [];
}

async function settledLife(world: World, seat: Seat, msgId: string): Promise<unknown> {
  let life: unknown;
  if (seat.isUp) void seat.status(msgId).then((known) => (life = known));
  await world.scheduler.runFor(5_000);
  return life;
}

/** Everybody goes; what is kept of them goes by its time, and at their word the rest. */
export async function leave(world: World): Promise<void> {
  const { scheduler, seats, bus, people } = world;
  // A socket that has fallen silent is found out by then, or the goodbye is said to nobody; and as long as the bus's clock is
  // behind, what is new counts as old, a goodbye too.
  await scheduler.runFor(2 * MINUTE_MS + bus.behindMs);
  for (const seat of seats) void seat.close();
  await scheduler.runFor(10_000);
  for (const { name, key } of people) {
    const there = sessionsOf(world, key);
    if (there.length > 0) world.fail(`${there.join()} of ${name} said goodbye, and is on the roster`, "presence");
  }
  // A goodbye that nobody fetches expires, and its receipt after that.
  await scheduler.runFor(32 * DAY_MS);
  for (const person of people) {
    const { name, key } = person;
    const host = bus.host(`id ${key}`);
    if (host && host.disk.alarmAtMs !== null) {
      world.fail(
        `${name}, with contacts alone, has an alarm: ${JSON.stringify(keptBy(host.disk)).slice(0, 600)}`,
        "left over",
      );
    }
    let isForgotten = false;
    const asked = world.withBus(person, (http) => http.forget());
    void asked.then((outcome) => (isForgotten = "ok" in outcome));
    await scheduler.runFor(20_000);
    if (!isForgotten) world.fail(`${name} could not be forgotten`, "left over");
  }
  await scheduler.runFor(2 * DAY_MS);
  for (const host of bus.hosts) {
    if (host.name.startsWith("dir ")) continue;
    if (!host.disk.isEmpty) world.fail(`${host.name} keeps something`, "left over");
    if (host.disk.alarmAtMs !== null) world.fail(`${host.name} has an alarm`, "left over");
  }
}

/** Rows of each table. */
function keptBy(disk: Disk): Record<string, unknown> {
  const tables = disk.read("SELECT name FROM sqlite_master WHERE type = 'table'").map(({ name }) => String(name));
  return Object.fromEntries(tables.map((table) => [table, disk.read(`SELECT * FROM ${table} LIMIT 3`)]));
}
