/** How the door calls an object: one JSON text each way, a fresh stub for each attempt. */

import type { Key } from "../protocol/address.ts";
import type { Refusal } from "../protocol/refusal.ts";
import type { DirectoryCalls, IdentityCalls, PollCall } from "../durable/calls.ts";
import type { Env } from "../durable/env.ts";
import { shardName } from "../durable/directory-shards.ts";

/** Operations that may be run twice: the rest use up a nonce. */
const REPEATABLE: ReadonlySet<string> = new Set([
  "announce",
  "unregister",
  "view",
  "enqueue",
  "ack",
  "contacts",
  "receipts",
]);

/** Asks an identity's object. @throws if the platform or the object has a fault */
export function askIdentity<Operation extends keyof IdentityCalls>(
  env: Env,
  key: Key,
  operation: Operation,
  call: Omit<IdentityCalls[Operation]["call"], "key">,
): Promise<IdentityCalls[Operation]["answer"] | Refusal> {
  const json = JSON.stringify({ key, ...call });
  return attempt(() => env.IDENTITIES.getByName(key)[operation](json), REPEATABLE.has(operation));
}

/** Asks one shard of the directory. */
export function askDirectory<Operation extends keyof DirectoryCalls>(
  env: Env,
  shard: number,
  operation: Operation,
  call: DirectoryCalls[Operation]["call"],
): Promise<DirectoryCalls[Operation]["answer"] | Refusal> {
  const json = JSON.stringify(call);
  return attempt(() => env.DIRECTORY.getByName(shardName(shard))[operation](json), operation !== "useNonce");
}

/** Polls an identity's object; with `isParked`, an answer that is not there yet comes over the returned socket. */
export function pollIdentity(env: Env, call: PollCall, isParked: boolean): Promise<Response> {
  const url = `https://identity/poll?call=${encodeURIComponent(JSON.stringify(call))}`;
  return env.IDENTITIES.getByName(call.key).fetch(url, isParked ? { headers: { upgrade: "websocket" } } : {});
}

async function attempt<Answer>(call: () => Promise<string>, isRepeatable: boolean): Promise<Answer> {
  try {
    return JSON.parse(await call()) as Answer;
  } catch (fault) {
    const { retryable, overloaded } = fault as { retryable?: boolean; overloaded?: boolean };
    if (!isRepeatable || !retryable || overloaded) throw fault;
    return JSON.parse(await call()) as Answer;
  }
}
