/**
 * What the host wants to be told of, so that a new process is asked for the same: a modern client's open listens, and an older
 * one's subscriptions and log level.
 */

import { isId, isRecord, keyOf, type Id, type Params, type Request } from "./frame.ts";

export const SUBSCRIPTION_META = "io.modelcontextprotocol/subscriptionId";

interface Listen {
  readonly id: Id;
  readonly line: Uint8Array;
  readonly wantsTools: boolean;
  isSent: boolean;
  /** The host has had an acknowledgement; one that comes again is of a new process. */
  isAcknowledged: boolean;
  /** The tools changed before there was an acknowledgement, which comes first on a listen. */
  isOwed: boolean;
}

export class Listens {
  readonly #open = new Map<string, Listen>();
  readonly #subscribed = new Map<string, Params>();
  #level: Params | undefined;

  /** A `subscriptions/listen`: it stays open until the host cancels it. */
  listen({ id, params }: Request, line: Uint8Array): void {
    const asked = isRecord(params["notifications"]) ? params["notifications"] : {};
    const wantsTools = asked["toolsListChanged"] === true;
    this.#open.set(keyOf(id), { id, line, wantsTools, isSent: false, isAcknowledged: false, isOwed: false });
  }

  has(id: Id): boolean {
    return this.#open.has(keyOf(id));
  }

  /** The host cancelled it, or it was refused. */
  close(id: Id): boolean {
    return this.#open.delete(keyOf(id));
  }

  /** A process acknowledges one. @returns whether that is news to the host, and whether the tools have changed meanwhile */
  acknowledged({ _meta }: Params): { readonly isNews: boolean; readonly owed?: Id } {
    const id = isRecord(_meta) ? _meta[SUBSCRIPTION_META] : undefined;
    const listen = isId(id) ? this.#open.get(keyOf(id)) : undefined;
    if (!listen) return { isNews: true };
    const isNews = !listen.isAcknowledged;
    listen.isAcknowledged = true;
    return { isNews, ...(isNews && listen.isOwed && { owed: listen.id }) };
  }

  /** The tools changed. @returns those that want to know, and can be told by now */
  toolsChanged(): Id[] {
    const wanting = [...this.#open.values()].filter(({ wantsTools }) => wantsTools);
    for (const listen of wanting) listen.isOwed = !listen.isAcknowledged;
    return wanting.filter(({ isAcknowledged }) => isAcknowledged).map(({ id }) => id);
  }

  /** A request that an older client made, to be repeated. */
  note({ method, params }: Request): void {
    const { uri } = params;
    if (method === "logging/setLevel") this.#level = params;
    if (typeof uri !== "string") return;
    if (method === "resources/subscribe") this.#subscribed.set(uri, params);
    if (method === "resources/unsubscribe") this.#subscribed.delete(uri);
  }

  /** Listens that the process has not had. */
  *unsent(): Generator<Uint8Array> {
    for (const listen of this.#open.values()) {
      if (listen.isSent) continue;
      listen.isSent = true;
      yield listen.line;
    }
  }

  /** What an older client's new process is asked anew. */
  *again(): Generator<{ readonly method: string; readonly params: Params }> {
    if (this.#level) yield { method: "logging/setLevel", params: this.#level };
    for (const params of this.#subscribed.values()) yield { method: "resources/subscribe", params };
  }

  /** The process died; all stay open. */
  died(): void {
    for (const listen of this.#open.values()) listen.isSent = false;
  }
}
