/** `ws` for a client, over the simulated network: what line.ts uses of it, and its events in its order. */

import { EventEmitter } from "node:events";
import { lifeNow, type Life } from "../life.ts";
import type { Wire } from "../network.ts";
import { withCode } from "./http.ts";

const OPEN = 1;
const CLOSING = 2;
const CLOSED = 3;

export class WebSocket extends EventEmitter {
  static readonly OPEN = OPEN;
  readyState = 0;
  readonly #life: Life = lifeNow();
  readonly #closeTimeoutMs: number;
  #wire: Wire | undefined;
  #closed: readonly [number, string] | undefined;

  constructor(url: string, protocols: readonly string[], { closeTimeout }: { readonly closeTimeout: number }) {
    super();
    this.#closeTimeoutMs = closeTimeout;
    const path = url.slice(url.indexOf("/", url.indexOf("//") + 2));
    this.#life.effect(`dial ${path.split("?")[0]}`);
    this.#life.world.network.dial(
      this.#life,
      { path, protocols },
      {
        opened: (wire) => {
          if (this.readyState === CLOSED) return wire.reset();
          this.#wire = wire;
          this.readyState = OPEN;
          this.emit("upgrade", { socket: wire });
          this.emit("open");
        },
        refused: (status, headers, bytes) => {
          if (this.readyState === CLOSED) return;
          const body = { statusCode: status, headers, [Symbol.asyncIterator]: () => once(bytes) };
          this.emit("unexpected-response", {}, body);
        },
        broken: (code) => {
          if (this.readyState === CLOSED) return;
          this.emit("error", withCode(code));
          this.#end(1006, "");
        },
        text: (data) => {
          // As ws does: what comes behind a closing frame of ours is still heard.
          if (this.readyState !== CLOSED) this.emit("message", Buffer.from(data), false);
        },
        closing: (code, reason) => {
          if (this.readyState === CLOSED) return;
          this.#closed ??= [code, reason];
          if (this.readyState === CLOSING) return this.terminate(); // the answer to ours: the connection ends
          this.#wire?.close(code);
          this.readyState = CLOSING;
          this.#later(this.#closeTimeoutMs);
        },
        ended: () => this.#end(...(this.#closed ?? ([1006, ""] as const))),
      },
    );
  }

  send(text: string): void {
    this.#life.effect(`frame ${text.slice(0, 12)}`);
    this.#wire?.send(text);
  }

  close(code: number): void {
    if (this.readyState === CLOSED || this.readyState === CLOSING) return;
    this.#life.effect("closing frame");
    if (!this.#wire) return this.terminate();
    this.readyState = CLOSING;
    this.#wire.close(code);
    this.#later(this.#closeTimeoutMs);
  }

  terminate(): void {
    if (this.readyState === CLOSED) return;
    this.#life.effect("reset");
    this.#wire?.reset();
    this.#end(...(this.#closed ?? ([1006, ""] as const)));
  }

  #later(delayMs: number): void {
    this.#life.world.scheduler.after(delayMs, "close timeout", () => this.terminate(), this.#life);
  }

  #end(code: number, reason: string): void {
    if (this.readyState === CLOSED) return;
    this.readyState = CLOSED;
    // Not from within the call that ended it.
    this.#life.world.scheduler.after(
      0,
      "socket ended",
      () => this.emit("close", code, Buffer.from(reason)),
      this.#life,
    );
  }
}

async function* once(bytes: Uint8Array): AsyncGenerator<Buffer> {
  yield Buffer.from(bytes);
}
