/**
 * What it means to change a host's file: our entry goes in and comes out, and nothing else moves.
 *
 * What was put in is remembered as the bytes themselves, so that taking it out is its exact inverse. Where the host has
 * written its file anew meanwhile, only our entry is taken out; where somebody has changed the entry, it is theirs.
 */

/** Why a file is not changed. */
export interface EditRefusal {
  readonly refused:
    /** It is not of its format, so the host does not read it either. */
    | "unreadable"
    /** Where our entry belongs stands something that takes none. */
    | "other_shape"
    /** A key stands there twice: which one counts, hosts do not agree on. */
    | "repeated_key"
    /** There is an entry of our name, and not by us. */
    | "taken"
    /** Somebody has changed what we wrote. */
    | "changed";
}

/** What was put in, as plain data for the record. */
export interface Undo {
  /** `file`: there was none. `document`: behind what was blank. `entry`: within what was there. */
  readonly made: "file" | "document" | "entry";
  /** The bytes that were put in. */
  readonly text: string;
  /** How many of their characters stand before the entry itself. */
  readonly lead: number;
  /** A comma was put behind what stood before. */
  readonly comma?: boolean;
  /** Keys of what was put in: fewer than the entry's where its parent was made too. */
  readonly at: readonly string[];
  /** The entry as it was written, to see whether it still is. */
  readonly entry: unknown;
}

export type Added = { readonly text: string; readonly undo: Undo } | EditRefusal;
/** `text` undefined: the file goes. `gone`: the entry is not there any more. */
export type Removed = { readonly text: string | undefined } | { readonly gone: true } | EditRefusal;

/** How one entry is put into a file of a format, and taken out. */
export interface Editor {
  /** @param text undefined if there is no file */
  add(text: string | undefined): Added;
  remove(text: string, undo: Undo): Removed;
  /** True if the entry is there as it would be written, however it is spelt. */
  holds(text: string): boolean;
  /** The entry as a person reads it before they agree. */
  readonly shown: string;
}

/** The line ends of a text: its first. */
export function eolOf(text: string): string {
  return /\r?\n/.exec(text)?.[0] ?? "\n";
}

/** The text without what was put in, if it stands where it was put. @param entryStart of the entry itself */
export function cutBack(text: string, { text: put, lead }: Undo, entryStart: number): string | undefined {
  const start = entryStart - lead;
  const isThere = start >= 0 && text.startsWith(put, start);
  return isThere ? text.slice(0, start) + text.slice(start + put.length) : undefined;
}
