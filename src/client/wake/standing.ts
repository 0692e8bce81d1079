/** How mail wakes a session, and how that is known: what whoami and discover say of our own. */

import type { WakePathName } from "./chooser.ts";
import type { ProofWord } from "./proof.ts";

export interface WakeStanding {
  /** `none`: mail waits until the agent looks. */
  readonly path: WakePathName | "none";
  readonly proof: ProofWord;
  /** Since a look last followed a wake on this path. */
  readonly proven_age_ms?: number;
}

export const NO_WAKE: WakeStanding = { path: "none", proof: "unproven" };
