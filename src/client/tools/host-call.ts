/** What a host says about one call: its own id for it, so that a call that it repeats is the same message. */

import type { ServerContext } from "@modelcontextprotocol/server";

/** Far above any host's id; a longer one is no id. */
const ID_MAX_CHARS = 256;

/**
 * The key under which a repeated call is known: `_meta["claudecode/toolUseId"]`, or `_meta.callId` within
 * `_meta.threadId`. Undefined for hosts that give neither.
 */
export function idempotencyKeyOf({ mcpReq }: Pick<ServerContext, "mcpReq">): string | undefined {
  const meta = mcpReq._meta as Readonly<Record<string, unknown>> | undefined;
  const use = idOf(meta?.["claudecode/toolUseId"]);
  if (use !== undefined) return `claude:${use}`;
  const [thread, call] = [idOf(meta?.["threadId"]), idOf(meta?.["callId"])];
  // A call id alone may be the same in another thread.
  return thread === undefined || call === undefined ? undefined : `codex:${JSON.stringify([thread, call])}`;
}

function idOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" && value.length <= ID_MAX_CHARS ? value : undefined;
}
