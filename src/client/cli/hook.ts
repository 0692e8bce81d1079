/**
 * `interlink-edge hook EVENT`: what a host runs when its session begins, its user types, or a tool was used. It tells the
 * agent of that session, and ends with 0 whatever is wrong: a hook that fails holds up a host, or shows its user an error.
 */

import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { isUntyped } from "../tools/render-wake.ts";
import { hookPlace } from "../wake/hook-address.ts";
import { askAgent } from "../wake/hook-client.ts";
import type { HookRequest } from "../wake/hook-line.ts";
import type { Hook } from "../wake/hooks.ts";
import type { ThreadSource } from "../wake/rebinding.ts";
import type { Settings } from "./settings.ts";
import type { ExitCode, Terminal } from "./terminal.ts";

/** A host writes its line and closes the pipe; who does not is no host. */
const INPUT_MAX_MS = 500;
/** A host starts its servers and tells of its session at once; this hook holds it up for nothing, so it may wait. */
const START_MAX_MS = 1_000;
const RETRY_MS = 100;
/** A prompt may be long; what counts stands at its beginning. */
const INPUT_MAX_BYTES = 4 * 1_024 * 1_024;

export async function tellAgent(
  hook: Hook,
  settings: Settings,
  input: Readable,
  { out }: Pick<Terminal, "out">,
): Promise<ExitCode> {
  const event = await readEvent(input);
  const thread = textOf(event["session_id"]) ?? settings.host.thread;
  const request = requestOf(hook, event, thread, settings);
  if (!request) return 0;
  const untilMs = performance.now() + (hook === "session-start" ? START_MAX_MS : 0);
  const ask = async () => {
    const place = hookPlace(settings.hooks, settings.platform, false);
    return place && askAgent(place, { ...settings.host, thread }, request);
  };
  let talk = await ask();
  for (; !talk && performance.now() < untilMs; talk = await ask()) await sleep(RETRY_MS);
  talk?.close();
  if (talk?.first.say !== "tell") return 0;
  // The one answer that is for the model: beside the result of the tool that was used.
  const hookSpecificOutput = { hookEventName: "PostToolUse", additionalContext: talk.first.text };
  out(JSON.stringify({ hookSpecificOutput }));
  return 0;
}

type HookEvent = Readonly<Record<string, unknown>>;

function requestOf(
  hook: Hook,
  event: HookEvent,
  thread: string | undefined,
  { host }: Settings,
): HookRequest | undefined {
  switch (hook) {
    case "session-start": {
      if (thread === undefined) return undefined;
      const { socket, token } = host;
      return {
        ask: "bind",
        source: SOURCES.find((source) => source === event["source"]) ?? "startup",
        thread,
        ...(socket !== undefined && { socket }),
        ...(token !== undefined && { token }),
      };
    }
    case "prompt": {
      const prompt = textOf(event["prompt"]);
      return prompt === undefined || isUntyped(prompt) ? undefined : { ask: "human" };
    }
    case "tool":
      return { ask: "word" };
  }
}

const SOURCES: readonly ThreadSource[] = ["startup", "resume", "clear", "compact"];

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** What the host wrote; nothing where it is no JSON, too much, or does not come. */
async function readEvent(input: Readable): Promise<HookEvent> {
  const text = await new Promise<string>((resolve) => {
    let read = "";
    const timer = setTimeout(() => over(), INPUT_MAX_MS);
    const over = () => {
      clearTimeout(timer);
      resolve(read);
    };
    input.setEncoding("utf8");
    input.on("data", (chunk: string) => {
      read += chunk;
      if (read.length > INPUT_MAX_BYTES) over();
    });
    for (const end of ["end", "error", "close"] as const) input.once(end, over);
  });
  input.destroy();
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as HookEvent) : {};
  } catch {
    return {};
  }
}
