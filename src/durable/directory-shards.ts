/** PURE: which directory object a key belongs to. Fixed for the life of a bus. */

import { keyBytes, type Key } from "../protocol/address.ts";

/** The name of a shard's object. */
export function shardName(shard: number): string {
  return `shard-${shard}`;
}

/** The shard of a key. */
export function shardOf(key: Key, shards: number): number {
  return shardOfBytes(keyBytes(key), shards);
}

/** The shard of a key's or a hash's bytes; either is random, so the first two spread evenly. */
export function shardOfBytes(bytes: Uint8Array, shards: number): number {
  return ((bytes[0]! << 8) | bytes[1]!) % shards;
}
