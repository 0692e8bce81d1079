/** A stand-in for a model's API on loopback, in the shapes of Anthropic and of OpenAI: what it says is decided by a test. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What a turn is asked: the last that was said, by a user or by a tool. */
export interface Turn {
  readonly text: string;
  readonly isToolResult: boolean;
  /** Full names of the tools that may be called. */
  readonly tools: readonly string[];
}

export type Say = string | { readonly tool: string; readonly input: object };
export type Model = (turn: Turn) => Say;

export class ModelStub {
  readonly turns: Turn[] = [];
  /** Paths that were asked for and are none of a model's. */
  readonly strange: string[] = [];
  readonly #server: Server;
  #calls = 0;

  private constructor(model: Model) {
    this.#server = createServer((request, response) => {
      void readAll(request).then((body) => this.#answer(request.url ?? "", body, response, model));
    });
  }

  static async start(model: Model): Promise<ModelStub> {
    const stub = new ModelStub(model);
    await new Promise<void>((resolve) => stub.#server.listen(0, "127.0.0.1", resolve));
    return stub;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(url: string, body: string, response: ServerResponse, model: Model): void {
    const path = url.split("?")[0]!;
    const isClaude = path === "/v1/messages";
    if (!isClaude && path !== "/v1/responses") {
      this.strange.push(path);
      response.writeHead(404, { "content-type": "application/json" }).end("{}");
      return;
    }
    const request = JSON.parse(body) as Record<string, any>;
    const turn = isClaude ? turnOfClaude(request) : turnOfCodex(request);
    this.turns.push(turn);
    const said = model(turn);
    response.writeHead(200, { "content-type": "text/event-stream" });
    const id = String(++this.#calls);
    const events = isClaude ? claudeEvents(said, id, request["model"]) : codexEvents(said, id);
    for (const [type, data] of events) {
      response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
    }
    response.end();
  }
}

async function readAll(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of request) body += String(chunk);
  return body;
}

function turnOfClaude({ messages, tools = [] }: Record<string, any>): Turn {
  // Hosts put words of their own behind those of the user.
  const last = messages.slice(messages.findLastIndex(({ role }: { role: string }) => role === "assistant") + 1);
  const blocks: Record<string, any>[] = last.flatMap(({ content }: { content: unknown }) =>
    typeof content === "string" ? [{ type: "text", text: content }] : content,
  );
  const results = blocks.filter(({ type }) => type === "tool_result");
  const texts =
    results.length > 0
      ? results.map((block) => JSON.stringify(block["content"]))
      : blocks.map((block) => block["text"] ?? "");
  const names = tools.map(({ name }: { name: string }) => name);
  return { text: texts.join("\n"), isToolResult: results.length > 0, tools: names };
}

function turnOfCodex({ input, tools = [] }: Record<string, any>): Turn {
  const last = input.at(-1);
  const isToolResult = String(last.type).endsWith("_output");
  const text = isToolResult
    ? JSON.stringify(last.output)
    : (last.content ?? []).map((part: Record<string, any>) => part["text"] ?? "").join("\n");
  const names = tools.flatMap((tool: Record<string, any>) =>
    tool["type"] === "namespace"
      ? tool["tools"].map(({ name }: { name: string }) => `${tool["name"]}__${name}`)
      : [tool["name"] ?? tool["type"]],
  );
  return { text, isToolResult, tools: names };
}

type Event = readonly [type: string, data: object];

function claudeEvents(said: Say, id: string, model: string): Event[] {
  const isText = typeof said === "string";
  const block = isText
    ? { type: "text", text: "" }
    : { type: "tool_use", id: `toolu_${id}`, name: said.tool, input: {} };
  const delta = isText
    ? { type: "text_delta", text: said }
    : { type: "input_json_delta", partial_json: JSON.stringify(said.input) };
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = {
    id: `msg_${id}`,
    type: "message",
    role: "assistant",
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage,
  };
  return [
    ["message_start", { message }],
    ["content_block_start", { index: 0, content_block: block }],
    ["content_block_delta", { index: 0, delta }],
    ["content_block_stop", { index: 0 }],
    ["message_delta", { delta: { stop_reason: isText ? "end_turn" : "tool_use", stop_sequence: null }, usage }],
    ["message_stop", {}],
  ];
}

function codexEvents(said: Say, id: string): Event[] {
  const isText = typeof said === "string";
  const [, namespace, name] = isText
    ? []
    : (/^(mcp__\w+?)__(\w+)$/.exec(said.tool) ?? [undefined, undefined, said.tool]);
  const item = isText
    ? {
        type: "message",
        id: `msg_${id}`,
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: said, annotations: [] }],
      }
    : {
        type: "function_call",
        id: `fc_${id}`,
        call_id: `call_${id}`,
        ...(namespace !== undefined && { namespace }),
        name,
        arguments: JSON.stringify(said.input),
      };
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  return [
    ["response.created", { response: { id: `resp_${id}` } }],
    ["response.output_item.done", { output_index: 0, item }],
    ["response.completed", { response: { id: `resp_${id}`, status: "completed", usage, output: [item] } }],
  ];
}
