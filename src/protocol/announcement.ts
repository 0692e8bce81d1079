/** What a session says of itself, and how it says goodbye. */

import * as z from "zod/mini";
import { announcementBytes, unregisterBytes } from "./canonical.ts";
import { CWD_MAX_BYTES, GIT_ROOT_MAX_BYTES, SUMMARY_MAX_BYTES, type Limits } from "./constants.ts";
import { type Refusal } from "./refusal.ts";
import { keyField, label, nameField, parse, record, sessionIdField, signatureField, tsField } from "./schema.ts";
import { verifySignature } from "./signature.ts";

export type Announcement = z.output<typeof announcementSchema>;
export type Unregister = z.output<typeof unregisterSchema>;

/** Absent and empty are the same here, in the signed bytes as in the original's JSON. */
const sessionSchema = record(
  {
    session_id: sessionIdField,
    cwd: z.optional(label(CWD_MAX_BYTES)),
    git_root: z.optional(label(GIT_ROOT_MAX_BYTES)),
    summary: z.optional(label(SUMMARY_MAX_BYTES)),
  },
  "bad_session",
);

export const announcementSchema = record({
  pubkey: keyField,
  name: nameField,
  session: sessionSchema,
  ts: tsField,
  sig: signatureField,
});

export const unregisterSchema = record({
  pubkey: keyField,
  session: record({ session_id: sessionIdField }, "bad_session"),
  ts: tsField,
  sig: signatureField,
});

/** An announcement as a roster shows it: the bus's stamps are unsigned and beside the signed fields. */
const rosterEntrySchema = z.extend(announcementSchema, {
  age_ms: z.optional(z.number()),
  connected: z.optional(z.boolean()),
});
export type RosterEntry = z.output<typeof rosterEntrySchema>;

/** Reads an announcement from a request. */
export function parseAnnouncement(value: unknown): Announcement | Refusal {
  return parse(announcementSchema, value);
}

/** Reads an announcement from a roster; for clients, which verify each. */
export function parseRosterEntry(value: unknown): RosterEntry | Refusal {
  return parse(rosterEntrySchema, value);
}

/** True if the signature is the key's over the announcement's canonical bytes. */
export function verifyAnnouncement(a: Announcement): Promise<boolean> {
  return verifySignature(announcementBytes(a), a.sig, a.pubkey);
}

/** True if the signature is the key's over the goodbye's canonical bytes. */
export function verifyUnregister(u: Unregister): Promise<boolean> {
  return verifySignature(unregisterBytes(u.pubkey, u.session.session_id, u.ts), u.sig, u.pubkey);
}

/** Whether an announcement or unregister is near enough to the bus's clock, either way. */
export function isTimely(ts: number, nowMs: number, limits: Pick<Limits, "CLOCK_SKEW_MS">): boolean {
  return Math.abs(ts - nowMs) <= limits.CLOCK_SKEW_MS;
}
