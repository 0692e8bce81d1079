/**
 * What one agent process leaves to the next: a file that only this user reads, in a folder of its own, written before the next
 * starts and gone once it was read. It holds a key, so it is no environment variable, which other processes may see.
 */

import { mkdtempSync, rmdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseSessionId } from "../../protocol/address.ts";
import { OTHERS_MAY_NOT, readPrivateFile, replacePrivateFile, type FileRefusal } from "../trust/private-file.ts";
import { isRecord } from "./frame.ts";

export interface Handoff {
  /** Which process this is, counted from 1. */
  readonly generation: number;
  /** Why there is a new one; absent: it is the first. */
  readonly reason?: string;
  /** The session where nothing names one. It is the supervisor's own, and stays the same for as long as that lives. */
  readonly session: string;
  /** Seals questions to the operator, base64url; so that an answer counts that comes after a restart. */
  readonly state_key: string;
  /** The session was real: it is announced at once. */
  readonly rejoin: boolean;
  /** Messages in answers that came out whole; others that its processes took reached nobody. */
  readonly arrived: readonly string[];
  /** Threads by which the host called. */
  readonly threads: readonly string[];
}

const FILE = "handoff.json";
/** An answer carries few messages. */
const MAX_BYTES = 64 * 1_024;
const STATE_KEY_BYTES = 32;

/** Writes it. @returns its path, for {@link takeHandoff} and {@link dropHandoff} */
export function leaveHandoff(handoff: Handoff): string {
  // Anew each time: systems clean such folders, and a supervisor may live for weeks.
  const path = join(mkdtempSync(join(tmpdir(), "interlink-")), FILE);
  replacePrivateFile(path, JSON.stringify(handoff));
  return path;
}

/** Reads and removes it. @returns undefined: there is none, or it is not whole */
export function takeHandoff(path: string): Handoff | FileRefusal | undefined {
  const file = readPrivateFile(path, { forbiddenMode: OTHERS_MAY_NOT.read, maxBytes: MAX_BYTES });
  if (!file || "refused" in file) return file;
  dropHandoff(path);
  try {
    return parse(JSON.parse(file.text));
  } catch {
    return undefined;
  }
}

/** Removes it and its folder, if they are there. */
export function dropHandoff(path: string): void {
  rmSync(path, { force: true });
  try {
    rmdirSync(dirname(path)); // only if nothing else is in it
  } catch {
    // it is gone, or it is not ours
  }
}

function parse(value: unknown): Handoff | undefined {
  if (!isRecord(value)) return undefined;
  const { generation, reason, session, state_key, rejoin, arrived, threads } = value;
  if (!isWhole(generation)) return undefined;
  if (typeof session !== "string" || !parseSessionId(session) || typeof state_key !== "string") return undefined;
  if (Buffer.from(state_key, "base64url").length !== STATE_KEY_BYTES) return undefined;
  return {
    generation,
    session,
    state_key,
    rejoin: rejoin === true,
    arrived: textsOf(arrived),
    threads: textsOf(threads),
    ...(typeof reason === "string" && { reason }),
  };
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? (value as unknown[]).filter((each) => typeof each === "string") : [];
}
