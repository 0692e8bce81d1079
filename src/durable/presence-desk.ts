/**
 * What an identity's sessions say of themselves, decided on what is kept. Each function is one
 * synchronous read-decide-write; the object calls it inside a commit.
 *
 * Invariant 4: an older announcement never replaces a newer one, nor revives a closed session.
 * Invariant 6: a session that is silent is away, not gone, for AWAY_RETAIN_MS.
 */

import type { Key, SessionId } from "../protocol/address.ts";
import type { Announcement } from "../protocol/announcement.ts";
import type { Limits } from "../protocol/constants.ts";
import { classifyPresence } from "../protocol/presence.ts";
import { refuse, type Refusal } from "../protocol/refusal.ts";
import type { WakeLease } from "../protocol/wake-lease.ts";
import type { Call, Census, IdentityCalls, Life, Said, Stored, View } from "./calls.ts";
import { GOODBYE_RETRY_MS } from "./goodbye-store.ts";
import type { IdentityStorage } from "./identity-storage.ts";
import { goneEntry, type SessionRow, type TombstoneRow } from "./roster-store.ts";

/** What is open to a session at this moment. */
export interface Connections {
  /** Whether a socket of the session is open, heard or not. */
  hasSocket(session: SessionId): boolean;
  /** The last sign of life on the session's socket or parked poll; undefined if it has neither. */
  signOfLifeMs(session: SessionId): number | undefined;
}

/** Closed sessions remembered for each that may be open: also a session that was never announced may be closed. */
const TOMBSTONES_PER_SESSION = 16;
/** A full roster empties by days, so asking again sooner is of little use. */
const SESSION_LIMIT_RETRY_S = 3_600;

/** Takes an announcement: one row, and those of the alarm if it is the first. */
export function announce(
  kept: IdentityStorage,
  said: Said,
  connections: Connections,
  limits: Limits,
  nowMs: number,
): Life | Refusal {
  const { announcement, public: shown } = said;
  const { roster } = kept;
  const id = announcement.session.session_id;
  roster.dropGone(id, nowMs);
  const known = roster.session(id);
  if (known && known.ts === announcement.ts && signatureOf(known) === announcement.sig) {
    return kept.life(nowMs); // a retry; it is no sign of life, since anyone who captured it could send it
  }
  const buried = roster.tombstone(id, nowMs);
  const fenceTs = Math.max(known?.ts ?? -1, buried?.ts ?? -1);
  if (announcement.ts <= fenceTs) return refuse("stale", { now_ms: nowMs });
  if (!known && roster.sessions(nowMs).length >= limits.SESSIONS_MAX) {
    return refuse("session_limit", { retry_after_s: SESSION_LIMIT_RETRY_S });
  }
  roster.put(id, said, connections.hasSocket(id), nowMs);
  if (buried) roster.unbury(id);
  if (!known || (known.public === null) !== (shown === undefined)) kept.noteListing(nowMs); // a heartbeat changes nothing of it
  kept.armFor({ seenAtMs: nowMs });
  return kept.life(nowMs);
}

/** Closes a session for good, and keeps its goodbyes to be sent on. */
export function unregister(
  kept: IdentityStorage,
  { session, ts: signedTs, sig, goodbyes }: IdentityCalls["unregister"]["call"],
  limits: Limits,
  nowMs: number,
): Life | Refusal {
  const { roster } = kept;
  roster.dropGone(session, nowMs);
  const known = roster.session(session);
  const buried = roster.tombstone(session, nowMs);
  const fenceTs = Math.max(known?.ts ?? -1, buried?.ts ?? -1);
  if (!known && buried?.ts === signedTs && buried.sig === sig) return kept.life(nowMs); // a retry
  if (sig !== undefined && signedTs <= fenceTs) return refuse("stale", { now_ms: nowMs });
  if (fenceTs < 0 && roster.tombstones(nowMs).length >= TOMBSTONES_PER_SESSION * limits.SESSIONS_MAX) {
    return refuse("session_limit", { retry_after_s: SESSION_LIMIT_RETRY_S });
  }
  roster.remove(session);
  roster.bury({
    session_id: session,
    ts: sig === undefined ? Math.max(fenceTs, 0) : signedTs, // unsigned, it has no time of its own
    at_ms: nowMs,
    sig: sig ?? null,
    was_public: known ? Number(known.public !== null) : (buried?.was_public ?? 0), // signed anew, it is the same end
  });
  kept.goodbyes.add(goodbyes, nowMs);
  kept.noteListing(nowMs);
  kept.armFor({ buriedAtMs: nowMs, callDueAtMs: goodbyes.length > 0 ? nowMs + GOODBYE_RETRY_MS : undefined });
  return kept.life(nowMs);
}

/** What someone may see of a roster. */
export interface Sight {
  /** Whole announcements; else only what each session shows to all. */
  readonly all: boolean;
  /** What wakes the sessions. */
  readonly wakes: boolean;
}

/** The identity and its contacts see everything. On an open bus all see whole announcements, as with the original; no more. */
export function sightOf(kept: IdentityStorage, { viewer, scope }: Call<"view">, isOpen: boolean): Sight {
  const isTheirs =
    scope === "identity" &&
    viewer !== undefined &&
    (viewer === kept.key || (kept.contacts.list()?.keys.has(viewer) ?? false));
  return { all: isOpen || isTheirs, wakes: isTheirs };
}

/** The roster as someone may see it. */
export function viewRoster(
  kept: IdentityStorage,
  connections: Connections,
  sight: Sight,
  limits: Limits,
  nowMs: number,
): View {
  return {
    roster: kept.roster.sessions(nowMs).flatMap((row) => {
      const text = sight.all ? row.announcement : row.public;
      if (text === null) return [];
      const age_ms = ageOf(row, nowMs);
      const isOpen = connections.signOfLifeMs(row.session_id) !== undefined;
      // A socket that nothing was heard on for so long has no one at its other end, whatever the system says of it.
      const seen = { ...(JSON.parse(text) as Announcement), age_ms, connected: isOpen && age_ms < limits.LIVE_MS };
      const wake = sight.wakes ? leaseOf(row, nowMs) : undefined;
      return [wake ? { ...seen, wake } : seen];
    }),
    gone: kept.roster
      .tombstones(nowMs)
      .filter((row): row is TombstoneRow & { sig: string } => row.sig !== null && (sight.all || row.was_public === 1))
      .map((row) => goneEntry(kept.key, row)),
    view_at_ms: nowMs,
  };
}

/** The presence of one session, or without one of the identity's freshest. */
export function presenceOf(
  kept: IdentityStorage,
  session: SessionId | undefined,
  limits: Limits,
  nowMs: number,
): Pick<Stored, "presence" | "age_ms"> {
  const rows = session === undefined ? kept.roster.sessions(nowMs) : [kept.roster.session(session)];
  const ages = rows.filter((row) => row !== undefined).map((row) => ageOf(row, nowMs));
  const age_ms = Math.min(...ages);
  const presence = classifyPresence(age_ms, limits);
  return presence === "gone" ? { presence } : { presence, age_ms };
}

function ageOf(row: SessionRow, nowMs: number): number {
  return Math.max(0, nowMs - row.seen_at_ms);
}

/** What was said to wake the session, while it may be said. */
function leaseOf({ wake }: SessionRow, nowMs: number): WakeLease | undefined {
  const lease = wake === null ? undefined : (JSON.parse(wake) as WakeLease);
  return lease && nowMs < lease.until_ms ? lease : undefined;
}

function signatureOf(row: SessionRow): string {
  return (JSON.parse(row.announcement) as Announcement).sig;
}

/** Replaces the contact list; the newest wins, whichever comes last. */
export function publishContacts(
  kept: IdentityStorage,
  contacts: readonly Key[],
  ts: number,
  nowMs: number,
): IdentityCalls["contacts"]["answer"] | Refusal {
  const known = kept.contacts.list();
  const isSame =
    known?.ts === ts && known.keys.size === contacts.length && contacts.every((key) => known.keys.has(key));
  if (known && ts <= known.ts && !isSame) return refuse("stale", { now_ms: nowMs });
  if (!isSame) kept.contacts.publish(contacts, ts);
  kept.armFor({ emptiedAtMs: nowMs });
  return { count: contacts.length, generation: kept.generation };
}

/** What an operator may count: numbers, no names. */
export function census(kept: IdentityStorage | undefined, limits: Limits, nowMs: number): Census {
  const ages = kept?.roster.sessions(nowMs).map((row) => ageOf(row, nowMs)) ?? [];
  const live = ages.filter((age) => classifyPresence(age, limits) === "live").length;
  const { count = 0, oldestAtMs } = kept?.inboxes.total() ?? {};
  return {
    sessions_live: live,
    sessions_away: ages.length - live,
    queued: count,
    ...(oldestAtMs === undefined ? {} : { oldest_unacked_ms: nowMs - oldestAtMs }),
  };
}
