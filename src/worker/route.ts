/** What a route is to the pipeline: what it lets in, how it reads a request, and what it then does. */

import type { Key, Route as AddressRoute, SessionId } from "../protocol/address.ts";
import type { JsonObject } from "../protocol/json.ts";
import { refuse, type Refusal } from "../protocol/refusal.ts";
import type { Nonce } from "../durable/calls.ts";
import type { Env } from "../durable/env.ts";
import type { Settings } from "../durable/settings.ts";
import type { Reply } from "./reply.ts";

/** Who signed the request. */
export interface Caller {
  readonly key: Key;
  readonly nonce: string;
  /** Until when the nonce must be remembered where a replay would matter. */
  readonly nonceExpiresAtMs: number;
}

/** A request whose cheap checks and token are done. */
export interface Call {
  readonly env: Env;
  readonly settings: Settings;
  readonly nowMs: number;
  /** Undefined only on a route that ACCESS=open serves to anyone. */
  readonly caller: Caller | undefined;
  readonly query: ReadonlyMap<string, readonly string[]>;
  /** Empty for a GET. */
  readonly body: JsonObject;
  /** Aborts when the client goes away. */
  readonly signal: AbortSignal;
}

export interface Route<Plan> {
  readonly method: "GET" | "POST" | "PUT";
  readonly path: string;
  /** Query parameters that may be given; `many` ones more than once. */
  readonly query?: readonly string[];
  readonly many?: readonly string[];
  /** Whether ACCESS=open serves it without a token: the original's shapes. */
  readonly isOpen?: boolean;
  /** Whether a key that is not admitted may use it: the way in. */
  readonly isForAll?: boolean;
  /** Schema, ownership and payload signatures. Touches no object. */
  readonly check: (call: Call) => Plan | Refusal | Promise<Plan | Refusal>;
  /** The object calls. Runs only after all checks. */
  readonly act: (plan: Plan, call: Call) => Promise<Reply | Refusal>;
}

/** A route of any plan, for the table. */
export interface AnyRoute extends Omit<Route<unknown>, "check" | "act"> {
  readonly run: (call: Call) => Promise<Reply | Refusal>;
}

/** The session that a route names, if it is the caller's own: only the key reads and acks its inboxes. */
export function ownSession(route: AddressRoute, caller: Pick<Caller, "key"> | undefined): SessionId | Refusal {
  if (caller && caller.key !== route.key) return refuse("not_owner");
  return route.session ?? refuse("bad_route");
}

/** What must be remembered of a caller's token where a replay would matter. */
export function nonceOf({ nonce, nonceExpiresAtMs }: Caller): Nonce {
  return { nonce, expiresAtMs: nonceExpiresAtMs };
}
