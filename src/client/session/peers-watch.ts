/** Notices when the peers file changed, by whichever process: a stat now and then, since a watch of a file ends with its rename. */

import type { Key } from "../../protocol/address.ts";
import type { Timers } from "../bus/timers.ts";
import type { PeerBook } from "../trust/peer-book.ts";
import type { PeersFile } from "../trust/peers.ts";

export interface PeersWatchOptions {
  readonly peers: PeersFile;
  readonly timers: Timers;
  /** Who is admitted has changed since the last look. */
  readonly onChange: (book: PeerBook) => Promise<void>;
  readonly onFault: (fault: unknown) => void;
}

/** A command on a terminal should work while one still looks at it. */
const LOOK_EVERY_MS = 2_000;

export class PeersWatch {
  readonly #options: PeersWatchOptions;
  #seen: string | undefined;
  #timer: unknown;

  constructor(options: PeersWatchOptions) {
    this.#options = options;
  }

  /** Whom we admit now; undefined while the file cannot be used. */
  contacts(): readonly Key[] | undefined {
    const book = this.#current();
    return book && !("refused" in book) ? [...book.petnames.keys()] : undefined;
  }

  /** Path of a file that cannot be used, or undefined. */
  get badFile(): string | undefined {
    const book = this.#current();
    return book && "refused" in book ? book.path : undefined;
  }

  start(): void {
    this.#look();
  }

  stop(): void {
    this.#options.timers.clearTimeout(this.#timer);
  }

  #look(): void {
    const { timers, onChange, onFault } = this.#options;
    const book = this.#current();
    // A file that cannot be read now says nothing of who was removed.
    if (book && !("refused" in book)) {
      const text = [...book.petnames.keys()].sort().join(" ");
      if (text !== this.#seen) onChange(book).catch(onFault);
      this.#seen = text;
    }
    this.#timer = timers.setTimeout(() => this.#look(), LOOK_EVERY_MS);
  }

  /** Undefined where the system would not let us read it: a fault, told, and looked at again. */
  #current(): ReturnType<PeersFile["current"]> | undefined {
    try {
      return this.#options.peers.current();
    } catch (fault) {
      this.#options.onFault(fault);
      return undefined;
    }
  }
}
