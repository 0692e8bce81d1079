/**
 * The races of the buses, in orders that a scheduler chooses: each test runs thousands of interleavings, and none of them
 * waits. The sessions are stand-ins that hold a lock as real ones hold their files, and say what their bus would show.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { activeOf } from "../../../src/client/session/activation.ts";
import { Switchboard, type Held } from "../../../src/client/session/switchboard.ts";

interface Why {
  readonly code: string;
}

/** Everything that the sessions share: the files' locks, the rosters, and the order in which things end. */
class World {
  readonly locked = new Set<string>();
  readonly onRoster = new Set<string>();
  /** That were ever on it. */
  readonly seen = new Set<string>();
  readonly faults: unknown[] = [];
  readonly refusing = new Set<string>();
  opened = 0;
  readonly board: Switchboard<Stand, Why>;
  readonly #s: fc.Scheduler;

  constructor(s: fc.Scheduler, home = "H") {
    this.#s = s;
    this.board = new Switchboard<Stand, Why>(
      {
        open: async (target) => {
          await this.turn(`open ${target}`);
          return new Stand(this, target);
        },
        onChange: () => {},
        onRecoveryFailed: () => {},
        onFault: (fault) => {
          this.faults.push(fault);
          return { code: "fault" };
        },
        leaveMs: 0,
      },
      { target: home, session: new Stand(this, home) },
    );
  }

  turn(label: string): Promise<void> {
    return this.#s.schedule(Promise.resolve(), label);
  }

  /** A word of the user's, said at a time that the scheduler chooses. */
  word<T>(label: string, say: () => Promise<T>): Promise<T> {
    return this.turn(label).then(say);
  }

  say(word: string, target: string): Promise<unknown> {
    return word === "connect" ? this.board.connect(target) : this.board.disconnect(target);
  }

  /** What holds when everything has come to its end, whatever the order was. */
  async settled(): Promise<void> {
    await this.#s.waitIdle();
    const { slot, parked } = this.board.standing;
    const active = activeOf(slot);
    const held = [...parked, ...(active === undefined ? [] : [active])].sort();
    expect(this.faults).toEqual([]);
    // On the roster are just those that are held: no ghost, and none that was closed.
    expect([...this.onRoster].sort()).toEqual(held);
    // What is locked is held, or read from while nothing is active.
    const read = this.board.facing?.target;
    expect([...this.locked].sort()).toEqual([...new Set([...held, ...(read === undefined ? [] : [read])])].sort());
  }
}

class Stand implements Held<Why> {
  readonly #world: World;
  readonly target: string;
  isThere = false;
  isSpent = false;
  #closing: Promise<void> | undefined;
  #retiring: Promise<void> | undefined;

  constructor(world: World, target: string) {
    if (world.locked.has(target)) throw new Error(`${target} is locked`);
    world.locked.add(target);
    world.opened++;
    this.#world = world;
    this.target = target;
  }

  begin(): void {
    if (this.isSpent) return;
    this.isThere = true;
    this.#world.onRoster.add(this.target);
    this.#world.seen.add(this.target);
  }

  async reach(): Promise<Why | undefined> {
    this.begin();
    await this.#world.turn(`reach ${this.target}`);
    // An announcement that comes late is not made by one that has left.
    if (this.isThere) this.#world.onRoster.add(this.target);
    return this.#world.refusing.has(this.target) ? { code: "not_admitted" } : undefined;
  }

  retire(): Promise<void> {
    this.isSpent = true;
    this.isThere = false;
    this.#retiring ??= this.#world.turn(`unregister ${this.target}`).then(() => {
      this.#world.onRoster.delete(this.target);
    });
    return this.#retiring;
  }

  close(): Promise<void> {
    this.#closing ??= this.retire().then(() => void this.#world.locked.delete(this.target));
    return this.#closing;
  }
}

const RUNS = { numRuns: 2_000 };

function race(what: (world: World) => Promise<void>): Promise<void> {
  return fc.assert(
    fc.asyncProperty(fc.scheduler(), async (s) => {
      const world = new World(s);
      await what(world);
    }),
    RUNS,
  );
}

/** Home is active, as after any start. */
async function begun(world: World, s: () => Promise<void>): Promise<void> {
  world.board.recover("H", "slot");
  await s();
}

describe("SessionActivation", () => {
  it("same-target in-flight connects share a result: two connects to one target are one attempt", () =>
    race(async (world) => {
      await begun(world, () => world.settled());
      const before = world.opened;
      const both = [
        world.word("one", () => world.board.connect("A")),
        world.word("two", () => world.board.connect("A")),
      ];
      await world.settled();
      expect(await Promise.all(both)).toEqual([{ as: "active" }, { as: "active" }]);
      expect(world.opened - before).toBe(1);
    }));

  it("A→B→A must not join stale A work", () =>
    race(async (world) => {
      await begun(world, () => world.settled());
      const before = world.opened;
      // In this order and all in flight; what is scheduled is what each of them waits for.
      const said = [world.board.connect("A"), world.board.connect("B"), world.board.connect("A")];
      await world.settled();
      expect(await Promise.all(said)).toEqual([{ as: "superseded" }, { as: "superseded" }, { as: "active" }]);
      expect(world.board.standing).toMatchObject({ slot: { at: "active", active: "A" }, parked: ["H"] });
      // The one between was given up before its files were open, so nobody ever saw it.
      expect(world.seen.has("B")).toBe(false);
      // The last attempt at A opened files of its own, or none was opened before it.
      expect(world.opened - before).toBeGreaterThanOrEqual(1);
    }));

  it("a superseded attempt that succeeds late changes nothing", () =>
    race(async (world) => {
      await begun(world, () => world.settled());
      const first = world.board.connect("A");
      const second = world.word("second", () => world.board.connect("B"));
      await world.settled();
      expect(await second).toEqual({ as: "active" });
      expect(world.board.standing.slot).toEqual({ at: "active", active: "B" });
      // Either A was active before the second word, and is parked, or it never was.
      const wasActive = (await first).as === "active";
      expect(world.board.standing.parked).toEqual(wasActive ? ["H", "A"] : ["H"]);
    }));

  it("a failed replacement does not invalidate the healthy installed session", () =>
    race(async (world) => {
      await begun(world, () => world.settled());
      world.refusing.add("A");
      const refused = world.board.connect("A");
      const healthy = world.board.active;
      await world.settled();
      expect(await refused).toEqual({ as: "refused", why: { code: "not_admitted" } });
      expect(world.board.active).toBe(healthy);
      expect(healthy?.isThere).toBe(true);
    }));
});

describe("publish_rejoined_session", () => {
  it("explicit disconnect against a late reconnect: what the user closed stays closed", () =>
    race(async (world) => {
      world.board.recover("A", "slot");
      const left = world.word("disconnect", () => world.board.disconnect("A"));
      await world.settled();
      await left;
      expect(world.board.standing.slot).toEqual({ at: "empty" });
      expect(world.onRoster).toEqual(new Set());
    }));

  it("any word of the user's since is enough: the epoch is another", () =>
    race(async (world) => {
      world.board.recover("A", "slot");
      const isBefore = world.board.disconnect("X");
      await world.settled();
      expect(await isBefore).toBe(false);
      expect(world.board.standing.slot).toEqual({ at: "empty" });
    }));

  it("recovery racing a user's connect: the user's is installed, whichever comes first", () =>
    race(async (world) => {
      world.board.recover("A", "slot");
      const connected = world.word("connect", () => world.board.connect("B"));
      await world.settled();
      expect(await connected).toEqual({ as: "active" });
      expect(world.board.standing.slot).toEqual({ at: "active", active: "B" });
    }));

  it("recovery racing a user's connect to the same bus: one session, and it is active", () =>
    race(async (world) => {
      world.board.recover("A", "slot");
      const connected = world.word("connect", () => world.board.connect("A"));
      await world.settled();
      expect(await connected).toEqual({ as: "active" });
      expect(world.board.standing).toMatchObject({ slot: { at: "active", active: "A" }, parked: [] });
      expect(world.opened).toBe(2); // it, and the one that was read from before
    }));
});

describe("whatever the user says, in whatever order it comes to pass", () => {
  const word = fc.record({
    say: fc.constantFrom("connect", "disconnect", "refuse"),
    target: fc.constantFrom("H", "A", "B", "C"),
  });

  it("the last word holds, no file is opened twice, and no ghost stays on a roster", () =>
    fc.assert(
      fc.asyncProperty(fc.scheduler(), fc.array(word, { maxLength: 8 }), async (s, words) => {
        const world = new World(s);
        world.board.recover("H", "slot");
        world.board.recover("B", "parked");
        for (const { say, target } of words) {
          if (say === "refuse") world.refusing.add(target);
          else void world.word(`${say} ${target}`, () => world.say(say, target));
        }
        await world.settled();
      }),
      RUNS,
    ));

  it("after the close nothing is held, and nothing comes back", () =>
    fc.assert(
      fc.asyncProperty(fc.scheduler(), fc.array(word, { maxLength: 6 }), async (s, words) => {
        const world = new World(s);
        world.board.recover("H", "slot");
        for (const { say, target } of words) void world.word(`${say} ${target}`, () => world.say(say, target));
        const closed = world.word("close", () => world.board.close(0));
        await s.waitIdle();
        await closed;
        expect(world.faults).toEqual([]);
        expect([...world.onRoster]).toEqual([]);
        expect([...world.locked]).toEqual([]);
      }),
      RUNS,
    ));
});
