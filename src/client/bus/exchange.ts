/**
 * One HTTP exchange with one bus: bytes out, a status and bytes in, bounded in time and size.
 *
 * Over node:http with kept-alive connections rather than `fetch`, which is many times slower here, follows
 * redirects and hides why a connection failed. Knows nothing of what the bytes mean.
 */

import { Agent as HttpAgent, request as requestHttp, type IncomingMessage, type RequestOptions } from "node:http";
import { Agent as HttpsAgent, request as requestHttps } from "node:https";
import type { BusUrl } from "./bus-url.ts";
import { guardedLookup } from "./guarded-lookup.ts";
import { toRetryAfterMs, type Unreachable, type UnreachableReason } from "./outcome.ts";
import type { Timers } from "./timers.ts";

/** Bytes of an answer; a page of the roster is the largest, and far below. */
export const ANSWER_MAX_BYTES = 8 * 1_048_576;
/** Connections at a time: enough for parked polls beside sends, too few to be a storm. */
const SOCKETS_MAX = 16;

export interface Asked {
  readonly method: string;
  /** Raw path and query. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Until the whole answer is here. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface Heard {
  readonly status: number;
  readonly bytes: Uint8Array;
  readonly retryAfterMs?: number;
}

/** An unknown outcome; `isStale`: a kept-alive connection that the bus had ended meanwhile, so ask again at once. */
export type Silence = Unreachable & { readonly isStale?: true };

export class Exchanger {
  readonly #agent: HttpAgent;
  readonly #options: RequestOptions;
  readonly #request: typeof requestHttp;
  readonly #timers: Timers;
  readonly #closed = new AbortController();

  constructor(url: BusUrl, timers: Timers) {
    const isSecure = url.origin.startsWith("https:");
    const keep = { keepAlive: true, maxSockets: SOCKETS_MAX };
    this.#agent = isSecure ? new HttpsAgent(keep) : new HttpAgent(keep);
    this.#request = isSecure ? requestHttps : requestHttp;
    this.#timers = timers;
    const { port, protocol } = new URL(url.origin);
    this.#options = { protocol, host: url.host, port, agent: this.#agent, lookup: guardedLookup(url) };
  }

  /** Never throws: what goes wrong is the answer. */
  run(asked: Asked): Promise<Heard | Silence> {
    return new Promise((resolve) => {
      const { method, target, headers, body, timeoutMs, signal } = asked;
      const signals = signal ? [this.#closed.signal, signal] : [this.#closed.signal];
      if (signals.some(({ aborted }) => aborted)) return resolve({ unreachable: "aborted" });

      const length = body ? { "content-length": String(body.length) } : {};
      const request = this.#request({ ...this.#options, method, path: target, headers: { ...headers, ...length } });
      const end = (answer: Heard | Silence) => {
        this.#timers.clearTimeout(timer);
        for (const each of signals) each.removeEventListener("abort", abort);
        resolve(answer);
      };
      const giveUp = (unreachable: UnreachableReason) => {
        end({ unreachable });
        request.destroy();
      };
      const abort = () => giveUp("aborted");
      const timer = this.#timers.setTimeout(() => giveUp("timeout"), timeoutMs);
      for (const each of signals) each.addEventListener("abort", abort, { once: true });

      let answered = false;
      request.on("error", (error) => {
        // A bus may refuse a large body at its head and hang up on the rest: then the answer is what counts.
        if (!answered) end(toSilence(error, request.reusedSocket));
      });
      request.on("response", (response) => {
        answered = true;
        collect(response, end, giveUp);
      });
      request.end(body);
    });
  }

  /** Gives up what is under way, as `aborted`, and closes all connections. Final. */
  close(): void {
    this.#closed.abort();
    this.#agent.destroy();
  }
}

function collect(
  response: IncomingMessage,
  end: (answer: Heard | Silence) => void,
  giveUp: (reason: UnreachableReason) => void,
): void {
  const chunks: Buffer[] = [];
  let length = 0;
  response.on("data", (chunk: Buffer) => {
    length += chunk.length;
    if (length > ANSWER_MAX_BYTES) giveUp("too_large");
    else chunks.push(chunk);
  });
  response.on("error", (error) => end(toSilence(error, false)));
  response.on("end", () => {
    const retryAfterMs = toRetryAfterMs(response.headers["retry-after"]);
    end({
      status: response.statusCode!,
      bytes: Buffer.concat(chunks),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    });
  });
}

/** The system's word for it, if it is one: a message may quote what the other end sent. */
export function toSilence(error: NodeJS.ErrnoException, isReused: boolean): Silence {
  const detail = error.code !== undefined && /^[A-Z0-9_]{1,64}$/.test(error.code) ? { detail: error.code } : {};
  return { unreachable: "network", ...detail, ...(isReused ? { isStale: true as const } : {}) };
}
