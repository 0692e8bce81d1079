/**
 * Files that only this user may change: read without following a link, written whole or not at all.
 *
 * What is found wrong is a refusal with the command that mends it, as ssh does, and is never mended in
 * silence: who could write to a file may already have done so. Windows has no modes and no owner numbers,
 * and a file there inherits its folder's rights; of these checks it gets only those for links and kind.
 */

import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  type BigIntStats,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import process from "node:process";

/** Why a file or its folder is not used. `mend` is a shell command for the user to read and run. */
export interface FileRefusal {
  readonly refused:
    /** It is a symbolic link, which may lead anywhere. */
    | "symlink"
    /** It is a folder, pipe or device; for a folder: something else. */
    | "wrong_kind"
    /** Another user owns it. */
    | "foreign_owner"
    /** Its mode lets others do what only we should. */
    | "loose_mode"
    /** The folder is not ours alone, as /tmp is: it cannot be mended, only left. */
    | "shared_directory"
    /** It is far larger than such a file ever is. */
    | "too_large"
    /** Its bytes are no UTF-8: written again, what stands there would be lost. */
    | "not_text";
  readonly path: string;
  readonly mend: string;
}

/** Bits of a mode that a file must not have. */
export const OTHERS_MAY_NOT = {
  /** A secret: nothing for group and others. */
  read: 0o077,
  /** What decides about trust, but is no secret: no writing for group and others. */
  write: 0o022,
} as const;

export interface ReadRule {
  /** One of {@link OTHERS_MAY_NOT}. */
  readonly forbiddenMode: number;
  readonly maxBytes: number;
}

/** A file's text, and a stamp that differs once the file has changed. */
export interface Contents {
  readonly text: string;
  readonly stamp: string;
}

/** Windows has no such flag; there the link is looked for before the opening. */
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0;
/** A pipe in the file's place must not hold us for ever. */
const NO_WAIT = constants.O_NONBLOCK ?? 0;

/**
 * Reads a file by one descriptor, so that what was checked is what is read.
 * @returns undefined if there is none
 * @throws what the system says, for example EACCES: a fault for a person to see
 */
export function readPrivateFile(path: string, rule: ReadRule): Contents | FileRefusal | undefined {
  if (NO_FOLLOW === 0 && lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) return refuseLink(path);
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | NO_FOLLOW | NO_WAIT);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    if (codeOf(error) === "ENOTDIR") return refuseKind(dirname(path));
    // FreeBSD's word for it is EMLINK.
    if (codeOf(error) === "ELOOP" || codeOf(error) === "EMLINK") return refuseLink(path);
    throw error;
  }
  try {
    const stats = fstatSync(fd, { bigint: true });
    if (!stats.isFile()) return refuseKind(path);
    const refusal = refuseStats(path, stats, rule.forbiddenMode);
    if (refusal) return refusal;
    if (stats.size > BigInt(rule.maxBytes)) return { refused: "too_large", path, mend: `ls -l ${quote(path)}` };
    const text = decode(readFileSync(fd));
    return text === undefined
      ? { refused: "not_text", path, mend: `cat -v ${quote(path)}` }
      : { text, stamp: stampOf(stats) };
  } finally {
    closeSync(fd);
  }
}

/**
 * What tells one state of a file from another, without opening it; undefined if there is none. Also undefined
 * for a file so young that a second change may carry the same time: that one is to be read again.
 */
export function stampOfFile(path: string, nowMs: number): string | undefined {
  let stats: BigIntStats | undefined;
  try {
    stats = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    if (codeOf(error) !== "ENOTDIR") throw error; // else the reading says so
  }
  return stats && nowMs - Number(stats.ctimeMs) > TIME_GRAIN_MS ? stampOf(stats) : undefined;
}

/** File systems' times are this coarse at worst (FAT: 2 s). */
const TIME_GRAIN_MS = 2_000;

function stampOf({ dev, ino, size, mtimeNs, ctimeNs, mode, uid }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs, mode, uid].join(" ");
}

/** Makes the folder, 0700, or checks the one that is there: who may write to it may replace what is in it. */
export function ensurePrivateDirectory(path: string): FileRefusal | undefined {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    if (codeOf(error) === "EEXIST" || codeOf(error) === "ENOTDIR") return refuseKind(path);
    throw error;
  }
  // A link to a folder is followed: the user's own dotfiles are often kept so, and the target is checked.
  const { uid, mode } = statSync(path);
  const me = process.geteuid?.();
  if (me === undefined) return undefined; // Windows
  const isOthers = uid !== me && uid !== 0; // root may write to any folder anyway
  const isLoose = (mode & OTHERS_MAY_NOT.write) !== 0;
  // A sticky folder is meant to be shared, so it is not for us to close it.
  if (isOthers || (isLoose && (uid !== me || (mode & STICKY) !== 0))) {
    return { refused: "shared_directory", path, mend: "mkdir -p -m 700 ~/.config/interlink" };
  }
  return isLoose ? { refused: "loose_mode", path, mend: `chmod go-w ${quote(path)}` } : undefined;
}

const STICKY = 0o1000;

/**
 * Creates a file, 0600, whole and on disk before it has its name, so that no reader meets half of it and a
 * crash leaves none.
 * @returns false if the name is taken; what is there is untouched
 */
export function createPrivateFile(path: string, text: string): boolean {
  const temporary = writeBeside(path, text);
  try {
    linkSync(temporary, path); // unlike a rename it never replaces
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    if (!NO_LINKS.has(codeOf(error) ?? "")) throw error;
    return createInPlace(path, text);
  } finally {
    rmSync(temporary, { force: true });
  }
  syncDirectory(dirname(path));
  return true;
}

/** What file systems without hard links answer. */
const NO_LINKS: ReadonlySet<string> = new Set(["EPERM", "EACCES", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK"]);

/** Still exclusive, but a reader may find it empty for a moment. */
function createInPlace(path: string, text: string): boolean {
  try {
    writeFileSync(path, text, { flag: "wx", mode: 0o600, flush: true });
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
  return true;
}

/** Replaces a file, 0600, in one step: readers see the old text or the new. A link in its place is replaced, not followed. */
export function replacePrivateFile(path: string, text: string): void {
  const temporary = writeBeside(path, text);
  try {
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncDirectory(dirname(path));
}

/** Half-written texts of a file, as a process leaves them that is killed over it; of a key they hold the key. */
export function temporariesOf(path: string): string[] {
  const [folder, before] = [dirname(path), `.${basename(path)}.`];
  const isOne = (name: string) => name.startsWith(before) && /^[0-9a-f]{16}\.tmp$/.test(name.slice(before.length));
  return existsSync(folder)
    ? readdirSync(folder)
        .filter(isOne)
        .map((name) => join(folder, name))
    : [];
}

/** In the same folder, since a name moves in one step only within a file system. */
function writeBeside(path: string, text: string): string {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(8).toString("hex")}.tmp`);
  try {
    writeFileSync(temporary, text, { flag: "wx", mode: 0o600, flush: true });
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  return temporary;
}

/** A new name survives a power cut only if its folder is on disk. */
function syncDirectory(path: string): void {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY);
  } catch {
    return; // Windows does not open folders, and needs none of this
  }
  try {
    fsyncSync(fd);
  } catch {
    // some file systems have no sync for folders; the name is there, only not yet proof against a power cut
  } finally {
    closeSync(fd);
  }
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function refuseKind(path: string): FileRefusal {
  return { refused: "wrong_kind", path, mend: `ls -ld ${quote(path)}` };
}

function refuseLink(path: string): FileRefusal {
  // The copy keeps what the link led to, under the name that is looked for.
  return {
    refused: "symlink",
    path,
    mend: `cp ${quote(path)} ${quote(`${path}.new`)} && mv ${quote(`${path}.new`)} ${quote(path)} && chmod 600 ${quote(path)}`,
  };
}

function refuseStats(path: string, { uid, mode }: BigIntStats, forbiddenMode: number): FileRefusal | undefined {
  const me = process.geteuid?.();
  if (me === undefined) return undefined; // Windows
  if (uid !== BigInt(me)) return { refused: "foreign_owner", path, mend: `sudo chown ${me} ${quote(path)}` };
  if ((Number(mode) & forbiddenMode) === 0) return undefined;
  const change = forbiddenMode === OTHERS_MAY_NOT.read ? "600" : "go-w";
  return { refused: "loose_mode", path, mend: `chmod ${change} ${quote(path)}` };
}

/** A path as one word of a POSIX shell. */
export function quote(path: string): string {
  return `'${path.replaceAll("'", `'\\''`)}'`;
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | null)?.code;
}
