/**
 * What the sessions do all along, written down in the history. Each person has two: one writes and never reads, one reads and
 * never writes. So no message is an answer to mail, and the loop guard, which counts those, counts none.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { History } from "../history/history.ts";
import type { Answer, Seat } from "./seat.ts";

const WRITE_PAUSE_MIN_MS = 60;
const WRITE_PAUSE_MAX_MS = 400;
const READ_PAUSE_MS = 120;
/** A model thinks about what it has read: meanwhile its client does not know whether the answer came out. */
const THINK_MAX_MS = 800;
/** One in so many looks for mail also looks who is there. */
const LOOKS_PER_VIEW = 8;
const FILLER_MAX = 120;
/** After these nobody knows whether it was stored. Any other refusal stored nothing. */
const UNKNOWN = new Set(["outcome_unknown", "internal", "fault"]);
const LOOK_IN_HISTORY = /conversation_history has them/;

export interface MailOptions {
  readonly history: History;
  readonly people: readonly string[];
  readonly dice: () => number;
}

/** Numbered message → where its sender's client can tell of it. */
export type Accepted = Map<string, { readonly seat: Seat; readonly msgId: string }>;

export const inboxOf = (person: string): string => `${person}#${readerOf(person)}`;
export const readerOf = (person: string): string => `${person}-in`;
export const writerOf = (person: string): string => `${person}-out`;

/** Sessions of all, until they are told to end. */
export class Mail {
  /** Nothing new is written. */
  isQuiet = false;
  isOver = false;
  readonly accepted: Accepted = new Map();
  readonly read = new Set<string>();
  /** Taken by a client, and refused by the bus in the end: its sender is told why. */
  readonly refusedAfterAll = new Map<string, string>();
  /** Refusals by code, and calls that broke. */
  readonly noes: Record<string, number> = {};
  readonly #options: MailOptions;

  constructor(options: MailOptions) {
    this.#options = options;
  }

  /** Numbered messages to whoever, one after the other. */
  async write(seat: Seat): Promise<void> {
    const { history, people, dice } = this.#options;
    const others = people.filter((person) => person !== seat.person);
    const presence = this.#presenceOf(seat);
    for (let number = 1; !this.isOver;) {
      await seat.sit();
      if (!seat.isUp || this.isQuiet) {
        await delay(READ_PAUSE_MS);
        continue;
      }
      await presence.note();
      const to = others[Math.floor(dice() * others.length)]!;
      const name = `${seat.person}>${to}/${number++}`;
      const text = `${name} ${"x".repeat(Math.floor(dice() * FILLER_MAX))}`;
      const call = history.invoke({ op: "send", from: seat.person, to: inboxOf(to), msg_id: name, sum: text });
      const answer = await this.#ask(seat, "send_message", { to, session: readerOf(to), text });
      const { state, reason, msg_id: msgId } = answer?.fields ?? {};
      if (!answer || UNKNOWN.has(answer.code ?? "")) call.unknown();
      else if (answer.code !== undefined) call.fail(answer.code);
      else if (state === "refused") call.fail(String(reason));
      else {
        call.ok();
        this.accepted.set(name, { seat, msgId });
      }
      await delay(WRITE_PAUSE_MIN_MS + dice() * (WRITE_PAUSE_MAX_MS - WRITE_PAUSE_MIN_MS));
    }
  }

  /** Reads whatever comes. What an answer had that never came out, it takes from where the notice says. */
  async readOn(seat: Seat): Promise<void> {
    const { people, dice } = this.#options;
    const others = people.filter((person) => person !== seat.person);
    const presence = this.#presenceOf(seat);
    let owesLook = false;
    while (!this.isOver) {
      if (await seat.sit()) owesLook = true;
      if (!seat.isUp) continue;
      await presence.note();
      if (owesLook) {
        owesLook = !(await this.#lookBack(seat, others));
        continue;
      }
      const answer = await this.#ask(seat, "check_messages");
      if (!answer) continue;
      if (answer.code === undefined) {
        const given = linesOf(answer).map(bodyOf);
        if (answer.notices.some((notice) => LOOK_IN_HISTORY.test(notice))) {
          owesLook = !(await this.#lookBack(seat, others, given));
        }
        for (const body of given) this.#note(seat, body);
        if (given.length > 0) await delay(dice() * THINK_MAX_MS);
      }
      if (answer.code !== undefined || answer.fields["left"] === 0) await delay(READ_PAUSE_MS);
      if (dice() < 1 / LOOKS_PER_VIEW) await this.#view(seat, people[Math.floor(dice() * people.length)]!);
    }
  }

  /** True once nothing is under way any more. */
  async isAtRest(seats: readonly Seat[]): Promise<boolean> {
    for (const [name, { seat, msgId }] of this.#missing()) {
      const { state, reason } = (await this.#ask(seat, "message_status", { msg_id: msgId }))?.fields ?? {};
      if (state === "refused") this.refusedAfterAll.set(name, String(reason));
    }
    if (this.#missing().length > 0) return false;
    const standing = await Promise.all(seats.map((seat) => this.#ask(seat, "whoami")));
    return standing.every((me) => me?.fields["pending"] === 0 && me.fields["unread"] === 0);
  }

  /** What the senders' clients say of what was not read. */
  async explain(max: number): Promise<string[]> {
    const told = this.#missing()
      .slice(0, max)
      .map(async ([name, { seat, msgId }]) => {
        const answer = await this.#ask(seat, "message_status", { msg_id: msgId });
        return `${name} (${msgId}): its sender says ${answer?.fields["feedback"] ?? answer?.code ?? "nothing"}`;
      });
    return Promise.all(told);
  }

  #missing() {
    return [...this.accepted].filter(([name]) => !this.read.has(name) && !this.refusedAfterAll.has(name));
  }

  /** Everything that was read and is not known to have come out. @returns false if it could not be seen */
  async #lookBack(seat: Seat, others: readonly string[], given: readonly string[] = []): Promise<boolean> {
    for (const person of others) {
      const found: string[] = [];
      for (let before: number | undefined; ;) {
        const page = await this.#ask(seat, "conversation_history", { with: person, max: 50, before });
        if (!page || page.code !== undefined) return false;
        const bodies = linesOf(page).map(bodyOf);
        const fresh = bodies.filter((body) => !given.includes(body) && !this.read.has(nameOf(body)));
        found.unshift(...fresh);
        before = page.fields["before"];
        // Older than what is known is known.
        if (before === undefined || fresh.length === 0) break;
      }
      for (const body of found) this.#note(seat, body);
    }
    return true;
  }

  #note(seat: Seat, body: string): void {
    const name = nameOf(body);
    const [from = ""] = name.split(">");
    this.#options.history.read(inboxOf(seat.person), { from, msg_id: name, sum: body });
    this.read.add(name);
  }

  async #view(seat: Seat, key: string): Promise<void> {
    const call = this.#options.history.invoke({ op: "view", key });
    const answer = await this.#ask(seat, "discover", { peer: key === seat.person ? "self" : key });
    const isTrue = answer !== undefined && answer.code === undefined && answer.fields["stale_because"] === undefined;
    if (!isTrue) return call.unknown();
    const sessions = (answer.fields["sessions"] as string[]).map(
      (line) => (JSON.parse(line) as { session: string }).session,
    );
    call.ok({ sessions });
  }

  /** Says in the history when the bus has a session, and when it may have heard its goodbye. */
  #presenceOf(seat: Seat) {
    const { history } = this.#options;
    const session = { key: seat.person, session: seat.id };
    let isSaid = false;
    seat.onMayHaveLeft = () => {
      history.invoke({ op: "unregister", ...session }).unknown();
      isSaid = false;
    };
    return {
      note: async () => {
        if (isSaid) return;
        const call = history.invoke({ op: "announce", ...session });
        const me = await this.#ask(seat, "whoami");
        if (me?.fields["presence"] !== "live") return call.unknown();
        call.ok();
        isSaid = true;
      },
    };
  }

  /** The answer; undefined if nobody knows what became of the call. */
  async #ask(seat: Seat, tool: string, args: Record<string, unknown> = {}): Promise<Answer | undefined> {
    try {
      const answer = await seat.call(tool, args);
      if (answer.code !== undefined) this.#count(answer.code);
      return answer;
    } catch {
      this.#count("call broke");
      return undefined;
    }
  }

  #count(code: string): void {
    this.noes[code] = (this.noes[code] ?? 0) + 1;
  }
}

function linesOf({ fields }: Answer): Record<string, unknown>[] {
  const lines = (fields["messages"] as string[]).map((line) => JSON.parse(line) as Record<string, unknown>);
  return lines.filter(({ direction = "in" }) => direction === "in");
}

function bodyOf({ body }: Record<string, unknown>): string {
  return String(body);
}

function nameOf(body: string): string {
  return body.split(" ", 1)[0]!;
}
