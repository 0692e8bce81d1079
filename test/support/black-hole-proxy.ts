/**
 * A TCP proxy on loopback that can become a black hole: nothing passes either way any more, not even the end of a
 * connection, as when a laptop sleeps or a cable is drawn. Released, what was on its way arrives late, as TCP has it.
 * It can also be slow, break what is open, and close one half of it.
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
  /** From now on whatever passes comes this much later, in its order; 0: as it comes. */
  delay(ms: number): void;
  /** Breaks all connections off, at both ends. */
  cut(): void;
  /** Tells one end that the other has said all that it will; the other half stays open. */
  halfClose(toward: "client" | "target"): void;
  /** Connections to the target that neither side has ended. */
  openToTarget(): number;
  close(): Promise<void>;
}

/** Starts a proxy to a port of this machine. @param targetPort or what says it, for each connection anew */
export async function startBlackHoleProxy(targetPort: number | (() => number)): Promise<BlackHoleProxy> {
  const links = new Set<Link>();
  let isHole = false;
  let delayMs = 0;
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const port = typeof targetPort === "number" ? targetPort : targetPort();
    const target = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    const link = new Link(client, target, { delayMs: () => delayMs, gone: () => links.delete(link) });
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
    delay: (ms) => void (delayMs = ms),
    cut() {
      for (const link of links) link.reset();
    },
    halfClose(toward) {
      for (const link of links) link.halfClose(toward);
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
  readonly #delayMs: () => number;
  /** Whatever happened in the dark. */
  #heldBack: (() => void)[] = [];
  #isHeld = false;

  constructor(client: Socket, target: Socket, { delayMs, gone }: { delayMs: () => number; gone: () => void }) {
    this.#ends = [client, target];
    this.#delayMs = delayMs;
    this.#onGone = gone;
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

  reset(): void {
    for (const end of this.#ends) end.resetAndDestroy();
  }

  destroy(): void {
    for (const end of this.#ends) end.destroy();
  }

  halfClose(toward: "client" | "target"): void {
    this.#ends[toward === "client" ? 0 : 1].end();
  }

  #join(from: Socket, to: Socket): void {
    const lane = new Lane(this.#delayMs);
    const pass = (tell: () => void) => lane.pass(() => this.#pass(tell));
    // One half may have been closed meanwhile.
    from.on("data", (data) => pass(() => void (to.writable && to.write(data))));
    from.on("end", () => pass(() => to.end()));
    from.on("error", () => {}); // a close follows
    from.on("close", () =>
      pass(() => {
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

/** One direction of a connection: what comes into it comes out later, and nothing overtakes. */
class Lane {
  readonly #delayMs: () => number;
  readonly #waiting: { readonly dueAtMs: number; readonly tell: () => void }[] = [];

  constructor(delayMs: () => number) {
    this.#delayMs = delayMs;
  }

  pass(tell: () => void): void {
    const delayMs = this.#delayMs();
    if (delayMs === 0 && this.#waiting.length === 0) return tell();
    this.#waiting.push({ dueAtMs: performance.now() + delayMs, tell });
    if (this.#waiting.length === 1) this.#waitForFirst();
  }

  #waitForFirst(): void {
    const [first] = this.#waiting;
    if (!first) return;
    setTimeout(
      () => {
        first.tell();
        this.#waiting.shift();
        this.#waitForFirst();
      },
      Math.max(0, first.dueAtMs - performance.now()),
    );
  }
}
