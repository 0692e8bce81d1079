/**
 * The platform's rate limits as a brake: counted per location and roughly, so they only keep a flood off;
 * the exact limits are in the objects. By address before a signature is verified, by key after it, so that
 * nobody can use up the allowance of a key that is not theirs.
 */

import { refuse, type Refusal } from "../protocol/refusal.ts";
import { logEvent } from "../durable/log.ts";
import type { Env } from "../durable/env.ts";
import type { Settings } from "../durable/settings.ts";

/** The periods of the bindings in wrangler.toml; the platform offers 10 and 60. */
const PERIOD_S = 10;

let wasMissed = false;

/** Slows down one address. On a local bus all clients share one, so there is nothing to tell apart. */
export function brakeAddress(request: Request, env: Env, settings: Settings): Promise<Refusal | undefined> {
  const address = request.headers.get("cf-connecting-ip");
  return settings.hosts || address === null ? Promise.resolve(undefined) : brake(env, "BRAKE_ADDRESS", address);
}

/** Slows down one key, over all the identities that it calls. */
export function brakeKey(key: string, env: Env, settings: Settings): Promise<Refusal | undefined> {
  return settings.hosts ? Promise.resolve(undefined) : brake(env, "BRAKE_KEY", key);
}

async function brake(env: Env, name: string, key: string): Promise<Refusal | undefined> {
  const binding = env[name] as RateLimit | undefined;
  if (!binding) {
    if (!wasMissed) logEvent("no_brake", { binding: name, meaning: "no rate limit before authentication here" });
    wasMissed = true;
    return undefined;
  }
  const { success } = await binding.limit({ key });
  return success ? undefined : refuse("rate_limited", { retry_after_s: PERIOD_S });
}
