/** What is remembered of a roster, on a clock that is moved: how old it is, and when it is no longer taken as it is. */

import { expect, it } from "vitest";
import { RosterBook, type RosterSource } from "../../../src/client/session/roster-book.ts";
import { PAGE_MAX } from "../../../src/protocol/constants.ts";
import { fakeKey } from "../../support/fake-agent.ts";
import { ManualTimers } from "../bus/support.ts";

const FRESH_MS = 10_000;
const HOUR_MS = 3_600_000;
const key = fakeKey(2);

/** A bus that counts how often it was asked. */
function bookOn() {
  const timers = new ManualTimers();
  let asked = 0;
  const http = {
    rosterOf: async () => {
      asked++;
      return { ok: { roster: [], gone: [], now_ms: 0, view_at_ms: 0 } };
    },
  };
  const book = new RosterBook([{ name: "main", http } as unknown as RosterSource], timers);
  return { book, timers, asked: () => asked };
}

it.each([
  { offMs: 0, why: "just now" },
  { offMs: FRESH_MS - 1, why: "a moment ago" },
  { offMs: FRESH_MS, isAsked: true, why: "no longer fresh" },
  { offMs: HOUR_MS, isAsked: true, why: "old, or the clock was set forward" },
  { offMs: -1, isAsked: true, why: "to come: the clock was set back, and nobody knows how old it is" },
  { offMs: -HOUR_MS, isAsked: true, why: "as far to come as a wrong clock was ahead" },
  { offMs: -24 * HOUR_MS, isAsked: true, why: "a day to come" },
])("a view of a time $offMs ms ago is asked for anew: $isAsked ($why)", async ({ offMs, isAsked = false }) => {
  const { book, timers, asked } = bookOn();
  await book.of(key, FRESH_MS);
  timers.setBy(offMs);
  await book.of(key, FRESH_MS);
  expect(asked()).toBe(isAsked ? 2 : 1);
  await book.of(key, FRESH_MS);
  expect(asked(), "what was read since is taken as it is").toBe(isAsked ? 2 : 1);
});

/** A bus of pages without an end, or one that ends after so many. */
function pagesOf(pages: number, answers = true): RosterSource {
  const rosterPage = async ({ cursor }: { cursor?: string }) => {
    if (!answers) return { unreachable: "timeout" };
    const page = Number(cursor ?? 0) + 1;
    const view = { roster: [], gone: [], dropped: 0, now_ms: 0, view_at_ms: 0 };
    return { ok: page < pages ? { ...view, cursor: String(page) } : view };
  };
  return { name: `of ${pages}`, http: { rosterPage } } as unknown as RosterSource;
}

it.each([
  { buses: [pagesOf(1)], isPartial: false, why: "all was read" },
  { buses: [pagesOf(2)], isPartial: true, why: "there is another page" },
  { buses: [pagesOf(1), pagesOf(2)], isPartial: true, why: "there is another page on one bus" },
  { buses: [pagesOf(1), pagesOf(1, false)], isPartial: true, why: "nobody knows what one bus has" },
])(`of everyone ${PAGE_MAX} are read, and it is said if there may be more: $isPartial ($why)`, async (row) => {
  const seen = await new RosterBook(row.buses, new ManualTimers()).everyone(1);
  expect(seen).toEqual({ sessions: [], isPartial: row.isPartial });
});

it("as many pages are read as were asked for", async () => {
  const book = new RosterBook([pagesOf(3)], new ManualTimers());
  expect((await book.everyone(2)).isPartial).toBe(true);
  expect((await book.everyone(3)).isPartial).toBe(false);
});

it("where no bus could be asked it is said why", async () => {
  const seen = await new RosterBook([pagesOf(1, false)], new ManualTimers()).everyone(1);
  expect(seen).toEqual({ sessions: [], isPartial: true, stale_because: "timeout" });
});
