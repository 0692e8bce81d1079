/**
 * How a tool is made and how it answers: one place for schemas, notices, refusals and faults.
 *
 * Hosts show a model either the text or the structure, so each says all of it. That is also why a refusal is in both,
 * and, because older SDK clients check the structure of a refusal too, why every field of a declared answer is optional.
 */

import {
  isInputRequiredResult,
  type CallToolResult,
  type InputRequiredResult,
  type McpServer,
  type RequestStateCodec,
  type ServerContext,
  type ToolAnnotations,
} from "@modelcontextprotocol/server";
import * as z from "zod/v4";
import { isToolRefusal, type Agent, type ToolRefusal } from "../session/agent.ts";
import { escapeMarkup } from "./escape.ts";
import { isFailure, type Opening } from "./opening.ts";
import { ownRefusal, refusalOf, type Failure } from "./render-refusal.ts";

/** Facts for the log; never a peer's text. */
export type Log = (event: string, facts?: Readonly<Record<string, unknown>>) => void;

/** What all tools of one process share. */
export interface Desk {
  readonly opening: Opening;
  /** Seals what the operator was shown, so that the answer is about that. */
  readonly seal: RequestStateCodec<{ readonly shown: string }>;
  readonly now: () => number;
  readonly log: Log;
  /** A tool was called: the session is real. */
  readonly onCall: () => void;
}

/** One call of a tool. */
export interface Call extends Desk {
  readonly agent: Agent;
  readonly server: McpServer;
  readonly context: ServerContext;
}

/** What was done, said twice: for hosts that show the text, and for those that show the structure. */
export interface Answer<Fields> {
  readonly text: string;
  readonly fields: Fields;
}

interface Definition<Input extends z.ZodObject, Output extends z.ZodObject> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: Input;
  readonly output: Output;
  readonly annotations: Required<Omit<ToolAnnotations, "title">>;
  /** Kept in the model's view by hosts that load tools on demand. */
  readonly alwaysLoad?: true;
  act(
    args: z.output<Input>,
    call: Call,
  ): Promise<Answer<z.output<Output>> | ToolRefusal | Failure | InputRequiredResult>;
}

/** A tool, ready to be registered with each server that the factory makes. */
export type Tool = (server: McpServer, desk: Desk) => void;

const declared = {
  error: z
    .object({
      code: z.string().describe("Stable code of the refusal"),
      message: z.string().describe("The refusal in full: code, sentence, next step"),
    })
    .optional()
    .describe("Present instead of the other fields when the call was refused"),
  notices: z
    .array(z.string())
    .optional()
    .describe("Facts to know now: unread mail, a bus that is away, a budget used up"),
};

/** Makes a tool. */
export function tool<Input extends z.ZodObject, Output extends z.ZodObject>(
  definition: Definition<Input, Output>,
): Tool {
  const { name, title, description, input, output, annotations, alwaysLoad, act } = definition;
  const config = {
    title,
    description,
    inputSchema: input as z.ZodObject,
    outputSchema: output.partial().extend(declared) as z.ZodObject,
    annotations: { title, ...annotations },
    ...(alwaysLoad && { _meta: { "anthropic/alwaysLoad": true } }),
  };
  return (server, desk) => {
    server.registerTool(name, config, async (args, context) => {
      desk.onCall();
      try {
        const agent = await desk.opening.agent();
        if (isFailure(agent)) return settle(agent, []);
        const outcome = await act(args as z.output<Input>, { ...desk, agent, server, context });
        return isInputRequiredResult(outcome) ? outcome : settle(outcome, agent.notices());
      } catch (fault) {
        // No stack for a model: it could not act on it, and it names our paths.
        desk.log("tool_fault", { tool: name, error: fault instanceof Error ? (fault.stack ?? fault.message) : fault });
        return settle(ownRefusal("internal"), []);
      }
    });
  };
}

/** The result as it goes out, with the notices in both places. */
function settle(outcome: Answer<object> | ToolRefusal | Failure, facts: readonly string[]): CallToolResult {
  const notices = facts.map(escapeMarkup);
  const said = (text: string) => [
    { type: "text" as const, text: [text, ...notices.map((notice) => `Notice: ${notice}`)].join("\n") },
  ];
  const noted = notices.length === 0 ? {} : { notices };
  if ("fields" in outcome) return { content: said(outcome.text), structuredContent: { ...outcome.fields, ...noted } };
  const { code, message } = isFailure(outcome) ? outcome : refusalOf(outcome);
  return { isError: true, content: said(message), structuredContent: { error: { code, message }, ...noted } };
}

/** True if an answer of the agent is a "no", to be handed on as it is. */
export const isNo: (value: object) => value is ToolRefusal = isToolRefusal;
