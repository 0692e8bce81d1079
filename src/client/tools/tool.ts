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
import { isToolRefusal, type ToolRefusal } from "../session/agent.ts";
import type { BusAgent } from "../session/buses.ts";
import { lenient, open } from "./advertised.ts";
import { escapeMarkup } from "./escape.ts";
import { isFailure, type Opening } from "./opening.ts";
import { argumentRefusal } from "./render-arguments.ts";
import { ownRefusal, refusalOf, type Failure } from "./render-refusal.ts";
import type { WakeStanding } from "../wake/standing.ts";

/** Facts for the log; never a peer's text. */
export type Log = (event: string, facts?: Readonly<Record<string, unknown>>) => void;

/** What all tools of one process share. */
export interface Desk {
  readonly opening: Opening;
  /** Seals what the operator was shown, so that the answer is about that. */
  readonly seal: RequestStateCodec<{ readonly shown: string }>;
  readonly now: () => number;
  readonly log: Log;
  /** A tool was called: the session is real. Runs before the agent is asked for, which the call may name. */
  readonly onCall: (meta: Readonly<Record<string, unknown>> | undefined) => void;
  /** How mail wakes this session. */
  readonly wake: () => WakeStanding;
}

/** One call of a tool. */
export interface Call extends Desk {
  readonly agent: BusAgent;
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
      fields: z.array(z.string()).optional().describe("The arguments that were wrong"),
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
    inputSchema: lenient(input),
    outputSchema: open(output.partial().extend(declared)),
    annotations: { title, ...annotations },
    ...(alwaysLoad && { _meta: { "anthropic/alwaysLoad": true } }),
  };
  return (server, desk) => {
    server.registerTool(name, config, async (passed, context) => {
      desk.onCall(context.mcpReq._meta as Readonly<Record<string, unknown>> | undefined);
      try {
        const agent = await desk.opening.agent();
        if (isFailure(agent)) return settle(agent, []);
        if ("wrong" in passed) {
          return settle(argumentRefusal(passed.wrong, passed.given, Object.keys(input.shape)), agent.notices());
        }
        const outcome = await act(passed.args, { ...desk, agent, server, context });
        return isInputRequiredResult(outcome) ? outcome : settle(outcome, agent.notices());
      } catch (fault) {
        // A session that was closed beneath a call is no fault, and nobody hears the answer.
        const event = desk.opening.isClosed ? "tool_cut" : "tool_fault";
        // No stack for a model: it could not act on it, and it names our paths.
        desk.log(event, { tool: name, error: fault instanceof Error ? (fault.stack ?? fault.message) : fault });
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
  if ("text" in outcome) return { content: said(outcome.text), structuredContent: { ...outcome.fields, ...noted } };
  const error = isFailure(outcome) ? outcome : refusalOf(outcome);
  return { isError: true, content: said(error.message), structuredContent: { error: { ...error }, ...noted } };
}

/** True if an answer of the agent is a "no", to be handed on as it is. */
export const isNo: (value: object) => value is ToolRefusal = isToolRefusal;
