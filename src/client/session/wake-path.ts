/** How the host is told of mail: what a wake says, and what makes it. */

import type { ProvenPath } from "../wake/lease.ts";

/** What a wake says: no peer's text. */
export interface UnreadMail {
  readonly count: number;
  /** Who wrote, by our own names, the longest waiting first. */
  readonly from: readonly string[];
  readonly oldest_age_ms: number;
}

/** A way to tell the host. */
export interface WakePath {
  /** True if somebody would hear. */
  readonly isHeard: () => boolean;
  /** True if a turn begins by it, false if it is a word beside. */
  readonly isTurn?: () => boolean;
  readonly wake: (mail: UnreadMail) => void;
  /** Somebody looked at the mail. */
  readonly looked?: () => void;
  /** What peers may be told of it: a wake that was answered. */
  readonly proven?: () => ProvenPath | undefined;
}
