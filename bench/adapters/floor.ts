/** The platform's floor (floor/worker.ts) under plain workerd. */

import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire, stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import type { Adapter, ObjectCounters, Prepared, Receiver, Sink, StartOptions, System } from "../adapter.ts";
import { countObjects, readCounters } from "../server/count-objects.ts";
import { findFreePort, outputOf, ServerProcess } from "../server/server-process.ts";
import { FrameReceiver, type FrameItem } from "../wire/frame-receiver.ts";
import { encodeHttp, HttpConnection } from "../wire/http-connection.ts";
import { HttpSender } from "../wire/http-sender.ts";

const FLOOR_DIR = join(import.meta.dirname, "..", "floor");

export const floor: Adapter = {
  name: "floor",
  survives: "Loss of power, as far as the disk keeps its word: SQLite in WAL mode, one fsync a message.",
  probe: async () => ({ version: await outputOf(workerdPath(), ["--version"]) }),
  start: startFloor,
};

/** The executable itself: the script in front of it would be one more process. */
export function workerdPath(): string {
  const require = createRequire(import.meta.url);
  return (require("workerd") as { default: string }).default;
}

async function startFloor({ dir, counted }: StartOptions): Promise<System> {
  const objects = join(dir, "objects");
  const config = join(dir, "floor.capnp");
  const port = await findFreePort();
  await mkdir(objects);
  await copyFile(join(FLOOR_DIR, "floor.capnp"), config);
  const source = stripTypeScriptTypes(await readFile(join(FLOOR_DIR, "worker.ts"), "utf8"));
  await writeFile(join(dir, "worker.js"), counted ? countObjects(source) : source);
  const server = await ServerProcess.start({
    command: workerdPath(),
    args: ["serve", config, "config", "-d", `objects=${objects}`, "-s", `http=127.0.0.1:${port}`],
    port,
    // SIGTERM would drain: workerd serves open sockets for ever.
    signal: "SIGINT",
  });
  return new FloorSystem(server);
}

interface FloorItem extends FrameItem {
  readonly text: string;
}

class FloorSystem implements System {
  readonly batchMax = 1;
  #server: ServerProcess;
  #host: string;
  #open: { close(): void }[] = [];
  #recipients = 0;

  constructor(server: ServerProcess) {
    this.#server = server;
    this.#host = `127.0.0.1:${server.port}`;
  }

  createSenders(count: number): Promise<FloorSender[]> {
    return Promise.all(Array.from({ length: count }, async () => new FloorSender(this.#host, await this.#connect())));
  }

  async createRecipients(count: number): Promise<string[]> {
    return Array.from({ length: count }, () => `recipient-${this.#recipients++}`);
  }

  async openReceiver(recipient: string, sink: Sink): Promise<Receiver> {
    const url = `ws://${this.#host}/socket?to=${recipient}`;
    const receiver = new FrameReceiver<FloorItem>(
      () => ({ url }),
      (item) => item.text,
      sink,
    );
    this.#open.push(receiver);
    await receiver.open();
    return receiver;
  }

  pids(): number[] {
    return this.#server.pids();
  }

  counters(): Promise<ObjectCounters> {
    return readCounters(this.#server.port);
  }

  async stop(): Promise<void> {
    for (const one of this.#open) one.close();
    await this.#server.stop();
  }

  async #connect(): Promise<HttpConnection> {
    const connection = await new HttpConnection(this.#server.port).open();
    this.#open.push(connection);
    return connection;
  }
}

class FloorSender extends HttpSender {
  #host: string;

  constructor(host: string, connection: HttpConnection) {
    super(connection);
    this.#host = host;
  }

  encode(recipient: string, texts: readonly string[]): Prepared {
    const target = `/send?to=${recipient}`;
    return { bytes: encodeHttp({ method: "POST", target, host: this.#host, body: texts[0]! }), count: 1 };
  }

  protected isAccepted(status: number): boolean {
    return status === 200;
  }
}
