/** NATS JetStream on file storage: one work queue, and a durable pull consumer for each recipient. */

import { setTimeout as delay } from "node:timers/promises";
import type { Adapter, Prepared, Receiver, Sender, Sink, System } from "../adapter.ts";
import { findFreePort, findProgram, outputOf, ServerProcess } from "../server/server-process.ts";
import { encodePub, NatsConnection, type NatsMessage } from "../wire/nats-connection.ts";

const STREAM = "MAIL";
/** As the window of PROTOCOL.md. */
const PULL_MAX = 64;
/** As the bus's own default poll. */
const PULL_EXPIRES_MS = 25_000;
const NS_PER_MS = 1_000_000;

export const nats: Adapter = {
  name: "nats",
  survives:
    "kill -9 of the server, but not loss of power: written to the page cache, synced every two minutes (2.9 has no other setting).",
  probe: async () => {
    const program = findProgram("nats-server");
    if (!program) return { missing: "nats-server is not installed (Debian: nats-server)" };
    return { version: await outputOf(program, ["--version"]) };
  },
  start: async ({ dir }) => {
    const port = await findFreePort();
    const server = await ServerProcess.start({
      command: findProgram("nats-server")!,
      args: ["--addr", "127.0.0.1", "--port", String(port), "--jetstream", "--store_dir", dir],
      port,
      signal: "SIGTERM",
    });
    const control = await NatsConnection.open(port);
    await control.request(`$JS.API.STREAM.CREATE.${STREAM}`, {
      name: STREAM,
      subjects: ["mail.>"],
      retention: "workqueue",
      storage: "file",
      num_replicas: 1,
    });
    return new NatsSystem(server, control);
  },
};

class NatsSystem implements System {
  readonly batchMax = 64;
  #server: ServerProcess;
  #control: NatsConnection;
  #open: NatsConnection[] = [];
  #recipients = 0;

  constructor(server: ServerProcess, control: NatsConnection) {
    this.#server = server;
    this.#control = control;
  }

  createSenders(count: number): Promise<Sender[]> {
    return Promise.all(Array.from({ length: count }, async () => new NatsSender(await this.#connect())));
  }

  async createRecipients(count: number): Promise<string[]> {
    const names = Array.from({ length: count }, () => `r${this.#recipients++}`);
    for (const name of names) {
      await this.#control.request(`$JS.API.CONSUMER.DURABLE.CREATE.${STREAM}.${name}`, {
        stream_name: STREAM,
        config: { durable_name: name, filter_subject: `mail.${name}`, ack_policy: "explicit", deliver_policy: "all" },
      });
    }
    return names;
  }

  async openReceiver(recipient: string, sink: Sink): Promise<Receiver> {
    return new NatsReceiver(recipient, await this.#connect(), sink);
  }

  pids(): number[] {
    return this.#server.pids();
  }

  async stop(): Promise<void> {
    for (const one of [this.#control, ...this.#open]) one.close();
    await this.#server.stop();
  }

  async #connect(): Promise<NatsConnection> {
    const connection = await NatsConnection.open(this.#server.port);
    this.#open.push(connection);
    return connection;
  }
}

class NatsSender implements Sender {
  #connection: NatsConnection;
  #inbox: string;
  /** Acks of the request in flight that are still to come. */
  #left = 0;
  #resolve: () => void = () => {};
  #reject: (error: Error) => void = () => {};

  constructor(connection: NatsConnection) {
    this.#connection = connection;
    connection.onClose = (error) => this.#reject(error);
    this.#inbox = connection.openInbox((message) => this.#take(message));
  }

  /** A batch is a row of publishes whose acks are awaited together. */
  encode(recipient: string, texts: readonly string[]): Prepared {
    const publishes = texts.map((text) => encodePub(`mail.${recipient}`, this.#inbox, text));
    return { bytes: Buffer.concat(publishes), count: texts.length };
  }

  send({ bytes, count }: Prepared): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#left = count;
      this.#resolve = resolve;
      this.#reject = reject;
      this.#connection.write(bytes);
    });
  }

  #take({ headers, payload }: NatsMessage): void {
    const refusal = headers ?? (payload.includes(`"error"`) ? payload : undefined);
    if (refusal !== undefined) this.#reject(new Error(`send refused: ${refusal}`));
    else if (--this.#left === 0) this.#resolve();
  }
}

interface ConsumerInfo {
  readonly num_pending: number;
  readonly num_ack_pending: number;
}

class NatsReceiver implements Receiver {
  #recipient: string;
  #connection: NatsConnection;
  #sink: Sink;
  #inbox: string;
  /** Messages that the server may still send for the pulls so far. */
  #credit = 0;
  #requests = 0;
  #batch: NatsMessage[] = [];

  constructor(recipient: string, connection: NatsConnection, sink: Sink) {
    this.#recipient = recipient;
    this.#connection = connection;
    this.#sink = sink;
    connection.onClose = (error) => sink.fail(error);
    this.#inbox = connection.openInbox((message) => this.#take(message));
    this.#refill();
  }

  get requests(): number {
    return this.#requests;
  }

  /** Acks have no answer either; the consumer says when it has counted them all. */
  async acked(): Promise<void> {
    const subject = `$JS.API.CONSUMER.INFO.${STREAM}.${this.#recipient}`;
    for (;;) {
      const info = await this.#connection.request<ConsumerInfo>(subject, undefined);
      if (info.num_pending + info.num_ack_pending === 0) return;
      await delay(1);
    }
  }

  close(): void {
    this.#connection.close();
  }

  /** Keeps a pull open, so that mail is pushed as it comes. */
  #refill(): void {
    if (this.#credit > PULL_MAX / 2) return;
    const options = { batch: PULL_MAX - this.#credit, expires: PULL_EXPIRES_MS * NS_PER_MS };
    this.#credit = PULL_MAX;
    this.#requests++;
    const subject = `$JS.API.CONSUMER.MSG.NEXT.${STREAM}.${this.#recipient}`;
    this.#connection.write(encodePub(subject, this.#inbox, JSON.stringify(options)));
  }

  #take(message: NatsMessage): void {
    if (message.headers !== undefined) {
      if (!message.headers.startsWith("NATS/1.0 408")) this.#sink.fail(new Error(message.headers));
      // A pull expired; it says how many of its messages never came.
      this.#credit -= Number(/Nats-Pending-Messages: (\d+)/i.exec(message.headers)?.[1] ?? 0);
      this.#refill();
      return;
    }
    // Messages of one read of the socket are handled together, as the frames of the other systems are.
    if (this.#batch.push(message) === 1) queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    const batch = this.#batch;
    this.#batch = [];
    this.#sink.receive(batch.map(({ payload }) => payload));
    this.#requests += batch.length;
    this.#connection.write(Buffer.concat(batch.map(({ reply }) => encodePub(reply!, undefined, "+ACK"))));
    this.#credit -= batch.length;
    this.#refill();
  }
}
