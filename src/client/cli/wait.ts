/**
 * `interlink-edge wait`: what a host's Stop hook runs in the background. It ends with 2 and a text on stderr when there is
 * mail, by which the host begins a turn; with 0 when there is nothing to wait for, at once.
 *
 * | what is so                                  | then          | why |
 * |---------------------------------------------|---------------|-----|
 * | nobody sits at the session                  | 0 at once     | a host that is to end would wait for us |
 * | no agent answers, or no folder of ours      | 0 in a second | a host starts its servers and its hooks together; later nothing will come |
 * | the agent has a better path, or was told off | 0 at once    | one wake, not two |
 * | the agent is replaced                       | asked anew    | an upgrade takes a moment |
 * | a newer one waits                           | 0             | one at a time |
 * | mail came                                   | 2             | |
 */

import { setTimeout as sleep } from "node:timers/promises";
import { hookPlace } from "../wake/hook-address.ts";
import { askAgent } from "../wake/hook-client.ts";
import type { Settings } from "./settings.ts";
import type { ExitCode, Terminal } from "./terminal.ts";

/** An agent that is starting is there by then, */
const START_MAX_MS = 1_000;
/** and one that was replaced is back. */
const RETURN_MAX_MS = 10_000;
const RETRY_MS = 250;

export async function waitForMail(settings: Settings, { err }: Pick<Terminal, "err">): Promise<ExitCode> {
  if (!settings.isAttended || settings.wake === "off") return 0;
  let untilMs = performance.now() + START_MAX_MS;
  do {
    const outcome = await waitOnce(settings);
    if (typeof outcome === "object") {
      err(outcome.text);
      return 2;
    }
    if (outcome === "no") return 0;
    if (outcome === "lost") untilMs = performance.now() + RETURN_MAX_MS;
    await sleep(RETRY_MS);
  } while (performance.now() < untilMs);
  return 0;
}

/** `nobody`: there was none to ask. `lost`: it went away while we waited. */
async function waitOnce({ hooks, platform, host }: Settings): Promise<{ readonly text: string } | Unwoken> {
  const place = hookPlace(hooks, platform, false);
  const talk = place && (await askAgent(place, host, { ask: "wait" }));
  if (!talk) return "nobody";
  try {
    let answer: typeof talk.first | undefined = talk.first;
    if (answer.say === "armed") answer = await talk.next();
    if (!answer) return "lost";
    return answer.say === "tell" ? answer : "no";
  } finally {
    talk.close();
  }
}

type Unwoken = "nobody" | "lost" | "no";
