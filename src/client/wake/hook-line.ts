/** PURE. What a host's hook asks a running agent, and what it is told: one line of JSON each way. */

import type { ThreadSource } from "./rebinding.ts";

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
  | { readonly ask: "wait" };

export type HookAnswer =
  | { readonly say: "done" }
  /** There is nothing to wait for, and why. */
  | { readonly say: "no"; readonly why: string }
  /** It is waited for. */
  | { readonly say: "armed" }
  /** For the model. */
  | { readonly say: "tell"; readonly text: string };

/** Longer than any path or token of a host. */
export const LINE_MAX_CHARS = 8_192;
const FIELD_MAX_CHARS = 1_024;

const SOURCES: readonly ThreadSource[] = ["startup", "resume", "clear", "compact"];

/** @returns undefined: it is none, or not from one who may read our files */
export function readRequest(line: string, secret: string): HookRequest | undefined {
  const value = recordOf(line);
  if (value?.["secret"] !== secret) return undefined;
  const { ask, source, thread, socket, token } = value;
  if (ask === "human" || ask === "word" || ask === "wait") return { ask };
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
  const { say, why, text } = recordOf(line) ?? {};
  if (say === "done" || say === "armed") return { say };
  if (say === "no") return { say, why: String(why) };
  return say === "tell" && typeof text === "string" ? { say, text } : undefined;
}

function recordOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function isField(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= FIELD_MAX_CHARS;
}
