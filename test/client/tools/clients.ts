/** The real clients of the SDK, each driving a process that serves the tools on a fake agent. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client as Client2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema, ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { onTestFinished } from "vitest";
import type { Scene } from "../../support/fake-agent.ts";

export const KINDS = ["v1", "v2 legacy", "v2 auto"] as const;
export type Kind = (typeof KINDS)[number];

/** A tool's result, as far as these tests look. */
export interface Result {
  readonly isError?: boolean;
  readonly content: { type: string; text: string }[];
  readonly structuredContent?: Readonly<Record<string, any>>;
}

/** How the human answers a form; absent: the client shows none. */
export type Human = (message: string) => { action: "accept" | "decline" | "cancel"; content?: Record<string, any> };

export interface Driven {
  call(name: string, args?: object, meta?: object): Promise<Result>;
  readonly client: Client1 | Client2;
  /** What the agent was asked. */
  trace(): { call: string; [fact: string]: unknown }[];
  readonly stderr: () => string;
  readonly pid: () => number;
  readonly updates: string[];
  close(): Promise<void>;
}

const SERVER = join(import.meta.dirname, "../../support/fake-tools-server.ts");

/** A program as a host starts it. */
export interface Command {
  readonly command: string;
  readonly args: string[];
  readonly env: Record<string, string>;
}

/** Starts a process and connects a client of this kind to it. */
export async function attach(kind: Kind, program: Command, human?: Human) {
  const command = { ...program, stderr: "pipe" as const };
  const capabilities = human ? { elicitation: {} } : {};
  const updates: string[] = [];
  const transport = kind === "v1" ? new Stdio1(command) : new Stdio2(command);
  let errors = "";
  transport.stderr?.on("data", (chunk: Buffer) => (errors += String(chunk)));

  let client: Client1 | Client2;
  if (kind === "v1") {
    client = new Client1({ name: "test", version: "1" }, { capabilities });
    if (human)
      client.setRequestHandler(
        ElicitRequestSchema,
        ({ params }) => human(params.message) as ReturnType<Human> & object,
      );
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void updates.push(params.uri));
    await client.connect(transport as Stdio1);
  } else {
    const mode = kind === "v2 auto" ? "auto" : "legacy";
    client = new Client2({ name: "test", version: "1" }, { capabilities, versionNegotiation: { mode } });
    if (human) client.setRequestHandler("elicitation/create", ({ params }) => human(params.message));
    client.setNotificationHandler("notifications/resources/updated", ({ params }) => void updates.push(params.uri));
    await client.connect(transport as Stdio2);
  }
  // The clients check an answer's structure only against a schema that they have seen.
  await client.listTools();
  const call = async (name: string, args: object = {}, meta?: object) =>
    (await client.callTool({
      name,
      arguments: args as Record<string, unknown>,
      ...(meta && { _meta: meta as Record<string, unknown> }),
    })) as Result;
  return { client, call, updates, stderr: () => errors, pid: () => transport.pid! };
}

/** Starts a process and connects a client to it; both end with the test. */
export async function drive(kind: Kind, scene: Scene = {}, human?: Human): Promise<Driven> {
  const directory = mkdtempSync(join(tmpdir(), "interlink-tools-"));
  const env = { FAKE_SCENE: join(directory, "scene.json"), FAKE_TRACE: join(directory, "trace.jsonl") };
  writeFileSync(env.FAKE_SCENE, JSON.stringify(scene));
  writeFileSync(env.FAKE_TRACE, "");
  const args = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types", SERVER];
  const attached = await attach(kind, { command: process.execPath, args, env }, human);

  let isClosed = false;
  const close = async () => {
    if (isClosed) return;
    isClosed = true;
    await attached.client.close();
    rmSync(directory, { recursive: true, force: true });
  };
  onTestFinished(close);
  return {
    ...attached,
    close,
    trace: () =>
      readFileSync(env.FAKE_TRACE, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as { call: string }),
  };
}

/** The text that a host without structures shows. */
export function textOf({ content }: Result): string {
  return content.map(({ text }) => text).join("\n");
}
