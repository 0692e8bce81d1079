/**
 * What people and their agents do. All of it is assumed: no bus with many people on it was seen. Means, each on the busy
 * side of what its author does with five agents.
 */

export const BEHAVIOUR = {
  /** Weekdays; at the rest nobody works. */
  work_days_a_month: 22,
  /** From nine on, by the local clock, and a spread of when it begins. */
  works_from_h: 9,
  works_from_spread_h: 2,
  works_h: 8,
  /** Hours that the local clock is off UTC, each for a third of the people. */
  zones_h: [-8, 1, 8],
  /** Agents that are started in a day, and how long each runs. */
  starts_a_day: 4,
  session_h: 2,
  /** Lids that close, networks that change: of each session in an hour. */
  breaks_an_hour: 0.25,
  /** Written by an identity in a day. */
  messages_a_day: 20,
  /** Peers who are away with mail of ours, so that we ask what became of it as long as we are there. */
  awaited_peers: 1,
  /** `discover` of one peer. */
  peer_looks_a_day: 4,
  /** `discover` without a name: peers, and all strangers on the bus. */
  bus_looks_a_start: 0.5,
  summaries_a_start: 1,
  /** Announcements that tell anew what wakes a session, while it is online: at most two. */
  leases_an_hour: 1,
  contacts: 8,
  /** Of all identities, in a month; as many leave. */
  newcomers_a_month: 0.02,
  deployments_a_month: 4,
} as const;

export type Behaviour = {
  readonly [Name in keyof typeof BEHAVIOUR]: (typeof BEHAVIOUR)[Name] extends number ? number : readonly number[];
};
