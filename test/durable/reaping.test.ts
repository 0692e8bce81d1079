/**
 * A ghost is deleted by its alarm, unless something came. Here something comes at each point of the way: while the
 * directory has not answered yet, in the very turn in which it does, waiting for the disk meanwhile, and while the
 * deletion is under way. Each time it must be as if it had come before or after, and what was answered must be kept.
 */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import type { Key } from "../../src/protocol/address.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { ALARM_RETRY_MS } from "../../src/durable/identity.ts";
import { ask, freezeAt, must, newKey, session, stubOf, take, view, waitingIds } from "../support/objects.ts";
import { Gate, reborn, type Reborn } from "../support/reborn.ts";

const NOW = 4_000_000_000_000;
const DAY = 86_400_000;
const { AWAY_RETAIN_MS, GHOST_RETAIN_MS, KNOCK_RETAIN_MS, SOCKET_MAX_MS } = DEFAULT_LIMITS;
/** When the ghost of {@link haunted} is due. */
const DUE = NOW + AWAY_RETAIN_MS + GHOST_RETAIN_MS;

/** An identity whose only session was closed, and of which nothing is left but its own row: its alarm is due. */
async function haunted(key: Key, { identity, directory }: Reborn): Promise<void> {
  freezeAt(NOW);
  await must(key, "announce", {
    announcement: { pubkey: key, name: "a", session: { session_id: session("old") }, ts: 1, sig: "s" },
  });
  await must(key, "unregister", { session: session("old"), ts: 2, sig: "bye", goodbyes: [] });
  freezeAt(NOW + AWAY_RETAIN_MS);
  await runDurableObjectAlarm(stubOf(key));
  freezeAt(DUE);
  expect(identity).toBeDefined();
  directory.calls.length = 0;
}

/** What came on the socket of the test. */
const heard: object[] = [];
beforeEach(() => void heard.splice(0));

/** What may come, and what must be true of it on the disk afterwards. */
interface Comer {
  readonly what: string;
  readonly come: (world: Reborn) => Promise<unknown>;
  readonly isKept: (key: Key) => Promise<unknown>;
  /** By when the alarm must ring for it at the latest. */
  readonly dueAtMs: number;
  readonly listed: "list shown" | "list hidden";
}

const rows = (key: Key, query: string) =>
  runInDurableObject(stubOf(key), (_, { storage }) => storage.sql.exec(query).toArray());

const COMERS: readonly Comer[] = [
  {
    what: "an announcement that is shown",
    come: ({ identity, said }) => identity.announce(said("new", true)),
    isKept: async (key) => expect((await view(key)).roster).toMatchObject([{ session: { session_id: "new" } }]),
    dueAtMs: DUE + AWAY_RETAIN_MS,
    listed: "list shown",
  },
  {
    what: "a hidden announcement",
    come: ({ identity, said }) => identity.announce(said("new", false)),
    isKept: async (key) => expect((await view(key, key)).roster).toMatchObject([{ session: { session_id: "new" } }]),
    dueAtMs: DUE + AWAY_RETAIN_MS,
    listed: "list hidden",
  },
  {
    what: "mail",
    come: async ({ identity, mail }) =>
      expect(await identity.enqueue(mail("new", "precious"))).toMatchObject({ results: [{ state: "stored" }] }),
    isKept: async (key) => expect(await waitingIds(key, "new")).toEqual(["precious"]),
    dueAtMs: DUE + DEFAULT_LIMITS.MESSAGE_RETAIN_MS,
    listed: "list hidden",
  },
  {
    what: "a knock",
    come: async ({ identity, knock }) =>
      expect(await identity.enqueue(knock())).toMatchObject({ results: [{ state: "stored" }] }),
    isKept: async (key) => expect((await take(key, "new")).items).toHaveLength(1),
    dueAtMs: DUE + KNOCK_RETAIN_MS,
    listed: "list hidden",
  },
  {
    what: "a handshake",
    come: async ({ identity, handshake }) => {
      const call = handshake("new");
      const answer = await identity.connect(call);
      const socket = (answer as Response).webSocket!;
      socket.addEventListener("message", ({ data }) => void heard.push(JSON.parse(data as string)));
      socket.accept();
      expect(identity.sockets.all()).toHaveLength(1);
      expect(await identity.connect(call)).toEqual({ refused: "replay" });
    },
    isKept: async (key) => {
      const [{ generation }] = (await rows(key, "SELECT generation FROM identity")) as [{ generation: string }];
      // What it was told of is the life that stayed, or it would not publish anew.
      await expect.poll(() => heard).toMatchObject([{ t: "welcome", queued: 0, generation }]);
      expect(await rows(key, "SELECT * FROM nonce")).toHaveLength(1);
    },
    dueAtMs: DUE + SOCKET_MAX_MS,
    listed: "list hidden",
  },
  {
    what: "a poll",
    come: async ({ identity, poll }) => {
      const call = poll("new");
      expect(await identity.poll(call, false)).toBeInstanceOf(Response);
      expect(await identity.poll(call, false)).toEqual({ refused: "replay" });
    },
    isKept: async (key) => expect(await rows(key, "SELECT * FROM nonce")).toHaveLength(1),
    dueAtMs: DUE + 2 * DAY,
    listed: "list hidden",
  },
  {
    what: "a contact list",
    come: ({ identity, said }) => identity.contacts({ key: said("x", false).key, contacts: [newKey()], ts: 1 }),
    isKept: async (key) =>
      expect(await ask(key, "contacts", { contacts: [], ts: 1 })).toMatchObject({ refused: "stale" }),
    dueAtMs: Infinity,
    listed: "list hidden",
  },
];

/** Where it may come: each begins with the ghost's alarm, and ends when that and the comer are done. */
interface Moment {
  readonly when: string;
  readonly play: (world: Reborn, come: () => Promise<unknown>) => Promise<void>;
  /** Whether the ghost is deleted all the same; then the comer began another life. */
  readonly isReaped: boolean | "either";
}

/** More turns than there are between the directory's answer and the deletion. */
const TURNS = 12;

const MOMENTS: readonly Moment[] = [
  {
    when: "before the directory has answered",
    isReaped: false,
    play: async ({ identity, directory, isEmptied }, come) => {
      let coming: Promise<unknown> | undefined;
      directory.answer = async (call) => {
        if (call !== "unlist") return {};
        coming = come(); // not awaited: what it tells the directory itself waits for this answer
        await until(() => !isEmptied());
        await turns(TURNS);
        return {};
      };
      await identity.expire();
      await coming;
    },
  },
  {
    when: "while the disk holds it up, and the directory answers meanwhile",
    isReaped: true,
    play: async ({ identity, directory, disk, poll }, come) => {
      const gate = new Gate();
      let coming: Promise<unknown> | undefined;
      directory.answer = async (call) => {
        if (call !== "unlist") return {};
        disk.sync = gate.passed;
        // A refused poll is a commit that changes nothing: the next one waits behind its sync.
        void identity.ack({ key: poll("x").key, session: session("x"), acks: ["x.1"] });
        coming = come();
        return {};
      };
      await identity.expire();
      disk.sync = undefined;
      gate.open();
      await coming;
    },
  },
  ...Array.from({ length: TURNS }, (_, after): Moment => ({
    when: `${after} turns after the directory's answer`,
    isReaped: after === 0 ? false : after === TURNS - 1 ? true : "either",
    play: async ({ identity, directory, state }, come) => {
      const gate = new Gate();
      directory.answer = async (call) => {
        if (call === "unlist") await gate.passed;
        return {};
      };
      const expired = identity.expire();
      while (!directory.calls.includes("unlist")) await turns(1);
      await state.storage.sync(); // nothing is on its way to the disk any more that the comer would wait for
      await turns(TURNS);
      gate.open();
      await turns(after);
      await Promise.all([come(), expired]);
    },
  })),
  {
    when: "while the deletion is under way",
    isReaped: true,
    play: async ({ identity, disk }, come) => {
      const gate = new Gate();
      disk.deleted = gate.passed;
      const expired = identity.expire();
      while (disk.deletions === 0) await turns(1);
      await come();
      gate.open();
      await expired;
    },
  },
];

/** Polls what another call of the same object is about to commit. */
async function until(isSo: () => boolean): Promise<void> {
  for (let step = 0; step < 1_000 && !isSo(); step++) await new Promise((resolve) => setTimeout(resolve, 1));
  expect(isSo()).toBe(true);
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await Promise.resolve();
}

describe.each(MOMENTS)("$when", ({ play, isReaped }) => {
  it.each(COMERS)("$what is kept, found, and has its time", async ({ come, isKept, dueAtMs, listed }) => {
    const key = newKey();
    const oldGeneration = await reborn(key, async (world) => {
      await haunted(key, world);
      return (await rows(key, "SELECT generation FROM identity"))[0]!["generation"];
    });
    await reborn(key, async (world) => {
      freezeAt(DUE);
      await play(world, () => come(world));
      const [{ generation, alarm_at_ms, emptied_at_ms }] = world.state.storage.sql
        .exec("SELECT * FROM identity")
        .toArray() as [Record<string, SqlStorageValue>];
      if (isReaped !== "either") expect(generation !== oldGeneration).toBe(isReaped);
      expect(emptied_at_ms).toBeNull(); // no ghost
      expect(await world.alarmAt()).toBe(alarm_at_ms); // the old alarm's deletion took no new one with it
      if (dueAtMs !== Infinity) expect(alarm_at_ms).toBeLessThanOrEqual(dueAtMs);
      // The directory hears of it last of all, or it would not be found.
      expect(world.directory.calls.slice(world.directory.calls.lastIndexOf("unlist"))).toEqual(
        expect.arrayContaining(["unlist", listed]),
      );
      expect(world.directory.calls.at(-1)).toBe(listed);
      expect(world.directory.atOnce).toBe(1); // two on their way may arrive the other way round
    });
    await isKept(key);
  });
});

describe("and if nothing came", () => {
  it("all is gone, and the directory was told first", async () => {
    const key = newKey();
    await reborn(key, (world) => haunted(key, world));
    await reborn(key, async ({ identity, directory, disk, tables, alarmAt }) => {
      freezeAt(DUE);
      directory.answer = (call) => {
        if (call === "unlist") expect(disk.deletions).toBe(0);
        return {};
      };
      await identity.expire();
      expect(directory.calls).toEqual(["unlist"]);
      expect(tables()).toBe(0);
      expect(await alarmAt()).toBeNull();
    });
  });

  it("but the directory does not answer, it is tried again: a key that nothing stands behind would be listed for ever", async () => {
    const key = newKey();
    await reborn(key, (world) => haunted(key, world));
    await reborn(key, async ({ identity, directory, tables, alarmAt }) => {
      freezeAt(DUE);
      directory.answer = () => Promise.reject(new Error("the shard is away"));
      await identity.expire();
      expect(tables()).toBe(1);
      expect(await alarmAt()).toBe(DUE + ALARM_RETRY_MS);
      directory.answer = () => ({});
      freezeAt(DUE + ALARM_RETRY_MS);
      await identity.expire();
      expect(tables()).toBe(0);
    });
  });

  it("it is forgotten while the directory answers: the used nonce stays its time, and nothing of the former life", async () => {
    const key = newKey();
    await reborn(key, (world) => haunted(key, world));
    await reborn(key, async ({ identity, directory, handshake, alarmAt }) => {
      freezeAt(DUE);
      const { nonce } = handshake("x");
      let forgotten: Promise<unknown> | undefined;
      directory.answer = async (call) => {
        if (call === "unlist") forgotten = identity.forget({ key, nonce });
        await turns(TURNS);
        return {};
      };
      await identity.expire();
      expect(await forgotten).toEqual({ forgotten: true });
      expect(await alarmAt()).toBe(nonce.expiresAtMs);
      expect(await identity.forget({ key, nonce })).toEqual({ refused: "replay" });
    });
  });
});

it("an alarm leaves a life alone that began while it rang for the former", async () => {
  const key = newKey();
  await reborn(key, async ({ identity, peer, handshake, mail, alarmAt }) => {
    freezeAt(NOW);
    const goodbyes = [{ to: newKey(), entry: mail("x").entries[0]! }];
    peer.answer = () => Promise.reject(new Error("the peer is away"));
    await identity.unregister({ key, session: session("s1"), ts: 1, sig: "bye", goodbyes });
    freezeAt((await alarmAt())!);
    const { nonce } = handshake("x");
    peer.answer = () => identity.forget({ key, nonce });
    await identity.expire();
    expect(await alarmAt()).toBe(nonce.expiresAtMs);
  });
});

describe("what the directory is told", () => {
  it("is told again if it changed while the directory answered", async () => {
    await reborn(newKey(), async ({ identity, directory, said }) => {
      freezeAt(NOW);
      let coming: Promise<unknown> | undefined;
      directory.answer = async () => {
        coming ??= identity.announce(said("shown", true));
        await turns(TURNS);
        return {};
      };
      await identity.announce(said("hidden", false));
      await coming;
      expect(directory.calls).toEqual(["list hidden", "list shown"]);
    });
  });

  it("is one call for all that come together, and one try for all if it fails", async () => {
    await reborn(newKey(), async ({ identity, directory, said, alarmAt }) => {
      freezeAt(NOW);
      directory.answer = async () => {
        await turns(TURNS);
        throw new Error("the shard is away");
      };
      await Promise.all(["a", "b", "c"].map((id) => identity.announce(said(id, true))));
      expect(directory.calls).toEqual(["list shown"]);
      expect(await alarmAt()).toBe(NOW + 30_000);
    });
  });

  it("is not written into the life that came after", async () => {
    const key = newKey();
    await reborn(key, async ({ identity, directory, said, state, handshake }) => {
      freezeAt(NOW);
      const gate = new Gate();
      let coming: Promise<unknown> | undefined;
      await identity.announce(said("s1", false));
      directory.answer = async (call) => {
        if (call === "forget") {
          coming = identity.announce(said("s2", true));
          await until(() => state.storage.sql.exec("SELECT 1 FROM session").toArray().length === 2);
          await turns(TURNS);
        } else await gate.passed;
        return {};
      };
      const { nonce } = handshake("x");
      expect(await identity.forget({ key, nonce })).toEqual({ forgotten: true });
      gate.open();
      await coming;
      expect(directory.calls).toEqual(["list hidden", "forget", "list shown"]);
      const row = state.storage.sql.exec("SELECT * FROM identity").one();
      expect(row).toMatchObject({ told_shown: 0, listing_due_at_ms: NOW, alarm_at_ms: nonce.expiresAtMs });
    });
  });

  it("nothing sooner that came while it answered is slept through", async () => {
    const key = newKey();
    await reborn(key, (world) => haunted(key, world));
    await reborn(key, async ({ identity, directory, state, said, knock, isEmptied, alarmAt }) => {
      freezeAt(DUE);
      const coming: Promise<unknown>[] = [];
      directory.answer = async (call) => {
        if (call === "unlist") {
          coming.push(identity.announce(said("new", true)));
          await until(() => !isEmptied());
        } else if (coming.length === 1) {
          await turns(TURNS); // by now the alarm has read what it would set itself by
          coming.push(identity.enqueue(knock()));
          await until(() => state.storage.sql.exec("SELECT 1 FROM knock").toArray().length === 1);
        }
        return {};
      };
      await identity.expire();
      await Promise.all(coming);
      expect(await alarmAt()).toBe(DUE + KNOCK_RETAIN_MS);
    });
  });
});
