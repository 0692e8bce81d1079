/** How mail wakes a session, and how that is known: what whoami and discover say of our own, and a person's commands of each. */

import type { SessionId } from "../../protocol/address.ts";
import type { WakePathName } from "./chooser.ts";
import type { ProofWord } from "./proof.ts";

export interface WakeStanding {
  /** `none`: mail waits until the agent looks. */
  readonly path: WakePathName | "none";
  readonly proof: ProofWord;
  /** Since a look last followed a wake on this path. */
  readonly proven_age_ms?: number;
}

/** The same, as a running agent tells it to the command line. */
export interface AgentStanding extends WakeStanding {
  /** Of the process, which listens under several names. */
  readonly agent: string;
  /** Absent: none is open, as before the first call of Codex. */
  readonly session?: SessionId;
  readonly unread: number;
}

export const NO_WAKE: WakeStanding = { path: "none", proof: "unproven" };
