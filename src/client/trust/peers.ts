/**
 * The peers file, shared by all processes of this user and by the original's: read again whenever it changed,
 * written in one step under a lock.
 */

import { dirname } from "node:path";
import type { Key } from "../../protocol/address.ts";
import { withFileLock, type LockRefusal } from "./file-lock.ts";
import { Operator } from "./operator.ts";
import {
  addPeer,
  emptyBook,
  formatPeers,
  parsePeers,
  removePeer,
  renamePeer,
  unknownPetname,
  type BadPeers,
  type PeerBook,
  type PeerChange,
  type PeerRefusal,
} from "./peer-book.ts";
import {
  ensurePrivateDirectory,
  OTHERS_MAY_NOT,
  quote,
  readPrivateFile,
  replacePrivateFile,
  stampOfFile,
  type FileRefusal,
} from "./private-file.ts";

/**
 * The file cannot be used. Nobody is admitted then, and nobody dropped either: mail stays on the bus until it is
 * mended. `mend` shows or repairs it.
 */
export type PeersFileRefusal = FileRefusal | (BadPeers & { readonly path: string; readonly mend: string });

/** A change was made, or this is why not. */
export type PeersOutcome<Change> = Change | PeerRefusal | PeersFileRefusal | LockRefusal;

/** 1,024 peers are near 100 KB; the rest is for fields of others. */
const PEERS_FILE_MAX_BYTES = 4 * 1_048_576;
/** Times that another's write between our reading and writing is taken in, before it is called a fault. */
const REWRITES_MAX = 10;

export interface PeersFileOptions {
  readonly path: string;
  /** Our own key, which is never a peer's. */
  readonly me: Key;
  /** The clock, in Unix milliseconds; default `Date.now`. */
  readonly now?: () => number;
}

export class PeersFile {
  readonly #path: string;
  readonly #me: Key;
  readonly #now: () => number;
  #last: { readonly stamp: string; readonly book: PeerBook } | undefined;

  constructor({ path, me, now = Date.now }: PeersFileOptions) {
    this.#path = path;
    this.#me = me;
    this.#now = now;
  }

  /** The peers as they are now; no file is no peers. Cheap while the file is unchanged. */
  current(): PeerBook | PeersFileRefusal {
    const stamp = stampOfFile(this.#path, this.#now());
    if (this.#last && stamp === this.#last.stamp) return this.#last.book;
    const read = this.#read();
    if ("refused" in read) return read;
    this.#last = read.stamp === undefined ? undefined : { stamp: read.stamp, book: read.book };
    return read.book;
  }

  /** The key of a petname, for sending. */
  resolve(petname: string): Key | (PeerRefusal & { readonly refused: "unknown_petname" }) | PeersFileRefusal {
    const book = this.current();
    return "refused" in book ? book : (book.keys.get(petname) ?? unknownPetname(book, petname));
  }

  /**
   * Admits a key under a name.
   * @param operator about `key`, as are those below
   */
  async add(petname: string, key: Key, operator: Operator): Promise<PeersOutcome<PeerChange>> {
    Operator.check(operator, key);
    return this.#update((book) => addPeer(book, petname, key, this.#me));
  }

  /** @param key what the operator saw beside the name: the file may have changed since */
  async remove(petname: string, key: Key, operator: Operator): Promise<PeersOutcome<{ readonly book: PeerBook }>> {
    Operator.check(operator, key);
    return this.#update((book) => removePeer(book, petname, key, this.#me));
  }

  /** @param key what the operator saw beside `from` */
  async rename(from: string, to: string, key: Key, operator: Operator): Promise<PeersOutcome<PeerChange>> {
    Operator.check(operator, key);
    return this.#update((book) => renamePeer(book, from, to, key, this.#me));
  }

  async #update<Change extends { readonly book: PeerBook }>(
    change: (book: PeerBook) => Change | PeerRefusal,
  ): Promise<PeersOutcome<Change>> {
    const refusal = ensurePrivateDirectory(dirname(this.#path));
    if (refusal) return refusal;
    return withFileLock(`${this.#path}.lock`, () => this.#rewrite(change));
  }

  /** Under the lock, so only who does not share it (an editor, the original on Linux) can write in between. */
  #rewrite<Change extends { readonly book: PeerBook }>(
    change: (book: PeerBook) => Change | PeerRefusal,
  ): Change | PeerRefusal | PeersFileRefusal {
    for (let tries = 0; tries < REWRITES_MAX; tries++) {
      const before = this.#read();
      if ("refused" in before) return before;
      const outcome = change(before.book);
      if ("refused" in outcome || outcome.book === before.book) return outcome;
      const text = formatPeers(outcome.book);
      // The last look is as near to the write as it can be.
      const now = this.#read();
      if ("refused" in now) return now;
      if (now.stamp !== before.stamp) continue;
      replacePrivateFile(this.#path, text);
      return outcome;
    }
    throw new Error("the peers file changes faster than it can be written");
  }

  #read(): { readonly stamp: string | undefined; readonly book: PeerBook } | PeersFileRefusal {
    const rule = { forbiddenMode: OTHERS_MAY_NOT.write, maxBytes: PEERS_FILE_MAX_BYTES };
    const contents = readPrivateFile(this.#path, rule);
    if (contents === undefined) return { stamp: undefined, book: emptyBook() };
    if ("refused" in contents) return contents;
    const book = parsePeers(contents.text, this.#me);
    if ("refused" in book) return { ...book, path: this.#path, mend: `\${EDITOR:-vi} ${quote(this.#path)}` };
    return { stamp: contents.stamp, book };
  }
}
