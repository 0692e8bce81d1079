/** All that the folder of the sessions' files holds of one identity: for its export, and for its end. */

import { existsSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import type { Key } from "../../protocol/address.ts";
import { readBindings } from "./bus-bindings.ts";
import { budgetPath, pairingPath } from "./paths.ts";
import { sessionFilesHere } from "./session-files.ts";

/** What SQLite has beside a file of ours, and the lock. */
const BESIDE = ["", "-wal", "-shm", "-journal", ".lock", ".lock-journal"];
const BINDINGS = /^buses\.[0-9a-f]{16}\.json$/;

export interface IdentityFiles {
  /** Files, and what is beside them. */
  readonly paths: readonly string[];
  /** Those that could not be read once, under the names to which they were moved. */
  readonly setAside: readonly string[];
  /** In which buses a session was, for its next process. */
  readonly bindings: readonly string[];
}

/** @param keyPath of the identity, by which a session says where it began */
export function identityFiles(directory: string, key: Key, keyPath: string): IdentityFiles {
  const names = existsSync(directory) ? readdirSync(directory).sort() : [];
  const sessions = sessionFilesHere(directory, key).ours.map(({ path }) => path);
  const files = [...sessions, pairingPath(directory, key), budgetPath(directory, key)].map((path) => basename(path));
  const beside = new Set(files.flatMap((file) => BESIDE.map((suffix) => file + suffix)));
  const isAside = (name: string) => files.some((file) => name.startsWith(`${file}.broken-`));
  const isOurs = (path: string) => readBindings(path)?.home.endsWith(` ${keyPath}`) === true;
  const all = names.map((name) => ({ name, path: join(directory, name) }));
  const pathsOf = (chosen: typeof all) => chosen.map(({ path }) => path);
  return {
    paths: pathsOf(all.filter(({ name }) => beside.has(name))),
    setAside: pathsOf(all.filter(({ name }) => isAside(name))),
    bindings: pathsOf(all.filter(({ name, path }) => BINDINGS.test(name) && isOurs(path))),
  };
}
