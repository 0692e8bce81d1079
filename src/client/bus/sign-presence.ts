/** What a session signs of itself: that it is there, and that it goes. */

import type { SessionId } from "../../protocol/address.ts";
import type { Announcement, Unregister } from "../../protocol/announcement.ts";
import { announcementBytes, unregisterBytes, wakeLeaseBytes } from "../../protocol/canonical.ts";
import type { WakeLease } from "../../protocol/wake-lease.ts";
import type { Signer } from "./signer.ts";

/** A session's words of itself, before they are signed. Limits: NAME_MAX_BYTES and its neighbours in constants.ts. */
export type Introduction = Pick<Announcement, "name" | "session">;

/** @param ts from the bus's clock, above the session's last: `BusClock.nextTs` */
export function signAnnouncement(signer: Signer, { name, session }: Introduction, ts: number): Announcement {
  const fields = { pubkey: signer.key, name, session, ts };
  return { ...fields, sig: signer.sign(announcementBytes(fields)) };
}

/** @param ts as of {@link signAnnouncement} */
export function signUnregister(signer: Signer, session: SessionId, ts: number): Unregister {
  const sig = signer.sign(unregisterBytes(signer.key, session, ts));
  return { pubkey: signer.key, session: { session_id: session }, ts, sig };
}

/** @param terms by the bus's clock, at most WAKE_LEASE_MAX_MS long */
export function signWakeLease(signer: Signer, session_id: SessionId, terms: Omit<WakeLease, "sig">): WakeLease {
  return { ...terms, sig: signer.sign(wakeLeaseBytes({ key: signer.key, session_id, ...terms })) };
}
