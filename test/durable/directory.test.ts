/** A directory shard and its bound: who is listed when more have an object than it lists, and what that takes from whom. */

import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Key } from "../../src/protocol/address.ts";
import { DirectoryObject } from "../../src/durable/directory-object.ts";
import type { Env } from "../../src/durable/env.ts";
import { LISTED_TABLE, ListedStore } from "../../src/durable/listed-store.ts";
import { Sql } from "../../src/durable/meter.ts";
import { bindings, freezeAt, newKey } from "../support/objects.ts";
import { reborn } from "../support/reborn.ts";

const NOW = 4_000_000_000_000;
const HOUR = 3_600_000;
const DAY = 86_400_000;
let shards = 0;

/** A shard of its own that lists this many. */
function withShard<T>(max: number, work: (shard: DirectoryObject) => T | Promise<T>): Promise<T> {
  return runInDurableObject(bindings.DIRECTORY.getByName(`test-${++shards}`), (_, state) =>
    work(new DirectoryObject(state, { ...env, LISTED_MAX: max } as unknown as Env)),
  );
}

const list = (shard: DirectoryObject, key: Key, isShown: boolean) =>
  JSON.parse(shard.list(JSON.stringify({ key, isShown })));
const page = (shard: DirectoryObject, isShown: boolean) =>
  JSON.parse(shard.page(JSON.stringify({ limit: 200, isShown }))) as { keys: Key[]; isFull?: true };
const keysOf = (count: number) => Array.from({ length: count }, newKey).sort();

describe("an invite", () => {
  const invited = (shard: DirectoryObject, hash: string, expiresAtMs: number) =>
    shard.putInvite(JSON.stringify({ hash, expiresAtMs }));
  const take = (shard: DirectoryObject, hash: string, key: Key) =>
    JSON.parse(shard.takeInvite(JSON.stringify({ hash, key })));

  it("that a key took and did not yet use up is that key's alone, which may take it again", () =>
    withShard(3, (shard) => {
      freezeAt(NOW);
      const [first, second] = keysOf(2) as [Key, Key];
      invited(shard, "h", NOW + HOUR);
      expect(take(shard, "h", first)).toEqual({});
      expect(take(shard, "h", second)).toEqual({ refused: "join_denied" });
      expect(take(shard, "h", first)).toEqual({});
      shard.removeInvite(JSON.stringify({ hash: "h" }));
      expect(take(shard, "h", first)).toEqual({ refused: "join_denied" });
    }));

  it("is good until its time, and not at it", () =>
    withShard(3, (shard) => {
      freezeAt(NOW);
      for (const hash of ["a", "b"]) invited(shard, hash, NOW + HOUR);
      freezeAt(NOW + HOUR - 1);
      expect(take(shard, "a", newKey())).toEqual({});
      freezeAt(NOW + HOUR);
      expect(take(shard, "b", newKey())).toEqual({ refused: "join_denied" });
    }));
});

describe("a shard lists LISTED_MAX keys", () => {
  it("the last that fits, and not one more that nobody would see", () =>
    withShard(3, (shard) => {
      const [a, b, c, d] = keysOf(4) as [Key, Key, Key, Key];
      for (const key of [a, b, c]) {
        expect(page(shard, false).isFull).toBeUndefined();
        expect(list(shard, key, false)).toEqual({});
      }
      expect(list(shard, d, false)).toEqual({ isFull: true });
      expect(page(shard, false)).toEqual({ keys: [a, b, c], isFull: true });
      expect(page(shard, true)).toEqual({ keys: [] }); // the roster misses none, so it is told nothing
    }));

  it("one that is listed is full for nobody: it may show itself, hide, and come again", () =>
    withShard(1, (shard) => {
      const key = newKey();
      for (const isShown of [false, true, true, false]) expect(list(shard, key, isShown)).toEqual({});
      expect(page(shard, true).keys).toEqual([]);
    }));

  it("a shown one takes the place of a hidden one, and never of a shown one", () =>
    withShard(3, (shard) => {
      const [a, b, c, d, e] = keysOf(5) as [Key, Key, Key, Key, Key];
      list(shard, a, true);
      list(shard, b, false);
      list(shard, d, false);
      expect(list(shard, c, true)).toEqual({});
      expect(page(shard, false).keys).toEqual([a, b, c]); // the next hidden one by its key
      expect(list(shard, e, true)).toEqual({});
      expect(page(shard, false).keys).toEqual([a, c, e]); // and around the end
      expect(list(shard, d, true)).toEqual({ isFull: true });
      expect(page(shard, true).keys).toEqual([a, c, e]);
    }));

  it("who leaves makes room, by unlist and by forget", () =>
    withShard(2, (shard) => {
      const [a, b, c] = keysOf(3) as [Key, Key, Key];
      for (const key of [a, b]) list(shard, key, true);
      expect(list(shard, c, true)).toEqual({ isFull: true });
      shard.unlist(JSON.stringify({ key: a }));
      shard.unlist(JSON.stringify({ key: a })); // a repeat makes room for nobody
      expect(list(shard, c, true)).toEqual({});
      expect(list(shard, a, true)).toEqual({ isFull: true });
      shard.forget(JSON.stringify({ key: b }));
      expect(list(shard, a, true)).toEqual({});
    }));

  it("a lowered bound takes nobody off by itself; the next shown one makes room for all that are over", () =>
    runInDurableObject(bindings.DIRECTORY.getByName(`test-${++shards}`), (_, { storage }) => {
      const sql = new Sql(storage.sql);
      sql.exec(LISTED_TABLE);
      const [a, b, c, d, e] = keysOf(5) as [Key, Key, Key, Key, Key];
      const before = new ListedStore(sql, { LISTED_MAX: 9 });
      before.put(a, true);
      for (const key of [b, c, d]) before.put(key, false);
      const after = new ListedStore(sql, { LISTED_MAX: 2 });
      expect(after.put(newKey(), false)).toBe("full");
      expect(after.page("", 9, false)).toEqual([a, b, c, d]);
      expect(after.put(e, true)).toBe("evicted");
      expect(after.page("", 9, false)).toEqual([a, e]);
    }));

  it("whatever comes and goes: never more, no shown one is lost, and it knows how many there are", async () => {
    const keys = keysOf(6);
    const command = fc.record({ key: fc.constantFrom(...keys), does: fc.constantFrom("shown", "hidden", "gone") });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 4 }), fc.array(command, { maxLength: 40 }), (max, commands) =>
        runInDurableObject(bindings.DIRECTORY.getByName(`test-${++shards}`), (_, { storage }) => {
          const sql = new Sql(storage.sql);
          sql.exec(LISTED_TABLE);
          const store = new ListedStore(sql, { LISTED_MAX: max });
          const shown = new Set<Key>();
          for (const { key, does } of commands) {
            const room = shown.has(key) || shown.size < max;
            if (does === "gone") store.remove(key);
            const isListed = does !== "gone" && store.put(key, does === "shown") !== "full";
            if (does === "shown") expect(isListed).toBe(room || store.page("", 9, false).includes(key));
            if (isListed && does === "shown") shown.add(key);
            else shown.delete(key);
            expect(store.page("", 9, true)).toEqual([...shown].sort());
            const all = store.page("", 9, false);
            expect(all.length).toBeLessThanOrEqual(max);
            expect(store.isFull()).toBe(all.length >= max);
          }
        }),
      ),
      { numRuns: 60 },
    );
  });
});

describe("an identity that its shard has no room for", () => {
  it("is announced, gets its mail, and asks again a day later, or at once when it is called past that", async () => {
    const key = newKey();
    freezeAt(NOW);
    let isFull = true;
    await reborn(key, async ({ identity, directory, alarmAt, said, mail }) => {
      directory.answer = () => (isFull ? { isFull: true } : {});
      expect(await identity.announce(said("s1", true))).toMatchObject({ now_ms: NOW });
      expect(await identity.enqueue(mail("s1"))).toMatchObject({ results: [{ state: "stored" }] });
      await identity.announce(said("s1", true));
      expect(directory.calls).toEqual(["list shown"]); // not with each heartbeat
      expect(await alarmAt()).toBe(NOW + DAY);
      freezeAt(NOW + DAY);
      await identity.expire();
      expect(directory.calls).toEqual(["list shown", "list shown"]);
      isFull = false;
      freezeAt(NOW + 2 * DAY);
      await identity.announce(said("s1", true));
      await identity.announce(said("s1", true));
      expect(directory.calls).toEqual(["list shown", "list shown", "list shown"]);
      await identity.expire();
      expect(await alarmAt()).toBeGreaterThan(NOW + 3 * DAY); // nothing is left to ask
    });
  });

  it("asks no more where it shows nothing, until it does", async () => {
    freezeAt(NOW);
    await reborn(newKey(), async ({ identity, directory, said }) => {
      directory.answer = () => ({ isFull: true });
      await identity.announce(said("s1", false));
      freezeAt(NOW + 2 * DAY);
      await identity.announce(said("s1", false));
      expect(directory.calls).toEqual(["list hidden"]);
      await identity.announce(said("s1", true));
      expect(directory.calls).toEqual(["list hidden", "list shown"]);
    });
  });
});
