/** PURE. What a look or a message was refused for, for a person who types commands. */

import type { ToolRefusal } from "../session/agent.ts";
import { ageOf } from "../tools/ages.ts";
import { quoted } from "../tools/escape.ts";
import { reasonOf } from "../tools/render.ts";

const WORDS: Readonly<Partial<Record<ToolRefusal["code"], string>>> = {
  unknown_peer: "no peer has that name, fingerprint or key; `interlink-edge peers list` shows them",
  ambiguous: "that is the beginning of several",
  unknown_session: "they have no such session",
  several_live: "several of their sessions are live; say which: --session ID",
  several_away: "several of their sessions are away; say which: --session ID",
  oneself: "there is no other session of ours",
  not_connected: "the bus did not answer, so it is not known who is there",
  bad_text: "the text is empty, too long for a message, or not whole Unicode",
  files_locked: "another process changes the peers file; try again",
  bad_file: "a file of the identity or of the peers cannot be used; `interlink-edge doctor` says more",
};

/** One sentence without its stop. */
export function wordsOfTool({ code, detail, candidates = [], sessions = [] }: ToolRefusal): string {
  const words = WORDS[code] ?? reasonOf(code).replace(/\.$/, "");
  const near = candidates.length === 0 ? "" : `; near: ${candidates.map(quoted).join(", ")}`;
  const seen = sessions.map(({ session, presence, age_ms }) => `${session} (${presence}, seen ${ageOf(age_ms)})`);
  const choice = seen.length === 0 ? "" : `; sessions: ${seen.join(", ")}`;
  return `${words}${detail === undefined ? "" : ` (${reasonOf(detail).replace(/\.$/, "")})`}${near}${choice}`;
}
