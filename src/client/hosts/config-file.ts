/** A host's file on the disk: read whole, replaced in one step, with the rights that it has and behind a link that leads to it. */

import { randomBytes } from "node:crypto";
import {
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";

/** Claude Code's grows with its use; beyond this it is none of a host's. */
const MAX_BYTES = 64 * 1_048_576;

/** Why a file is left alone. */
export type FileTrouble = "not_a_file" | "too_large" | "not_text" | "dangling_link" | "denied";

/** `text` undefined: there is none. `path`: the file itself, where the name is a link. */
export type ConfigText =
  | { readonly path: string; readonly text: string | undefined }
  | { readonly trouble: FileTrouble };

export function readConfig(path: string): ConfigText {
  const named = lstatSync(path, { throwIfNoEntry: false });
  if (!named) return { path, text: undefined };
  // Dotfiles are often links into a folder under version control: what they lead to is the file.
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) return { trouble: "dangling_link" };
  if (!found.isFile()) return { trouble: "not_a_file" };
  if (found.size > MAX_BYTES) return { trouble: "too_large" };
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(path);
  } catch {
    return { trouble: "denied" };
  }
  try {
    // A mark at the beginning stays where it is: every byte goes back.
    return { path: realpathSync(path), text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    return { trouble: "not_text" };
  }
}

/**
 * Puts a text in the place of another.
 * @param before what was read; a file that has changed since is left alone
 * @returns false if it has
 */
export function replaceConfig(path: string, before: string | undefined, text: string): boolean {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0o600;
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(8).toString("hex")}.tmp`);
  try {
    writeFileSync(temporary, text, { flag: "wx", mode: mode & 0o777, flush: true });
    if (!isStill(path, before)) return false;
    renameSync(temporary, path);
  } finally {
    rmSync(temporary, { force: true });
  }
  return true;
}

/** Deletes a file that we made, and the folders that we made for it if nothing else is in them. */
export function deleteConfig(path: string, before: string, folders: readonly string[]): boolean {
  if (!isStill(path, before)) return false;
  rmSync(path);
  for (const folder of folders.toReversed()) {
    try {
      rmdirSync(folder);
    } catch {
      return true; // somebody has put something there
    }
  }
  return true;
}

function isStill(path: string, before: string | undefined): boolean {
  const now = readConfig(path);
  return "text" in now && now.text === before;
}

/** Folders that a file needs and that are not there, outermost first. */
export function missingFolders(path: string): string[] {
  if (statSync(path, { throwIfNoEntry: false })) return [];
  return [...missingFolders(dirname(path)), path];
}
