/**
 * Where a host's hook finds the agent of its session: a local socket in a folder that only this user writes to, named by
 * what both know. No port, and nothing that another user could answer.
 *
 * | name   | known to                | why |
 * |--------|-------------------------|-----|
 * | socket | Claude Code's children  | the same in the server and in every hook, also after `/clear`, which names the thread anew |
 * | pid    | Claude Code's children  | where the environment is held back from the server, and the socket with it |
 * | thread | whoever had a call      | Codex names its threads in calls only, and starts servers under one process for all |
 * | agent  | nobody                  | a person's command asks whoever is in the folder, also whom no hook would find |
 */

import { createHash, randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createPrivateFile, ensurePrivateDirectory, OTHERS_MAY_NOT, readPrivateFile } from "../trust/private-file.ts";

/** What is known of the host's session, in the server or in a hook. */
export interface HostNames {
  readonly socket?: string | undefined;
  readonly pid?: string | undefined;
  readonly thread?: string | undefined;
  readonly agent?: string | undefined;
}

/** macOS takes 103 bytes, Linux 107. */
const PATH_MAX_BYTES = 103;
const NAME_CHARS = 24;
const SECRET_BYTES = 32;
const SECRET_MAX_BYTES = 128;

/** The folder and what must be said there; undefined: it is missing (to a hook), or not ours alone. */
export interface HookPlace {
  readonly folder: string;
  readonly secret: string;
  readonly platform: NodeJS.Platform;
}

/**
 * @param directory in the state folder; one too long for a socket is replaced by one of the system's for such files
 * @param isServer makes what is missing; a hook makes nothing
 */
export function hookPlace(directory: string, platform: NodeJS.Platform, isServer: boolean): HookPlace | undefined {
  const isLong = Buffer.byteLength(join(directory, `${"x".repeat(NAME_CHARS)}.sock`)) > PATH_MAX_BYTES;
  const folder = isLong && platform !== "win32" ? join(tmpdir(), `interlink-${digestOf(directory)}`) : directory;
  const path = join(folder, "secret");
  if (isServer) {
    if (ensurePrivateDirectory(folder)) return undefined;
    createPrivateFile(path, randomBytes(SECRET_BYTES).toString("base64url"));
  }
  const file = readPrivateFile(path, { forbiddenMode: OTHERS_MAY_NOT.read, maxBytes: SECRET_MAX_BYTES });
  return file && "text" in file ? { folder, secret: file.text, platform } : undefined;
}

/** Addresses to listen on, or to try, the surest first. */
export function addressesOf({ folder, secret, platform }: HookPlace, names: HostNames): string[] {
  const known = [
    ["socket", names.socket],
    ["pid", names.pid],
    ["thread", names.thread],
    ["agent", names.agent],
  ].filter(([, value]) => value !== undefined);
  return known.map((name) => {
    // Pipes have one folder for all users, so their names are not to be guessed.
    if (platform === "win32") return `\\\\.\\pipe\\interlink-${digestOf([...name, secret].join("\n"))}`;
    return join(folder, `${digestOf(name.join("\n"))}.sock`);
  });
}

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, NAME_CHARS);
}
