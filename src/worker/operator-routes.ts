/** What an operator may count: numbers over all identities, without names. */

import { isRefusal, refuse } from "../protocol/refusal.ts";
import { meter } from "../durable/meter.ts";
import { askIdentity } from "./ask.ts";
import { askEach, pageOfKeys, parsePage } from "./directory-page.ts";
import { route } from "./pipeline.ts";

const stats = route({
  method: "GET",
  path: "/stats",
  query: ["limit", "cursor"],
  check(call) {
    return call.settings.adminKeys.has(call.caller!.key) ? parsePage(call) : refuse("not_owner");
  },
  async act(plan, call) {
    const page = await pageOfKeys(call, plan, false);
    if (isRefusal(page)) return page;
    const { answers: each, unanswered } = await askEach(page.keys, (key) => askIdentity(call.env, key, "census", {}));
    const sum = (count: (census: (typeof each)[number]) => number) =>
      each.reduce((total, one) => total + count(one), 0);
    return {
      status: 200,
      body: {
        identities: each.length,
        sessions_live: sum((census) => census.sessions_live),
        sessions_away: sum((census) => census.sessions_away),
        queued: sum((census) => census.queued),
        oldest_unacked_ms: Math.max(0, ...each.map((census) => census.oldest_unacked_ms ?? 0)),
        // Of the isolate that answered: on a local bus that is all there is, a deployment has several.
        isolate: meter.read(),
        now_ms: call.nowMs,
        ...unanswered,
        ...(page.isFull ? { directory_full: true } : {}),
        ...(page.cursor === undefined ? {} : { cursor: page.cursor }),
      },
    };
  },
});

export const operatorRoutes = [stats];
