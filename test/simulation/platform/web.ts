/** Requests and answers of the Workers runtime, as far as the bus uses them; an answer may carry a socket. */

import type { BusSocket } from "./bus-socket.ts";

type Body = string | Uint8Array | null | undefined;

export class SimRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly signal = new AbortController().signal;
  readonly #bytes: Uint8Array<ArrayBuffer>;

  constructor(
    url: string,
    { method = "GET", headers = {}, body }: { method?: string; headers?: Record<string, string>; body?: Body } = {},
  ) {
    this.url = url;
    this.method = method;
    this.headers = new Headers(headers);
    this.#bytes = bytesOf(body);
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return this.#bytes.buffer;
  }

  get body(): readonly Uint8Array[] {
    return [this.#bytes];
  }
}

export class SimResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly webSocket: BusSocket | null;
  readonly bytes: Uint8Array<ArrayBuffer>;

  constructor(
    body: Body,
    {
      status = 200,
      headers = {},
      webSocket = null,
    }: { status?: number; headers?: Record<string, string>; webSocket?: BusSocket | null } = {},
  ) {
    this.bytes = bytesOf(body);
    this.status = status;
    this.headers = new Headers(headers);
    this.webSocket = webSocket;
  }

  static json(value: unknown, init: { status?: number } = {}): SimResponse {
    return new SimResponse(JSON.stringify(value), { ...init, headers: { "content-type": "application/json" } });
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(this.bytes);
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }
}

function bytesOf(body: Body): Uint8Array<ArrayBuffer> {
  return typeof body === "string" ? Uint8Array.from(new TextEncoder().encode(body)) : Uint8Array.from(body ?? []);
}
