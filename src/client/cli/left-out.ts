/** What is kept on this machine and is not our key's: a command that shows the rest says so, and how to see it. */

import { existsSync } from "node:fs";
import { fingerprint } from "../../protocol/address.ts";
import { escapeInvisible } from "../../protocol/text.ts";
import type { SessionFile, SessionFilesHere } from "../state/session-files.ts";
import { counted } from "../tools/render.ts";
import { readBuses } from "../trust/buses-file.ts";
import { loadIdentity } from "../trust/identity-file.ts";
import { quote } from "../trust/private-file.ts";
import type { Desk } from "./desk.ts";

/** Another key of this user, by which our agents are on some bus. */
export interface OtherKey {
  readonly path: string;
  /** A bus on which it is used, by the user's own name; absent: it is the usual key, and no bus of the file has it. */
  readonly bus?: string;
}

export interface LeftOut {
  readonly keys: readonly OtherKey[];
  /** Files of sessions whose key is none of those. */
  readonly others: readonly { readonly fingerprint: string; readonly files: number }[];
  /** Paths of files of which nobody can say whose they are. */
  readonly unknown: readonly string[];
}

export function leftOut(desk: Desk, { others, unknown }: SessionFilesHere): LeftOut {
  const keys = otherKeys(desk);
  const known = new Set(keys.map(({ path }) => keyAt(path)));
  const strange = Map.groupBy(others, ({ owner }) => owner.key);
  return {
    keys,
    others: [...strange].flatMap(([key, files]) =>
      known.has(key) ? [] : [{ fingerprint: fingerprint(key), files: files.length }],
    ),
    unknown: unknown.map(({ path }) => path),
  };
}

/** The keys that buses of the user's file have, and the usual one; those that are there, and are not the one that we speak by. */
export function otherKeys({ settings, keyPath }: Desk): OtherKey[] {
  const named = readBuses(settings.buses);
  const usual = settings.trust.key;
  const byPath = new Map<string, OtherKey>();
  for (const { name, key: path = usual } of "refused" in named ? [] : named.values())
    if (!byPath.has(path)) byPath.set(path, { path, bus: name });
  if (!byPath.has(usual)) byPath.set(usual, { path: usual });
  byPath.delete(keyPath);
  return [...byPath.values()].filter(({ path }) => existsSync(path));
}

/** @param command what shows the like of another key */
export function linesOfLeftOut({ keys, others, unknown }: LeftOut, command: "status" | "inbox" | "export"): string[] {
  return [
    ...keys.map(({ path, bus }) => {
      const word = bus === undefined ? "ADDRESS-OF-ITS-BUS" : quote(bus);
      return `What is kept for the key ${escapeInvisible(path)} is apart: INTERLINK_URL=${word} interlink-edge ${command}`;
    }),
    ...others.map(
      ({ fingerprint: whose, files }) =>
        `${counted(files, "file")} of ${whose} ${files === 1 ? "is" : "are"} apart: INTERLINK_KEY=ITS-KEY-FILE interlink-edge ${command}`,
    ),
    ...unknown.map((path) => `Not looked into, for nobody can say whose it is: ${path}`),
  ];
}

/** Of files of ours that cannot be read. */
export function wordsOfPassedOver(files: number): string {
  return `${counted(files, "file")} of sessions cannot be read, or another version wrote ${files === 1 ? "it" : "them"}: passed over.`;
}

/** The further bus of its session that a file is of. */
export function furtherBus({ owner }: SessionFile): { readonly bus?: string } {
  return owner?.bus === undefined ? {} : { bus: escapeInvisible(owner.bus) };
}

function keyAt(path: string): string | undefined {
  const identity = loadIdentity(path);
  return identity && "key" in identity ? identity.key : undefined;
}
