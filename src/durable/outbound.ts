/**
 * What an identity's object tells other objects: the directory whether to list it, and peers goodbye.
 * Both are written down before they are tried, and tried again by the alarm; both are idempotent.
 */

import type { Key } from "../protocol/address.ts";
import type { DirectoryCalls, IdentityCalls } from "./calls.ts";
import { clock } from "./clock.ts";
import { shardName, shardOf } from "./directory-shards.ts";
import type { Env } from "./env.ts";
import type { GroupCommit } from "./group-commit.ts";
import type { IdentityStorage } from "./identity-storage.ts";
import { logFault } from "./log.ts";

/** A failed call to the directory is tried again after this. */
const LISTING_RETRY_MS = 30_000;
/** Places in a full directory become free by days, as sessions are gone; asked hourly, the asking would cost more than all else. */
const LISTING_FULL_RETRY_MS = 86_400_000;
/** Calls to other objects at a time: the platform may cancel a seventh connection. */
const CALLS_AT_A_TIME = 6;

export class Outbound {
  readonly #env: Env;
  readonly #commits: GroupCommit;
  readonly #shards: number;
  readonly #current: () => IdentityStorage | undefined;
  /** The last call to the directory: the next waits for it, or a list might be overtaken by the unlist before it. */
  #lastCall: Promise<unknown> = Promise.resolve();

  /** @param current the identity's storage as it is when asked: a call to another object may outlive it */
  constructor(env: Env, commits: GroupCommit, directoryShards: number, current: () => IdentityStorage | undefined) {
    this.#env = env;
    this.#commits = commits;
    this.#shards = directoryShards;
    this.#current = current;
  }

  /** Brings the directory to what the roster shows to all, if it is due to be told. Never throws. */
  async tellDirectory(): Promise<void> {
    if (this.#isDue()) await this.#inTurn(() => this.#tell());
  }

  async #tell(): Promise<void> {
    const told = this.#current();
    if (!told || !this.#isDue()) return; // calls that came together tell it once
    const { key, generation } = told;
    const isShown = told.isShown(clock.now());
    try {
      const answer = await this.#directory(key).list(JSON.stringify({ key, isShown }));
      const { isFull } = JSON.parse(answer) as DirectoryCalls["list"]["answer"];
      if (isFull && isShown) return await this.#tellAgain(generation, isShown, LISTING_FULL_RETRY_MS);
      // Where there is no room for a hidden one, it is asked for again when it shows itself.
      await this.#commit(generation, (kept) => {
        kept.setListing({ isShown, dueAtMs: null });
        kept.noteListing(clock.now()); // what changed since the call left is told by whoever changed it, who waits
      });
    } catch (fault) {
      logFault("directory_fault", fault);
      await this.#tellAgain(generation, isShown, LISTING_RETRY_MS);
    }
  }

  async #tellAgain(generation: string, isShown: boolean, afterMs: number): Promise<void> {
    const dueAtMs = clock.now() + afterMs;
    await this.#commit(generation, (kept) => {
      kept.setListing({ isShown: !isShown, dueAtMs });
      kept.armFor({ callDueAtMs: dueAtMs });
    });
  }

  #isDue(): boolean {
    const dueAtMs = this.#current()?.listing.dueAtMs ?? Infinity;
    return dueAtMs <= clock.now();
  }

  /** One call to the directory after the other. */
  #inTurn<T>(call: () => Promise<T>): Promise<T> {
    const answer = this.#lastCall.then(call);
    this.#lastCall = answer.catch(() => undefined);
    return answer;
  }

  /** Commits to the life that the call was made in. Another one is passed over: it has told nobody anything yet. */
  #commit(generation: string, work: (kept: IdentityStorage) => void): Promise<void> {
    return this.#commits.run(() => {
      const kept = this.#current();
      if (kept?.generation === generation) work(kept);
    });
  }

  /** Has the directory drop a key whose object is about to go. Never throws. @returns whether it did */
  async unlist(key: Key): Promise<boolean> {
    try {
      await this.#inTurn(async () => this.#directory(key).unlist(JSON.stringify({ key })));
      return true;
    } catch (fault) {
      logFault("directory_fault", fault);
      return false;
    }
  }

  /** Has the directory forget a key: that it is listed, and that it was admitted. */
  async forget(key: Key): Promise<void> {
    await this.#inTurn(async () => this.#directory(key).forget(JSON.stringify({ key })));
  }

  /** Sends due goodbyes on. Each is tried until the peer's object answers, yes or no. Never throws. */
  async sendGoodbyes(): Promise<void> {
    for (;;) {
      const nowMs = clock.now();
      const kept = this.#current();
      const group = kept?.goodbyes.due(nowMs, CALLS_AT_A_TIME) ?? [];
      if (!kept || group.length === 0) return;
      const { generation } = kept;
      const ids = group.map(({ id }) => id);
      await this.#commit(generation, ({ goodbyes }) => goodbyes.attempt(ids, nowMs));
      const sent = group.map(async ({ id, goodbye: { to, entry } }) => {
        const call: IdentityCalls["enqueue"]["call"] = { key: to, entries: [entry] };
        try {
          await this.#env.IDENTITIES.getByName(to).enqueue(JSON.stringify(call));
          await this.#commit(generation, ({ goodbyes }) => goodbyes.settle(id));
        } catch (fault) {
          logFault("goodbye_fault", fault);
          await this.#commit(generation, ({ goodbyes }) => goodbyes.failed(id));
        }
      });
      await Promise.all(sent);
    }
  }

  #directory(key: Key) {
    return this.#env.DIRECTORY.getByName(shardName(shardOf(key, this.#shards)));
  }
}
