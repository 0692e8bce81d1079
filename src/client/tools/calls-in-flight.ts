/** Which tool calls have no answer yet: a process that hands over to another does so between two calls. */

import type { JSONRPCMessage } from "@modelcontextprotocol/server";

export class CallsInFlight {
  readonly #ids = new Set<unknown>();
  #onNone: (() => void)[] = [];

  /** A message of the host. */
  heard(message: JSONRPCMessage): void {
    if (!("method" in message)) return;
    if ("id" in message && message.method === "tools/call") this.#ids.add(message.id);
    if (message.method === "notifications/cancelled") this.#over((message.params as { requestId?: unknown }).requestId);
  }

  /** A message of ours. */
  said(message: JSONRPCMessage): void {
    if (!("method" in message) && "id" in message) this.#over(message.id);
  }

  /** Resolves when there is none, at once if that is so now. */
  none(): Promise<void> {
    return new Promise((resolve) => {
      this.#onNone.push(resolve);
      this.#look();
    });
  }

  #over(id: unknown): void {
    this.#ids.delete(id);
    this.#look();
  }

  #look(): void {
    if (this.#ids.size === 0) for (const resolve of this.#onNone.splice(0)) resolve();
  }
}
