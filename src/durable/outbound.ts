/**
 * What an identity's object tells other objects: the directory whether to list it, and peers goodbye.
 * Both are written down before they are tried, and tried again by the alarm; both are idempotent.
 */

import type { Key } from "../protocol/address.ts";
import type { IdentityCalls } from "./calls.ts";
import { clock } from "./clock.ts";
import { shardName, shardOf } from "./directory-shards.ts";
import type { Env } from "./env.ts";
import type { GroupCommit } from "./group-commit.ts";
import type { IdentityStorage } from "./identity-storage.ts";
import { logFault } from "./log.ts";

/** A failed call to the directory is tried again after this. */
const LISTING_RETRY_MS = 30_000;
/** Calls to other objects at a time: the platform may cancel a seventh connection. */
const CALLS_AT_A_TIME = 6;

export class Outbound {
  readonly #env: Env;
  readonly #commits: GroupCommit;
  readonly #shards: number;
  #telling: Promise<void> | undefined;

  constructor(env: Env, commits: GroupCommit, directoryShards: number) {
    this.#env = env;
    this.#commits = commits;
    this.#shards = directoryShards;
  }

  /** Brings the directory to what the roster shows to all, if it is not known to be so. Never throws. */
  async tellDirectory(kept: IdentityStorage): Promise<void> {
    if (kept.listing.dueAtMs === null) return;
    // Calls that came together tell it once; what changed since that call left is told by one more.
    await this.#telling;
    if (kept.listing.dueAtMs === null) return;
    this.#telling = this.#tell(kept).finally(() => {
      this.#telling = undefined;
    });
    await this.#telling;
  }

  async #tell(kept: IdentityStorage): Promise<void> {
    const isShown = kept.isShown(clock.now());
    try {
      const directory = this.#directory(kept.key);
      await directory.list(JSON.stringify({ key: kept.key, isShown }));
      await this.#commits.run(() => kept.setListing({ isShown, dueAtMs: null }));
    } catch (fault) {
      logFault("directory_fault", fault);
      const dueAtMs = clock.now() + LISTING_RETRY_MS;
      await this.#commits.run(() => {
        kept.setListing({ isShown: !isShown, dueAtMs });
        kept.armFor({ callDueAtMs: dueAtMs });
      });
    }
  }

  /** Has the directory drop a key whose object is no more. Never throws: a key without an object shows nothing. */
  async unlist(key: Key): Promise<void> {
    try {
      await this.#directory(key).unlist(JSON.stringify({ key }));
    } catch (fault) {
      logFault("directory_fault", fault);
    }
  }

  /** Has the directory forget a key: that it is listed, and that it was admitted. */
  async forget(key: Key): Promise<void> {
    await this.#directory(key).forget(JSON.stringify({ key }));
  }

  /** Sends due goodbyes on. Each is tried until the peer's object answers, yes or no. Never throws. */
  async sendGoodbyes(kept: IdentityStorage): Promise<void> {
    for (;;) {
      const nowMs = clock.now();
      const group = kept.goodbyes.due(nowMs, CALLS_AT_A_TIME);
      if (group.length === 0) return;
      await this.#commits.run(() =>
        kept.goodbyes.attempt(
          group.map(({ id }) => id),
          nowMs,
        ),
      );
      const sent = group.map(async ({ id, goodbye: { to, entry } }) => {
        const call: IdentityCalls["enqueue"]["call"] = { key: to, entries: [entry] };
        try {
          await this.#env.IDENTITIES.getByName(to).enqueue(JSON.stringify(call));
          await this.#commits.run(() => kept.goodbyes.settle(id));
        } catch (fault) {
          logFault("goodbye_fault", fault);
          await this.#commits.run(() => kept.goodbyes.failed(id));
        }
      });
      await Promise.all(sent);
    }
  }

  #directory(key: Key) {
    return this.#env.DIRECTORY.getByName(shardName(shardOf(key, this.#shards)));
  }
}
