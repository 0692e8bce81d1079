/** PURE: what the directory's shards are asked, and what they list. */

import { PAGE_MAX } from "../../src/protocol/constants.ts";
import { shardOfBytes } from "../../src/durable/directory-shards.ts";
import type { Random } from "../random.ts";

/** Pages that a client's `discover` reads at a time, as roster-book.ts. */
export const PAGES_OF_A_LOOK = 1;
/** Identities that the door asks at a time, as directory-page.ts. */
export const ASKED_AT_A_TIME = 6;

export interface Look {
  readonly pages: number;
  readonly shardCalls: number;
  /** Of these, of the shard that every look begins with. */
  readonly firstShardCalls: number;
  readonly objectCalls: number;
  /** Each object call waits for those of the six before it, and each shard's for the shard's before. */
  readonly roundsInAll: number;
}

/** A client's look at all who show themselves, with as many in each shard. */
export function lookAtAll(shown: number, shards: number, pagesMax = PAGES_OF_A_LOOK): Look {
  const listed = Array.from(
    { length: shards },
    (_, shard) => Math.floor(((shard + 1) * shown) / shards) - Math.floor((shard * shown) / shards),
  );
  let [pages, shardCalls, firstShardCalls, objectCalls, roundsInAll] = [0, 0, 0, 0, 0];
  let [shard, taken] = [0, 0];
  for (; pages < pagesMax; pages++) {
    let room = PAGE_MAX;
    for (; shard < shards; shard++, taken = 0) {
      shardCalls++;
      if (shard === 0) firstShardCalls++;
      roundsInAll++;
      const found = Math.min(room, listed[shard]! - taken);
      room -= found;
      taken += found;
      if (room === 0) break;
    }
    objectCalls += PAGE_MAX - room;
    roundsInAll += Math.ceil((PAGE_MAX - room) / ASKED_AT_A_TIME);
    if (shard === shards) return { pages: pages + 1, shardCalls, firstShardCalls, objectCalls, roundsInAll };
  }
  return { pages, shardCalls, firstShardCalls, objectCalls, roundsInAll };
}

/** The fullest shard over the mean, for keys as random as keys are. */
export function unevenness(keys: number, shards: number, random: Random): number {
  const counts = new Uint32Array(shards);
  for (let key = 0; key < keys; key++) {
    counts[shardOfBytes(Uint8Array.of(random() * 256, random() * 256), shards)]!++;
  }
  return (Math.max(...counts) * shards) / keys;
}

/** Shards of a bus to be: as many as let all its sessions back within `withinMs` after all were cut. */
export function shardsFor(sessionsOnline: number, shardPerS: number, withinMs: number): number {
  const needed = Math.ceil(sessionsOnline / ((shardPerS * withinMs) / 1_000));
  return Math.max(8, 2 ** Math.ceil(Math.log2(Math.max(1, needed))));
}
