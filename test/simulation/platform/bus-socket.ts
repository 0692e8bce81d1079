/**
 * One end of a WebSocketPair. Whoever takes it (an object that hibernates, a handler, the network) hears what the other end
 * sends; what came before is kept for it. An object's end says nothing before its object's writes are on the disk.
 */

export const OPEN = 1;
export const CLOSING = 2;
export const CLOSED = 3;

export interface Sink {
  text(data: string): void;
  /** @param isClean by a closing frame, else the connection broke */
  closed(code: number, reason: string, isClean: boolean): void;
}

type Listener = (event: { data?: string; code?: number }) => void;

export class BusSocket {
  readyState = OPEN;
  peer!: BusSocket;
  sink: Sink | undefined;
  /** Holds back what an object says; see ObjectHost. */
  output: (run: () => void) => void = (run) => run();
  /** Asked before the object says something. */
  onSend: ((data: string) => void) | undefined;
  tags: readonly string[] = [];
  autoAnsweredAtMs: number | undefined;
  #attachment = "null";
  #isCloseSaid = false;
  #isCloseHeard = false;
  #unheard: (() => void)[] = [];
  readonly #listeners = new Map<string, Listener[]>();

  take(sink: Sink): void {
    this.sink = sink;
    for (const hear of this.#unheard.splice(0)) hear();
  }

  accept(): void {
    this.take({
      text: (data) => this.#tell("message", { data }),
      closed: (code) => this.#tell("close", { code }),
    });
  }

  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
  }

  send(data: string): void {
    if (this.readyState !== OPEN) throw new TypeError("Can't call WebSocket send() after close().");
    this.onSend?.(data);
    this.output(() => this.peer.hear(data));
  }

  close(code = 1000, reason = ""): void {
    if (this.#isCloseSaid) return;
    this.#isCloseSaid = true;
    this.readyState = this.readyState === OPEN ? CLOSING : CLOSED;
    this.output(() => this.peer.hearClose(code, reason, true));
  }

  hear(data: string): void {
    if (this.sink) this.sink.text(data);
    else this.#unheard.push(() => this.sink?.text(data));
  }

  /** Once: what comes behind says nothing new. */
  hearClose(code: number, reason: string, isClean: boolean): void {
    if (this.#isCloseHeard) return;
    this.#isCloseHeard = true;
    this.readyState = this.#isCloseSaid || !isClean ? CLOSED : CLOSING;
    if (this.sink) this.sink.closed(code, reason, isClean);
    else this.#unheard.push(() => this.sink?.closed(code, reason, isClean));
  }

  serializeAttachment(value: unknown): void {
    this.#attachment = JSON.stringify(value);
  }

  deserializeAttachment(): unknown {
    return JSON.parse(this.#attachment);
  }

  #tell(type: string, event: Parameters<Listener>[0]): void {
    for (const listener of this.#listeners.get(type) ?? []) listener(event);
  }
}

export class BusSocketPair {
  readonly 0 = new BusSocket();
  readonly 1 = new BusSocket();

  constructor() {
    this[0].peer = this[1];
    this[1].peer = this[0];
  }
}
