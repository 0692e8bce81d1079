/** PURE: which directory object a key belongs to. Fixed for the life of a bus. */

import { keyBytes, type Key } from "../protocol/address.ts";

/** The name of a shard's object. */
export function shardName(shard: number): string {
  return `shard-${shard}`;
}

/** The shard of a key; keys are random, so their first bytes spread evenly. */
export function shardOf(key: Key, shards: number): number {
  const bytes = keyBytes(key);
  return ((bytes[0]! << 8) | bytes[1]!) % shards;
}
