/** What it costs to be shown to all where the directory has no room: asked for anew each day, and counted. */

import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeAll, expect, it } from "vitest";
import { ASKS_FOR_ROOM, ASKS_FOR_ROOM_EVERY_MS } from "../../scripts/scale/rows.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { shardName, shardOf } from "../../src/durable/directory-shards.ts";
import { announcement, ask, bindings, freezeAt, must, newKey, stubOf } from "../support/objects.ts";
import { costOf, countRows } from "../support/rows.ts";

const NOW = 4_000_000_000_000;
const SHARDS = 8;

beforeAll(countRows);

it("an identity that is not listed asks once a day, for what npm run scale reckons with", async () => {
  freezeAt(NOW);
  const key = newKey();
  const shard = bindings.DIRECTORY.getByName(shardName(shardOf(key, SHARDS)));
  await must(key, "contacts", { contacts: [newKey()], ts: NOW });
  await runInDurableObject(shard, (_, { storage }) => {
    storage.sql.exec(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO listed (key, is_shown) SELECT 'k' || i, 1 FROM n`,
      DEFAULT_LIMITS.LISTED_MAX,
    );
    storage.sql.exec("DELETE FROM listed WHERE key = ?", key);
  });
  await evictDurableObject(shard); // it has counted before
  const said = announcement(key, "s1", NOW + 1);
  await ask(key, "announce", { announcement: said, public: said });

  freezeAt(NOW + ASKS_FOR_ROOM_EVERY_MS - 1);
  const early = await costOf(() => runDurableObjectAlarm(stubOf(key)));
  expect(early.written + early.alarms).toBeLessThan(ASKS_FOR_ROOM.rows_written + ASKS_FOR_ROOM.alarms_set); // it does not ask
  for (const day of [1, 2]) {
    freezeAt(NOW + day * ASKS_FOR_ROOM_EVERY_MS);
    const { read, written, alarms } = await costOf(() => runDurableObjectAlarm(stubOf(key)));
    expect({ rows_read: read, rows_written: written, alarms_set: alarms }).toEqual(ASKS_FOR_ROOM);
  }
});
