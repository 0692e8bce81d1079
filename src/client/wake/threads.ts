/** Which session of ours a host's thread has, kept across its processes: a file a thread, so that none waits for another. */

import { createHash } from "node:crypto";
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseSessionId, type SessionId } from "../../protocol/address.ts";
import { ensurePrivateDirectory, OTHERS_MAY_NOT, readPrivateFile, replacePrivateFile } from "../trust/private-file.ts";

/** Far more than a person resumes; the oldest go. */
const KEPT_MAX = 1_000;
/** A session id, and an end of line. */
const MAX_BYTES = 128;

export class Threads {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** The session that was kept for a thread. What cannot be read is not kept: the thread gets its own. */
  sessionOf(thread: string): SessionId | undefined {
    return readSession(this.#path(thread));
  }

  /** @throws what the disk says */
  keep(bindings: ReadonlyMap<string, SessionId>): void {
    for (const [thread, session] of bindings) {
      if (this.sessionOf(thread) === session) continue;
      const refusal = ensurePrivateDirectory(this.#directory);
      if (refusal) throw new Error(`${refusal.refused}: ${refusal.path}`);
      replacePrivateFile(this.#path(thread), `${session}\n`);
      this.#prune();
    }
  }

  /** The files of the threads whose session is one of these. */
  pathsOf(sessions: ReadonlySet<string>): string[] {
    const names = existsSync(this.#directory) ? readdirSync(this.#directory) : [];
    const kept = names.map((name) => join(this.#directory, name));
    return kept.filter((path) => sessions.has(readSession(path) ?? ""));
  }

  #prune(): void {
    const paths = readdirSync(this.#directory).map((name) => join(this.#directory, name));
    if (paths.length <= KEPT_MAX) return;
    const byAge = paths.map((path) => ({ path, atMs: statSync(path).mtimeMs })).sort((a, b) => a.atMs - b.atMs);
    for (const { path } of byAge.slice(0, paths.length - KEPT_MAX)) rmSync(path, { force: true });
  }

  #path(thread: string): string {
    return join(this.#directory, createHash("sha256").update(thread).digest("hex").slice(0, 32));
  }
}

function readSession(path: string): SessionId | undefined {
  try {
    const file = readPrivateFile(path, { forbiddenMode: OTHERS_MAY_NOT.write, maxBytes: MAX_BYTES });
    return file && "text" in file ? parseSessionId(file.text.trim()) : undefined;
  } catch {
    return undefined;
  }
}
