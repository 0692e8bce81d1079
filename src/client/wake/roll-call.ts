/** Every agent of this user that listens for hooks, each asked how it is woken: all at once, so that none holds the others up. */

import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { dial } from "./dial.ts";
import { hookPlace, type HookPlace } from "./hook-address.ts";
import { ANSWER_MAX_MS } from "./hook-client.ts";
import { LINE_MAX_CHARS, readAnswer } from "./hook-line.ts";
import type { AgentStanding } from "./standing.ts";

/** An agent has a handful of names, and killed ones leave theirs behind: the newest are tried, and the dead ones go with it. */
const ADDRESSES_MAX = 512;

/**
 * @param directory that of the hooks' sockets
 * @returns who answers; nobody, where the folder is missing or cannot be read, and on Windows, where others may make pipes of
 * such names and would be told the secret
 */
export async function askAgents(directory: string, platform: NodeJS.Platform): Promise<AgentStanding[]> {
  if (platform === "win32") return [];
  const { place, names } = look(directory, platform);
  if (!place) return [];
  const asked = names.map((name) => ask(join(place.folder, name), place.secret));
  const answers = (await Promise.all(asked)).filter((answer) => answer !== undefined);
  const byAgent = new Map(answers.map((answer) => [answer.agent, answer]));
  return [...byAgent.values()].sort((a, b) => ((a.session ?? "") < (b.session ?? "") ? -1 : 1));
}

function look(directory: string, platform: NodeJS.Platform): { readonly place?: HookPlace; readonly names: string[] } {
  try {
    const place = hookPlace(directory, platform, false);
    if (!place) return { names: [] };
    const names = readdirSync(place.folder).filter((name) => name.endsWith(".sock"));
    const madeAt = (name: string) => lstatSync(join(place.folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
    const dated = names.map((name) => ({ name, atMs: madeAt(name) })).sort((a, b) => b.atMs - a.atMs);
    return { place, names: dated.slice(0, ADDRESSES_MAX).map(({ name }) => name) };
  } catch {
    // Agents cannot use such a folder either, so there is nobody to ask.
    return { names: [] };
  }
}

/** @returns undefined: nobody is there, or it hangs, is of another version, or says what is none */
async function ask(address: string, secret: string): Promise<AgentStanding | undefined> {
  const socket = await dial(address, ANSWER_MAX_MS);
  if (!socket) return undefined;
  return new Promise((resolve) => {
    let text = "";
    const over = (answer?: AgentStanding) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    const timer = setTimeout(over, ANSWER_MAX_MS);
    socket.setEncoding("utf8");
    socket.write(`${JSON.stringify({ ask: "standing", secret })}\n`);
    socket.on("data", (chunk: string) => {
      text += chunk;
      const end = text.indexOf("\n");
      if (end < 0 && text.length <= LINE_MAX_CHARS) return;
      const answer = end < 0 || end > LINE_MAX_CHARS ? undefined : readAnswer(text.slice(0, end));
      if (answer?.say !== "standing") return over();
      const { say: _, ...standing } = answer;
      over(standing);
    });
    for (const event of ["error", "end", "close"] as const) socket.once(event, () => over());
  });
}
