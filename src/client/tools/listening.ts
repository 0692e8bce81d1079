/** Which resources a modern client listens to: the SDK routes the updates, and does not say whether anybody hears them. */

import type { JSONRPCMessage } from "@modelcontextprotocol/server";

export class Listening {
  /** Id of each open listen → what it wants to hear of. */
  readonly #open = new Map<unknown, readonly unknown[]>();

  /** Each message of the client, in order. */
  look(message: JSONRPCMessage): void {
    if (!("method" in message)) return;
    const params = message.params as Readonly<Record<string, any>> | undefined;
    if (message.method === "notifications/cancelled") this.#open.delete(params?.["requestId"]);
    if (message.method !== "subscriptions/listen" || !("id" in message)) return;
    const uris: unknown = params?.["notifications"]?.resourceSubscriptions;
    if (Array.isArray(uris)) this.#open.set(message.id, uris);
  }

  /** True while somebody listens to a resource. */
  isOn(uri: string): boolean {
    return [...this.#open.values()].some((uris) => uris.includes(uri));
  }
}
