/**
 * `node:http` and `node:https` for a client, over the simulated network: what exchange.ts uses of them. A connection that
 * was kept alive and ended meanwhile is told by `reusedSocket`, as Node does.
 */

import { EventEmitter } from "node:events";
import { lifeNow } from "../life.ts";

export interface RequestOptions {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Answers for one connection after the other; what it keeps alive is the network's to know. */
export class Agent {
  destroy(): void {}
}

export class IncomingMessage extends EventEmitter {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(statusCode: number, headers: Readonly<Record<string, string>>) {
    super();
    this.statusCode = statusCode;
    this.headers = headers;
  }
}

class ClientRequest extends EventEmitter {
  reusedSocket = false;
  readonly #options: RequestOptions;
  #isOver = false;

  constructor(options: RequestOptions) {
    super();
    this.#options = options;
  }

  end(body?: Uint8Array): void {
    const life = lifeNow();
    const { method = "GET", path = "/", headers = {} } = this.#options;
    life.effect(`${method} ${path.split("?")[0]}`);
    life.world.network.ask(
      life,
      { method, path, headers, body },
      {
        answered: ({ status, headers: answered, bytes, isWhole }) => {
          if (this.#isOver) return;
          const response = new IncomingMessage(status, answered);
          this.emit("response", response);
          if (this.#isOver) return;
          response.emit("data", Buffer.from(isWhole ? bytes : bytes.subarray(0, bytes.length >> 1)));
          if (isWhole) response.emit("end");
          else response.emit("error", withCode("ECONNRESET"));
        },
        broken: (code, isReused) => {
          if (this.#isOver) return;
          this.reusedSocket = isReused;
          this.emit("error", withCode(code));
        },
      },
    );
  }

  /** Nothing more is heard of it. */
  destroy(): void {
    this.#isOver = true;
  }
}

export function request(options: RequestOptions): ClientRequest {
  return new ClientRequest(options);
}

export function withCode(code: string): Error {
  return Object.assign(new Error(code), { code });
}
