/** How each agent of this machine is woken, asked of the agents themselves: what status shows, and what doctor makes of it. */

import type { AgentStanding } from "../wake/standing.ts";
import { askAgents } from "../wake/roll-call.ts";
import { SESSION_SHOWN_CHARS } from "../state/paths.ts";
import { isRunning, sessionFiles } from "../state/session-files.ts";
import { ageOf } from "../tools/ages.ts";
import type { Check } from "./check.ts";
import type { Desk } from "./desk.ts";

export interface WakesHere {
  /** Who answered. */
  readonly agents: readonly Omit<AgentStanding, "agent">[];
  /** Sessions of ours that run, and whose agent did not answer. */
  readonly silent: readonly string[];
}

export async function wakesOf(desk: Desk): Promise<WakesHere> {
  const { hooks, platform } = desk.settings;
  const agents = (await askAgents(hooks, platform)).map(({ agent: _, ...standing }) => standing);
  const heard = new Set(agents.map(({ session }) => session?.slice(0, SESSION_SHOWN_CHARS)));
  return { agents, silent: runningSessions(desk).filter((session) => !heard.has(session)) };
}

/** Each once, though it has a file for each of its buses. */
function runningSessions({ stateDirectory, me }: Desk): string[] {
  try {
    const running = sessionFiles(stateDirectory, me).filter(isRunning);
    return [...new Set(running.map(({ session }) => session))];
  } catch {
    // What is wrong with the folder is told by the check of it.
    return [];
  }
}

export function wordsOfWakes({ agents, silent }: WakesHere): string {
  const said = [...agents.map(wordsOf), ...silent.map((session) => `${session} does not say`)];
  return said.join("; ") || "no agent runs";
}

export function checkWake({ agents, silent }: WakesHere): Check[] {
  const name = "wake";
  if (agents.length + silent.length === 0)
    return [{ name, state: "warning", says: "no agent runs, so none can be woken", mend: "start a host" }];
  return [
    ...agents.map((standing): Check => {
      const says = wordsOf(standing);
      const mend = mendOf(standing);
      return mend === undefined ? { name, state: "ok", says } : { name, state: "warning", says, mend };
    }),
    ...silent.map((session): Check => {
      const says = `${session} runs, and does not say how it is woken`;
      return { name, state: "warning", says, mend: "call whoami there, else start its host anew" };
    }),
  ];
}

/** A session's id is of visible letters, so it needs no quotes. */
function wordsOf({ session, path, proof, proven_age_ms = 0 }: WakesHere["agents"][0]): string {
  const who = session ?? "an agent with no session yet";
  if (path === "none") return `${who}: no path, it reads its mail at its next turn`;
  switch (proof) {
    case "proven":
      return `${who}: ${path}, proven ${ageOf(proven_age_ms)}`;
    case "lapsed":
      return `${who}: ${path}, last proven ${ageOf(proven_age_ms)}`;
    case "unproven":
      return `${who}: ${path}, not proven yet`;
    case "unanswered":
      return `${who}: ${path}, and nobody looked after its last wakes`;
  }
}

/** Only a wake that is answered proves one, and it costs a turn: so it is the person who sends it. */
function mendOf({ session, path, proof }: WakesHere["agents"][0]): string | undefined {
  if (path === "none") return "see docs/WAKE.md: what each host needs, and whether INTERLINK_WAKE says off";
  if (proof === "proven") return undefined;
  if (proof === "unanswered") return "look at that session: its host may hold back what wakes it, see docs/WAKE.md";
  if (session === undefined) return "call a tool there";
  return `interlink-edge send self "look at your mail" --session=${session}, and doctor again once it has looked`;
}
