/** Every state with every event, a row each with its reason; and that no order of events breaks what must hold. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ATTEMPTS_PER_MINUTE_MAX, ATTEMPTS_WINDOW_MS, HELD_MS } from "../../../src/client/bus/backoff.ts";
import {
  DIAL_MAX_MS,
  LEAVE_MAX_MS,
  NEW_LINK,
  PONG_MAX_MS,
  step,
  TAKEOVERS_MAX,
  type Action,
  type Event,
  type Link,
  type Moment,
  type State,
} from "../../../src/client/bus/connection-state.ts";
import { CLOSE } from "../../../src/protocol/frames.ts";

const NOW_MS = 1_000_000;
const HEARTBEAT_MS = 30_000;
const MOMENT: Moment = { nowMs: NOW_MS, random: 0.5, heartbeatMs: HEARTBEAT_MS };

const STATES = {
  idle: { at: "idle" },
  dialing: { at: "dialing", dueAtMs: NOW_MS, isMended: false },
  mended: { at: "dialing", dueAtMs: NOW_MS, isMended: true },
  open: { at: "open", dueAtMs: NOW_MS, sinceMs: NOW_MS - HELD_MS, isPinged: false },
  pinged: { at: "open", dueAtMs: NOW_MS, sinceMs: NOW_MS - HELD_MS, isPinged: true },
  leaving: { at: "leaving", dueAtMs: NOW_MS },
  waiting: { at: "waiting", dueAtMs: NOW_MS, why: { closed: 1006 } },
  stopped: { at: "stopped", why: { by: "close" } },
} as const satisfies Record<string, State>;

const EVENTS = {
  start: { on: "start" },
  welcome: { on: "welcome", speaksOurs: true },
  foreign: { on: "welcome", speaksOurs: false },
  pong: { on: "pong" },
  tick: { on: "tick", isStirring: false },
  stirring: { on: "tick", isStirring: true },
  failed: { on: "failed", why: { unreachable: "network" } },
  limited: { on: "failed", why: { refused: "rate_limited", retryAfterMs: 60_000 } },
  done: { on: "closed", code: CLOSE.unregistered, reason: "unregistered" },
  forgotten: { on: "closed", code: CLOSE.unregistered, reason: "forgotten" },
  skew: { on: "closed", code: CLOSE.notAuthenticated, reason: "clock_skew" },
  replay: { on: "closed", code: CLOSE.notAuthenticated, reason: "replay" },
  unsigned: { on: "closed", code: CLOSE.notAuthenticated, reason: "bad_signature" },
  newer: { on: "closed", code: CLOSE.notAuthenticated, reason: "<b>of a newer bus</b>" },
  foreigner: { on: "closed", code: CLOSE.notYours, reason: "not_admitted" },
  old: { on: "closed", code: CLOSE.signAgain, reason: "sign_again" },
  superseded: { on: "closed", code: CLOSE.superseded, reason: "superseded" },
  errors: { on: "closed", code: CLOSE.tooManyErrors, reason: "too_many_errors" },
  broken: { on: "closed", code: 1006, reason: "" },
  spoiled: { on: "spoiled" },
  unregister: { on: "unregister" },
  close: { on: "close" },
} as const satisfies Record<string, Event>;

type StateName = keyof typeof STATES;
type EventName = keyof typeof EVENTS;

/** What a row expects: the state's fields that matter, and the actions; `stay` for no change at all. */
type Expected = "stay" | readonly [Partial<State>, ...Action[]];

const dialing = (isMended = false): Partial<State> => ({ at: "dialing", dueAtMs: NOW_MS + DIAL_MAX_MS, isMended });
/** The first failure's wait, at half its ceiling. */
const waiting = (why: object, delayMs = 500): Partial<State> => ({
  at: "waiting",
  dueAtMs: NOW_MS + delayMs,
  why: why as never,
});
const stopped = (why: object): Partial<State> => ({ at: "stopped", why: why as never });
const CLOSED = stopped({ by: "close" });
const GONE = stopped({ by: "unregister", isConfirmed: true });
const UNSURE = stopped({ by: "unregister", isConfirmed: false });
const evicted = (code: string) => stopped({ by: "evicted", code });

/** What the bus's closes mean while there is a socket, open or not yet. */
const CLOSES = {
  done: [GONE],
  forgotten: [evicted("forgotten")],
  unsigned: [evicted("bad_signature")],
  newer: [evicted("unknown")],
  foreigner: [evicted("not_admitted")],
  old: [dialing(), "dial"],
  superseded: [waiting({ closed: 4409 })],
  errors: [waiting({ closed: 4400 })],
  broken: [waiting({ closed: 1006 })],
} as const satisfies Partial<Record<EventName, Expected>>;

const NO_SOCKET = {
  welcome: "stay",
  foreign: "stay",
  pong: "stay",
  failed: "stay",
  limited: "stay",
  done: "stay",
  forgotten: "stay",
  skew: "stay",
  replay: "stay",
  unsigned: "stay",
  newer: "stay",
  foreigner: "stay",
  old: "stay",
  superseded: "stay",
  errors: "stay",
  broken: "stay",
  spoiled: "stay",
  unregister: [CLOSED], // nothing to say it on, and no way back
} as const satisfies Partial<Record<EventName, Expected>>;

const DIALING = {
  ...CLOSES,
  start: "stay",
  welcome: [{ at: "open", dueAtMs: NOW_MS + HEARTBEAT_MS, sinceMs: NOW_MS, isPinged: false } as Partial<State>],
  foreign: [stopped({ by: "client_too_old" }), "hangUp"],
  pong: "stay",
  tick: [waiting({ broken: "no_welcome" }), "drop"],
  stirring: [waiting({ broken: "no_welcome" }), "drop"], // a slow welcome is none
  failed: [waiting({ unreachable: "network" })],
  limited: [waiting({ refused: "rate_limited", retryAfterMs: 60_000 }, 60_500)],
  skew: [dialing(true), "dial"], // the offset is known now
  replay: [dialing(true), "dial"],
  spoiled: [waiting({ broken: "bad_frame" }), "drop"],
  unregister: [CLOSED, "drop"],
  close: [CLOSED, "hangUp"],
} as const satisfies Record<EventName, Expected>;

const OPEN = {
  ...DIALING,
  welcome: "stay",
  tick: [{ at: "open", dueAtMs: NOW_MS + PONG_MAX_MS, isPinged: true } as Partial<State>, "ping"],
  stirring: [{ at: "open", dueAtMs: NOW_MS + PONG_MAX_MS, isPinged: true } as Partial<State>, "ping"],
  unregister: [{ at: "leaving", dueAtMs: NOW_MS + LEAVE_MAX_MS } as Partial<State>],
} as const satisfies Record<EventName, Expected>;

const UNSURE_OF_ALL = [UNSURE] as const;

const TABLE: Record<StateName, Record<EventName, Expected>> = {
  idle: { ...NO_SOCKET, start: [dialing(), "dial"], tick: "stay", stirring: "stay", close: [CLOSED, "hangUp"] },
  waiting: {
    ...NO_SOCKET,
    start: "stay",
    tick: [dialing(), "dial"],
    stirring: [dialing(), "dial"],
    close: [CLOSED, "hangUp"],
  },
  dialing: DIALING,
  mended: {
    ...DIALING,
    // The same again is not about the offset that we knew: no loop at full speed.
    skew: [waiting({ refused: "clock_skew" })],
    replay: [waiting({ refused: "replay" })],
  },
  open: OPEN,
  pinged: {
    ...OPEN,
    pong: [{ at: "open", dueAtMs: NOW_MS + HEARTBEAT_MS, isPinged: false } as Partial<State>],
    tick: [dialing(), "drop", "dial"], // half-open: not trusted, replaced
    stirring: [{ at: "open", dueAtMs: NOW_MS + PONG_MAX_MS, isPinged: true } as Partial<State>], // the pong waits behind mail
  },
  leaving: {
    ...NO_SOCKET,
    start: "stay",
    tick: [UNSURE, "hangUp"],
    stirring: [UNSURE, "hangUp"],
    done: [GONE],
    forgotten: [GONE],
    // Never a way back: what was said may have been heard.
    skew: UNSURE_OF_ALL,
    replay: UNSURE_OF_ALL,
    unsigned: UNSURE_OF_ALL,
    newer: UNSURE_OF_ALL,
    foreigner: UNSURE_OF_ALL,
    old: UNSURE_OF_ALL,
    superseded: UNSURE_OF_ALL,
    errors: UNSURE_OF_ALL,
    broken: UNSURE_OF_ALL,
    spoiled: [UNSURE, "hangUp"],
    unregister: "stay",
    close: [CLOSED, "hangUp"],
  },
  stopped: { ...NO_SOCKET, start: "stay", tick: "stay", stirring: "stay", unregister: "stay", close: "stay" },
};

describe("every state with every event", () => {
  const rows = (Object.keys(STATES) as StateName[]).flatMap((state) =>
    (Object.keys(EVENTS) as EventName[]).map((event) => ({ state, event, expected: TABLE[state][event] })),
  );
  it.each(rows)("$state, $event", ({ state, event, expected }) => {
    const link: Link = { ...NEW_LINK, state: STATES[state] };
    const next = step(link, EVENTS[event], MOMENT);
    if (expected === "stay") {
      expect(next).toEqual({ link, actions: [] });
      expect(next.link).toBe(link);
      return;
    }
    const [fields, ...actions] = expected;
    expect(next.link.state).toMatchObject(fields);
    expect(next.actions).toEqual(actions);
  });
});

describe("a timer that comes late by more than two heartbeats", () => {
  const lateMs = 2 * HEARTBEAT_MS + 1;
  const late = (state: StateName, ms = lateMs): ReturnType<typeof step> =>
    step(
      { ...NEW_LINK, state: STATES[state], attempts: { failures: 9, beganAtMs: [] } },
      { on: "tick", isStirring: true },
      { ...MOMENT, nowMs: NOW_MS + ms },
    );

  it.each(["dialing", "open", "pinged"] as const)("means a sleep: %s drops the socket and dials at once", (state) => {
    const { link, actions } = late(state);
    expect(link).toMatchObject({ state: { at: "dialing" }, attempts: { failures: 0 } });
    expect(actions).toEqual(["drop", "dial"]);
  });

  it("dials at once from waiting too, with the failures before it forgotten", () => {
    expect(late("waiting")).toMatchObject({ link: { attempts: { failures: 0 } }, actions: ["dial"] });
    expect(late("waiting", lateMs - 1)).toMatchObject({ link: { attempts: { failures: 9 } }, actions: ["dial"] });
  });

  it("and by no more is only late", () => {
    expect(late("open", lateMs - 1).actions).toEqual(["ping"]);
  });
});

describe("a timer that comes early by more than two heartbeats", () => {
  const early = (state: StateName, ms: number, event: Event = EVENTS.stirring) =>
    step({ ...NEW_LINK, state: STATES[state], attempts: { failures: 9, beganAtMs: [] } }, event, {
      ...MOMENT,
      nowMs: NOW_MS - ms,
    });

  const UNPINGED_MS = 2 * HEARTBEAT_MS + 1;
  const PINGED_MS = UNPINGED_MS + PONG_MAX_MS;

  it.each([
    ...[UNPINGED_MS, 3_600_000, 86_400_000].map((ms) => ({ ms, state: "open", event: "tick" }) as const),
    ...[PINGED_MS, 3_600_000, 86_400_000].map((ms) => ({ ms, state: "pinged", event: "tick" }) as const),
    // Else it would set the next time by the clock as it is now, and that would never be early.
    ...[PINGED_MS, 3_600_000, 86_400_000].map((ms) => ({ ms, state: "pinged", event: "pong" }) as const),
  ])("means a clock set back ($state, $event, $ms ms): it is learned anew", ({ ms, state, event }) => {
    const { link, actions } = early(state, ms, EVENTS[event]);
    expect(link.state).toMatchObject({ at: "dialing", dueAtMs: NOW_MS - ms + DIAL_MAX_MS });
    expect(actions).toEqual(["drop", "dial"]);
  });

  it.each(["open", "waiting", "dialing"] as const)(
    "holds the bound on attempts up once, and no day long (%s)",
    (state) => {
      const attempts = { failures: 0, beganAtMs: Array.from({ length: ATTEMPTS_PER_MINUTE_MAX }, () => NOW_MS) };
      const nowMs = NOW_MS - 86_400_000;
      const held = step({ ...NEW_LINK, attempts, state: STATES[state] }, EVENTS.tick, { ...MOMENT, nowMs });
      expect(held.link.state).toMatchObject({ at: "waiting", dueAtMs: nowMs + ATTEMPTS_WINDOW_MS });
      const after = step(held.link, EVENTS.tick, { ...MOMENT, nowMs: nowMs + ATTEMPTS_WINDOW_MS });
      expect(after.actions).toEqual(["dial"]);
    },
  );

  it("and by no more is only early; who has no socket goes on as ever", () => {
    expect(early("open", UNPINGED_MS - 1).actions).toEqual(["ping"]);
    expect(early("pinged", PINGED_MS - 1).link.state).toMatchObject({ at: "open", isPinged: true });
    expect(early("pinged", PONG_MAX_MS, EVENTS.pong).link.state).toMatchObject({ at: "open", isPinged: false });
    expect(early("dialing", 3_600_000)).toMatchObject({
      link: { state: { at: "waiting" }, attempts: { failures: 10 } },
    });
    expect(early("waiting", 3_600_000)).toMatchObject({ link: { attempts: { failures: 9 } }, actions: ["dial"] });
  });
});

describe("superseded", () => {
  const OPEN_AT = (atMs: number): State => ({ ...STATES.open, sinceMs: atMs, dueAtMs: atMs + HEARTBEAT_MS });
  const takeOver = (link: Link, atMs: number) =>
    step({ ...link, state: OPEN_AT(atMs) }, EVENTS.superseded, { ...MOMENT, nowMs: atMs }).link;

  it(`is put up with ${TAKEOVERS_MAX} times in a minute, backing off, and then it stops and says why`, () => {
    let link = NEW_LINK;
    for (let n = 0; n < TAKEOVERS_MAX; n++) {
      link = takeOver(link, NOW_MS + n * 1_000);
      expect(link.state).toMatchObject({ at: "waiting" });
    }
    expect(link.attempts.failures).toBe(TAKEOVERS_MAX);
    expect(takeOver(link, NOW_MS + 50_000).state).toEqual({ at: "stopped", why: { by: "superseded" } });
  });

  it("now and then is no fight", () => {
    let link = NEW_LINK;
    for (let n = 0; n < 20; n++) link = takeOver(link, NOW_MS + n * 20_000);
    expect(link.state).toMatchObject({ at: "waiting" });
  });
});

describe("whatever happens, in whatever order", () => {
  const event = fc.constantFrom(...Object.values<Event>(EVENTS).filter(({ on }) => on !== "close"));
  const move = fc.record({
    event: fc.oneof(event, fc.constant<Event>(EVENTS.tick)),
    passesMs: fc.oneof(fc.constant(0), fc.nat(40_000)),
    random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  });

  it(`it dials at most ${ATTEMPTS_PER_MINUTE_MAX} times a minute, holds one socket at most, and rests once stopped`, () => {
    fc.assert(
      fc.property(fc.array(move, { maxLength: 200 }), (moves) => {
        let link = NEW_LINK;
        let nowMs = NOW_MS;
        const dialledAtMs: number[] = [];
        for (const { event, passesMs, random } of [{ event: EVENTS.start, passesMs: 0, random: 0 }, ...moves]) {
          // A tick comes when it is due, or later.
          const dueAtMs = "dueAtMs" in link.state ? link.state.dueAtMs : nowMs;
          nowMs = event.on === "tick" ? Math.max(nowMs, dueAtMs) + passesMs : nowMs + passesMs;
          const before = link.state;
          const next = step(link, event, { ...MOMENT, nowMs, random });
          if (before.at === "stopped") expect(next).toEqual({ link, actions: [] });
          if (next.actions.includes("dial")) {
            dialledAtMs.push(nowMs);
            // What was open or under way was dropped first, or it had ended by itself.
            const hadSocket = (before.at === "dialing" || before.at === "open") && !endsSocket(event);
            expect(next.actions.includes("drop")).toBe(hadSocket);
          }
          if ("dueAtMs" in next.link.state && next.link !== link) {
            expect(next.link.state.dueAtMs).toBeGreaterThanOrEqual(nowMs);
          }
          link = next.link;
        }
        for (let i = ATTEMPTS_PER_MINUTE_MAX; i < dialledAtMs.length; i++) {
          expect(dialledAtMs[i]! - dialledAtMs[i - ATTEMPTS_PER_MINUTE_MAX]!).toBeGreaterThanOrEqual(
            ATTEMPTS_WINDOW_MS,
          );
        }
        const closed = step(link, EVENTS.close, { ...MOMENT, nowMs }).link.state;
        expect(closed.at).toBe("stopped");
      }),
      { numRuns: 500 },
    );
  });

  const endsSocket = ({ on }: Event): boolean => on === "closed" || on === "failed";
});
