/**
 * What is said late cannot revive what was closed: heartbeats, announcements and redials of one link against its
 * unregister, in orders that a scheduler chooses. The bus is a stand-in that holds invariant 4, and nothing else.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NEW_LINK, step, type Event } from "../../../src/client/bus/connection-state.ts";
import type { Ears, Line } from "../../../src/client/bus/line.ts";
import { CLOSE } from "../../../src/protocol/frames.ts";
import type { Signer } from "../../../src/client/bus/signer.ts";
import { ManualTimers, newSigner } from "../bus/support.ts";
import { bareLink } from "./bare-link.ts";

/** One row of a roster, as the bus decides on it. */
class Row {
  announcedTs = 0;
  goodbyeTs = 0;

  get isHere(): boolean {
    return this.announcedTs > this.goodbyeTs;
  }
}

interface Frame {
  readonly t: string;
  readonly ts?: number;
  readonly announcement?: { readonly ts: number };
}

const signer: Signer = await newSigner();

/** A link whose lines lead to a row; what is said on a line is heard in its order, when the scheduler lets it be. */
function rig(s: fc.Scheduler) {
  const timers = new ManualTimers();
  const row = new Row();
  const said: { readonly line: number; readonly frame: string }[] = [];
  const open = new Map<number, Ears>();
  let lines = 0;

  const openLine = (_url: unknown, _target: string, _token: string, ears: Ears): Line => {
    const line = ++lines;
    let last: Promise<unknown> = Promise.resolve();
    const inOrder = (label: string, act: () => void) => {
      last = last.then(() => s.schedule(Promise.resolve(), `${label} on ${line}`)).then(act);
    };
    open.set(line, ears);
    const end = () => void open.delete(line);
    inOrder("welcome", () => {
      const welcome = { t: "welcome", generation: "g", now_ms: timers.now(), queued: 0, versions: [1] };
      open.get(line)?.text(JSON.stringify(welcome));
    });
    return {
      bytesRead: 0,
      send: (text) => {
        said.push({ line, frame: text });
        inOrder(text.slice(0, 20), () => hear(line, text));
        return true;
      },
      hangUp: end,
      drop: end,
    };
  };
  const hear = (line: number, text: string): void => {
    if (text === "ping") return open.get(line)?.text("pong");
    const frame = JSON.parse(text) as Frame;
    if (frame.t === "announce") row.announcedTs = Math.max(row.announcedTs, frame.announcement!.ts);
    if (frame.t !== "unregister") return;
    row.goodbyeTs = Math.max(row.goodbyeTs, frame.ts!);
    open.get(line)?.closed(CLOSE.unregistered, "");
  };
  const link = bareLink({ signer, timers, heartbeatMs: 1_000, openLine: openLine as never });
  return { link, timers, row, said, cut: () => [...open.values()].at(-1)?.closed(1006, "") };
}

describe("a heartbeat or announcement racing an unregister", () => {
  it("what was unregistered on an open socket is gone, and nothing is said behind it", () =>
    fc.assert(
      fc.asyncProperty(fc.scheduler(), fc.nat({ max: 3 }), async (s, count) => {
        const { link, timers, row, said } = rig(s);
        link.start();
        await s.waitIdle();
        const at = (label: string, act: () => void) => void s.schedule(Promise.resolve(), label).then(act);
        for (let index = 0; index <= count; index++) {
          at("announce", () => link.announce());
          at("heartbeat", () => timers.advance(1_000));
        }
        let left: Promise<unknown> | undefined;
        at("leave", () => (left = link.leave([], async () => [])));
        await s.waitIdle();
        timers.advance(1_000); // at the latest then it is over
        await left;
        await s.waitIdle();
        timers.advance(600_000);
        await s.waitIdle();
        expect(row.isHere).toBe(false);
        const goodbye = said.findIndex(({ frame }) => frame.includes('"unregister"'));
        expect(said.slice(goodbye + 1)).toEqual([]);
        expect(link.state.at).toBe("stopped");
      }),
      { numRuns: 2_000 },
    ));

  it("nothing dials, pings or opens again, whatever comes after the goodbye", () => {
    const event: fc.Arbitrary<Event> = fc.oneof(
      fc.constant<Event>({ on: "start" }),
      fc.record({ on: fc.constant("welcome" as const), speaksOurs: fc.boolean() }),
      fc.constant<Event>({ on: "pong" }),
      fc.record({ on: fc.constant("tick" as const), isStirring: fc.boolean() }),
      fc.record({
        on: fc.constant("closed" as const),
        code: fc.constantFrom(1006, ...Object.values(CLOSE)),
        reason: fc.constant(""),
      }),
      fc.constant<Event>({ on: "failed", why: { unreachable: "network" } }),
      fc.constant<Event>({ on: "spoiled" }),
    );
    const end = fc.constantFrom<Event>({ on: "unregister" }, { on: "close" });
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 12 }),
        end,
        fc.array(event, { maxLength: 12 }),
        (before, last, after) => {
          let link = NEW_LINK;
          let nowMs = 0;
          const take = (one: Event) => {
            const taken = step(link, one, { nowMs: (nowMs += 700), random: 0.5, heartbeatMs: 1_000 });
            link = taken.link;
            return taken.actions;
          };
          take({ on: "start" });
          for (const one of before) take(one);
          take(last);
          expect(["leaving", "stopped"]).toContain(link.state.at);
          for (const one of after) {
            expect(take(one).filter((action) => action === "dial" || action === "ping")).toEqual([]);
            expect(["leaving", "stopped"]).toContain(link.state.at);
          }
        },
      ),
      { numRuns: 5_000 },
    );
  });
});

describe("no storm", () => {
  it("a bus that is refused, dropped or away is dialled at most twelve times a minute, with jitter", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("failed", "closed", "spoiled"), { minLength: 200, maxLength: 200 }),
        fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 200, maxLength: 200 }),
        (ways, randoms) => {
          let link = NEW_LINK;
          let nowMs = 0;
          const dials: number[] = [];
          const take = (one: Event, random: number) => {
            const taken = step(link, one, { nowMs, random, heartbeatMs: 30_000 });
            link = taken.link;
            if (taken.actions.includes("dial")) dials.push(nowMs);
          };
          take({ on: "start" }, 0);
          ways.forEach((way, index) => {
            const random = randoms[index]!;
            if (way === "failed") take({ on: "failed", why: { unreachable: "network" } }, random);
            else if (way === "closed") take({ on: "closed", code: 1006, reason: "" }, random);
            else take({ on: "spoiled" }, random);
            if ("dueAtMs" in link.state) nowMs = Math.max(nowMs, link.state.dueAtMs);
            take({ on: "tick", isStirring: false }, random);
          });
          for (const from of dials) {
            expect(dials.filter((atMs) => atMs >= from && atMs < from + 60_000).length).toBeLessThanOrEqual(12);
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});
