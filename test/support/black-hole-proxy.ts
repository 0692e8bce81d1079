/**
 * A TCP proxy on loopback that can become a black hole: nothing passes either way any more, not even the end of a
 * connection, as when a laptop sleeps or a cable is drawn. Released, what was on its way arrives late, as TCP has it.
 */

import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface BlackHoleProxy {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  /** From now on nothing passes; neither end is told. */
  blackHole(): void;
  /** Lets through what was held back, and all that comes. */
  release(): void;
  /** Connections to the target that neither side has ended. */
  openToTarget(): number;
  close(): Promise<void>;
}

/** Starts a proxy to a port of this machine. */
export async function startBlackHoleProxy(targetPort: number): Promise<BlackHoleProxy> {
  const links = new Set<Link>();
  let isHole = false;
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const target = connect({ port: targetPort, host: "127.0.0.1", allowHalfOpen: true });
    const link = new Link(client, target, () => links.delete(link));
    links.add(link);
    if (isHole) link.hold();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    blackHole() {
      isHole = true;
      for (const link of links) link.hold();
    },
    release() {
      isHole = false;
      for (const link of links) link.letGo();
    },
    openToTarget: () => [...links].filter((link) => link.isOpenToTarget).length,
    async close() {
      for (const link of links) link.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

/** One client's connection and the one to the target that stands for it. */
class Link {
  readonly #ends: readonly [client: Socket, target: Socket];
  readonly #onGone: () => void;
  /** Ends of connections that happened in the dark. */
  #heldBack: (() => void)[] = [];
  #isHeld = false;

  constructor(client: Socket, target: Socket, onGone: () => void) {
    this.#ends = [client, target];
    this.#onGone = onGone;
    this.#join(client, target);
    this.#join(target, client);
  }

  get isOpenToTarget(): boolean {
    const [, target] = this.#ends;
    return target.readyState === "open";
  }

  /** Unread bytes stay with the system, as those of a network that does not deliver. */
  hold(): void {
    this.#isHeld = true;
    for (const end of this.#ends) end.pause();
  }

  letGo(): void {
    this.#isHeld = false;
    for (const end of this.#ends) end.resume();
    for (const tell of this.#heldBack.splice(0)) tell();
  }

  destroy(): void {
    for (const end of this.#ends) end.destroy();
  }

  #join(from: Socket, to: Socket): void {
    from.on("data", (data) => to.write(data));
    from.on("end", () => this.#pass(() => to.end()));
    from.on("error", () => {}); // a close follows
    from.on("close", () =>
      this.#pass(() => {
        to.destroy();
        this.#onGone();
      }),
    );
  }

  #pass(tell: () => void): void {
    if (this.#isHeld) this.#heldBack.push(tell);
    else tell();
  }
}
