/**
 * PURE. A result as the host gets it: with what happened to the process, in the text and in the structure, since a host
 * shows its model only one of them; and the supervisor's own results and errors.
 */

import { reconnected, type LifecycleFailure } from "../tools/render-lifecycle.ts";
import { isRecord, type Fault, type Id, type Params } from "./frame.ts";
import { SUBSCRIPTION_META } from "./listens.ts";

/** A tool's result with notices; undefined: none is to be put there, for it is a refusal, a question or no result of a tool. */
export function withNotices(result: Params, notices: readonly string[]): Params | undefined {
  const { content, structuredContent, isError, resultType } = result;
  if (!Array.isArray(content) || isError === true) return undefined;
  if (resultType !== undefined && resultType !== "complete") return undefined;
  const text = notices.map((notice) => `Notice: ${notice}`).join("\n");
  const told = { ...result, content: [...(content as unknown[]), { type: "text", text }] };
  if (!isRecord(structuredContent)) return told;
  const before: unknown = structuredContent["notices"];
  const all = [...(Array.isArray(before) ? (before as unknown[]) : []), ...notices];
  return { ...told, structuredContent: { ...structuredContent, notices: all } };
}

/** A refusal of a tool call, said twice as those of the tools are. */
export function refusalResult({ code, message }: LifecycleFailure): Params {
  return { isError: true, content: [{ type: "text", text: message }], structuredContent: { error: { code, message } } };
}

/** What `reconnect` answers. @param start which start this was */
export function reconnectResult(start: number, version: string | undefined): Params {
  const feedback = reconnected(start, version);
  const structuredContent = { start, ...(version !== undefined && { version }), feedback };
  return { content: [{ type: "text", text: feedback }], structuredContent };
}

/** A message as a line without its end. */
export function lineOf(message: object): Buffer {
  return Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
}

export function resultLine(id: Id, result: Params): Buffer {
  return lineOf({ id, result });
}

/** @param listen the modern listen that asked; an older client is told without */
export function listChangedLine(listen?: Id): Buffer {
  const params = listen === undefined ? {} : { params: { _meta: { [SUBSCRIPTION_META]: listen } } };
  return lineOf({ method: "notifications/tools/list_changed", ...params });
}

export function faultLine(id: Id | null, error: Fault): Buffer {
  return lineOf({ id, error });
}

/** The same message under another id. */
export function withId(line: Uint8Array, id: Id): Buffer {
  return Buffer.from(JSON.stringify({ ...(JSON.parse(new TextDecoder().decode(line)) as object), id }));
}
