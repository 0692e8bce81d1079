/** Who a session is and how it stands: its own word, and how its bus sees it. */

import { fingerprint } from "../../protocol/address.ts";
import { classifyPresence } from "../../protocol/presence.ts";
import type { WhoAmI } from "./agent.ts";
import { bestOf, standingOf } from "./bus-standing.ts";
import { readinessOf } from "./readiness.ts";
import type { SessionParts, Wiring } from "./wiring.ts";

/** @param isOn begun, and not closed by the user */
export async function whoAmI(parts: SessionParts, wired: Wiring, isOn: boolean): Promise<WhoAmI> {
  const { identity, name, session, state, limits } = parts;
  const { links, rosters, backlog, wakes } = wired;
  const { key } = identity;
  const view = isOn ? await rosters.of(key) : undefined;
  await backlog.come();
  const seen = view && "sessions" in view ? view : undefined;
  const isFresh = seen !== undefined && seen.stale_because === undefined;
  const own = isFresh ? seen.sessions.find((each) => each.session.session_id === session) : undefined;
  const asSeen = own && { presence: classifyPresence(own.age_ms, limits), age_ms: own.age_ms };
  const states = links.map((link) => link.state);
  return {
    name,
    key,
    fingerprint: fingerprint(key),
    session,
    bus: links.map((link) => link.name).join(","),
    ...bestOf(links.map((link) => standingOf(link.state, link.refusal))),
    ...(isFresh && { presence: asSeen ?? ({ presence: "gone" } as const) }),
    readiness: readinessOf({
      links: states,
      isAway: !isOn,
      roster: isFresh ? "fresh" : seen ? "retained" : "none",
      hasWakePath: wakes.hasPath,
    }),
    unread: state.inbox.unreadCount(),
    pending: state.outbox.pendingCount(),
  };
}
