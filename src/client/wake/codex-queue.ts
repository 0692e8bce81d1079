/**
 * `codex queue`: a message for a thread of Codex, which an idle thread takes up at once. It comes there as the user's own
 * words would, so the text says whose it is. A wake and no mailbox: Codex may lose it, and the mail stays here.
 */

import { execFile } from "node:child_process";
import type { WakeWords } from "../tools/render-wake.ts";

export interface CodexThread {
  /** Path or name of Codex. */
  readonly program: string;
  readonly thread: string;
}

const QUEUE_MAX_MS = 10_000;

/** @returns false: it was not queued */
export async function queueToCodex({ program, thread }: CodexThread, { framed }: WakeWords): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { timeout: QUEUE_MAX_MS, windowsHide: true };
    // The equals sign: a thread is never taken for an option.
    const child = execFile(program, ["queue", `--thread=${thread}`, `--message=${framed}`], options, (fault) =>
      resolve(!fault),
    );
    child.stdin?.end();
  });
}
