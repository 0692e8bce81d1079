/** One person's machine as a host sees it: a home of its own, the command line, and MCP clients that start `interlink-edge mcp`. */

import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { openIdentity } from "../../../src/client/trust/identity-file.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import { PeersFile } from "../../../src/client/trust/peers.ts";
import type { Key } from "../../../src/protocol/address.ts";
import { attach, textOf, type Command, type Human, type Kind, type Result } from "../tools/clients.ts";
import { until } from "../session/support.ts";

const run = promisify(execFile);
const BIN = join(import.meta.dirname, "../../../src/client/cli/bin.ts");
const NODE_ARGS = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types", BIN];

/** Every tool that an agent has; a host may offer more beside them. */
export const TOOLS = [
  "send_message",
  "check_messages",
  "read_message",
  "message_status",
  "conversation_history",
  "cancel_task",
  "list_pending",
  "discover",
  "set_summary",
  "whoami",
  "list_peers",
  "request_pair",
  "list_pair_requests",
  "accept_pair",
  "reject_pair",
  "add_peer",
  "remove_peer",
] as const;
export type ToolName = (typeof TOOLS)[number];

/** The fields of an answer. */
export type Fields = Readonly<Record<string, any>>;

export class Machine {
  readonly name: string;
  readonly home: string;
  readonly #bus: string;

  constructor(name: string, bus: string) {
    this.name = name;
    this.home = mkdtempSync(join(tmpdir(), "interlink-host-"));
    this.#bus = bus;
  }

  /** @param session absent: one a machine */
  env(session = `${this.name}-session`): Record<string, string> {
    return {
      PATH: process.env["PATH"]!,
      HOME: this.home,
      INTERLINK_URL: this.#bus,
      INTERLINK_NAME: this.name,
      INTERLINK_SESSION: session,
    };
  }

  /** What a host starts. */
  program(session?: string): Command {
    return { command: process.execPath, args: [...NODE_ARGS, "mcp"], env: this.env(session) };
  }

  /** A command as an answer names it, typed by the person at their shell. There is no terminal here, so it says yes. */
  async type(command: string): Promise<string> {
    const typed = command.replace(/^interlink-edge \w+ \w+/, "$& --yes");
    const program = [process.execPath, ...NODE_ARGS].map((word) => `'${word}'`).join(" ");
    const script = `interlink-edge() { ${program} "$@"; }\n${typed}`;
    return (await run("bash", ["-c", script], { env: this.env() })).stdout;
  }

  /** Its identity, made at the first call, where the agent will find it. */
  async key(): Promise<Key> {
    const opened = await openIdentity(this.#path("id.key"));
    if ("refused" in opened) throw new Error(JSON.stringify(opened));
    return opened.identity.key;
  }

  /** Trusts another machine under its name, as its person would by a command. */
  async trust(other: Machine): Promise<void> {
    const key = await other.key();
    const peers = new PeersFile({ path: this.#path("peers.json"), me: await this.key() });
    const added = await peers.add(other.name, key, Operator.attest(key, "cli"));
    if ("refused" in added) throw new Error(JSON.stringify(added));
  }

  /** Who is trusted, as it stands on the disk. */
  peersFile(): string {
    return readFileSync(this.#path("peers.json"), "utf8");
  }

  #path(file: string): string {
    return join(this.home, ".config", "interlink", file);
  }

  remove(): void {
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** Two people who trust each other. */
export async function twoMachines(bus: string, ...names: readonly [string, string]): Promise<[Machine, Machine]> {
  const [a, b] = [new Machine(names[0], bus), new Machine(names[1], bus)];
  await a.trust(b);
  await b.trust(a);
  return [a, b];
}

/** A client that has started an agent, and what came of its calls. */
export class Host {
  readonly machine: Machine;
  /** What the human was asked, since this was last emptied. */
  readonly asked: string[] = [];
  /** How the human answers. */
  human: Human = () => ({ action: "cancel" });
  /** Tools that answered, and tools that refused. */
  readonly answered = new Set<string>();
  readonly refusing = new Set<string>();
  readonly #attached: Awaited<ReturnType<typeof attach>>;

  private constructor(machine: Machine, attached: Awaited<ReturnType<typeof attach>>) {
    this.machine = machine;
    this.#attached = attached;
  }

  /** @param hasForm true if the client can ask its human @param session absent: the machine's */
  static async start(machine: Machine, kind: Kind, hasForm: boolean, session?: string): Promise<Host> {
    const ask: Human = (message) => {
      host.asked.push(message);
      return host.human(message);
    };
    const host: Host = new Host(machine, await attach(kind, machine.program(session), hasForm ? ask : undefined));
    return host;
  }

  get client() {
    return this.#attached.client;
  }

  call(name: ToolName, args: object = {}): Promise<Result> {
    return this.#attached.call(name, args);
  }

  /** The fields of an answer that the client has checked by the tool's schema, and that its text says as well. */
  async ok(name: ToolName, args: object = {}): Promise<Fields> {
    const result = await this.call(name, args);
    expect(result.isError ?? false, `${name}: ${textOf(result)}`).toBe(false);
    saysTheSame(name, result);
    this.answered.add(name);
    return result.structuredContent!;
  }

  /** The refusal, which is the same in the text and in the structure. */
  async refusal(name: ToolName, args: object = {}): Promise<{ code: string; message: string; fields?: string[] }> {
    const result = await this.call(name, args);
    expect(result.isError, `${name} ${JSON.stringify(args).slice(0, 200)}: ${textOf(result)}`).toBe(true);
    const { error, notices = [] } = result.structuredContent!;
    expect(textOf(result)).toBe([error.message, ...notices.map((notice: string) => `Notice: ${notice}`)].join("\n"));
    expect(error.message.startsWith(`${error.code}: `), error.message).toBe(true);
    // What a validator says of its own insides, or a program of itself.
    expect(textOf(result)).not.toMatch(
      /\bzod\b|invalid_type|Invalid input|expected |received |\bat .+:\d+:\d+|\[object/i,
    );
    this.refusing.add(name);
    return error;
  }

  /** Asks until the answer is what is waited for. */
  until(name: ToolName, args: object, isThere: (fields: Fields) => boolean): Promise<Fields> {
    return until(async () => {
      const fields = await this.ok(name, args);
      return isThere(fields) ? fields : undefined;
    }, `${this.machine.name}: ${name}`);
  }

  async connected(): Promise<void> {
    await this.until("whoami", {}, ({ presence }) => presence === "live");
  }

  /** The messages that come, as many as there should be, parsed. */
  async mail(count: number): Promise<Fields[]> {
    const messages: Fields[] = [];
    await this.until("check_messages", {}, (fields) => {
      messages.push(...fields["messages"].map((line: string) => JSON.parse(line)));
      return messages.length >= count;
    });
    expect(messages).toHaveLength(count);
    return messages;
  }

  close(): Promise<void> {
    return this.#attached.client.close();
  }
}

/** Words for programs, which the text says in a sentence. */
const ENUMS = new Set(["recipient", "wake_path", "wake_proof", "presence", "what"]);

/** A host shows its model the text or the structure, so each must say all of it. */
function saysTheSame(name: string, result: Result): void {
  const text = textOf(result);
  const look = (field: string, value: unknown): void => {
    if (Array.isArray(value)) for (const each of value) look(field, each);
    else if (typeof value === "object" && value !== null)
      for (const [key, each] of Object.entries(value)) look(key, each);
    else if (typeof value === "string" && !ENUMS.has(field)) expect(text, `${name}: ${field}`).toContain(value);
  };
  look("", result.structuredContent);
}
