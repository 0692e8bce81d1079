/**
 * What was done and seen in a run, as JSON lines, one event a line in the order in which the recorder heard of it:
 *
 *     {"t":"invoke","call":1,"at_ms":5,"op":"send","from":"K1","to":"K2#a","msg_id":"m1","sum":"…"}
 *     {"t":"ok","call":1,"at_ms":9}
 *
 * A call begins with `invoke` and ends with `ok` (it was answered yes), `fail` (answered no: it changed nothing), or
 * `unknown` (nobody knows: the connection broke, the process died). One that never ends is as `unknown`. A retry is a call of
 * its own, under the same `msg_id`.
 *
 * | op           | of the invoke           | of the ok                                      |
 * |--------------|-------------------------|------------------------------------------------|
 * | `send`       | `from to msg_id sum?`   |                                                |
 * | `recv`       | `by`                    | `items`: what the bus handed out               |
 * | `ack`        | `by items`              |                                                |
 * | `announce`   | `key session`           |                                                |
 * | `unregister` | `key session`           |                                                |
 * | `view`       | `key`                   | `sessions`: those that are not gone            |
 *
 * Beside calls there are `pushed` (`by items`: the bus handed out unasked), `read` (`by` and an item: the application has
 * it, and is to have it once), `drained` (`inboxes`: everything that they held was read) and `note` (`text`).
 *
 * `from` and `key` are keys, `to` and `by` routes (`key` or `key#session`), `sum` whatever tells one text from another.
 */

import { z } from "zod/v4";

const item = z.strictObject({ from: z.string(), msg_id: z.string(), sum: z.string().optional() });
const base = { at_ms: z.number() };
const invoke = { ...base, t: z.literal("invoke"), call: z.number() };
const session = { key: z.string(), session: z.string() };

const eventSchema = z.union([
  z.strictObject({ ...invoke, op: z.literal("send"), to: z.string(), ...item.shape }),
  z.strictObject({ ...invoke, op: z.literal("recv"), by: z.string() }),
  z.strictObject({ ...invoke, op: z.literal("ack"), by: z.string(), items: z.array(item) }),
  z.strictObject({ ...invoke, op: z.literal("announce"), ...session }),
  z.strictObject({ ...invoke, op: z.literal("unregister"), ...session }),
  z.strictObject({ ...invoke, op: z.literal("view"), key: z.string() }),
  z.strictObject({
    ...base,
    t: z.literal("ok"),
    call: z.number(),
    items: z.array(item).optional(),
    sessions: z.array(z.string()).optional(),
  }),
  z.strictObject({ ...base, t: z.literal("fail"), call: z.number(), code: z.string().optional() }),
  z.strictObject({ ...base, t: z.literal("unknown"), call: z.number() }),
  z.strictObject({ ...base, t: z.literal("pushed"), by: z.string(), items: z.array(item) }),
  z.strictObject({ ...base, t: z.literal("read"), by: z.string(), ...item.shape }),
  z.strictObject({ ...base, t: z.literal("drained"), inboxes: z.array(z.string()) }),
  z.strictObject({ ...base, t: z.literal("note"), text: z.string() }),
]);

export type HistoryEvent = z.infer<typeof eventSchema>;
export type HistoryItem = z.infer<typeof item>;
type Without<Event, Name extends PropertyKey> = Event extends unknown ? Omit<Event, Name> : never;
export type Invocation = Without<Extract<HistoryEvent, { t: "invoke" }>, "t" | "call" | "at_ms">;

/** Reads JSON lines. @throws at a line that is no event: a checker must not pass over what it does not understand */
export function parseHistory(lines: string): HistoryEvent[] {
  return lines.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    const parsed = eventSchema.safeParse(JSON.parse(line));
    if (!parsed.success) throw new Error(`line ${index + 1} is no event: ${line}`);
    return [parsed.data];
  });
}

/** Logs of several processes as one, by their time; each keeps its own order. Their calls get numbers of their own. */
export function mergeHistories(logs: readonly (readonly HistoryEvent[])[]): HistoryEvent[] {
  const renumbered = logs.flatMap((log, number) =>
    log.map((event) => ("call" in event ? { ...event, call: event.call * logs.length + number } : event)),
  );
  return renumbered.toSorted((a, b) => a.at_ms - b.at_ms);
}

/** How a call ended; each may be said once. */
export interface Outcome {
  ok(answer?: { readonly items?: HistoryItem[]; readonly sessions?: string[] }): void;
  fail(code?: string): void;
  unknown(): void;
}

/** Keeps a history while a run goes on. */
export class History {
  readonly events: HistoryEvent[] = [];
  readonly #now: () => number;
  #calls = 0;

  constructor(now: () => number = () => performance.timeOrigin + performance.now()) {
    this.#now = now;
  }

  invoke(what: Invocation): Outcome {
    const call = ++this.#calls;
    this.events.push({ t: "invoke", call, at_ms: this.#now(), ...what } as HistoryEvent);
    let isOver = false;
    const end = (event: object) => {
      if (isOver) throw new Error(`call ${call} ended twice`);
      isOver = true;
      this.events.push({ call, at_ms: this.#now(), ...event } as HistoryEvent);
    };
    return {
      ok: (answer = {}) => {
        end({ t: "ok", ...answer });
      },
      fail: (code) => {
        end({ t: "fail", ...(code === undefined ? {} : { code }) });
      },
      unknown: () => {
        end({ t: "unknown" });
      },
    };
  }

  pushed(by: string, items: HistoryItem[]): void {
    this.events.push({ t: "pushed", at_ms: this.#now(), by, items });
  }

  read(by: string, one: HistoryItem): void {
    this.events.push({ t: "read", at_ms: this.#now(), by, ...one });
  }

  drained(inboxes: string[]): void {
    this.events.push({ t: "drained", at_ms: this.#now(), inboxes });
  }

  note(text: string): void {
    this.events.push({ t: "note", at_ms: this.#now(), text });
  }

  toLines(): string {
    return this.events.map((event) => `${JSON.stringify(event)}\n`).join("");
  }
}
