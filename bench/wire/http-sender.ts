/** A sender that posts: shared by every system whose sends are HTTP requests. */

import type { Prepared, Sender } from "../adapter.ts";
import type { HttpConnection } from "./http-connection.ts";

export abstract class HttpSender implements Sender {
  #connection: HttpConnection;

  constructor(connection: HttpConnection) {
    this.#connection = connection;
  }

  abstract encode(recipient: string, texts: readonly string[]): Prepared;
  /** True if the answer to a request with `count` messages says that all of them were accepted. */
  protected abstract isAccepted(status: number, body: string, count: number): boolean;

  async send(request: Prepared): Promise<void> {
    const { status, body } = await this.#connection.request(request.bytes);
    if (!this.isAccepted(status, body, request.count)) throw new Error(`send refused: ${status} ${body.slice(0, 300)}`);
  }
}
