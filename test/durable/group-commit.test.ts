/** Arrivals during a sync share the next one; each piece of work still stands or falls alone, in its order. */

import { runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { GroupCommit } from "../../src/durable/group-commit.ts";
import type { IdentityObject } from "../../src/durable/identity-object.ts";
import { announce, entry, newKey, stubOf, waitingIds } from "../support/objects.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** An object's real storage whose syncs wait until the test ends them, so that arrivals can be placed. */
class Trial {
  readonly commits: GroupCommit;
  /** Work that ran, in its order. */
  readonly ran: string[] = [];
  rollbacks = 0;
  syncs = 0;
  readonly #sql: SqlStorage;
  #endSync: (() => void) | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#sql = storage.sql;
    this.#sql.exec("CREATE TABLE work (name TEXT PRIMARY KEY) STRICT");
    const held = {
      transactionSync: <T>(work: () => T) => storage.transactionSync(work),
      sync: () => {
        this.syncs++;
        return new Promise<void>((resolve) => (this.#endSync = resolve)).then(() => storage.sync());
      },
    };
    this.commits = new GroupCommit(held as DurableObjectStorage, () => this.rollbacks++);
  }

  /** Work that writes a row, and then may throw. */
  write(name: string, fault?: Error): Promise<string> {
    return this.commits.run(() => {
      this.ran.push(name);
      this.#sql.exec("INSERT INTO work (name) VALUES (?)", name);
      if (fault) throw fault;
      return name;
    });
  }

  rows(): string[] {
    return this.#sql
      .exec<{ name: string }>("SELECT name FROM work ORDER BY name")
      .toArray()
      .map((row) => row.name);
  }

  /** Ends the sync under way, and lets what waited for it run. */
  async endSync(): Promise<void> {
    const syncs = this.syncs;
    this.#endSync!();
    // The next one begins once the real sync has ended; after the last there is none to wait for.
    for (let turn = 0; turn < 20 && this.syncs === syncs; turn++) await scheduler.wait(1);
  }
}

function onTrial<T>(test: (trial: Trial) => Promise<T>): Promise<T> {
  return runInDurableObject(stubOf(newKey()), (_, { storage }) => test(new Trial(storage)));
}

describe("a group commit", () => {
  it("lets a piece of work that comes alone wait for nothing", () =>
    onTrial(async (trial) => {
      const answer = trial.write("a");
      expect(trial.ran).toEqual(["a"]); // before anything was awaited
      expect(await answer).toBe("a"); // the sync is still under way: the platform holds the answer, not we
      expect(trial.syncs).toBe(1);
      await trial.endSync();
    }));

  it("gives what arrives during a sync the next one together, in the order of arrival", () =>
    onTrial(async (trial) => {
      const first = trial.write("a");
      const rest = ["d", "b", "c"].map((name) => trial.write(name));
      expect(trial.ran).toEqual(["a"]);
      await trial.endSync();
      expect(trial.ran).toEqual(["a", "d", "b", "c"]);
      expect(trial.syncs).toBe(2);
      const late = trial.write("e");
      await trial.endSync();
      expect(trial.syncs).toBe(3);
      expect(await Promise.all([first, ...rest, late])).toEqual(["a", "d", "b", "c", "e"]);
      await trial.endSync();
      expect(trial.syncs).toBe(3); // with nobody waiting there is no further one
    }));

  it("starts anew when something comes after all was still", () =>
    onTrial(async (trial) => {
      await trial.write("a");
      await trial.endSync();
      await trial.write("b");
      expect([trial.ran, trial.syncs]).toEqual([["a", "b"], 2]);
      await trial.endSync();
    }));

  it("undoes the writes of work that throws, and of no other in its group", () =>
    onTrial(async (trial) => {
      const fault = new Error("no");
      const first = trial.write("a");
      const group = [trial.write("b"), trial.write("c", fault), trial.write("d")];
      const settled = Promise.allSettled(group);
      await trial.endSync();
      expect(await settled).toEqual([
        { status: "fulfilled", value: "b" },
        { status: "rejected", reason: fault },
        { status: "fulfilled", value: "d" },
      ]);
      expect(await first).toBe("a");
      expect(trial.rows()).toEqual(["a", "b", "d"]);
      expect(trial.rollbacks).toBe(1); // told once, so that what is in memory is read again
      await trial.endSync();
    }));

  it("goes on after work that throws alone", () =>
    onTrial(async (trial) => {
      await expect(trial.write("a", new Error("no"))).rejects.toThrow("no");
      const next = trial.write("b");
      await trial.endSync();
      expect(await next).toBe("b");
      expect(trial.rows()).toEqual(["b"]);
      await trial.endSync();
    }));
});

describe("an identity's object", () => {
  it("takes sends that arrive together with two syncs, in their order", async () => {
    const key = newKey();
    await announce(key, "s1"); // else what a first write costs once would be counted too
    const names = Array.from({ length: 20 }, (_, n) => `m${n}`);
    const syncs = await runInDurableObject(stubOf(key), async (instance, { storage }) => {
      const sync = vi.spyOn(Object.getPrototypeOf(storage) as DurableObjectStorage, "sync");
      const calls = names.map((msgId) => JSON.stringify({ key, entries: [entry(key, "s1", { msgId })] }));
      const answers = await Promise.all(calls.map((json) => (instance as unknown as IdentityObject).enqueue(json)));
      for (const answer of answers) expect(JSON.parse(answer)).toMatchObject({ results: [{ state: "stored" }] });
      return sync.mock.calls.length;
    });
    expect(syncs).toBe(2); // the first alone, and the rest together
    expect(await waitingIds(key, "s1")).toEqual(names);
  });
});
