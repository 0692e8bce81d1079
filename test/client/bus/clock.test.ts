import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BusClock, OFFSET_MAX_MS } from "../../../src/client/bus/clock.ts";

const START_MS = 1_800_000_000_000;

function setup(): { clock: BusClock; move(ms: number): void; now(): number } {
  let nowMs = START_MS;
  return { clock: new BusClock(() => nowMs), move: (ms) => void (nowMs += ms), now: () => nowMs };
}

describe("a bus's clock", () => {
  it("is ours until something is learned, and then goes on with ours", () => {
    const { clock, move } = setup();
    expect(clock.now()).toBe(START_MS);
    expect(clock.learn(START_MS - 300_000)).toBe(true);
    move(5_000);
    expect(clock.now()).toBe(START_MS - 295_000);
  });

  it("was read half-way of the wait", () => {
    const { clock, move, now } = setup();
    const askedAtMs = now();
    move(400);
    clock.learn(START_MS + 10_200, askedAtMs);
    expect(clock.offsetMs).toBe(10_000);
  });

  it.each([
    { movedMs: -500_000, why: "our clock was set back meanwhile" },
    { movedMs: 500_000, why: "we slept meanwhile" },
  ])("is measured at the end of the wait where $why", ({ movedMs }) => {
    const { clock, move, now } = setup();
    const askedAtMs = now();
    move(movedMs);
    clock.learn(now() + 1_000, askedAtMs);
    expect(clock.offsetMs).toBe(1_000);
  });

  it("is not believed past a bound", () => {
    const { clock } = setup();
    expect(clock.learn(START_MS + OFFSET_MAX_MS + 1)).toBe(false);
    expect(clock.learn(0)).toBe(false);
    expect(clock.learn(Number.MAX_SAFE_INTEGER)).toBe(false);
    expect(clock.offsetMs).toBe(0);
  });

  it("gives strictly increasing times, whatever our clock does", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -100_000, max: 100_000 })), (moves) => {
        const { clock, move } = setup();
        let lastTs = 0;
        for (const ms of moves) {
          move(ms);
          const ts = clock.nextTs();
          expect(ts).toBeGreaterThan(lastTs);
          lastTs = ts;
        }
      }),
    );
  });

  it("keeps its times increasing over a small correction, and gives up those that no bus could have taken", () => {
    const { clock } = setup();
    const first = clock.nextTs();
    clock.learn(START_MS - 50_000);
    expect(clock.nextTs()).toBe(first + 1);
    clock.learn(START_MS - 300_000);
    expect(clock.nextTs()).toBe(START_MS - 300_000);
  });
});
