/**
 * A small HTTP/1.1 client: one kept-alive connection, one request in flight, requests encoded ahead.
 *
 * Node's own clients cost more CPU a request than the servers measured here (fetch() several times as much), so with
 * them the client would be what is measured.
 */

import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface HttpResponse {
  readonly status: number;
  readonly body: string;
}

export interface HttpRequest {
  readonly method: string;
  /** Raw path and query. */
  readonly target: string;
  /** Host and port. */
  readonly host: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** The bytes of a request. */
export function encodeHttp({ method, target, host, headers = {}, body }: HttpRequest): Buffer {
  const lines = [`${method} ${target} HTTP/1.1`, `host: ${host}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (body !== undefined) lines.push(`content-length: ${Buffer.byteLength(body)}`);
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n${body ?? ""}`);
}

const HEAD_END = "\r\n\r\n";

export class HttpConnection {
  #port: number;
  #socket: Socket | undefined;
  #buffer: Buffer = Buffer.alloc(0);
  #pending: { resolve(response: HttpResponse): void; reject(error: Error): void } | undefined;
  #closed = false;

  constructor(port: number) {
    this.#port = port;
  }

  /** Connects, so that the first request does not pay for it. */
  async open(): Promise<this> {
    const socket = connect({ port: this.#port, host: "127.0.0.1", noDelay: true });
    await once(socket, "connect");
    socket.on("data", (chunk) => this.#read(chunk));
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => {
      if (this.#socket === socket) this.#drop(new Error("the server closed the connection"));
    });
    this.#socket = socket;
    return this;
  }

  /** Sends an encoded request. A server may close what has been idle, so a closed connection is opened again. */
  async request(bytes: Buffer): Promise<HttpResponse> {
    if (this.#pending) throw new Error("a request is in flight");
    if (this.#closed) throw new Error("the connection was closed here");
    if (!this.#socket) await this.open();
    return new Promise((resolve, reject) => {
      this.#pending = { resolve, reject };
      this.#socket!.write(bytes);
    });
  }

  close(): void {
    this.#closed = true;
    this.#socket?.destroy();
    this.#drop(new Error("the connection was closed here"));
  }

  #drop(error: Error): void {
    const pending = this.#pending;
    this.#socket = undefined;
    this.#pending = undefined;
    this.#buffer = Buffer.alloc(0);
    pending?.reject(error);
  }

  #read(chunk: Buffer): void {
    this.#buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk]);
    const response = parseResponse(this.#buffer);
    if (!response) return;
    const pending = this.#pending;
    this.#pending = undefined;
    this.#buffer = Buffer.alloc(0);
    if (response.closes) {
      this.#socket?.destroy();
      this.#socket = undefined;
    }
    pending?.resolve(response);
  }
}

/** A whole response, or undefined while some of it is missing. */
function parseResponse(buffer: Buffer): (HttpResponse & { readonly closes: boolean }) | undefined {
  const headEnd = buffer.indexOf(HEAD_END);
  if (headEnd < 0) return undefined;
  const head = buffer.toString("latin1", 0, headEnd).toLowerCase();
  const status = Number(head.slice(9, 12));
  const closes = head.includes("\r\nconnection: close");
  const bodyStart = headEnd + HEAD_END.length;
  const length = /\r\ncontent-length: *(\d+)/.exec(head)?.[1];
  if (length !== undefined) {
    const bodyEnd = bodyStart + Number(length);
    return buffer.length < bodyEnd ? undefined : { status, body: buffer.toString("utf8", bodyStart, bodyEnd), closes };
  }
  if (!head.includes("\r\ntransfer-encoding: chunked")) return { status, body: "", closes };
  const body = joinChunks(buffer, bodyStart);
  return body === undefined ? undefined : { status, body, closes };
}

function joinChunks(buffer: Buffer, start: number): string | undefined {
  const parts: Buffer[] = [];
  for (let at = start; ;) {
    const lineEnd = buffer.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(buffer.toString("latin1", at, lineEnd), 16);
    const end = lineEnd + 2 + size;
    if (buffer.length < end + 2) return undefined;
    if (size === 0) return Buffer.concat(parts).toString("utf8");
    parts.push(buffer.subarray(lineEnd + 2, end));
    at = end + 2;
  }
}
