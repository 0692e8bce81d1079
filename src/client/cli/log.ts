/** The log: one line of JSON an event on stderr, since stdout belongs to MCP. A terminal reads it, so it is escaped too. */

import { jsonLine } from "../tools/escape.ts";
import type { Log } from "../tools/tool.ts";

/** @param write one line, with its end; a reader that is gone must not end us */
export function stderrLog(write: (line: string) => void): Log {
  return (event, facts = {}) => {
    try {
      write(`${jsonLine({ at: new Date().toISOString(), event, ...facts })}\n`);
    } catch {
      // Nobody is left to be told.
    }
  };
}
