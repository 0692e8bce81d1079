/** PURE: rows that docs/costs.json does not have, each held by a test: to docs/COSTS.md, or to a count of its own. */

/** Of docs/COSTS.md, which has a row of this name. Of n sessions or ids, one. */
export const ROWS = {
  look: { row: "`GET /roster?identity=`, of n sessions", rows_read: 1, rows_written: 0, alarms_set: 0 },
  page_each: { row: "`GET /roster`, a page of n identities", rows_read: 2, rows_written: 0, alarms_set: 0 },
  receipts: { row: "`POST /receipts`, n ids", rows_read: 4, rows_written: 0, alarms_set: 0 },
  contacts_again: { row: "– the same list again", rows_read: 0, rows_written: 0, alarms_set: 0 },
  join: { row: "`POST /join`", rows_read: 4, rows_written: 4, alarms_set: 1 },
  first: { row: "– first of an identity", rows_read: 35, rows_written: 32, alarms_set: 1 },
} as const;

/** As outbound.ts: an identity that its shard has no room for asks again. */
export const ASKS_FOR_ROOM_EVERY_MS = 86_400_000;
/** An alarm that asks in vain: the identity's rows and its shard's, both awake; test/durable/no-room.test.ts counts it. */
export const ASKS_FOR_ROOM = { rows_read: 22, rows_written: 3, alarms_set: 2 } as const;
