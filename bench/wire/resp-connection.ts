/** A tiny Redis client: RESP2 over a socket, pipelined, answers in the order of the commands. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";

export type Reply = string | number | null | Reply[];

/** The bytes of a command. */
export function encodeCommand(words: readonly string[]): Buffer {
  let text = `*${words.length}\r\n`;
  for (const word of words) text += `$${Buffer.byteLength(word)}\r\n${word}\r\n`;
  return Buffer.from(text);
}

interface Pending {
  /** Answers still to come. */
  left: number;
  readonly replies: Reply[];
  resolve(replies: Reply[]): void;
  reject(error: Error): void;
}

export class RespConnection {
  #socket: Socket;
  #buffer: Buffer = Buffer.alloc(0);
  #pending: Pending[] = [];

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk) => this.#read(chunk));
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => {
      for (const one of this.#pending.splice(0)) one.reject(new Error("the connection closed"));
    });
  }

  static async open(port: number): Promise<RespConnection> {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    await once(socket, "connect");
    return new RespConnection(socket);
  }

  /** Writes encoded commands; resolves with one reply for each. An error reply rejects. */
  send(bytes: Buffer, count: number): Promise<Reply[]> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ left: count, replies: [], resolve, reject });
      this.#socket.write(bytes);
    });
  }

  async call(...words: string[]): Promise<Reply> {
    return (await this.send(encodeCommand(words), 1))[0]!;
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    const buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk]);
    let at = 0;
    for (let parsed; (parsed = parseReply(buffer, at)); at = parsed.end) {
      const pending = this.#pending[0]!;
      if (parsed.value instanceof Error) {
        pending.reject(parsed.value);
      } else {
        pending.replies.push(parsed.value);
      }
      if (--pending.left === 0) {
        this.#pending.shift();
        pending.resolve(pending.replies);
      }
    }
    this.#buffer = buffer.subarray(at);
  }
}

/** One whole reply from `at`, or undefined while some of it is missing. */
function parseReply(buffer: Buffer, at: number): { readonly value: Reply | Error; readonly end: number } | undefined {
  const lineEnd = buffer.indexOf("\r\n", at);
  if (lineEnd < 0) return undefined;
  const line = buffer.toString("utf8", at + 1, lineEnd);
  const next = lineEnd + 2;
  switch (String.fromCharCode(buffer[at]!)) {
    case "+":
      return { value: line, end: next };
    case "-":
      return { value: new Error(line), end: next };
    case ":":
      return { value: Number(line), end: next };
    case "$": {
      const length = Number(line);
      if (length < 0) return { value: null, end: next };
      if (buffer.length < next + length + 2) return undefined;
      return { value: buffer.toString("utf8", next, next + length), end: next + length + 2 };
    }
    case "*": {
      const length = Number(line);
      if (length < 0) return { value: null, end: next };
      const items: Reply[] = [];
      let end = next;
      for (let i = 0; i < length; i++) {
        const item = parseReply(buffer, end);
        if (!item) return undefined;
        if (item.value instanceof Error) return item;
        items.push(item.value);
        end = item.end;
      }
      return { value: items, end };
    }
    default:
      throw new Error(`not RESP: ${line}`);
  }
}
