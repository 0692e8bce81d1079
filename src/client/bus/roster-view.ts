/**
 * A roster as it may be believed: every announcement and goodbye verified by its key, each session once, and none
 * that said goodbye later. Ages and "connected" are the bus's own word, which nobody signed.
 */

import * as z from "zod/mini";
import type { Key, SessionId } from "../../protocol/address.ts";
import {
  parseRosterEntry,
  verifyAnnouncement,
  verifyUnregister,
  type Announcement,
} from "../../protocol/announcement.ts";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import type { JsonObject } from "../../protocol/json.ts";
import { isRefusal } from "../../protocol/refusal.ts";
import { keyField, sessionIdField, signatureField, tsField, whole } from "../../protocol/schema.ts";
import { isWakeLeaseTimely, verifyWakeLease, wakeLeaseSchema } from "../../protocol/wake-lease.ts";
import { readPage } from "./answers.ts";

/** Entries of each list that are looked at: verifying one costs about a tenth of a millisecond. */
export const ENTRIES_MAX = 4_096;

/** One session, its announcement verified. `age_ms`: since its last sign of life, by the bus's clock. */
export type RosterSession = Announcement & {
  readonly age_ms: number;
  readonly connected: boolean;
  /** Absent: nothing is known of what wakes it. */
  readonly wake?: WakeSeen;
};

/** A wake that was answered, as the session signed it: the path is its own word for it. Times are by the bus's clock. */
export interface WakeSeen {
  readonly path: string;
  readonly proven_age_ms: number;
  /** For so long it may be said. */
  readonly left_ms: number;
}

/** A session that said goodbye, its signature verified. */
export interface Departure {
  readonly pubkey: Key;
  readonly session_id: SessionId;
  readonly ts: number;
  readonly at_ms: number;
}

export interface RosterView {
  readonly roster: readonly RosterSession[];
  readonly gone: readonly Departure[];
  /** Entries left away: malformed, not verified, of another identity, older than another, or past {@link ENTRIES_MAX}. */
  readonly dropped: number;
  readonly now_ms: number;
  /** When the bus read it: its age is `now_ms` minus this, plus what passed since. */
  readonly view_at_ms: number;
  /** Of the next page; absent on the last one, and on the roster of one identity. */
  readonly cursor?: Key;
}

const viewSchema = z.object({
  roster: z.array(z.unknown()),
  gone: z.array(z.unknown()),
  now_ms: tsField,
  view_at_ms: tsField,
});
const ageField = whole("bad_field");
const departureSchema = z.object({
  pubkey: z.optional(keyField),
  session_id: sessionIdField,
  ts: tsField,
  sig: signatureField,
  at_ms: tsField,
});

/** Reads a roster. @param identity whose it is; absent for a page of the whole bus */
export async function readRoster(answer: JsonObject, identity?: Key): Promise<RosterView | undefined> {
  const view = z.safeParse(viewSchema, answer).data;
  const page = readPage(answer);
  if (!view || !page) return undefined;
  const isTheirs = ({ pubkey }: { pubkey: Key }) => identity === undefined || pubkey === identity;

  const departures = view.gone.slice(0, ENTRIES_MAX).map((entry) => readDeparture(entry, identity));
  const gone = newest((await Promise.all(departures)).filter((entry) => entry !== undefined).filter(isTheirs));
  const sessions = (
    await Promise.all(view.roster.slice(0, ENTRIES_MAX).map((entry) => readSession(entry, view.now_ms)))
  )
    .filter((entry) => entry !== undefined)
    .filter(isTheirs);
  // Invariant 4: nothing revives a closed session but an announcement above its goodbye.
  const roster = [...newest(sessions).values()].filter((entry) => entry.ts > (gone.get(idOf(entry))?.ts ?? -1));
  return {
    roster,
    gone: [...gone.values()],
    dropped: view.roster.length + view.gone.length - roster.length - gone.size,
    now_ms: view.now_ms,
    view_at_ms: Math.min(view.view_at_ms, view.now_ms),
    ...(identity !== undefined || page.cursor === undefined ? {} : { cursor: page.cursor }),
  };
}

async function readSession(entry: unknown, nowMs: number): Promise<RosterSession | undefined> {
  // Fields that a newer bus adds are left away; within what is signed there is nothing to leave away.
  const { pubkey, name, session, ts, sig, age_ms, connected, wake } = (entry ?? {}) as Record<string, unknown>;
  const read = parseRosterEntry({ pubkey, name, session, ts, sig });
  if (isRefusal(read) || !z.safeParse(ageField, age_ms).success || !(await verifyAnnouncement(read))) return undefined;
  const seen = await readWake(wake, read, nowMs);
  return { ...read, age_ms: age_ms as number, connected: connected === true, ...(seen && { wake: seen }) };
}

/** A lease that does not hold is left away, not its session: what is wrong with it is nothing that the session does. */
async function readWake(lease: unknown, announcement: Announcement, nowMs: number): Promise<WakeSeen | undefined> {
  const read = lease === undefined ? undefined : z.safeParse(wakeLeaseSchema, lease).data;
  if (!read || !isWakeLeaseTimely(read, announcement, DEFAULT_LIMITS)) return undefined;
  const { path, proven_at_ms, until_ms } = read;
  if (until_ms <= nowMs || !(await verifyWakeLease(read, announcement))) return undefined;
  return { path, proven_age_ms: Math.max(0, nowMs - proven_at_ms), left_ms: until_ms - nowMs };
}

async function readDeparture(entry: unknown, identity: Key | undefined): Promise<Departure | undefined> {
  const read = z.safeParse(departureSchema, entry).data;
  const pubkey = read?.pubkey ?? identity;
  if (!read || pubkey === undefined) return undefined;
  const { session_id, ts, sig, at_ms } = read;
  const isTrue = await verifyUnregister({ pubkey, session: { session_id }, ts, sig });
  return isTrue ? { pubkey, session_id, ts, at_ms } : undefined;
}

type Named = { pubkey: Key; ts: number } & ({ session: { session_id: SessionId } } | { session_id: SessionId });

/** Each session's newest, by its id. */
function newest<Entry extends Named>(entries: readonly Entry[]): Map<string, Entry> {
  const byId = new Map<string, Entry>();
  for (const entry of entries) {
    const known = byId.get(idOf(entry));
    if (!known || known.ts < entry.ts) byId.set(idOf(entry), entry);
  }
  return byId;
}

function idOf(entry: Named): string {
  return `${entry.pubkey}#${"session" in entry ? entry.session.session_id : entry.session_id}`;
}
