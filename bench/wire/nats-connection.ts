/** A tiny NATS client: the text protocol over a socket, with requests by reply subject. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface NatsMessage {
  readonly subject: string;
  readonly reply: string | undefined;
  /** Header lines; a server's own messages start them with a status: `NATS/1.0 408 Request Timeout`. */
  readonly headers: string | undefined;
  readonly payload: string;
}

/** The bytes that publish a payload. */
export function encodePub(subject: string, reply: string | undefined, payload: string): Buffer {
  return Buffer.from(`PUB ${subject} ${reply ? `${reply} ` : ""}${Buffer.byteLength(payload)}\r\n${payload}\r\n`);
}

let inboxes = 0;

export class NatsConnection {
  #socket: Socket;
  #buffer: Buffer = Buffer.alloc(0);
  #handlers = new Map<string, (message: NatsMessage) => void>();
  #onClose: (error: Error) => void = () => {};
  #lastError = "";

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk) => this.#read(chunk));
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => this.#onClose(new Error(`the connection closed: ${this.#lastError}`)));
  }

  static async open(port: number): Promise<NatsConnection> {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    await once(socket, "connect");
    const connection = new NatsConnection(socket);
    const options = {
      verbose: false,
      pedantic: false,
      headers: true,
      no_responders: true,
      lang: "bench",
      version: "1",
    };
    socket.write(`CONNECT ${JSON.stringify(options)}\r\n`);
    return connection;
  }

  /** What to do when the server ends the connection. */
  set onClose(handler: (error: Error) => void) {
    this.#onClose = handler;
  }

  /** A subject that is subscribed to and that nobody else has. */
  openInbox(handler: (message: NatsMessage) => void): string {
    const id = String(++inboxes);
    const subject = `_INBOX.${id}`;
    this.#handlers.set(id, handler);
    this.#socket.write(`SUB ${subject} ${id}\r\n`);
    return subject;
  }

  write(bytes: Buffer): void {
    this.#socket.write(bytes);
  }

  /** Asks JetStream's API. @throws if it answers with an error */
  async request<Answer>(subject: string, body: object | undefined): Promise<Answer> {
    const payload = await new Promise<string>((resolve, reject) => {
      const inbox = this.openInbox((message) => {
        this.#handlers.delete(inbox.slice("_INBOX.".length));
        if (message.headers) reject(new Error(`${subject}: ${message.headers}`));
        else resolve(message.payload);
      });
      this.write(encodePub(subject, inbox, body === undefined ? "" : JSON.stringify(body)));
      this.#socket.write(`UNSUB ${inbox.slice("_INBOX.".length)} 1\r\n`);
    });
    const answer = JSON.parse(payload) as Answer & { error?: unknown };
    if (answer.error) throw new Error(`${subject}: ${payload}`);
    return answer;
  }

  close(): void {
    this.#onClose = () => {};
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    const buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk]);
    let at = 0;
    for (let next; (next = this.#readOne(buffer, at)) !== undefined; at = next);
    this.#buffer = buffer.subarray(at);
  }

  /** Handles one operation; returns its end, or undefined while some of it is missing. */
  #readOne(buffer: Buffer, at: number): number | undefined {
    const lineEnd = buffer.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const line = buffer.toString("latin1", at, lineEnd);
    const body = lineEnd + 2;
    const [operation, ...words] = line.split(" ");
    switch (operation) {
      case "MSG": {
        const end = body + Number(words.at(-1));
        if (buffer.length < end + 2) return undefined;
        this.#deliver(words.slice(0, -1), undefined, buffer.toString("utf8", body, end));
        return end + 2;
      }
      case "HMSG": {
        const headerEnd = body + Number(words.at(-2));
        const end = body + Number(words.at(-1));
        if (buffer.length < end + 2) return undefined;
        const headers = buffer.toString("latin1", body, headerEnd).trim();
        this.#deliver(words.slice(0, -2), headers, buffer.toString("utf8", headerEnd, end));
        return end + 2;
      }
      case "PING":
        this.#socket.write("PONG\r\n");
        return body;
      case "-ERR":
        this.#lastError = line;
        return body;
      default:
        return body; // INFO, PONG, +OK
    }
  }

  #deliver(words: string[], headers: string | undefined, payload: string): void {
    const [subject, id, reply] = words as [string, string, string?];
    this.#handlers.get(id)?.({ subject, reply, headers, payload });
  }
}
