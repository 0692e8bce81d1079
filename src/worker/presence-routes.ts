/** Announce, unregister, roster. */

import * as z from "zod/mini";
import { parseKey, type Key } from "../protocol/address.ts";
import { announcementSchema, unregisterSchema } from "../protocol/announcement.ts";
import { BATCH_MAX } from "../protocol/constants.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { keyField, list, parse, record, sessionIdField } from "../protocol/schema.ts";
import { deliverySchema } from "../protocol/message.ts";
import { wakeLeaseSchema } from "../protocol/wake-lease.ts";
import { takeAnnouncement, takeUnregister } from "../durable/intake.ts";
import { askIdentity } from "./ask.ts";
import { askEach, pageOfKeys, parsePage, type Page } from "./directory-page.ts";
import { route } from "./pipeline.ts";

const announceSchema = z.extend(announcementSchema, {
  public: z.optional(announcementSchema),
  wake: z.optional(wakeLeaseSchema),
});

const announce = route({
  method: "POST",
  path: "/announce",
  isOpen: true,
  check({ body, caller, settings, nowMs }) {
    const parsed = parse(announceSchema, body);
    if (isRefusal(parsed)) return parsed;
    const { public: shown, wake, ...announcement } = parsed;
    if (caller && caller.key !== announcement.pubkey) return refuse("key_mismatch");
    return takeAnnouncement(announcement, { public: shown, wake }, settings, nowMs);
  },
  async act(call, { env }) {
    const answer = await askIdentity(env, call.announcement.pubkey, "announce", call);
    return isRefusal(answer) ? answer : { status: 202, body: answer };
  },
});

const goodbyeSchema = z.extend(unregisterSchema, { goodbyes: z.optional(list(deliverySchema, BATCH_MAX, 0)) });
/** The original's unsigned shape: the whole session as it was announced. */
const unsignedSchema = record({
  pubkey: keyField,
  session: z.object({ session_id: sessionIdField }, "bad_session"),
});

const unregister = route({
  method: "POST",
  path: "/unregister",
  isOpen: true,
  async check({ body, caller, settings, nowMs }) {
    if (!caller && !("sig" in body)) {
      const unsigned = parse(unsignedSchema, body);
      if (isRefusal(unsigned)) return unsigned;
      return { key: unsigned.pubkey, session: unsigned.session.session_id, ts: nowMs, goodbyes: [] };
    }
    const parsed = parse(goodbyeSchema, body);
    if (isRefusal(parsed)) return parsed;
    const { goodbyes = [], ...signed } = parsed;
    if (caller && caller.key !== signed.pubkey) return refuse("key_mismatch");
    const taken = await takeUnregister(signed, goodbyes, settings, nowMs);
    if (isRefusal(taken)) return taken;
    const { pubkey: key, session, ts, sig } = signed;
    return { key, session: session.session_id, ts, sig, goodbyes: taken };
  },
  async act({ key, ...call }, { env }) {
    const answer = await askIdentity(env, key, "unregister", call);
    return isRefusal(answer) ? answer : { status: 202, body: answer };
  },
});

const roster = route({
  method: "GET",
  path: "/roster",
  query: ["identity", "limit", "cursor"],
  isOpen: true,
  check(call): { identity: Key } | Page | Refusal {
    const [identity] = call.query.get("identity") ?? [];
    if (identity === undefined) return parsePage(call);
    if (call.query.size > 1) return refuse("bad_query");
    const key = parseKey(identity);
    return key ? { identity: key } : refuse("bad_key");
  },
  async act(plan, call) {
    const { env, caller, nowMs } = call;
    const viewer = caller ? { viewer: caller.key } : {};
    if ("identity" in plan) {
      const view = await askIdentity(env, plan.identity, "view", { ...viewer, scope: "identity" });
      return isRefusal(view) ? view : { status: 200, body: { ...view, now_ms: nowMs } };
    }
    const page = await pageOfKeys(call, plan, true);
    if (isRefusal(page)) return page;
    const { answers: views, unanswered } = await askEach(page.keys, (key) =>
      askIdentity(env, key, "view", { ...viewer, scope: "bus" }),
    );
    return {
      status: 200,
      body: {
        roster: views.flatMap((view) => view.roster),
        gone: views.flatMap((view) => view.gone),
        now_ms: nowMs,
        view_at_ms: Math.min(nowMs, ...views.map((view) => view.view_at_ms)),
        ...unanswered,
        ...(page.cursor === undefined ? {} : { cursor: page.cursor }),
      },
    };
  },
});

export const presenceRoutes = [announce, unregister, roster];
