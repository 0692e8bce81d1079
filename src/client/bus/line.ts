/**
 * One WebSocket from dial to end, as the connection needs it: text in and out, one word at its end, and silence
 * after we have let go of it.
 */

import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { WebSocket } from "ws";
import { SUBPROTOCOL } from "../../protocol/frames.ts";
import { parseJsonObject } from "../../protocol/json.ts";
import { isRefusal } from "../../protocol/refusal.ts";
import type { BusUrl } from "./bus-url.ts";
import { toSilence } from "./exchange.ts";
import { guardedLookup } from "./guarded-lookup.ts";
import { readRefusal, toRetryAfterMs, type BusRefusal, type Unreachable } from "./outcome.ts";

/** Bytes of a frame. The bus keeps its own at about one mebibyte. */
const FRAME_MAX_BYTES = 4 * 1_048_576;
/** Bytes of a refused handshake's answer. */
const REFUSAL_MAX_BYTES = 65_536;
/**
 * How long the system's socket may live on after a closing frame, ours or theirs. Short, because only its end is told
 * as the close: workerd has been seen to close a socket and leave the connection beneath it open for good.
 */
const CLOSE_MAX_MS = 100;

/** What is heard on a line. After `failed` or `closed`, or once we let go of it, nothing more. */
export interface Ears {
  text(data: string): void;
  /** A frame that is no text: nothing of this protocol. */
  binary(): void;
  /** The handshake did not get through. */
  failed(why: BusRefusal | Unreachable): void;
  closed(code: number, reason: string): void;
}

export interface Line {
  /** Sends text; false if it is not open (any more). */
  send(text: string): boolean;
  /** Bytes that came in so far. */
  readonly bytesRead: number;
  /** Ends it with a closing frame, behind what was sent before. */
  hangUp(): void;
  /** Ends it at once. */
  drop(): void;
}

/** Dials. @param token signed for this handshake. The ears hear nothing before this has returned */
export function openLine(url: BusUrl, target: string, token: string, ears: Ears): Line {
  const options = {
    perMessageDeflate: false,
    maxPayload: FRAME_MAX_BYTES,
    followRedirects: false,
    closeTimeout: CLOSE_MAX_MS,
    lookup: guardedLookup(url),
  };
  const socket = new WebSocket(url.origin.replace(/^http/, "ws") + target, [SUBPROTOCOL, token], options);
  let wire: Socket | undefined;
  let isOver = false;
  const once = (tell: () => void) => {
    if (isOver) return;
    isOver = true;
    tell();
  };
  const fail = (why: BusRefusal | Unreachable) => once(() => ears.failed(why));

  socket.on("upgrade", (response: IncomingMessage) => (wire = response.socket));
  socket.on("message", (data, isBinary) => {
    if (isOver) return;
    if (isBinary) ears.binary();
    else ears.text(String(data));
  });
  // Once it is open a close follows, which says the same. What we let go of complains too, and is not heard.
  socket.on("error", (error) => {
    if (!wire) fail(toUnreachable(error));
  });
  socket.on("close", (code, reason) => once(() => ears.closed(code, String(reason))));
  socket.on("unexpected-response", (_request, response: IncomingMessage) => {
    void readRefused(response).then((why) => {
      fail(why);
      socket.terminate();
    });
  });
  return {
    send(text) {
      if (isOver || socket.readyState !== WebSocket.OPEN) return false;
      socket.send(text);
      return true;
    },
    get bytesRead() {
      return wire?.bytesRead ?? 0;
    },
    hangUp() {
      isOver = true;
      socket.close(1000);
    },
    drop() {
      isOver = true;
      socket.terminate();
    },
  };
}

function toUnreachable(error: NodeJS.ErrnoException): Unreachable {
  const { isStale: _isStale, ...unreachable } = toSilence(error, false);
  return unreachable;
}

/** A handshake that was answered with something else than a socket: a refusal of the bus, or whatever stands before it. */
async function readRefused(response: IncomingMessage): Promise<BusRefusal | Unreachable> {
  const status = response.statusCode ?? 0;
  const retryAfterMs = toRetryAfterMs(response.headers["retry-after"]);
  const later = retryAfterMs === undefined ? {} : { retryAfterMs };
  if (status >= 500) return { unreachable: "fault", ...later };
  if (status >= 300 && status < 400) return { unreachable: "redirected" };
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > REFUSAL_MAX_BYTES) return { unreachable: "too_large" };
      chunks.push(chunk);
    }
  } catch (error) {
    return toUnreachable(error as NodeJS.ErrnoException);
  }
  const parsed = parseJsonObject(Buffer.concat(chunks));
  const refusal = isRefusal(parsed) || status < 400 ? undefined : readRefusal(parsed.object);
  return refusal ? { ...later, ...refusal } : { unreachable: "bad_answer", ...later };
}
