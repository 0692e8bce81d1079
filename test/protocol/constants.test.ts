/** The numbers that both ends hold each other to, and the order they must keep whatever their values. */

import { describe, expect, it } from "vitest";
import * as constants from "../../src/protocol/constants.ts";
import { nonceRetainMs } from "../../src/protocol/token.ts";

const { DEFAULT_LIMITS: limits } = constants;

it("has the values that the protocol states", () => {
  expect(limits).toStrictEqual({
    HEARTBEAT_MS: 30_000,
    LIVE_MS: 90_000,
    AWAY_STALE_MS: 86_400_000,
    AWAY_RETAIN_MS: 259_200_000,
    MESSAGE_RETAIN_MS: 1_209_600_000,
    DEDUPE_RETAIN_MS: 1_296_000_000,
    KNOCK_RETAIN_MS: 86_400_000,
    GHOST_RETAIN_MS: 86_400_000,
    INBOX_MAX_MESSAGES: 1024,
    INBOX_MAX_BYTES: 8_388_608,
    SENDER_SHARE: 256,
    INBOXES_MAX: 128,
    SESSIONS_MAX: 64,
    SOCKET_MAX_MS: 86_400_000,
    RATE_PER_S: 100,
    KNOCKS_MAX: 16,
    LISTED_MAX: 10_000,
    TEXT_MAX_BYTES: 65_536,
    BODY_MAX_BYTES: 131_072,
    CLOCK_SKEW_MS: 60_000,
  });
  expect(constants).toMatchObject({
    JSON_DEPTH_MAX: 16,
    NAME_MAX_BYTES: 64,
    SUMMARY_MAX_BYTES: 280,
    CWD_MAX_BYTES: 512,
    GIT_ROOT_MAX_BYTES: 128,
    TASK_ID_MAX_BYTES: 128,
    BATCH_MAX: 64,
    CONTACTS_MAX: 1024,
    RECEIPTS_MAX: 256,
    POLL_MAX_MS: 30_000,
    WAKE_LEASE_MAX_MS: 3_600_000,
    PAGE_DEFAULT: 50,
    PAGE_MAX: 200,
  });
});

it("counts in whole positive numbers", () => {
  const numbers = [...Object.values(limits), ...Object.values(constants).filter((value) => typeof value === "number")];
  expect(numbers.length).toBeGreaterThan(25);
  for (const value of numbers) expect(Number.isSafeInteger(value) && value > 0).toBe(true);
});

it("remembers a nonce for both sides of the clock window and a second: 121 s", () => {
  expect(nonceRetainMs(limits)).toBe(121_000);
  expect(nonceRetainMs({ CLOCK_SKEW_MS: 0 })).toBeGreaterThan(0);
});

describe("order", () => {
  it.each([
    { less: 3 * limits.HEARTBEAT_MS, more: limits.LIVE_MS, why: "two lost heartbeats leave a session live" },
    { less: limits.LIVE_MS + 1, more: limits.AWAY_STALE_MS, why: "a session is away before it is probably gone" },
    { less: limits.AWAY_STALE_MS + 1, more: limits.AWAY_RETAIN_MS, why: "it is called so before it is gone" },
    { less: limits.AWAY_RETAIN_MS, more: limits.MESSAGE_RETAIN_MS, why: "mail waits for as long as its session may" },
    {
      less: limits.MESSAGE_RETAIN_MS + limits.CLOCK_SKEW_MS + 1,
      more: limits.DEDUPE_RETAIN_MS,
      why: "an acked id outlives every retry, even of a message that a fast clock dated ahead",
    },
    { less: limits.KNOCK_RETAIN_MS, more: limits.MESSAGE_RETAIN_MS, why: "a knock never outstays mail" },
    {
      less: constants.WAKE_LEASE_MAX_MS,
      more: limits.AWAY_STALE_MS,
      why: "what wakes a session is not said of one that is probably gone",
    },
    { less: constants.POLL_DEFAULT_MS, more: constants.POLL_MAX_MS, why: "what is waited unasked may be asked for" },
    { less: constants.POLL_MAX_MS + 1, more: limits.LIVE_MS, why: "a session that only polls stays live" },
    { less: limits.CLOCK_SKEW_MS + 1, more: limits.LIVE_MS, why: "a clock within the skew does not cost presence" },
    { less: constants.PAGE_DEFAULT, more: constants.PAGE_MAX, why: "what is given unasked may be asked for" },
    { less: limits.TEXT_MAX_BYTES + 1, more: limits.BODY_MAX_BYTES, why: "the longest text fits a body" },
    { less: limits.BODY_MAX_BYTES, more: limits.INBOX_MAX_BYTES, why: "the largest body fits an inbox" },
    { less: 2 * limits.SENDER_SHARE, more: limits.INBOX_MAX_MESSAGES, why: "no one sender fills half an inbox" },
    { less: constants.BATCH_MAX, more: limits.SENDER_SHARE, why: "a whole batch fits a sender's share" },
    { less: limits.SESSIONS_MAX + 1, more: limits.INBOXES_MAX, why: "every session and the identity has an inbox" },
    { less: constants.NAME_MAX_BYTES, more: constants.SUMMARY_MAX_BYTES, why: "a summary may hold the name" },
    { less: 43 + 1 + 64, more: constants.CWD_MAX_BYTES, why: "a `reply_to` is capped by the same number" },
    { less: 5, more: constants.JSON_DEPTH_MAX, why: "our deepest legal body is parsed" },
  ])("$less ≤ $more: $why", ({ less, more }) => {
    expect(less).toBeLessThanOrEqual(more);
  });
});
