/** The machine of the buses: every state by every event as a row, and what holds over any sequence of them. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  activeOf,
  attemptOf,
  NOWHERE,
  PARKED_MAX,
  step,
  type Action,
  type Event,
  type Slot,
  type Standing,
} from "../../../src/client/session/activation.ts";

const tried = (target: string, generation: number) => ({ target, generation });
const SLOTS = {
  empty: { at: "empty" },
  connecting: { at: "connecting", attempt: tried("A", 5) },
  active: { at: "active", active: "A" },
  switching: { at: "switching", active: "A", attempt: tried("B", 5) },
  closed: { at: "closed" },
} as const satisfies Record<Slot["at"], Slot>;

/** P is parked; R is being recovered into the slot since the user's last word, Q into the parked ones. */
const around = (slot: Slot): Standing => ({
  slot,
  parked: ["P"],
  recoveries:
    slot.at === "closed"
      ? []
      : [
          { ...tried("R", 6), into: "slot", epoch: 3 },
          { ...tried("Q", 7), into: "parked", epoch: 3 },
        ],
  epoch: 3,
  generation: 9,
});

const connect = (target: string, isThere = false): Event => ({ on: "connect", target, isThere });
const EVENTS = {
  "connect A": connect("A"),
  "connect A, there": connect("A", true),
  "connect B": connect("B"),
  "connect P, there": connect("P", true),
  "connect P, lost": connect("P"),
  "connect R": connect("R"),
  "disconnect A": { on: "disconnect", target: "A" },
  "disconnect B": { on: "disconnect", target: "B" },
  "disconnect P": { on: "disconnect", target: "P" },
  "disconnect R": { on: "disconnect", target: "R" },
  "recover S": { on: "recover", target: "S", into: "slot" },
  "recover A": { on: "recover", target: "A", into: "parked" },
  "ready 5": { on: "ready", generation: 5 },
  "ready 6": { on: "ready", generation: 6 },
  "ready 7": { on: "ready", generation: 7 },
  "ready late": { on: "ready", generation: 2 },
  "failed 5": { on: "failed", generation: 5 },
  "failed 6": { on: "failed", generation: 6 },
  "failed late": { on: "failed", generation: 2 },
  close: { on: "close" },
} as const satisfies Record<string, Event>;

const wordOf = (action: Action): string => {
  switch (action.do) {
    case "try":
      return `try ${action.attempt.target} ${action.attempt.generation}`;
    case "settle":
      return `settle ${action.generation} ${action.as}`;
    case "leave":
      return `leave ${action.target} ${action.why}`;
    default:
      return `${action.do} ${action.generation}`;
  }
};
const stateOf = ({ slot, parked, recoveries, epoch }: Standing): string => {
  const at = { empty: "-", closed: "x" }[slot.at as string] ?? activeOf(slot) ?? "-";
  const attempt = attemptOf(slot);
  const on = attempt ? `>${attempt.target}${attempt.generation}` : "";
  return `${at}${on} [${parked.join("")}] {${recoveries.map(({ target }) => target).join("")}} ${epoch}`;
};

/** slot → event → what it is then: active, `>`attempt, [parked], {recovering}, epoch; and what is done. */
const TABLE: Record<Slot["at"], Record<keyof typeof EVENTS, string>> = {
  empty: {
    "connect A": "->A10 [P] {RQ} 4 | try A 10",
    "connect A, there": "->A10 [P] {RQ} 4 | try A 10",
    "connect B": "->B10 [P] {RQ} 4 | try B 10",
    "connect P, there": "P [] {RQ} 4",
    "connect P, lost": "->P10 [P] {RQ} 4 | try P 10",
    "connect R": "->R6 [P] {Q} 4",
    "disconnect A": "- [P] {RQ} 4",
    "disconnect B": "- [P] {RQ} 4",
    "disconnect P": "- [] {RQ} 4 | leave P asked",
    "disconnect R": "- [P] {Q} 4 | discard 6",
    "recover S": "- [P] {RQS} 3 | try S 10",
    "recover A": "- [P] {RQA} 3 | try A 10",
    "ready 5": "- [P] {RQ} 3 | discard 5",
    "ready 6": "R [P] {Q} 3 | keep 6",
    "ready 7": "- [QP] {R} 3 | keep 7",
    "ready late": "- [P] {RQ} 3 | discard 2",
    "failed 5": "- [P] {RQ} 3",
    "failed 6": "- [P] {Q} 3",
    "failed late": "- [P] {RQ} 3",
    close: "x [P] {} 4 | discard 6, discard 7",
  },
  connecting: {
    "connect A": "->A5 [P] {RQ} 3",
    "connect A, there": "->A5 [P] {RQ} 3",
    "connect B": "->B10 [P] {RQ} 4 | discard 5, settle 5 superseded, try B 10",
    "connect P, there": "P [] {RQ} 4 | discard 5, settle 5 superseded",
    "connect P, lost": "->P10 [P] {RQ} 4 | discard 5, settle 5 superseded, try P 10",
    "connect R": "->R6 [P] {Q} 4 | discard 5, settle 5 superseded",
    "disconnect A": "- [P] {RQ} 4 | discard 5, settle 5 superseded",
    "disconnect B": "->A5 [P] {RQ} 4",
    "disconnect P": "->A5 [] {RQ} 4 | leave P asked",
    "disconnect R": "->A5 [P] {Q} 4 | discard 6",
    "recover S": "->A5 [P] {RQ} 3",
    "recover A": "->A5 [P] {RQ} 3",
    "ready 5": "A [P] {RQ} 3 | keep 5, settle 5 active",
    "ready 6": "->A5 [P] {Q} 3 | discard 6",
    "ready 7": "->A5 [QP] {R} 3 | keep 7",
    "ready late": "->A5 [P] {RQ} 3 | discard 2",
    "failed 5": "- [P] {RQ} 3 | settle 5 refused",
    "failed 6": "->A5 [P] {Q} 3",
    "failed late": "->A5 [P] {RQ} 3",
    close: "x [P] {} 4 | discard 5, settle 5 superseded, discard 6, discard 7",
  },
  active: {
    "connect A": "A>A10 [P] {RQ} 4 | try A 10",
    "connect A, there": "A [P] {RQ} 3",
    "connect B": "A>B10 [P] {RQ} 4 | try B 10",
    "connect P, there": "P [A] {RQ} 4",
    "connect P, lost": "A>P10 [P] {RQ} 4 | try P 10",
    "connect R": "A>R6 [P] {Q} 4",
    "disconnect A": "- [P] {RQ} 4 | leave A asked",
    "disconnect B": "A [P] {RQ} 4",
    "disconnect P": "A [] {RQ} 4 | leave P asked",
    "disconnect R": "A [P] {Q} 4 | discard 6",
    "recover S": "A [P] {RQ} 3",
    "recover A": "A [P] {RQ} 3",
    "ready 5": "A [P] {RQ} 3 | discard 5",
    "ready 6": "A [P] {Q} 3 | discard 6",
    "ready 7": "A [QP] {R} 3 | keep 7",
    "ready late": "A [P] {RQ} 3 | discard 2",
    "failed 5": "A [P] {RQ} 3",
    "failed 6": "A [P] {Q} 3",
    "failed late": "A [P] {RQ} 3",
    close: "x [P] {} 4 | discard 6, discard 7",
  },
  switching: {
    "connect A": "A>A10 [P] {RQ} 4 | discard 5, settle 5 superseded, try A 10",
    "connect A, there": "A [P] {RQ} 4 | discard 5, settle 5 superseded",
    "connect B": "A>B5 [P] {RQ} 3",
    "connect P, there": "P [A] {RQ} 4 | discard 5, settle 5 superseded",
    "connect P, lost": "A>P10 [P] {RQ} 4 | discard 5, settle 5 superseded, try P 10",
    "connect R": "A>R6 [P] {Q} 4 | discard 5, settle 5 superseded",
    "disconnect A": "->B5 [P] {RQ} 4 | leave A asked",
    "disconnect B": "A [P] {RQ} 4 | discard 5, settle 5 superseded",
    "disconnect P": "A>B5 [] {RQ} 4 | leave P asked",
    "disconnect R": "A>B5 [P] {Q} 4 | discard 6",
    "recover S": "A>B5 [P] {RQ} 3",
    "recover A": "A>B5 [P] {RQ} 3",
    "ready 5": "B [PA] {RQ} 3 | keep 5, settle 5 active",
    "ready 6": "A>B5 [P] {Q} 3 | discard 6",
    "ready 7": "A>B5 [QP] {R} 3 | keep 7",
    "ready late": "A>B5 [P] {RQ} 3 | discard 2",
    "failed 5": "A [P] {RQ} 3 | settle 5 refused",
    "failed 6": "A>B5 [P] {Q} 3",
    "failed late": "A>B5 [P] {RQ} 3",
    close: "x [P] {} 4 | discard 5, settle 5 superseded, discard 6, discard 7",
  },
  closed: {
    ...(Object.fromEntries(Object.keys(EVENTS).map((name) => [name, "x [P] {} 3"])) as Record<
      keyof typeof EVENTS,
      string
    >),
    "ready 5": "x [P] {} 3 | discard 5",
    "ready 6": "x [P] {} 3 | discard 6",
    "ready 7": "x [P] {} 3 | discard 7",
    "ready late": "x [P] {} 3 | discard 2",
  },
};

describe("every state by every event", () => {
  for (const [at, slot] of Object.entries(SLOTS)) {
    it.each(Object.entries(EVENTS))(`${at}: %s`, (name, event) => {
      const { standing, actions } = step(around(slot), event);
      const done = actions.length === 0 ? "" : ` | ${actions.map(wordOf).join(", ")}`;
      expect(stateOf(standing) + done).toBe(TABLE[at as Slot["at"]][name as keyof typeof EVENTS]);
    });
  }
});

describe("MAX_PARKED_SESSIONS", () => {
  const full = Array.from({ length: PARKED_MAX }, (_, index) => `P${index}`);

  it("is eight: the ninth ends the least recently used, with a goodbye", () => {
    const at: Standing = { ...NOWHERE, slot: SLOTS.switching, parked: full };
    const { standing, actions } = step(at, EVENTS["ready 5"]);
    expect(standing.parked).toEqual([...full.slice(1), "A"]);
    expect(actions.map(wordOf)).toContain("leave P0 made_room");
    expect(standing.departed).toEqual({ what: "disconnected", target: "P0", why: "made_room" });
  });

  it("a use counts: what was active last is ended last", () => {
    const at: Standing = { ...NOWHERE, slot: SLOTS.active, parked: full };
    const back = step(step(at, connect("P0", true)).standing, connect("A", true)).standing;
    expect(back.parked).toEqual([...full.slice(1), "P0"]);
  });

  it("a recovery makes nobody go", () => {
    const at: Standing = { ...around(SLOTS.active), parked: full };
    expect(step(at, EVENTS["ready 7"])).toMatchObject({ standing: { parked: full }, actions: [{ do: "discard" }] });
  });
});

describe("whatever happens", () => {
  const target = fc.constantFrom(..."ABCDEFGHIJKL");
  const generation = fc.integer({ min: 1, max: 14 });
  const event: fc.Arbitrary<Event> = fc.oneof(
    fc.record({ on: fc.constant("connect" as const), target, isThere: fc.boolean() }),
    fc.record({ on: fc.constant("disconnect" as const), target }),
    fc.record({
      on: fc.constant("recover" as const),
      target,
      into: fc.constantFrom("slot" as const, "parked" as const),
    }),
    fc.record({ on: fc.constant("ready" as const), generation }),
    fc.record({ on: fc.constant("failed" as const), generation }),
  );

  it("no bus is held twice, no more than eight are parked, and the epoch and the generation never fall", () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        let standing = NOWHERE;
        for (const each of events) {
          const { standing: next } = step(standing, each);
          const held = [...next.parked, ...(activeOf(next.slot) === undefined ? [] : [activeOf(next.slot)!])];
          expect(new Set(held).size).toBe(held.length);
          expect(next.parked.length).toBeLessThanOrEqual(PARKED_MAX);
          expect(next.epoch).toBeGreaterThanOrEqual(standing.epoch);
          expect(next.generation).toBeGreaterThanOrEqual(standing.generation);
          standing = next;
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("every attempt is answered once: kept, discarded or failed", () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        let standing = NOWHERE;
        const open = new Set<number>();
        const ends = new Map<number, number>();
        const take = (one: Event) => {
          if ((one.on === "ready" || one.on === "failed") && !open.delete(one.generation)) return;
          const { standing: next, actions } = step(standing, one);
          standing = next;
          if (one.on === "failed") ends.set(one.generation, (ends.get(one.generation) ?? 0) + 1);
          for (const action of actions) {
            if (action.do === "try") open.add(action.attempt.generation);
            // A late success is discarded a second time, which changes nothing.
            if (action.do === "keep") ends.set(action.generation, (ends.get(action.generation) ?? 0) + 1);
          }
        };
        for (const one of events) take(one);
        for (const each of open) take({ on: "ready", generation: each });
        expect([...ends.values()].every((count) => count === 1)).toBe(true);
        expect(attemptOf(standing.slot)).toBeUndefined();
        expect(standing.recoveries).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
  });
});
