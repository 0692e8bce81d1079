/** Who is there: ourselves and our peers as they show themselves to contacts, and strangers who show themselves to all. */

import { fingerprint, type Key, type SessionId } from "../../protocol/address.ts";
import type { Limits } from "../../protocol/constants.ts";
import { classifyPresence } from "../../protocol/presence.ts";
import type { RosterSession, WakeSeen } from "../bus/roster-view.ts";
import type { PeersFile } from "../trust/peers.ts";
import { WAKE_PATHS } from "../wake/chooser.ts";
import type { Addressing } from "./addressing.ts";
import { isToolRefusal, type Discovered, type DiscoveredSession, type ToolRefusal } from "./agent.ts";
import { PAGES_SHOWN, type RosterBook } from "./roster-book.ts";
import { ofPeers } from "./tool-refusal.ts";

export interface DiscoveryOptions {
  readonly me: Key;
  /** Our own; absent where it is no session that asks. */
  readonly session?: SessionId;
  readonly peers: PeersFile;
  readonly addressing: Addressing;
  readonly rosters: RosterBook;
  readonly limits: Pick<Limits, "LIVE_MS" | "AWAY_RETAIN_MS">;
}

type Identity = Discovered["identities"][number];

/** Rosters asked for at a time. */
const ASKED_AT_ONCE = 8;

/** @param name a peer, or `self`; absent: everyone */
export async function discover(options: DiscoveryOptions, name?: string): Promise<Discovered | ToolRefusal> {
  const { me, peers, addressing } = options;
  if (name !== undefined) {
    const peer = addressing.find(name);
    return isToolRefusal(peer) ? peer : gather(options, [peer.key]);
  }
  const book = peers.current();
  if ("refused" in book) return ofPeers(book);
  const [known, everyone] = await Promise.all([
    gather(options, [me, ...book.petnames.keys()]),
    options.rosters.everyone(PAGES_SHOWN),
  ]);
  const ours = new Set<Key>([me, ...book.petnames.keys()]);
  const strangers = Map.groupBy(
    everyone.sessions.filter(({ pubkey }) => !ours.has(pubkey)),
    ({ pubkey }) => pubkey,
  );
  const shown = [...strangers].map(([key, sessions]) => identityOf(options, key, sessions));
  const present = shown.filter(({ sessions }) => sessions.length > 0);
  const because = known.stale_because ?? everyone.stale_because;
  return {
    ...known,
    identities: [...known.identities, ...present],
    ...(everyone.isPartial && { partial: true }),
    ...(because && { stale_because: because }),
  };
}

async function gather(options: DiscoveryOptions, keys: readonly Key[]): Promise<Discovered> {
  const views = new Map<Key, Awaited<ReturnType<RosterBook["of"]>>>();
  const waiting = [...keys];
  const worker = async () => {
    for (let key = waiting.shift(); key !== undefined; key = waiting.shift())
      views.set(key, await options.rosters.of(key));
  };
  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, worker));

  let view_age_ms = 0;
  let because: string | undefined;
  const identities = keys.map((key): Identity => {
    const view = views.get(key)!;
    if ("unseen" in view) {
      because ??= view.unseen;
      return identityOf(options, key, []);
    }
    because ??= view.stale_because;
    if (view.stale_because !== undefined) view_age_ms = Math.max(view_age_ms, view.age_ms);
    return identityOf(options, key, view.sessions);
  });
  return { identities, view_age_ms, ...(because !== undefined && { stale_because: because }) };
}

function identityOf(options: DiscoveryOptions, key: Key, sessions: readonly RosterSession[]): Identity {
  const { me, session: own, peers, addressing, limits } = options;
  const book = peers.current();
  const isKnown = key === me || (!("refused" in book) && book.petnames.has(key));
  const shown = sessions.flatMap(({ session, name, age_ms, connected, wake }): DiscoveredSession[] => {
    const presence = classifyPresence(age_ms, limits);
    if (presence === "gone") return [];
    const { session_id, cwd, git_root, summary } = session;
    const is_us = key === me && session_id === own;
    const said = { ...(cwd && { cwd }), ...(git_root && { git_root }), ...(summary && { summary }) };
    // What a stranger says of its wakes is nobody's to go by: a bus shows it to contacts alone.
    const woken = isKnown && wake ? { wake: wakeOf(wake) } : {};
    return [{ session: session_id, name, ...said, presence, age_ms, connected, is_us, ...woken }];
  });
  shown.sort((a, b) => a.age_ms - b.age_ms);
  return { key, fingerprint: fingerprint(key), ...(isKnown && { peer: addressing.ref(key) }), sessions: shown };
}

/** The path is the peer's own word, so only one that is ours too is shown. */
function wakeOf({ path, proven_age_ms }: WakeSeen): NonNullable<DiscoveredSession["wake"]> {
  return { path: WAKE_PATHS.find((each) => each === path) ?? "other", proven_age_ms };
}
