/** A poll held here, over a hibernating socket to the object: it may sleep, and our waiting is not billed. */

import { refuse, type Refusal } from "../protocol/refusal.ts";
import { TIMEOUT_ANSWER } from "../durable/poll-answer.ts";
import { POLL_SUPERSEDED } from "../durable/poll-hub.ts";
import type { Reply } from "./reply.ts";

/** Waits for the object's answer, the time, or the client to go away, whichever is first. */
export function waitOnSocket(socket: WebSocket, timeoutMs: number, signal: AbortSignal): Promise<Reply | Refusal> {
  const { promise, resolve } = Promise.withResolvers<Reply | Refusal>();
  const timeout: Reply = { status: 200, body: TIMEOUT_ANSWER };
  socket.addEventListener("message", ({ data }) => resolve({ status: 200, body: data as string }));
  // A socket that closes without an answer lost its object, to a deployment say: the client asks again.
  socket.addEventListener("close", ({ code }) => resolve(code === POLL_SUPERSEDED ? refuse("stale") : timeout));
  socket.addEventListener("error", () => resolve(timeout));
  signal.addEventListener("abort", () => resolve(timeout), { once: true });
  const timer = setTimeout(() => resolve(timeout), timeoutMs);
  socket.accept();
  return promise.finally(() => {
    clearTimeout(timer);
    socket.close(1000);
  });
}
