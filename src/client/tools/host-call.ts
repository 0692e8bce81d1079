/** What a host says about one call: its own id for it, so that a call that it repeats is the same message. */

import type { ServerContext } from "@modelcontextprotocol/server";

/** Far above any host's id; a longer one is no id. */
const ID_MAX_CHARS = 256;

/** Where the supervisor puts an id of its own, for hosts that give none: so that a call that it repeats is the same too. */
export const CALL_ID_META = "interlink/callId";

/** The key under which a repeated call is known. */
export function idempotencyKeyOf({ mcpReq }: Pick<ServerContext, "mcpReq">): string | undefined {
  return callKeyOf(mcpReq._meta as Readonly<Record<string, unknown>> | undefined);
}

/**
 * The same from a call's `_meta`: `claudecode/toolUseId`, or `callId` within `threadId`, else the supervisor's. Undefined where
 * there is none of them.
 */
export function callKeyOf(meta: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const use = idOf(meta?.["claudecode/toolUseId"]);
  if (use !== undefined) return `claude:${use}`;
  const [thread, call] = [idOf(meta?.["threadId"]), idOf(meta?.["callId"])];
  // A call id alone may be the same in another thread.
  if (thread !== undefined && call !== undefined) return `codex:${JSON.stringify([thread, call])}`;
  const own = idOf(meta?.[CALL_ID_META]);
  return own === undefined ? undefined : `supervisor:${own}`;
}

/**
 * Hosts that name their threads in calls, and nowhere before: their session is known at the first call, and is announced then.
 */
const NAMES_IN_CALLS = new Set(["codex-mcp-client"]);

/** @param client as it calls itself */
export function namesThreadInCalls(client: string | undefined): boolean {
  return client !== undefined && NAMES_IN_CALLS.has(client);
}

function idOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" && value.length <= ID_MAX_CHARS ? value : undefined;
}
