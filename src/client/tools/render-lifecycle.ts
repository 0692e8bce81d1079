/**
 * PURE. What a model is told when the agent process beneath its tools ended: what happened, never what is hoped, and the next
 * step. The supervisor says it, which loads nothing else of the tools.
 */

import { durationOf } from "./ages.ts";
import { escapeMarkup } from "./escape.ts";

/** How a process ended, as far as it is told. */
export interface EndFacts {
  readonly code: number | null;
  readonly signal: string | null;
  readonly error?: string;
  readonly isHandoff: boolean;
}

/** Why nothing is started, and for how long yet. */
export interface Down {
  readonly last: EndFacts;
  readonly leftMs: number;
}

/** Codes of the supervisor's own refusals: stable, as those of the tools. */
export type LifecycleCode = "outcome_unknown" | "agent_down" | "tool_gone";

export interface LifecycleFailure {
  readonly code: LifecycleCode;
  /** Begins with the code. */
  readonly message: string;
}

/** One line for each process that ended and was followed by another. @param versions as each told its own */
export function restartNotice(end: EndFacts, { from, to }: { readonly from?: string; readonly to?: string }): string {
  const isUpgrade = from !== undefined && to !== undefined && from !== to;
  const versions = isUpgrade ? `; version ${escapeMarkup(from)} was replaced by ${escapeMarkup(to)}` : "";
  const what = end.isHandoff
    ? "the agent process handed over to a new one"
    : `the agent process ended (${wayOf(end)}) and another was started`;
  return `${what}${versions}; it was asked to rejoin its session`;
}

/** Where to look before a call is made again, by what it might have done. */
function lookOf(tool: string | undefined): string {
  switch (tool) {
    case "send_message":
    case "cancel_task":
      return "Look with conversation_history or message_status before you write it again";
    case "check_messages":
    case "read_message":
      return "What it marked as read is unread again; call it again";
    case "request_pair":
    case "accept_pair":
    case "reject_pair":
    case "add_peer":
    case "remove_peer":
      return "Look with list_peers and list_pair_requests before you do it again";
    default:
      return "Look what it did before you do it again; message_status tells of a message";
  }
}

/** A call was with the process when that died. */
export function outcomeUnknown(tool: string | undefined): LifecycleFailure {
  const sentence = "The agent process ended while it had this call; whether it was done is not known";
  return failure("outcome_unknown", sentence, lookOf(tool));
}

/** Nothing is started for now. */
export function agentDown({ last, leftMs }: Down): LifecycleFailure {
  const when = `it is tried again in ${durationOf(Math.max(1_000, leftMs))}`;
  const sentence = `The agent process ended too often (the last time: ${wayOf(last)}), so nothing was done, and ${when}`;
  const next = "Wait, or call reconnect to try now; if it stays so, tell your operator, whose host has the log";
  return failure("agent_down", sentence, next);
}

/** The new process has this tool no more. */
export function toolGone(tool: string, version: string | undefined): LifecycleFailure {
  const which =
    version === undefined ? "The version that runs now" : `Version ${escapeMarkup(version)}, which runs now,`;
  return failure("tool_gone", `${which} has no tool ${escapeMarkup(tool)}; nothing was done`, "Do without it");
}

/** Mail was taken by a call that the host cancelled, so no model saw the answer. */
export function cancelledNotice(count: number): string {
  return `${count} messages were marked read by a call that was cancelled; conversation_history has them`;
}

/** What `reconnect` answers once the new process is ready. */
export function reconnected(start: number, version: string | undefined): string {
  const which = version === undefined ? "" : `, version ${escapeMarkup(version)}`;
  return `The agent process was started anew (start ${start}${which}) and answers. It was asked to rejoin its session; whoami tells how it stands.`;
}

export const RECONNECT = "reconnect";

/** The one tool that needs no agent process. As a host's list has it. */
export const RECONNECT_TOOL = {
  name: RECONNECT,
  title: "Start the agent process anew",
  description:
    "Ends the process beneath these tools, which may hang or be out of date, starts it anew and waits until it answers. The session, " +
    "its mail and what it has not sent stay as they are, and peers are not told. Use it when tools do not answer, when one answered " +
    "agent_down, or when your user has installed a new version. It does not mend a bus that is away.",
  inputSchema: {
    type: "object",
    $schema: "https://json-schema.org/draft/2020-12/schema",
    properties: {},
    additionalProperties: false,
  },
  annotations: {
    title: "Start the agent process anew",
    readOnlyHint: false,
    destructiveHint: false,
    idempotentHint: true,
    openWorldHint: false,
  },
  outputSchema: {
    type: "object",
    $schema: "https://json-schema.org/draft/2020-12/schema",
    properties: {
      start: { description: "How many times it was started by now", type: "integer", minimum: 0 },
      version: { description: "The version that runs now", type: "string" },
      feedback: { description: "What was done", type: "string" },
      error: {
        description: "Present instead of the other fields when the call was refused",
        type: "object",
        properties: { code: { type: "string" }, message: { type: "string" } },
        required: ["code", "message"],
        additionalProperties: false,
      },
      notices: { description: "Facts to know now", type: "array", items: { type: "string" } },
    },
    additionalProperties: false,
  },
} as const;

function wayOf({ code, signal, error }: EndFacts): string {
  if (error !== undefined) return "it could not be started";
  return signal === null ? `exit ${code ?? "unknown"}` : `killed by ${signal}`;
}

function failure(code: LifecycleCode, sentence: string, next: string): LifecycleFailure {
  return { code, message: `${code}: ${sentence}. ${next}.` };
}
