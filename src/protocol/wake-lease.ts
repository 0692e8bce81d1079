/**
 * By which path a session was last seen to be woken, and until when that may be said of it: a statement of its own beside
 * the announcement, whose signed bytes are the original client's and stay as they are.
 *
 * A lease and no promise: only a wake that was answered renews it, and nobody has to take it back for it to end.
 */

import type * as z from "zod/mini";
import type { Announcement } from "./announcement.ts";
import { wakeLeaseBytes } from "./canonical.ts";
import { WAKE_LEASE_MAX_MS, type Limits } from "./constants.ts";
import { record, signatureField, text, whole } from "./schema.ts";
import { verifySignature } from "./signature.ts";

export type WakeLease = z.output<typeof wakeLeaseSchema>;

/** A word of the signer's, so that a new path needs no new bus; whoever shows it goes by a list of its own. */
const PATH = /^[a-z][a-z0-9_-]{0,31}$/;

export const wakeLeaseSchema = record({
  path: text("bad_field", (value) => PATH.test(value)),
  proven_at_ms: whole("bad_field"),
  until_ms: whole("bad_field"),
  sig: signatureField,
});

/** Whether its times can be: it ends after it begins, not too long after, and was not proven after it was announced. */
export function isWakeLeaseTimely(
  { proven_at_ms, until_ms }: Pick<WakeLease, "proven_at_ms" | "until_ms">,
  { ts }: Pick<Announcement, "ts">,
  limits: Pick<Limits, "CLOCK_SKEW_MS">,
): boolean {
  const lastsMs = until_ms - proven_at_ms;
  return lastsMs > 0 && lastsMs <= WAKE_LEASE_MAX_MS && proven_at_ms - ts <= limits.CLOCK_SKEW_MS;
}

/** True if the signature is the announcement's key's, over this lease of the announced session. */
export function verifyWakeLease(lease: WakeLease, { pubkey, session }: Announcement): Promise<boolean> {
  return verifySignature(wakeLeaseBytes({ key: pubkey, session_id: session.session_id, ...lease }), lease.sig, pubkey);
}
