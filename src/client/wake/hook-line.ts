/** PURE. What a host's hook, or a person's command, asks a running agent, and what it is told: one line of JSON each way. */

import { parseSessionId } from "../../protocol/address.ts";
import { WAKE_PATHS } from "./chooser.ts";
import { PROOF_WORDS } from "./proof.ts";
import type { ThreadSource } from "./rebinding.ts";
import type { AgentStanding } from "./standing.ts";

export type HookRequest =
  /** The host says which thread runs, and where its inbox is. */
  | {
      readonly ask: "bind";
      readonly source: ThreadSource;
      readonly thread: string;
      readonly socket?: string;
      readonly token?: string;
    }
  /** The user has typed something. */
  | { readonly ask: "human" }
  /** A tool was used: is there somebody who waits for a word? */
  | { readonly ask: "word" }
  /** The turn is over: say when there is mail. */
  | { readonly ask: "wait" }
  /** A person wants to know how the session is woken. */
  | { readonly ask: "standing" };

export type HookAnswer =
  | { readonly say: "done" }
  /** There is nothing to wait for, and why. */
  | { readonly say: "no"; readonly why: string }
  /** It is waited for. */
  | { readonly say: "armed" }
  /** For the model. */
  | { readonly say: "tell"; readonly text: string }
  | ({ readonly say: "standing" } & AgentStanding);

/** Longer than any path or token of a host. */
export const LINE_MAX_CHARS = 8_192;
const FIELD_MAX_CHARS = 1_024;

const SOURCES: readonly ThreadSource[] = ["startup", "resume", "clear", "compact"];

/** @returns undefined: it is none, or not from one who may read our files */
export function readRequest(line: string, secret: string): HookRequest | undefined {
  const value = recordOf(line);
  if (value?.["secret"] !== secret) return undefined;
  const { ask, source, thread, socket, token } = value;
  if (ask === "human" || ask === "word" || ask === "wait" || ask === "standing") return { ask };
  const from = SOURCES.find((each) => each === source);
  if (ask !== "bind" || from === undefined || !isField(thread)) return undefined;
  return {
    ask,
    source: from,
    thread,
    ...(isField(socket) && { socket }),
    ...(isField(token) && { token }),
  };
}

export function readAnswer(line: string): HookAnswer | undefined {
  const value = recordOf(line) ?? {};
  const { say, why, text } = value;
  if (say === "done" || say === "armed") return { say };
  if (say === "no") return typeof why === "string" ? { say, why } : undefined;
  if (say === "standing") return readStanding(value);
  return say === "tell" && typeof text === "string" ? { say, text } : undefined;
}

/** It is shown to a person, so it is whole and nothing else, or it is none. */
function readStanding(value: Readonly<Record<string, unknown>>): HookAnswer | undefined {
  const { agent, session, path, proof, proven_age_ms, unread } = value;
  const known = typeof session === "string" ? parseSessionId(session) : undefined;
  const by = ([...WAKE_PATHS, "none"] as const).find((each) => each === path);
  const word = PROOF_WORDS.find((each) => each === proof);
  if (!isField(agent) || by === undefined || word === undefined || !isCount(unread)) return undefined;
  if (session !== undefined && known === undefined) return undefined;
  const isAged = word === "proven" || word === "lapsed";
  if (proven_age_ms === undefined ? isAged : !isCount(proven_age_ms)) return undefined;
  return {
    say: "standing",
    agent,
    ...(known !== undefined && { session: known }),
    path: by,
    proof: word,
    ...(isCount(proven_age_ms) && { proven_age_ms }),
    unread,
  };
}

function recordOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isField(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= FIELD_MAX_CHARS;
}
