/** From a request to a reply: the checks of guard and authenticate, then the route's own, then its objects. */

import { clock } from "../durable/clock.ts";
import type { Env } from "../durable/env.ts";
import { settingsOf, type Settings } from "../durable/settings.ts";
import { parseJsonObject } from "../protocol/json.ts";
import { isRefusal, type Refusal } from "../protocol/refusal.ts";
import { checkAdmission } from "./admission.ts";
import { authenticate, tokenFromHeader } from "./authenticate.ts";
import { brakeAddress, brakeKey } from "./brake.ts";
import { checkHeaders, parseQuery, readBody, targetOf } from "./guard.ts";
import { answer, type Seen } from "./observe.ts";
import type { Reply } from "./reply.ts";
import type { AnyRoute, Call, Route } from "./route.ts";

/** A route with its plan's type closed over, for the table. */
export function route<Plan>({ check, act, ...rest }: Route<Plan>): AnyRoute {
  return {
    ...rest,
    async run(call) {
      const plan = await check(call);
      if (isRefusal(plan)) return plan;
      // Last, because it is the first that may ask an object.
      const refusal = rest.isForAll ? undefined : await checkAdmission(call);
      return refusal ?? act(plan, call);
    },
  };
}

/** Handles a request whose target and method have chosen this route. */
export async function handle(route: AnyRoute, request: Request, env: Env): Promise<Response> {
  const settings = settingsOf(env);
  const seen: Seen = { method: route.method, route: route.path, startedMs: clock.now() };
  return answer(await run(route, request, env, settings, seen), seen, settings, clock.now);
}

async function run(
  route: AnyRoute,
  request: Request,
  env: Env,
  settings: Settings,
  seen: Seen,
): Promise<Reply | Refusal> {
  const rejected = checkHeaders(request, settings) ?? (await brakeAddress(request, env, settings));
  if (rejected) return rejected;
  const bytes = await readBody(request, settings.limits.BODY_MAX_BYTES);
  if (isRefusal(bytes)) return bytes;

  const target = targetOf(request);
  const nowMs = clock.now();
  const header = request.headers.get("authorization");
  const isAnonymous = header === null && route.isOpen === true && settings.access === "open";
  const signed = { method: request.method, target, body: bytes };
  const caller = isAnonymous ? undefined : await authenticate(tokenFromHeader(header), signed, settings, nowMs);
  if (isRefusal(caller)) return caller;
  if (caller) {
    seen.key = caller.key;
    const braked = await brakeKey(caller.key, env, settings);
    if (braked) return braked;
  }

  const query = parseQuery(target, route.query ?? [], route.many ?? []);
  if (isRefusal(query)) return query;
  const parsed = request.method === "GET" ? { object: {} } : parseJsonObject(bytes);
  if (isRefusal(parsed)) return parsed;
  const call: Call = { env, settings, nowMs, caller, query, body: parsed.object, signal: request.signal };
  return route.run(call);
}
