/**
 * This bus as a system: one identity with one session for each recipient, one identity for each sender. How mail is
 * received (socket or polls), and whether requests carry tokens, is up to the adapter.
 */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Key } from "../../src/protocol/address.ts";
import { AUTH_SCHEME } from "../../src/protocol/constants.ts";
import { buildBundle, PROJECT_DIR, startBus, type Variables } from "../../scripts/local-bus.ts";
import { Agent, signAnnouncement } from "../../test/support/agent.ts";
import type { ObjectCounters, Prepared, Receiver, Sender, Sink, StartOptions, System } from "../adapter.ts";
import { countObjects, readCounters } from "../server/count-objects.ts";
import { encodeHttp, HttpConnection, type HttpResponse } from "../wire/http-connection.ts";
import { HttpSender } from "../wire/http-sender.ts";

/** What an accepted send survives; the same in every way to run the bus. */
export const BUS_SURVIVES =
  "Loss of power, as far as the disk keeps its word: SQLite in WAL mode, one fsync for all that arrived together.";

/** Limits that are policy, not speed: raised out of the way, as no other system here has them. */
export const BUS_VARS = {
  INBOX_MAX_MESSAGES: "1000000",
  INBOX_MAX_BYTES: "4000000000",
  SENDER_SHARE: "1000000",
  RATE_PER_S: "1000000",
  LOG: "faults",
} as const;

const SESSION = "bench";
/** Requests at a time while recipients are set up. */
const SETUP_CONNECTIONS = 16;

/** A session that receives. */
export interface Recipient {
  readonly agent: Agent;
  readonly route: string;
}

export type OpenReceiver = (bus: InterlinkSystem, recipient: Recipient, sink: Sink) => Promise<Receiver>;

export interface InterlinkOptions {
  readonly port: number;
  /** True if requests carry tokens; false for ACCESS=open. */
  readonly signed: boolean;
  readonly openReceiver: OpenReceiver;
  readonly pids: () => readonly number[];
  readonly stop: () => Promise<void>;
  readonly counters?: () => Promise<ObjectCounters>;
}

let bundle: Promise<string> | undefined;

/** A bus under plain workerd, with the bundle that a deployment would get. */
export async function startPlainBus(
  { dir, counted }: StartOptions,
  vars: Variables,
  options: Pick<InterlinkOptions, "signed" | "openReceiver">,
): Promise<InterlinkSystem> {
  bundle ??= buildBundle(join(PROJECT_DIR, ".build", "bench"));
  let path = await bundle;
  if (counted) {
    const source = await readFile(path, "utf8");
    await writeFile((path = join(dir, "counted.js")), countObjects(source));
  }
  const { port, pid, stop } = await startBus({ bundle: path, dir, vars: { ...BUS_VARS, ...vars } });
  const counters = (): Promise<ObjectCounters> => readCounters(port);
  return new InterlinkSystem({ ...options, port, pids: () => [pid], stop, ...(counted ? { counters } : {}) });
}

export class InterlinkSystem implements System {
  readonly batchMax = 64;
  /** The bus's origin, which tokens are for. */
  readonly origin: string;
  readonly host: string;
  readonly counters?: () => Promise<ObjectCounters>;
  #options: InterlinkOptions;
  #recipients = new Map<string, Recipient>();
  #open: { close(): void }[] = [];

  constructor(options: InterlinkOptions) {
    this.#options = options;
    if (options.counters) this.counters = options.counters;
    this.host = `127.0.0.1:${options.port}`;
    this.origin = `http://${this.host}`;
  }

  createSenders(count: number): Promise<BusSender[]> {
    return Promise.all(
      Array.from({ length: count }, async () => new BusSender(this, await this.#createAgent(), await this.connect())),
    );
  }

  async createRecipients(count: number, senders: readonly Sender[]): Promise<string[]> {
    const contacts = senders.map((sender) => (sender as BusSender).agent.key);
    const agents = await Promise.all(Array.from({ length: count }, () => this.#createAgent()));
    const recipients = agents.map((agent) => ({ agent, route: agent.route(SESSION) }));
    const todo = [...recipients];
    const work = async (): Promise<void> => {
      const connection = await this.connect();
      for (let recipient; (recipient = todo.pop());) await this.#setUp(connection, recipient, contacts);
      connection.close();
    };
    await Promise.all(Array.from({ length: Math.min(count, SETUP_CONNECTIONS) }, work));
    for (const recipient of recipients) this.#recipients.set(recipient.route, recipient);
    return recipients.map(({ route }) => route);
  }

  openReceiver(recipient: string, sink: Sink): Promise<Receiver> {
    return this.#options.openReceiver(this, this.#recipients.get(recipient)!, sink);
  }

  pids(): readonly number[] {
    return this.#options.pids();
  }

  async stop(): Promise<void> {
    for (const one of this.#open) one.close();
    await this.#options.stop();
  }

  /** The bytes of a request, signed by `agent` if this bus wants tokens. */
  encode(agent: Agent, method: string, target: string, body = ""): Buffer {
    const headers = {
      ...(method === "GET" ? {} : { "content-type": "application/json" }),
      ...(this.#options.signed ? { authorization: `${AUTH_SCHEME} ${agent.token({ method, target, body })}` } : {}),
    };
    return encodeHttp({ method, target, host: this.host, headers, ...(method === "GET" ? {} : { body }) });
  }

  /** The bytes of a session's heartbeat by HTTP. */
  encodeAnnouncement(agent: Agent): Buffer {
    const session = { session_id: SESSION, cwd: "/bench", summary: "measuring" };
    const announcement = signAnnouncement(agent.signer, { name: "bench", session, ts: agent.nextTs() });
    return this.encode(agent, "POST", "/announce", JSON.stringify(announcement));
  }

  async connect(): Promise<HttpConnection> {
    return this.closeAtStop(await new HttpConnection(this.#options.port).open());
  }

  /** Whatever a receiver holds open. */
  closeAtStop<One extends { close(): void }>(one: One): One {
    this.#open.push(one);
    return one;
  }

  #createAgent(): Promise<Agent> {
    return Agent.create({ url: this.origin });
  }

  async #setUp(connection: HttpConnection, { agent }: Recipient, contacts: readonly Key[]): Promise<void> {
    expectStatus(202, await connection.request(this.encodeAnnouncement(agent)));
    if (!this.#options.signed) return; // with ACCESS=open, who published no contacts admits every verified sender
    const body = JSON.stringify({ contacts, ts: agent.nextTs() });
    expectStatus(200, await connection.request(this.encode(agent, "PUT", "/contacts", body)));
  }
}

/** @throws if the answer has another status */
export function expectStatus(status: number, response: HttpResponse): void {
  if (response.status !== status) throw new Error(`expected ${status}, got ${response.status}: ${response.body}`);
}

export class BusSender extends HttpSender {
  readonly agent: Agent;
  #bus: InterlinkSystem;

  constructor(bus: InterlinkSystem, agent: Agent, connection: HttpConnection) {
    super(connection);
    this.agent = agent;
    this.#bus = bus;
  }

  encode(recipient: string, texts: readonly string[]): Prepared {
    const ts = Date.now(); // the agent's own times run ahead when it signs thousands a second
    const messages = texts.map((text) => this.agent.message(recipient, text, { ts }));
    const body = JSON.stringify(messages.length === 1 ? messages[0] : { messages });
    return { bytes: this.#bus.encode(this.agent, "POST", "/send", body), count: texts.length };
  }

  protected isAccepted(status: number, body: string, count: number): boolean {
    if (count === 1) return status === 202;
    return status === 200 && body.split(`"state":"stored"`).length === count + 1;
  }
}
