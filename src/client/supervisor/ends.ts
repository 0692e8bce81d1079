/** What a conversation asks of whoever holds the pipes and the process. */

import type { Down } from "../tools/render-lifecycle.ts";
import type { Log } from "../tools/tool.ts";
import type { Answers } from "./answers.ts";

export interface Ends {
  toHost(line: Uint8Array): void;
  toChild(line: Uint8Array): void;
  /** A valid request came: there is to be a process. */
  want(): void;
  reconnect(): void;
  /** The process has answered. */
  ready(): void;
  /** Set while nothing is started. */
  down(): Down | undefined;
  /** The process answers otherwise than the one before. */
  learned(answers: Answers): void;
  readonly log: Log;
}
