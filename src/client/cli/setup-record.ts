/** What `setup` has written into hosts' files, beside the key: without it nothing could be taken back exactly. */

import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import * as z from "zod/mini";
import type { Undo } from "../hosts/edit.ts";
import {
  ensurePrivateDirectory,
  OTHERS_MAY_NOT,
  quote,
  readPrivateFile,
  replacePrivateFile,
  type FileRefusal,
} from "../trust/private-file.ts";

export interface Written {
  /** A host's name. */
  readonly host: string;
  /** As the host knows it, which may be a link. */
  readonly path: string;
  readonly what: string;
  readonly undo: Undo;
  /** Folders that were made for it, outermost first. */
  readonly folders: readonly string[];
}

export interface SetupRecord {
  /** What we call ourselves in hosts' entries. */
  readonly name?: string;
  /** Our own copy of this program, where npm keeps it only for a while. */
  readonly program?: string;
  readonly writes: readonly Written[];
}

export type RecordRefusal =
  | FileRefusal
  | { readonly refused: "bad_setup_file"; readonly path: string; readonly mend: string };

export const NO_RECORD: SetupRecord = { writes: [] };
const MAX_BYTES = 1_048_576;

const undoSchema = z.object({
  made: z.enum(["file", "document", "entry"]),
  text: z.string(),
  lead: z.number(),
  comma: z.optional(z.boolean()),
  at: z.array(z.string()),
  entry: z.unknown(),
});
const schema = z.object({
  name: z.optional(z.string()),
  program: z.optional(z.string()),
  writes: z.array(
    z.object({ host: z.string(), path: z.string(), what: z.string(), undo: undoSchema, folders: z.array(z.string()) }),
  ),
});

export function recordPath(keyPath: string): string {
  return join(dirname(keyPath), "setup.json");
}

export function readRecord(path: string): SetupRecord | RecordRefusal {
  const file = readPrivateFile(path, { forbiddenMode: OTHERS_MAY_NOT.write, maxBytes: MAX_BYTES });
  if (file === undefined) return NO_RECORD;
  if ("refused" in file) return file;
  try {
    return z.parse(schema, JSON.parse(file.text)) as SetupRecord;
  } catch {
    return { refused: "bad_setup_file", path, mend: `cat ${quote(path)}` };
  }
}

/** A record of nothing is no file. Throws where the disk refuses. */
export function writeRecord(path: string, record: SetupRecord): FileRefusal | undefined {
  const refusal = ensurePrivateDirectory(dirname(path));
  if (refusal) return refusal;
  if (record.writes.length === 0 && record.name === undefined) rmSync(path, { force: true });
  else replacePrivateFile(path, `${JSON.stringify(record, null, 2)}\n`);
  return refusal;
}

/** The record with this in the place of what it had of the same. */
export function withWrite(record: SetupRecord, written: Written): SetupRecord {
  return { ...record, writes: [...withoutWrite(record, written).writes, written] };
}

export function withoutWrite(record: SetupRecord, { path, what }: Pick<Written, "path" | "what">): SetupRecord {
  return { ...record, writes: record.writes.filter((each) => each.path !== path || each.what !== what) };
}
