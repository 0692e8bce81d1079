/** A full inbox where OVERFLOW=evict: what goes, and who hears of it. */

import { expect, it } from "vitest";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { freezeAt, must, newKey, take } from "../support/objects.ts";
import { reborn } from "../support/reborn.ts";

const NOW = 4_000_000_000_000;
const EVICTING = { overflow: "evict", limits: { ...DEFAULT_LIMITS, INBOX_MAX_MESSAGES: 2 } } as const;

it("lets the oldest go for the newest, with a receipt for the sender and a gap for the recipient", async () => {
  freezeAt(NOW);
  const key = newKey();
  await reborn(
    key,
    async ({ identity, mail }) => {
      for (const id of ["a", "b", "c"]) {
        expect(await identity.enqueue(mail("s1", id))).toMatchObject({ results: [{ state: "stored", msg_id: id }] });
      }
    },
    EVICTING,
  );
  const { items = [], gap } = await take(key, "s1");
  expect(items.map(({ envelope }) => envelope.payload.msg_id)).toEqual(["b", "c"]);
  expect(gap).toEqual({ count: 1, oldest_ts: NOW });
  const { receipts } = await must(key, "receipts", { sender: key, msgIds: ["a", "b", "c"] });
  expect(receipts.map(({ state }) => state)).toEqual(["evicted", "stored", "stored"]);
});
