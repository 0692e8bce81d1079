/**
 * PURE. The peers of `peers.json`, in the original's format: `{ "petname": { "key": "…" }, … }`.
 *
 * A petname never moves to another key: whoever could make it move would inherit its trust. A person may remove a
 * peer and give the name anew; nothing else can. Fields that we do not know stay as they are.
 */

import { parseKey, type Key } from "../../protocol/address.ts";
import { CONTACTS_MAX } from "../../protocol/constants.ts";
import { parseJsonText, type JsonObject } from "../../protocol/json.ts";
import { isRefusal } from "../../protocol/refusal.ts";
import { repeatedKey } from "../hosts/jsonc.ts";
import { nearNames, refusePetname, warnOf, type PetnameWarning } from "./petname.ts";

/** An entry that admits nobody. It stays in the file, and the rest of the file counts. */
export interface SkippedEntry {
  /** As it stands in the file: not checked, so only for a person, escaped. */
  readonly name: string;
  readonly why:
    | "bad_petname"
    | "reserved_petname"
    | "bad_key"
    | "own_key"
    /** An earlier entry has the same key; that one's name counts. */
    | "same_key";
  /** The key of the entry, if it has one. */
  readonly key?: Key;
}

export interface PeerBook {
  /** Who is admitted, and what we call them. */
  readonly petnames: ReadonlyMap<Key, string>;
  readonly keys: ReadonlyMap<string, Key>;
  readonly skipped: readonly SkippedEntry[];
  /** The file's entries in its order, for writing it again. */
  readonly entries: ReadonlyMap<string, unknown>;
}

/** Why a change was not made, with what the person needs to choose again. */
export type PeerRefusal =
  | { readonly refused: "bad_petname" | "reserved_petname" | "bad_key" | "own_key" | "peers_full" }
  /** The name is another key's, or that of an entry which is skipped. */
  | { readonly refused: "petname_taken"; readonly key?: Key }
  /** The key is a peer already, under this name. */
  | { readonly refused: "key_known"; readonly petname: string }
  | { readonly refused: "unknown_petname"; readonly near: readonly string[] };

export interface PeerChange {
  readonly book: PeerBook;
  /** False if everything was so already. */
  readonly changed: boolean;
  readonly petname: string;
  readonly key: Key;
  readonly warning?: PetnameWarning;
}

/** Why the text is no peer book. */
export type BadPeers =
  /** It is no JSON object. */
  | { readonly refused: "bad_peers_file" }
  /** One object has a key twice: which of the two was meant, only a person knows. `at` leads to it, unchecked as `name`. */
  | { readonly refused: "repeated_name"; readonly at: readonly string[] };

/**
 * Reads the file's text. One bad entry does not lock out the others: it admits nobody and is told.
 * @param me our own key, which is never a peer's
 */
export function parsePeers(text: string, me: Key): PeerBook | BadPeers {
  const parsed = parseJsonText(text);
  if (isRefusal(parsed)) return { refused: "bad_peers_file" };
  const at = repeatedKey(text);
  if (at) return { refused: "repeated_name", at };
  return bookOf(new Map(Object.entries(parsed.object)), me);
}

export function emptyBook(): PeerBook {
  return { petnames: new Map(), keys: new Map(), skipped: [], entries: new Map() };
}

/** The file's text; the original's spacing. */
export function formatPeers({ entries }: PeerBook): string {
  return `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`;
}

/** Admits a key under a name. */
export function addPeer(book: PeerBook, petname: string, keyText: string, me: Key): PeerChange | PeerRefusal {
  const key = parseKey(keyText);
  if (!key) return { refused: "bad_key" };
  if (key === me) return { refused: "own_key" };
  const refused = refusePetname(petname);
  if (refused) return { refused };
  const known = book.petnames.get(key);
  if (known === petname) return { book, changed: false, petname, key };
  if (known !== undefined) return { refused: "key_known", petname: known };
  if (book.entries.has(petname)) return taken(book, petname);
  // A bus takes no longer list of contacts, so a later peer could not write to us.
  if (book.petnames.size >= CONTACTS_MAX) return { refused: "peers_full" };
  return changeOf(book, new Map(book.entries).set(petname, { key }), petname, key, me);
}

/**
 * Ends the trust in a key, by its name; a skipped entry's too. Every entry of that key goes, or a second name for it
 * would admit it again.
 * @param key what the person saw beside the name; another one there now is `unknown_petname`
 */
export function removePeer(
  book: PeerBook,
  petname: string,
  key: Key,
  me: Key,
): { readonly book: PeerBook } | PeerRefusal {
  if (keyOfEntry(book.entries.get(petname)) !== key) return unknownPetname(book, petname);
  return { book: bookOf(new Map([...book.entries].filter(([, entry]) => keyOfEntry(entry) !== key)), me) };
}

/** Calls the same key otherwise. Also gives a proper name to an entry that is skipped for its name; `key` as in {@link removePeer}. */
export function renamePeer(book: PeerBook, from: string, to: string, key: Key, me: Key): PeerChange | PeerRefusal {
  if (keyOfEntry(book.entries.get(from)) !== key) return unknownPetname(book, from);
  if (key === me) return { refused: "own_key" };
  const refused = refusePetname(to);
  if (refused) return { refused };
  if (from === to) return { book, changed: false, petname: to, key };
  if (book.entries.has(to)) return taken(book, to);
  const known = book.petnames.get(key);
  if (known !== undefined && known !== from) return { refused: "key_known", petname: known };
  const entries = new Map(Array.from(book.entries, ([name, value]) => [name === from ? to : name, value]));
  return changeOf(book, entries, to, key, me);
}

/** The refusal for a name that no peer has, with those that may have been meant. */
export function unknownPetname(book: PeerBook, petname: string): PeerRefusal & { readonly refused: "unknown_petname" } {
  return { refused: "unknown_petname", near: nearNames(petname, book.keys.keys()) };
}

function taken(book: PeerBook, petname: string): PeerRefusal {
  const key = book.keys.get(petname);
  return key ? { refused: "petname_taken", key } : { refused: "petname_taken" };
}

function changeOf(
  { keys }: PeerBook,
  entries: ReadonlyMap<string, unknown>,
  petname: string,
  key: Key,
  me: Key,
): PeerChange {
  const book = bookOf(entries, me);
  const others = [...keys].filter(([, other]) => other !== key).map(([name]) => name);
  const warning = warnOf(petname, others);
  return { book, changed: true, petname, key, ...(warning && { warning }) };
}

function bookOf(entries: ReadonlyMap<string, unknown>, me: Key): PeerBook {
  const petnames = new Map<Key, string>();
  const keys = new Map<string, Key>();
  const skipped: SkippedEntry[] = [];
  for (const [name, entry] of entries) {
    const key = keyOfEntry(entry);
    const why =
      refusePetname(name) ?? (!key ? "bad_key" : key === me ? "own_key" : petnames.has(key) ? "same_key" : undefined);
    if (why !== undefined) skipped.push({ name, why, ...(key && { key }) });
    else {
      petnames.set(key!, name);
      keys.set(name, key!);
    }
  }
  return { petnames, keys, skipped, entries };
}

function keyOfEntry(entry: unknown): Key | undefined {
  if (typeof entry !== "object" || entry === null) return undefined;
  const { key } = entry as JsonObject;
  return typeof key === "string" ? parseKey(key) : undefined;
}
