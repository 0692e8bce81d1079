/** The door: the table of routes, and the objects that the platform must find. Keeps nothing between requests. */

import { env as bindings } from "cloudflare:workers";
import { Router, type IRequest } from "itty-router";
import type { Env } from "../durable/env.ts";
import { readSettings } from "../durable/settings.ts";
import { refuse } from "../protocol/refusal.ts";
import { accountRoutes } from "./account-routes.ts";
import { checkTarget, targetOf } from "./guard.ts";
import { mailRoutes } from "./mail-routes.ts";
import { handle } from "./pipeline.ts";
import { presenceRoutes } from "./presence-routes.ts";
import { faultResponse, toResponse } from "./reply.ts";
import type { AnyRoute } from "./route.ts";

export { DirectoryObject } from "../durable/directory-object.ts";
export { IdentityObject } from "../durable/identity-object.ts";

readSettings({ ...bindings }); // a bus with a wrong setting does not start

const ROUTES: readonly AnyRoute[] = [...presenceRoutes, ...mailRoutes, ...accountRoutes];
const PATHS: ReadonlySet<string> = new Set(["/health", ...ROUTES.map((route) => route.path)]);

const router = Router<IRequest, [Env]>({
  catch: (fault) => {
    console.error(JSON.stringify({ event: "fault", message: String(fault) }));
    return faultResponse();
  },
});

/** Paths are literal: the router alone would also take `/send/`, and another spelling is another target. */
router.all("*", (request) => {
  const target = targetOf(request as unknown as Request);
  const refusal = checkTarget(target);
  if (refusal) return toResponse(refusal);
  return PATHS.has(target.split("?", 1)[0]!) ? undefined : toResponse(refuse("not_found"));
});

router.get("/health", () => toResponse({ status: 200, body: { ok: true } }));
for (const route of ROUTES) {
  router[route.method.toLowerCase() as "get" | "post" | "put"](route.path, (request, env) =>
    handle(route, request as unknown as Request, env),
  );
}
router.all("*", (request) => {
  const { pathname } = new URL(request.url);
  const allow = ROUTES.find((route) => route.path === pathname)?.method ?? "GET";
  return new Response(toResponse(refuse("method_not_allowed")).body, {
    status: 405,
    headers: { "content-type": "application/json", allow },
  });
});

export default { fetch: (request, env) => router.fetch(request, env) } satisfies ExportedHandler<Env>;
