/**
 * A small test client of one session's socket: dials with a fresh token, keeps what comes, and can ack as a real
 * client does, which is only what its application has. In Node and in workerd alike; who dials is told how.
 */

import { PING, PONG, SUBPROTOCOL, type Item } from "../../src/protocol/frames.ts";
import { signAnnouncement, signUnregister, type Agent, type Json, type TokenOverrides } from "./agent.ts";

/** One open socket, as its platform has it. */
export interface Wire {
  send(data: string | Uint8Array): void;
  close(code?: number, reason?: string): void;
  /** Ends it without a closing frame. */
  terminate(): void;
}

export interface Ears {
  message(data: string): void;
  closed(code: number, reason: string): void;
}

/** Opens a socket. @throws if the handshake is refused as HTTP, or nobody is there */
export type Dialer = (url: string, target: string, protocols: readonly string[], ears: Ears) => Promise<Wire>;

export interface SocketOptions {
  /** {@link dialFromNode} if absent. */
  readonly dialer?: Dialer;
  /** Where to dial, if not at the agent's own url: at a proxy, say. The token is for the agent's audience all the same. */
  readonly via?: string;
  /** What the token is signed over in place of this handshake. */
  readonly token?: string | TokenOverrides;
  /** Gets what comes; its own if absent. Handed on from socket to socket, it is what outlives them. */
  readonly application?: Application;
  /** Acks each frame of messages once the application has them. */
  readonly acks?: boolean;
}

/** Why a socket ended. */
export interface Close {
  readonly code: number;
  readonly reason: string;
}

/** Long above what any step takes here, so that a wait that fails says for what instead of hanging. */
const WAIT_MAX_MS = 10_000;

/** What a client keeps over its reconnects: each message once, by its sender and id, in the order of its first coming. */
export class Application {
  readonly messages: Json[] = [];
  /** Repeats that the bus did not mark as such: only a bus that crashed may not know. */
  readonly unmarked: Item[] = [];
  repeats = 0;
  readonly #known = new Set<string>();

  take(item: Item): void {
    const payload = item.envelope.payload as { from?: string; msg_id: string };
    const id = `${payload.from} ${payload.msg_id}`;
    if (!this.#known.has(id)) {
      this.#known.add(id);
      this.messages.push(payload);
      return;
    }
    this.repeats++;
    if (!item.redelivered) this.unmarked.push(item);
  }
}

export class SessionSocket {
  readonly agent: Agent;
  readonly session: string;
  readonly application: Application;
  /** All that came but pongs, in order. */
  readonly frames: Json[] = [];
  /** The entries of all messages frames. */
  readonly items: Item[] = [];
  pongs = 0;
  /** When each ping went out, by the system's clock; the answers come in their order. */
  readonly pingedAtMs: number[] = [];
  /** Once it is over. */
  close: Close | undefined;
  /** Most that were ever here unacked. */
  unackedMax = 0;
  readonly #acks: boolean;
  readonly #watchers = new Set<() => void>();
  #wire: Wire | undefined;
  #acked = 0;

  private constructor(agent: Agent, session: string, { application = new Application(), acks = false }: SocketOptions) {
    this.agent = agent;
    this.session = session;
    this.application = application;
    this.#acks = acks;
  }

  /** Opens a socket and returns when the handshake is through, which says nothing yet of whether it may stay. */
  static async dial(agent: Agent, session: string, options: SocketOptions = {}): Promise<SessionSocket> {
    const socket = new SessionSocket(agent, session, options);
    const { dialer = dialFromNode, via = agent.url, token } = options;
    const target = `/socket?me=${encodeURIComponent(agent.route(session))}`;
    const signed = typeof token === "string" ? token : agent.token({ method: "WS", target }, token);
    const early: (() => void)[] = []; // comes with the handshake's last packet, before the dialer has returned
    const inTurn = (hear: () => void) => (socket.#wire ? hear() : void early.push(hear));
    socket.#wire = await dialer(via, target, [SUBPROTOCOL, signed], {
      message: (data) => inTurn(() => socket.#hear(data)),
      closed: (code, reason) =>
        inTurn(() => {
          socket.close = { code, reason };
          socket.#look();
        }),
    });
    for (const hear of early) hear();
    return socket;
  }

  /** Opens a socket and waits for its welcome. */
  static async open(agent: Agent, session: string, options: SocketOptions = {}): Promise<SessionSocket> {
    const socket = await SessionSocket.dial(agent, session, options);
    await socket.waitFor(() => socket.welcome, "a welcome");
    return socket;
  }

  get welcome(): Json {
    return this.of("welcome")[0];
  }

  /** Frames of one kind. */
  of(t: string): Json[] {
    return this.frames.filter((frame) => frame.t === t);
  }

  /** Codes of the refusals so far. */
  get errors(): string[] {
    return this.of("err").map((frame) => frame.error);
  }

  /** Ids of the messages so far, repeats as well. */
  get ids(): string[] {
    return this.items.map((item) => (item.envelope.payload as Json).msg_id);
  }

  /** Messages that are here and not acked. */
  get unacked(): number {
    return this.items.filter((item) => item.seq > this.#acked).length;
  }

  /** Sends text as it is, and anything else as JSON. */
  send(frame: string | Uint8Array | object): void {
    this.#wire!.send(typeof frame === "string" || frame instanceof Uint8Array ? frame : JSON.stringify(frame));
  }

  /** Acks all up to a number, or all that came. */
  ack(through = this.items.at(-1)?.seq ?? 0): void {
    this.send({ t: "ack", through });
    this.#acked = Math.max(this.#acked, through);
  }

  /** Announces its session. Nothing answers a frame that is taken. */
  announce(name = "agent", ts = this.agent.nextTs()): void {
    const session = { session_id: this.session };
    this.send({ t: "announce", announcement: signAnnouncement(this.agent.signer, { name, session, ts }) });
  }

  /** Says goodbye. @param goodbyes from {@link Agent.message} */
  unregister(goodbyes: readonly Json[] = [], ts = this.agent.nextTs()): void {
    const { sig } = signUnregister(this.agent.signer, { session_id: this.session, ts });
    this.send({ t: "unregister", ts, sig, goodbyes });
  }

  /** One heartbeat, whether it is answered or not. */
  beat(): void {
    this.pingedAtMs.push(Date.now());
    this.send(PING);
  }

  /** One heartbeat, until its answer. */
  async ping(): Promise<void> {
    const before = this.pongs;
    this.beat();
    await this.waitFor(() => this.pongs > before, "a pong");
  }

  /** Until all is here that the bus said before this: it refuses an ack of what it never pushed, and that in order. */
  async settled(): Promise<void> {
    const refusals = () => this.errors.filter((error) => error === "bad_ack").length;
    const before = refusals();
    this.send({ t: "ack", through: Number.MAX_SAFE_INTEGER });
    await this.waitFor(() => refusals() > before, "the end of what was said");
  }

  /** Closes it properly, and waits for the answer. */
  async end(code = 1000): Promise<void> {
    this.#wire!.close(code);
    await this.closed();
  }

  /** Breaks it off. */
  terminate(): void {
    this.#wire!.terminate();
  }

  /** Until it is over. */
  closed(): Promise<Close> {
    return this.waitFor(() => this.close, "a close");
  }

  /** Until as many messages came on this socket, repeats as well. */
  async received(count: number): Promise<void> {
    await this.waitFor(() => this.items.length >= count, `${count} messages`);
  }

  /**
   * Looks again after whatever comes, until there is something to see.
   * @throws after {@link WAIT_MAX_MS}, or when the socket is over and it is still not to be seen
   */
  waitFor<T>(look: () => T | undefined | false, what: string): Promise<T> {
    return new Promise((resolve, reject) => {
      const fail = (why: string) => {
        done();
        reject(new Error(`${why} before ${what}; it had ${this.#summary()}`));
      };
      const timer = setTimeout(() => fail("the time was over"), WAIT_MAX_MS);
      const watch = () => {
        const seen = look();
        if (seen !== undefined && seen !== false) {
          done();
          resolve(seen);
        } else if (this.close) fail("the socket was over");
      };
      const done = () => {
        clearTimeout(timer);
        this.#watchers.delete(watch);
      };
      this.#watchers.add(watch);
      watch();
    });
  }

  #hear(data: string): void {
    if (data === PONG) this.pongs++;
    else this.#take(JSON.parse(data));
    this.#look();
  }

  #take(frame: Json): void {
    this.frames.push(frame);
    if (frame.t !== "messages") return;
    for (const item of frame.items as Item[]) {
      this.items.push(item);
      this.application.take(item);
    }
    this.unackedMax = Math.max(this.unackedMax, this.unacked);
    if (this.#acks) this.ack();
  }

  #look(): void {
    for (const watch of this.#watchers) watch();
  }

  #summary(): string {
    const frames = this.frames.map((frame) => (frame.t === "messages" ? `${frame.items.length} messages` : frame));
    return JSON.stringify({ close: this.close, pongs: this.pongs, frames: frames.slice(-20) });
  }
}

/** Dials from Node. What is read here comes at once, however much: the bus must hold back, not the client. */
export const dialFromNode: Dialer = async (url, target, protocols, ears) => {
  const { WebSocket } = await import("ws");
  const socket = new WebSocket(url.replace(/^http/, "ws") + target, [...protocols], { perMessageDeflate: false });
  socket.on("message", (data) => ears.message(String(data)));
  socket.on("close", (code, reason) => ears.closed(code, String(reason)));
  await new Promise<void>((resolve, reject) => {
    socket.once("open", resolve);
    socket.on("error", reject); // also after it opened, where a close follows that says the same
    socket.once("unexpected-response", (request, response) => {
      request.destroy();
      reject(new Error(`the handshake was answered with ${response.statusCode}`));
    });
  });
  return socket;
};
