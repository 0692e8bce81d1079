/** `interlink-edge mcp`: what a host starts. It keeps the pipe, and the agent process beneath it alive. */

import type { Readable, Writable } from "node:stream";
import { supervise } from "../supervisor/supervisor.ts";
import type { Program } from "../supervisor/child-process.ts";
import type { Log } from "../tools/tool.ts";
import type { Settings } from "./settings.ts";

export interface McpRun {
  readonly settings: Settings;
  readonly program: Program;
  readonly input: Readable;
  readonly output: Writable;
  readonly log: Log;
  /** Settles when the process was asked to end. */
  readonly ended: Promise<unknown>;
}

/** Serves until the host closes the pipe or asks us to end; the agent process has said goodbye when it returns. */
export function runMcp({ settings, ...run }: McpRun): Promise<void> {
  return supervise({ ...run, answers: settings.answers, isChannel: settings.wake === "channel" });
}
