/** How the door calls an object: one JSON text each way, a fresh stub for each attempt. */

import type { Key } from "../protocol/address.ts";
import { isRefusal, type Refusal } from "../protocol/refusal.ts";
import type { DirectoryCalls, IdentityCalls, PollCall, SocketCall } from "../durable/calls.ts";
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
  return fetchIdentity(env, "poll", call, isParked);
}

/** Opens a session's socket at its identity's object, or answers 409 with a refusal. */
export function connectIdentity(env: Env, call: SocketCall): Promise<Response> {
  return fetchIdentity(env, "socket", call, true);
}

function fetchIdentity(env: Env, path: string, call: PollCall | SocketCall, mayUpgrade: boolean): Promise<Response> {
  const url = `https://identity/${path}?call=${encodeURIComponent(JSON.stringify(call))}`;
  return env.IDENTITIES.getByName(call.key).fetch(url, mayUpgrade ? { headers: { upgrade: "websocket" } } : {});
}

/** The refusal in an object's answer to a fetch. @throws if it is none */
export async function refusalIn(answer: Response): Promise<Refusal> {
  const body: unknown = await answer.json();
  if (isRefusal(body)) return body;
  throw new Error(`the object answered with ${answer.status}`);
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
