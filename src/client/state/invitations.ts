/** Invites in the identity's pairing file: those that we made, and those that we took and still knock for. */

import type { Key } from "../../protocol/address.ts";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import { invitedKnockId } from "../trust/invite-text.ts";
import type { PairingStore } from "./pairing-store.ts";

/** We were invited: the human has agreed, and we knock until they answer. */
export interface Invitation {
  readonly key: Key;
  readonly secret: string;
  readonly at_ms: number;
}

/** We have invited somebody. */
export interface MadeInvite {
  readonly secret: string;
  readonly at_ms: number;
}

/** A knock may wait a day on the bus; who has not answered so many does not want to, or has lost the invite. */
export const TURNS_MAX = 14;
const TURN_MS = DEFAULT_LIMITS.KNOCK_RETAIN_MS;
const LASTS_MS = TURNS_MAX * TURN_MS;
/** Of each; the oldest go. */
const KEPT_MAX = 64;

const TAKEN = "invitations";
const MADE = "invites";

export function takenInvitations(store: PairingStore, nowMs: number): readonly Invitation[] {
  return read<Invitation>(store, TAKEN, nowMs);
}

export function keepInvitation(store: PairingStore, taken: Invitation): void {
  store.transaction(() => {
    const others = read<Invitation>(store, TAKEN, taken.at_ms).filter(({ key }) => key !== taken.key);
    write(store, TAKEN, [...others, taken]);
  });
}

/** They have answered, or are no peer any more. */
export function forgetInvitation(store: PairingStore, key: Key, nowMs: number): void {
  store.transaction(() => {
    const all = read<Invitation>(store, TAKEN, nowMs);
    if (all.some((each) => each.key === key)) {
      write(
        store,
        TAKEN,
        all.filter((each) => each.key !== key),
      );
    }
  });
}

export function keepMadeInvite(store: PairingStore, made: MadeInvite): void {
  store.transaction(() => write(store, MADE, [...read<MadeInvite>(store, MADE, made.at_ms), made]));
}

/** When we invited the one who knocks so; undefined if they came by themselves. */
export function invitedAt(store: PairingStore, knock: KnockOf, nowMs: number): number | undefined {
  return read<MadeInvite>(store, MADE, nowMs).find((made) => isBy(made, knock))?.at_ms;
}

/** An invite is used once: who was let in by it has used it. */
export function useMadeInvite(store: PairingStore, knock: KnockOf, nowMs: number): void {
  store.transaction(() => {
    const made = read<MadeInvite>(store, MADE, nowMs);
    const left = made.filter((each) => !isBy(each, knock));
    if (left.length < made.length) write(store, MADE, left);
  });
}

interface KnockOf {
  readonly key: Key;
  readonly msg_id: string;
}

function isBy({ secret }: MadeInvite, { key, msg_id }: KnockOf): boolean {
  return Array.from({ length: TURNS_MAX }, (_, turn) => invitedKnockId(secret, key, turn)).includes(msg_id);
}

/** The id of the knock to make now. */
export function knockIdOf({ secret, at_ms }: Invitation, me: Key, nowMs: number): string {
  return invitedKnockId(secret, me, Math.min(TURNS_MAX - 1, Math.max(0, Math.floor((nowMs - at_ms) / TURN_MS))));
}

function read<Kept extends { readonly at_ms: number }>({ meta }: PairingStore, name: string, nowMs: number): Kept[] {
  const kept = JSON.parse(meta.get(name) ?? "[]") as Kept[];
  return kept.filter(({ at_ms }) => nowMs - at_ms < LASTS_MS);
}

function write({ meta }: PairingStore, name: string, kept: readonly object[]): void {
  meta.set(name, kept.length === 0 ? undefined : JSON.stringify(kept.slice(-KEPT_MAX)));
}
