/**
 * PURE. Which requests may be made again after the process that had them died: those that have the same effect twice as once.
 */

import { CALL_ID_META, callKeyOf } from "../tools/host-call.ts";
import { isRecord, type Params, type Request } from "./frame.ts";

export type Repeat =
  /** It changes nothing, or sets what it sets again. */
  | "free"
  /** The store knows it by the key of the call, and does it once. */
  | "keyed"
  /** It marks mail as read; the next process is told what arrived, and takes back the rest. */
  | "taking"
  | "never";

const KEYED = new Set(["send_message", "cancel_task"]);
const TAKING = new Set(["check_messages", "read_message"]);
/** Not read-only, and yet the same when done twice. */
const SETTING = new Set(["set_summary"]);

const FREE_METHODS = new Set([
  "tools/list",
  "resources/list",
  "resources/templates/list",
  "prompts/list",
  "resources/subscribe",
  "resources/unsubscribe",
  "logging/setLevel",
  "completion/complete",
  "ping",
]);
/** Free, unless they carry an answer of the operator's, which may count only once. */
const READS = new Set(["resources/read", "prompts/get"]);

/** @param reading the tools that say of themselves that they only read */
export function repeatOf({ method, params }: Request, reading: ReadonlySet<string>): Repeat {
  const isAnswer = params["inputResponses"] !== undefined || params["requestState"] !== undefined;
  if (isAnswer) return "never";
  if (method === "tools/call") return repeatOfTool(params["name"], reading);
  return FREE_METHODS.has(method) || READS.has(method) ? "free" : "never";
}

function repeatOfTool(name: unknown, reading: ReadonlySet<string>): Repeat {
  if (typeof name !== "string") return "never";
  if (TAKING.has(name)) return "taking";
  if (KEYED.has(name)) return "keyed";
  return reading.has(name) || SETTING.has(name) ? "free" : "never";
}

/** A call with a key of its own where the host gave none that the tools know; undefined: it needs none. */
export function withCallId({ id, method, params }: Request, callId: string): Params | undefined {
  const meta = isRecord(params["_meta"]) ? params["_meta"] : {};
  if (callKeyOf(meta) !== undefined) return undefined;
  return { jsonrpc: "2.0", id, method, params: { ...params, _meta: { ...meta, [CALL_ID_META]: callId } } };
}

/** The ids of the messages that an answer of a taking tool carries. */
export function takenBy(result: Params): string[] {
  const structured = isRecord(result["structuredContent"]) ? result["structuredContent"] : {};
  const { messages, message } = structured;
  const lines = [...(Array.isArray(messages) ? (messages as unknown[]) : []), message];
  return lines.flatMap((line) => {
    const id = typeof line === "string" ? idIn(line) : undefined;
    return id === undefined ? [] : [id];
  });
}

function idIn(line: string): string | undefined {
  try {
    const id: unknown = (JSON.parse(line) as Params)["msg_id"];
    return typeof id === "string" ? id : undefined;
  } catch {
    return undefined;
  }
}
