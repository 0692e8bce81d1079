/**
 * What the harness asks of a system, and nothing more. A new system is one file in adapters/ that keeps this.
 *
 * Every adapter gets the same favours: requests are encoded (and signed, where the system signs) before the clock
 * runs, connections are open, and a sender has one request in flight.
 */

/** A system that can be measured. */
export interface Adapter {
  /** As in `--only`. */
  readonly name: string;
  /** One sentence: what an accepted send survives. */
  readonly survives: string;
  /** Measures that it takes part in; all of them if absent. */
  readonly measures?: readonly string[];
  /** Its version, or why it cannot run here. */
  probe(): Promise<{ readonly version: string } | { readonly missing: string }>;
  start(options: StartOptions): Promise<System>;
}

export interface StartOptions {
  /** An empty folder for its state. */
  readonly dir: string;
  /** True if {@link System.counters} will be asked. */
  readonly counted: boolean;
}

/** A running system. Whatever was opened through it ends with {@link System.stop}. */
export interface System {
  /** Messages that fit in one request; 1 if the system has no batches. */
  readonly batchMax: number;
  /** Opens one connection for each sender. */
  createSenders(count: number): Promise<Sender[]>;
  /** Makes queues that nobody reads yet, which admit these senders. Returns their addresses. */
  createRecipients(count: number, senders: readonly Sender[]): Promise<string[]>;
  /** Connects a recipient; from then on its mail goes to the sink, and is acked when the sink has returned. */
  openReceiver(recipient: string, sink: Sink): Promise<Receiver>;
  /** The server's processes, now. */
  pids(): readonly number[];
  /** What the objects did so far, for systems made of objects that were started `counted`; asking wakes none. */
  counters?(): Promise<ObjectCounters>;
  stop(): Promise<void>;
}

/** A request that is ready to be written. */
export interface Prepared {
  readonly bytes: Buffer;
  /** Messages in it. */
  readonly count: number;
}

export interface Sender {
  /** Encodes up to {@link System.batchMax} messages to one recipient as one request. */
  encode(recipient: string, texts: readonly string[]): Prepared;
  /** Resolves when every message of the request is accepted, as durably as the system promises; rejects if one is not. */
  send(request: Prepared): Promise<void>;
}

/** Where a receiver's mail goes. */
export interface Sink {
  receive(texts: readonly string[]): void;
  /** The receiver is broken, and with it the run. */
  fail(error: Error): void;
}

export interface Receiver {
  /** Requests and heartbeats sent so far, acks included. */
  readonly requests: number;
  /** Resolves when the server has confirmed that nothing handed out so far will come again. */
  acked(): Promise<void>;
  /** Disconnects; the queue stays. */
  close(): void;
}

export interface ObjectCounters {
  /** Runs of any handler of any object, constructors included. */
  readonly runs: number;
  readonly rowsWritten: number;
}
