/**
 * One person's machine each: a home of its own, and an MCP host's client that drives the original Rust client, or
 * ours, over stdio. Nothing here speaks to the bus itself.
 */

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { inject } from "vitest";
import { programName } from "./install-rust-client.ts";

const run = promisify(execFile);
const EDGE = join(import.meta.dirname, "../../src/client/cli/bin.ts");
const NODE_ARGS = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types", EDGE];

/** The Rust client sends what concerns pairing every 2 s, and the heartbeat of its own code is 30 s. */
const WAIT_MAX_MS = 20_000;
const LOOK_EVERY_MS = 100;

/** A message as an agent's model got it. */
export interface Got {
  readonly from: string;
  readonly body: string;
  readonly msg_id: string;
  readonly task_id?: string;
  readonly status?: string;
  readonly in_reply_to?: string;
}

export interface AgentOptions {
  readonly bus: string;
  /** What it calls itself, and the id of its session. */
  readonly name: string;
  /** Another's, to be the same person. */
  readonly home?: string;
}

/** What this file's agents leave behind. */
const leftovers: (() => unknown)[] = [];

/** Closes every agent that still runs, and removes the homes. */
export async function endAgents(): Promise<void> {
  for (const end of leftovers.splice(0).reverse()) await end();
}

/** Asks until the answer is there. @throws with the last answer after `maxMs` */
export async function until<T>(
  ask: () => Promise<T>,
  isThere: (answer: T) => boolean,
  maxMs = WAIT_MAX_MS,
): Promise<T> {
  const deadline = Date.now() + maxMs;
  for (;;) {
    const answer = await ask();
    if (isThere(answer)) return answer;
    if (Date.now() > deadline) throw new Error(`not within ${maxMs} ms: ${JSON.stringify(answer)}`);
    await delay(LOOK_EVERY_MS);
  }
}

/** What both have in common: the process, its end, and mail that is waited for. */
abstract class StdioAgent {
  readonly name: string;
  readonly home: string;
  readonly env: Record<string, string>;
  #client: Client | undefined;
  #transport: StdioClientTransport | undefined;
  #inHand: Got[] = [];
  #stderr = "";

  constructor({ bus, name, home }: AgentOptions) {
    this.name = name;
    this.home = home ?? mkdtempSync(join(tmpdir(), `interlink-interop-${name}-`));
    if (home === undefined) leftovers.push(() => rmSync(this.home, { recursive: true, force: true }));
    this.env = {
      PATH: process.env["PATH"]!,
      HOME: this.home,
      INTERLINK_URL: bus,
      INTERLINK_NAME: name,
      INTERLINK_SESSION: this.session,
    };
  }

  get session(): string {
    return `${this.name}-session`;
  }

  protected abstract readonly command: { readonly command: string; readonly args: string[] };
  /** Unread messages, each given out once. */
  protected abstract fetch(): Promise<Got[]>;

  /** Starts the process, as a host does. */
  async start(): Promise<void> {
    // The original knows the older handshake alone.
    const client = new Client({ name: "interop", version: "1" }, { versionNegotiation: { mode: "legacy" } });
    const transport = new StdioClientTransport({ ...this.command, env: this.env, cwd: this.home, stderr: "pipe" });
    transport.stderr?.on("data", (chunk) => (this.#stderr = (this.#stderr + String(chunk)).slice(-4_096)));
    await client.connect(transport);
    leftovers.push(() => client.close());
    this.#client = client;
    this.#transport = transport;
  }

  /** A clean close: the host closes the pipe. */
  async close(): Promise<void> {
    await this.#client!.close();
  }

  /** SIGKILL to all of it: the power goes. Resolves when it runs no more. */
  async kill(): Promise<void> {
    const pid = this.#transport!.pid!;
    // What the process started goes first: left behind it would say goodbye.
    for (const each of [...(await childrenOf(pid)), pid]) process.kill(each, "SIGKILL");
    await until(
      async () => isRunning(pid),
      (running) => !running,
    );
  }

  /** Calls a tool. @throws what the model would read, if that is an error */
  async callTool(name: string, args: object = {}): Promise<any> {
    const result: any = await this.#client!.callTool({ name, arguments: args as Record<string, unknown> });
    if (result.isError) throw new Error(`${this.name}: ${name}: ${result.content[0].text}`);
    return result;
  }

  /** The next messages of mail, as many as are asked for, in the order of their coming. */
  async read(count = 1): Promise<Got[]> {
    try {
      await until(
        async () => {
          if (this.#inHand.length < count) this.#inHand.push(...(await this.fetch()));
          return this.#inHand.length;
        },
        (length) => length >= count,
      );
    } catch (error) {
      throw new Error(`${this.name} got no ${count} messages\n${this.#stderr}`, { cause: error });
    }
    return this.#inHand.splice(0, count);
  }

  async readOne(): Promise<Got> {
    return (await this.read())[0]!;
  }
}

/** The original's `interlink-mcp`. */
export class RustAgent extends StdioAgent {
  protected get command() {
    return { command: rustProgram("interlink-mcp"), args: [] };
  }

  /** What its README has a new user do: a key, and an empty list of peers. @returns the public key */
  async setUp(): Promise<string> {
    const folder = join(this.home, ".config/interlink");
    mkdirSync(folder, { recursive: true, mode: 0o755 });
    const { stdout } = await run(rustProgram("interlink-keygen"), ["--out", join(folder, "id.key")]);
    writeFileSync(join(folder, "peers.json"), "{}\n", { mode: 0o644 });
    return /public key : ([\w-]{43})/.exec(stdout)![1]!;
  }

  async call(name: string, args: object = {}): Promise<string> {
    return (await this.callTool(name, args)).content[0].text;
  }

  /** Asks a tool until its text is as wanted. */
  until(name: string, args: object, isThere: (text: string) => boolean, maxMs?: number): Promise<string> {
    return until(() => this.call(name, args), isThere, maxMs);
  }

  /** @returns the id of the message and what its model is told */
  async send(to: string, text: string, more: object = {}): Promise<{ msg_id: string; told: string }> {
    const told = await this.call("send_message", { to, text, ...more });
    return { msg_id: /msg_id ([0-9a-f]+)/.exec(told)![1]!, told };
  }

  /** The lines of `discover` about a session, or undefined. */
  async sees(session: string): Promise<string | undefined> {
    const text = await this.call("discover");
    return text.split("\n").find((line) => line.includes(`→ ${session}`));
  }

  protected async fetch(): Promise<Got[]> {
    const text = await this.call("receive_messages", { limit: 100 });
    const got: Got[] = [];
    const receipts: object[] = [];
    const entry =
      /^\[[^\n]*\] Receipt: (\{[^\n]*\})\n\[interlink message from ([^\n]*)\]:\n<interlink ([^\n]*)>\n([\s\S]*?)\n<\/interlink>$/gm;
    for (const [, receipt, from, attributes, body] of text.matchAll(entry)) {
      const attribute = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(attributes!)?.[1];
      const [task_id, status, in_reply_to] = [attribute("task"), attribute("status"), attribute("in_reply_to")];
      receipts.push(JSON.parse(receipt!) as object);
      got.push({
        from: from!,
        body: body!,
        msg_id: attribute("msg_id")!,
        ...(task_id !== undefined && { task_id }),
        ...(status !== undefined && { status }),
        ...(in_reply_to !== undefined && { in_reply_to }),
      });
    }
    if (receipts.length > 0) await this.call("acknowledge_messages", { messages: receipts });
    return got;
  }
}

/** Ours: `interlink-edge mcp`. */
export class EdgeAgent extends StdioAgent {
  /** All that its model was told beside the answers. */
  readonly notices: string[] = [];

  protected get command() {
    return { command: process.execPath, args: [...NODE_ARGS, "mcp"] };
  }

  /** The command line, as the person types it. */
  async type(...args: string[]): Promise<string> {
    return (await run(process.execPath, [...NODE_ARGS, ...args], { env: this.env, cwd: this.home })).stdout;
  }

  /** @returns our public key, which is made if there is none */
  async setUp(): Promise<string> {
    return /[\w-]{43}/.exec(await this.type("key"))![0];
  }

  /** Starts it and waits until it is on the bus. */
  override async start(): Promise<void> {
    await super.start();
    await this.until("whoami", {}, ({ connection, presence }) => connection === "connected" && presence === "live");
  }

  async call(name: string, args: object = {}): Promise<any> {
    const answer = (await this.callTool(name, args)).structuredContent;
    this.notices.push(...(answer.notices ?? []));
    return answer;
  }

  /** Asks a tool until its answer is as wanted. */
  until(name: string, args: object, isThere: (answer: any) => boolean, maxMs?: number): Promise<any> {
    return until(() => this.call(name, args), isThere, maxMs);
  }

  send(to: string, text: string, more: object = {}): Promise<any> {
    return this.call("send_message", { to, text, ...more });
  }

  /** What `discover` says of a session, or undefined. */
  async sees(session: string): Promise<any> {
    const { sessions } = await this.call("discover");
    return (sessions as string[]).map((line) => JSON.parse(line)).find((each) => each.session === session);
  }

  protected async fetch(): Promise<Got[]> {
    const { messages } = await this.call("check_messages");
    return Promise.all((messages as string[]).map((line) => this.#whole(JSON.parse(line))));
  }

  /** A long one comes in parts. */
  async #whole({ truncated, next_offset, ...first }: any): Promise<Got> {
    const { from, msg_id, task_id, status, in_reply_to } = first;
    let body: string = first.body;
    for (let offset = truncated ? next_offset : undefined; offset !== undefined;) {
      const part = await this.call("read_message", { msg_id, offset });
      body += JSON.parse(part.message).body;
      offset = part.next_offset;
    }
    return {
      from,
      body,
      msg_id,
      ...(task_id !== undefined && { task_id }),
      ...(status !== undefined && { status }),
      ...(in_reply_to !== undefined && { in_reply_to }),
    };
  }
}

async function childrenOf(pid: number): Promise<number[]> {
  const { stdout } = await run("ps", ["-A", "-o", "pid=,ppid="]);
  return [...stdout.matchAll(/^\s*(\d+)\s+(\d+)$/gm)]
    .filter((row) => row[2] === String(pid))
    .map((row) => Number(row[1]));
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function rustProgram(name: string): string {
  const rust = inject("rust");
  if ("missing" in rust) throw new Error(rust.missing);
  return join(rust.bin, programName(name));
}
