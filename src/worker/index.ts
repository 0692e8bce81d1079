/** The door: the table of routes, and the objects that the platform must find. Keeps nothing between requests. */

import { env as bindings } from "cloudflare:workers";
import { Router, type IRequest } from "itty-router";
import { clock } from "../durable/clock.ts";
import type { Env } from "../durable/env.ts";
import { logFault } from "../durable/log.ts";
import { readSettings, settingsOf } from "../durable/settings.ts";
import { refuse, type Refusal } from "../protocol/refusal.ts";
import { accountRoutes } from "./account-routes.ts";
import { checkTarget, targetOf } from "./guard.ts";
import { mailRoutes } from "./mail-routes.ts";
import { answer } from "./observe.ts";
import { operatorRoutes } from "./operator-routes.ts";
import { handle } from "./pipeline.ts";
import { presenceRoutes } from "./presence-routes.ts";
import { faultResponse, toResponse } from "./reply.ts";
import { openSocket } from "./socket-route.ts";

export { DirectoryObject } from "../durable/directory-object.ts";
export { IdentityObject } from "../durable/identity-object.ts";

readSettings({ ...bindings }); // a bus with a wrong setting does not start

const ROUTES = [...presenceRoutes, ...mailRoutes, ...accountRoutes, ...operatorRoutes];
/** Path → the method that it has. */
const METHODS: ReadonlyMap<string, string> = new Map([
  ["/health", "GET"],
  ["/socket", "GET"],
  ...ROUTES.map(({ path, method }) => [path, method] as const),
]);

const router = Router<IRequest, [Env]>({
  catch: (fault) => {
    logFault("fault", fault);
    return faultResponse();
  },
});

/** Paths are literal: the router alone would also take `/send/`, and another spelling is another target. */
router.all("*", (request, env) => {
  const target = targetOf(requestOf(request));
  const [path = ""] = target.split("?", 1);
  const refusal = checkTarget(target) ?? (METHODS.has(path) ? undefined : refuse("not_found"));
  return refusal && refused(refusal, request, env);
});
router.get("/health", (request) =>
  toResponse(request.url.includes("?") ? refuse("bad_query") : { status: 200, body: { ok: true } }),
);
router.get("/socket", (request, env) => openSocket(requestOf(request), env));
for (const route of ROUTES) {
  router[route.method.toLowerCase() as "get" | "post" | "put"](route.path, (request, env) =>
    handle(route, requestOf(request), env),
  );
}
router.all("*", (request, env) => {
  const response = refused(refuse("method_not_allowed"), request, env);
  response.headers.set("allow", METHODS.get(new URL(request.url).pathname) ?? "GET");
  return response;
});

function refused(refusal: Refusal, request: IRequest, env: Env): Response {
  const seen = { method: request.method, route: "none", startedMs: clock.now() };
  return answer(refusal, seen, settingsOf(env), clock.now);
}

/** The router hands on the request that it was given; its own type for it is looser. */
function requestOf(request: IRequest): Request {
  return request as unknown as Request;
}

export default { fetch: (request, env) => router.fetch(request, env) } satisfies ExportedHandler<Env>;
