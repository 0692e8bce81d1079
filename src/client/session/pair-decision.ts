/**
 * The operator's decision on who knocks, as a tool and a command both make it: once, whoever else decides at the same
 * moment, and with nothing half done that a later look would not finish.
 */

import { useMadeInvite } from "../state/invitations.ts";
import type { PairingStore } from "../state/pairing-store.ts";
import type { LockRefusal } from "../trust/file-lock.ts";
import type { Operator } from "../trust/operator.ts";
import { abandonAccept, admit, beginAccept, rejectPair, type PairingRefusal } from "../trust/pairing.ts";
import type { PairingState, PendingPair } from "../trust/pairing-state.ts";
import type { PeerRefusal } from "../trust/peer-book.ts";
import type { PeersFile, PeersFileRefusal } from "../trust/peers.ts";
import type { PetnameWarning } from "../trust/petname.ts";

export interface Trust {
  readonly pairing: PairingStore;
  readonly peers: PeersFile;
}

export type Decision<Made> =
  | ({ readonly outcome: "made" } & Made)
  /** The request is not what the operator saw, or not there. */
  | { readonly outcome: "not_decided"; readonly why: PairingRefusal }
  /** The peers file did not take it; the request waits as before. */
  | { readonly outcome: "not_added"; readonly why: PeerRefusal | PeersFileRefusal | LockRefusal };

/**
 * Lets a key in. What is owed to it then is told by a session.
 * @param seen the request as it was shown to the operator
 * @param petname what they call it; the claimed name is only a proposal
 */
export async function acceptRequest(
  { pairing, peers }: Trust,
  { seen, petname, operator }: { readonly seen: PendingPair; readonly petname: string; readonly operator: Operator },
  now: () => number,
): Promise<Decision<{ readonly petname: string; readonly warning?: PetnameWarning }>> {
  const begun = pairing.update((state) => beginAccept(state, seen, operator, now()));
  if ("refused" in begun) return { outcome: "not_decided", why: begun };
  const added = await peers.add(petname, seen.key, operator);
  // A peer already, added by its key: then this request is answered as that peer's.
  if ("refused" in added && added.refused !== "key_known") {
    pairing.update((state) => ({ state: abandonAccept(state, seen) }));
    return { outcome: "not_added", why: added };
  }
  settle({ pairing, peers }, now());
  useMadeInvite(pairing, seen, now());
  const warning = "warning" in added ? added.warning : undefined;
  return { outcome: "made", petname: added.petname, ...(warning && { warning }) };
}

/** Turns a key away. One that has become a peer meanwhile is none that could be. */
export function rejectRequest(
  trust: Trust,
  { seen, operator }: { readonly seen: PendingPair; readonly operator: Operator },
  nowMs: number,
): Decision<object> {
  const decided = trust.pairing.update((before): { state: PairingState } & Partial<PairingRefusal> => {
    const state = settled(trust, before, nowMs);
    return { state, ...rejectPair(state, seen, operator, nowMs) };
  });
  const { refused } = decided;
  return refused === undefined ? { outcome: "made" } : { outcome: "not_decided", why: { refused } };
}

/** Brings the requests in line with the peers file, whoever changed it. @returns how they stand */
export function settle(trust: Trust, nowMs: number): PairingState {
  return trust.pairing.update((state) => ({ state: settled(trust, state, nowMs) })).state;
}

/** The file is read within the transaction: who is owed an answer was in it before. */
function settled({ peers }: Trust, state: PairingState, nowMs: number): PairingState {
  const book = peers.current();
  return "refused" in book ? state : admit(state, (key) => book.petnames.has(key), nowMs);
}
