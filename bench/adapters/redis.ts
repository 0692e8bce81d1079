/** Redis Streams with `appendfsync always`: a stream and a consumer group for each recipient. */

import type { Adapter, Prepared, Receiver, Sender, Sink, System } from "../adapter.ts";
import { findFreePort, findProgram, outputOf, ServerProcess } from "../server/server-process.ts";
import { encodeCommand, RespConnection, type Reply } from "../wire/resp-connection.ts";

const GROUP = "readers";
const CONSUMER = "reader";
/** As the window of PROTOCOL.md. */
const READ_MAX = 64;
/** As the bus's own default poll. */
const BLOCK_MS = 25_000;

export const redis: Adapter = {
  name: "redis",
  survives: "Loss of power, as far as the disk keeps its word: append-only file, one fdatasync for all that wait.",
  probe: async () => {
    const program = findProgram("redis-server");
    if (!program) return { missing: "redis-server is not installed (Debian: redis-server)" };
    return { version: /v=(\S+)/.exec(await outputOf(program, ["--version"]))?.[0] ?? "unknown" };
  },
  start: async ({ dir }) => {
    const port = await findFreePort();
    const server = await ServerProcess.start({
      command: findProgram("redis-server")!,
      args: `--bind 127.0.0.1 --port ${port} --appendonly yes --appendfsync always --save`
        .split(" ")
        .concat("", "--dir", dir),
      port,
      signal: "SIGTERM",
    });
    return new RedisSystem(server);
  },
};

class RedisSystem implements System {
  readonly batchMax = 64;
  #server: ServerProcess;
  #open: { close(): void }[] = [];
  #recipients = 0;

  constructor(server: ServerProcess) {
    this.#server = server;
  }

  createSenders(count: number): Promise<Sender[]> {
    return Promise.all(Array.from({ length: count }, async () => new RedisSender(await this.#connect())));
  }

  async createRecipients(count: number): Promise<string[]> {
    const connection = await this.#connect();
    const names = Array.from({ length: count }, () => `inbox:${this.#recipients++}`);
    await Promise.all(names.map((name) => connection.call("XGROUP", "CREATE", name, GROUP, "0", "MKSTREAM")));
    return names;
  }

  async openReceiver(recipient: string, sink: Sink): Promise<Receiver> {
    const receiver = new RedisReceiver(recipient, await this.#connect(), sink);
    this.#open.unshift(receiver);
    void receiver.run();
    return receiver;
  }

  pids(): number[] {
    return this.#server.pids();
  }

  async stop(): Promise<void> {
    for (const one of this.#open) one.close();
    await this.#server.stop();
  }

  async #connect(): Promise<RespConnection> {
    const connection = await RespConnection.open(this.#server.port);
    this.#open.push(connection);
    return connection;
  }
}

class RedisSender implements Sender {
  #connection: RespConnection;

  constructor(connection: RespConnection) {
    this.#connection = connection;
  }

  /** A batch is a pipeline. */
  encode(recipient: string, texts: readonly string[]): Prepared {
    const commands = texts.map((text) => encodeCommand(["XADD", recipient, "*", "text", text]));
    return { bytes: Buffer.concat(commands), count: texts.length };
  }

  async send({ bytes, count }: Prepared): Promise<void> {
    await this.#connection.send(bytes, count);
  }
}

/** Entries as XREADGROUP nests them: for each stream its name and its entries, for each entry its id and its fields. */
type ReadReply = [stream: string, entries: [id: string, fields: string[]][]][] | null;

class RedisReceiver implements Receiver {
  #recipient: string;
  #connection: RespConnection;
  #sink: Sink;
  #requests = 0;
  #lastAck: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(recipient: string, connection: RespConnection, sink: Sink) {
    this.#recipient = recipient;
    this.#connection = connection;
    this.#sink = sink;
  }

  get requests(): number {
    return this.#requests;
  }

  async acked(): Promise<void> {
    await this.#lastAck;
  }

  close(): void {
    this.#closed = true;
    this.#connection.close();
  }

  /** Reads until the connection closes. The ack goes before the next read, in the same write. */
  async run(): Promise<void> {
    const options = `COUNT ${READ_MAX} BLOCK ${BLOCK_MS} STREAMS ${this.#recipient} >`;
    const read = encodeCommand(["XREADGROUP", "GROUP", GROUP, CONSUMER, ...options.split(" ")]);
    try {
      for (let next = this.#connection.send(read, 1); ;) {
        this.#requests++;
        const entries = entriesOf((await next)[0]!);
        if (entries.length === 0) {
          next = this.#connection.send(read, 1);
          continue;
        }
        this.#sink.receive(entries.map(([, fields]) => fields[1]!));
        const ids = entries.map(([id]) => id);
        const ack = encodeCommand(["XACK", this.#recipient, GROUP, ...ids]);
        const remove = encodeCommand(["XDEL", this.#recipient, ...ids]);
        this.#lastAck = this.#connection.send(Buffer.concat([ack, remove]), 2);
        this.#lastAck.catch(() => {}); // the read behind it fails as well
        this.#requests += 2;
        next = this.#connection.send(read, 1);
      }
    } catch (error) {
      if (!this.#closed) this.#sink.fail(error as Error);
    }
  }
}

function entriesOf(reply: Reply): [id: string, fields: string[]][] {
  return (reply as ReadReply)?.[0]?.[1] ?? [];
}
