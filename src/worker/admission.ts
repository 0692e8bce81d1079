/**
 * Who may use a bus with ADMISSION=join.
 *
 * The one thing the door remembers: that a key was found admitted, for a minute, so that admission costs
 * an active key one object call a minute instead of one a request. Never that it was not, so an invite
 * counts at once; a forgotten key may linger for that minute in another isolate.
 */

import type { Key } from "../protocol/address.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { shardOf } from "../durable/directory-shards.ts";
import { askDirectory } from "./ask.ts";
import type { Call } from "./route.ts";

const REMEMBER_MS = 60_000;
const REMEMBER_MAX = 10_000;

const admittedUntilMs = new Map<Key, number>();

/** Refuses with `not_admitted`. Anyone passes under ADMISSION=open, and admin keys always do. */
export async function checkAdmission({
  env,
  settings,
  caller,
  nowMs,
}: Pick<Call, "env" | "settings" | "caller" | "nowMs">): Promise<Refusal | undefined> {
  if (settings.admission === "open" || !caller || settings.adminKeys.has(caller.key)) return undefined;
  if ((admittedUntilMs.get(caller.key) ?? 0) > nowMs) return undefined;
  const shard = shardOf(caller.key, settings.directoryShards);
  const answer = await askDirectory(env, shard, "isAdmitted", { key: caller.key });
  if (isRefusal(answer)) return answer;
  if (!answer.isAdmitted) return refuse("not_admitted");
  if (admittedUntilMs.size >= REMEMBER_MAX) admittedUntilMs.clear(); // the next minute asks again; cheaper than an order
  admittedUntilMs.set(caller.key, nowMs + REMEMBER_MS);
  return undefined;
}

/** The key was forgotten: in this isolate at once. */
export function forgetAdmission(key: Key): void {
  admittedUntilMs.delete(key);
}
