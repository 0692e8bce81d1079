/**
 * PURE. The one-line facts that go with the next tool result: what waits, what is wrong, and what was lost.
 *
 * They reach a model, so they hold counts, our own petnames and codes; nothing that a peer or a stranger wrote.
 */

import type { DropReason } from "../trust/gate.ts";
import type { Standing } from "./bus-standing.ts";
import type { Spending } from "./loop-guard.ts";
import type { Life } from "./outbox-policy.ts";

/** What is so for as long as it is so. */
export interface Circumstances {
  readonly unread: readonly { readonly from: string; readonly count: number }[];
  /** Knocks and answers that wait for the human. */
  readonly pairRequests: number;
  /** Open tasks whose next step is ours. */
  readonly tasksOwed: number;
  readonly buses: readonly ({ readonly bus: string } & Standing)[];
  /** Messages that no bus has yet. */
  readonly pending: number;
  /** Path of a peers file that cannot be used. */
  readonly badPeersFile?: string;
  readonly dropped: ReadonlyMap<DropReason, number>;
}

/** What happened, told once. */
export type Incident =
  | { readonly what: "settled"; readonly msg_id: string; readonly petname: string; readonly life: Life }
  | { readonly what: "gap"; readonly bus: string; readonly count: number }
  | { readonly what: "set_aside"; readonly path: string }
  | { readonly what: "unconfirmed"; readonly count: number }
  | { readonly what: "new_key" }
  | { readonly what: "new_life"; readonly bus: string }
  | { readonly what: "fault"; readonly code: string }
  | {
      readonly what: "budget";
      readonly spending: Spending;
      readonly petname: string;
      readonly over: "peer" | "all";
      /** Absent: only the human lifts it. */
      readonly refills_at_ms?: number;
    };

/** The lines for how things are. */
export function describeCircumstances(circumstances: Circumstances): string[] {
  const { unread, pairRequests, tasksOwed, buses, pending, badPeersFile, dropped } = circumstances;
  const lines: string[] = [];
  const total = unread.reduce((sum, { count }) => sum + count, 0);
  if (total > 0) {
    const by = unread.slice(0, NAMED_MAX).map(({ from, count }) => `${count} from ${from}`);
    const more = unread.length > NAMED_MAX ? ", …" : "";
    lines.push(`unread: ${total} (${by.join(", ")}${more}); call check_messages`);
  }
  if (tasksOwed > 0) lines.push(`tasks waiting for your next step: ${tasksOwed}; see list_pending`);
  if (pairRequests > 0) lines.push(`pair requests waiting for the human: ${pairRequests}`);
  for (const { bus, connection, reason } of buses) {
    if (connection === "connected" && reason === undefined) continue;
    if (reason === "not_begun") continue; // nothing is amiss: nothing was asked for yet
    lines.push(`bus ${bus}: ${connection}${reason === undefined ? "" : ` (${reason})`}`);
  }
  if (pending > 0) lines.push(`messages that no bus has stored yet: ${pending}; they are sent when one can be reached`);
  if (badPeersFile !== undefined)
    lines.push(`the peers file cannot be used, so mail waits on the bus: ${badPeersFile}`);
  if (dropped.size > 0) {
    const counts = [...dropped].map(([reason, count]) => `${count} ${reason}`);
    lines.push(`messages dropped since the start, unread: ${counts.join(", ")}`);
  }
  return lines;
}

/** The line for what happened. */
export function describeIncident(incident: Incident): string {
  switch (incident.what) {
    case "settled": {
      const { msg_id, petname, life } = incident;
      const why = life.state === "refused" ? ` (${life.code})` : life.state === "expired" ? ` (${life.why})` : "";
      return `message ${msg_id} to ${petname}: ${life.state}${why}`;
    }
    case "gap":
      return `bus ${incident.bus}: ${incident.count} messages to this session were evicted or expired there before they could be received`;
    case "set_aside":
      return `the session's state file could not be read and was moved to ${incident.path}; a new one was begun`;
    case "unconfirmed":
      return `${incident.count} messages were marked read by a call whose answer may not have arrived; conversation_history has them`;
    case "new_key":
      return "a new identity was made: no peer knows it yet";
    case "new_life":
      return `bus ${incident.bus} has lost what it kept; contacts and unacked messages were published again`;
    case "fault":
      return `a fault on this machine: ${incident.code}; it is tried again`;
    case "budget": {
      const { spending, petname, over, refills_at_ms } = incident;
      const whose = over === "peer" ? `with ${petname}` : "over all peers";
      const until = refills_at_ms === undefined ? "" : ` until ${new Date(refills_at_ms).toISOString()}`;
      return spending === "reply"
        ? `the budget of automatic replies ${whose} is used up${until}: stop, and let the human look`
        : `the budget of wakes ${whose} is used up${until}: mail is kept and not announced; call check_messages to see it`;
    }
  }
}

/** Peers named in one line. */
const NAMED_MAX = 5;
