/** How long this client remembers, beside what the wire fixes. Nothing unread, pending or unanswered is ever let go. */

import { DEFAULT_LIMITS } from "../../protocol/constants.ts";

const DAY = 86_400_000;

/**
 * An id that was received is remembered this long. With several buses DEDUPE_RETAIN_MS alone is too short: a sender
 * may store a message at a second bus up to MESSAGE_RETAIN_MS after it was written, and that bus keeps it as long again.
 * A gate that refuses mail with a `ts` older than this leaves a replaying bus nothing that we have forgotten.
 */
export const SEEN_RETAIN_MS = DEFAULT_LIMITS.MESSAGE_RETAIN_MS + DEFAULT_LIMITS.DEDUPE_RETAIN_MS;

/** Messages that were read, and those sent whose end is known, stay this long in the history; closed tasks too. */
export const HISTORY_RETAIN_MS = 90 * DAY;
