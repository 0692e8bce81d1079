/** Announce, unregister, roster. */

import * as z from "zod/mini";
import { parseKey, type Key } from "../protocol/address.ts";
import {
  announcementSchema,
  isTimely,
  unregisterSchema,
  verifyAnnouncement,
  verifyUnregister,
  type Announcement,
} from "../protocol/announcement.ts";
import { BATCH_MAX, PAGE_DEFAULT, PAGE_MAX } from "../protocol/constants.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { keyField, list, parse, record, sessionIdField } from "../protocol/schema.ts";
import type { Goodbye, View } from "../durable/calls.ts";
import { shardOf } from "../durable/directory-shards.ts";
import { askDirectory, askIdentity } from "./ask.ts";
import { checkDelivery, deliverySchema, toEntry } from "./delivery.ts";
import { route } from "./pipeline.ts";
import { wholeOf } from "./query.ts";
import type { Call } from "./route.ts";

/** Identities asked at a time for a page: the platform may cancel a seventh connection. */
const VIEWS_AT_A_TIME = 6;

const announceSchema = z.extend(announcementSchema, { public: z.optional(announcementSchema) });

const announce = route({
  method: "POST",
  path: "/announce",
  isOpen: true,
  async check({ body, caller, settings, nowMs }) {
    const parsed = parse(announceSchema, body);
    if (isRefusal(parsed)) return parsed;
    const { public: shown, ...announcement } = parsed;
    if (caller && caller.key !== announcement.pubkey) return refuse("key_mismatch");
    if (shown && !isSameSession(shown, announcement)) return refuse("bad_field");
    if (!isTimely(announcement.ts, nowMs, settings.limits)) return refuse("ts_out_of_range", { now_ms: nowMs });
    for (const signed of shown ? [announcement, shown] : [announcement]) {
      if (!(await verifyAnnouncement(signed))) return refuse("bad_payload_signature");
    }
    // The original shows every announcement to all.
    return { announcement, public: shown ?? (settings.access === "open" ? announcement : undefined) };
  },
  async act(plan, { env }) {
    const { announcement, public: shown } = plan;
    const call = shown ? { announcement, public: shown } : { announcement };
    const answer = await askIdentity(env, announcement.pubkey, "announce", call);
    return isRefusal(answer) ? answer : { status: 202, body: answer };
  },
});

/** A second announcement says less of the same session at the same instant, never something of another. */
function isSameSession(a: Announcement, b: Announcement): boolean {
  return a.pubkey === b.pubkey && a.ts === b.ts && a.session.session_id === b.session.session_id;
}

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
  async check(call) {
    const { body, caller, settings, nowMs } = call;
    if (!caller && !("sig" in body)) {
      const unsigned = parse(unsignedSchema, body);
      if (isRefusal(unsigned)) return unsigned;
      return { key: unsigned.pubkey, session: unsigned.session.session_id, ts: nowMs, goodbyes: [] };
    }
    const parsed = parse(goodbyeSchema, body);
    if (isRefusal(parsed)) return parsed;
    const { pubkey: key, session, ts, sig, goodbyes = [] } = parsed;
    if (caller && caller.key !== key) return refuse("key_mismatch");
    if (!isTimely(ts, nowMs, settings.limits)) return refuse("ts_out_of_range", { now_ms: nowMs });
    if (!(await verifyUnregister(parsed))) return refuse("bad_payload_signature");
    const checked = await checkGoodbyes(goodbyes, key, call);
    return isRefusal(checked) ? checked : { key, session: session.session_id, ts, sig, goodbyes: checked };
  },
  async act({ key, ...call }, { env }) {
    const answer = await askIdentity(env, key, "unregister", call);
    return isRefusal(answer) ? answer : { status: 202, body: answer };
  },
});

/** Every goodbye is whole and the session's own, or none is taken. */
async function checkGoodbyes(
  goodbyes: readonly z.output<typeof deliverySchema>[],
  sender: Key,
  { settings, nowMs }: Call,
): Promise<Goodbye[] | Refusal> {
  const checked: Goodbye[] = [];
  for (const [index, goodbye] of goodbyes.entries()) {
    const delivery = await checkDelivery(goodbye, sender, settings, nowMs);
    if (isRefusal(delivery)) return { ...delivery, index };
    checked.push({ to: delivery.route.key, entry: await toEntry(delivery) });
  }
  return checked;
}

interface Page {
  readonly limit: number;
  readonly shard: number;
  readonly after?: Key;
}

const roster = route({
  method: "GET",
  path: "/roster",
  query: ["identity", "limit", "cursor"],
  isOpen: true,
  check({ query, settings }): { identity: Key } | Page | Refusal {
    const [identity] = query.get("identity") ?? [];
    if (identity !== undefined) {
      if (query.size > 1) return refuse("bad_query");
      const key = parseKey(identity);
      return key ? { identity: key } : refuse("bad_key");
    }
    const limit = wholeOf(query, "limit", 1, PAGE_MAX, PAGE_DEFAULT);
    const after = parseCursor(query.get("cursor")?.[0], settings.directoryShards);
    return isRefusal(limit) ? limit : isRefusal(after) ? after : { limit, ...after };
  },
  async act(plan, { env, caller, settings, nowMs }) {
    const viewer = caller ? { viewer: caller.key } : {};
    if ("identity" in plan) {
      const view = await askIdentity(env, plan.identity, "view", { ...viewer, scope: "identity" });
      return isRefusal(view) ? view : { status: 200, body: { ...view, now_ms: nowMs } };
    }
    const page = await pageOfKeys(env, plan, settings.directoryShards);
    if (isRefusal(page)) return page;
    const { keys, cursor } = page;
    const views: View[] = [];
    for (let i = 0; i < keys.length; i += VIEWS_AT_A_TIME) {
      const group = keys.slice(i, i + VIEWS_AT_A_TIME);
      const answers = await Promise.all(group.map((key) => askIdentity(env, key, "view", { ...viewer, scope: "bus" })));
      for (const answer of answers) if (!isRefusal(answer)) views.push(answer);
    }
    return {
      status: 200,
      body: {
        roster: views.flatMap((view) => view.roster),
        gone: views.flatMap((view) => view.gone),
        now_ms: nowMs,
        view_at_ms: Math.min(nowMs, ...views.map((view) => view.view_at_ms)),
        ...(cursor === undefined ? {} : { cursor }),
      },
    };
  },
});

/** Walks the shards from the cursor until a page is full; the cursor is where the next one starts. */
async function pageOfKeys(
  env: Call["env"],
  page: Page,
  shards: number,
): Promise<{ keys: Key[]; cursor?: string } | Refusal> {
  const keys: Key[] = [];
  let { after } = page;
  for (let shard = page.shard; shard < shards; shard++) {
    const limit = page.limit - keys.length;
    const found = await askDirectory(env, shard, "page", after === undefined ? { limit } : { limit, after });
    if (isRefusal(found)) return found;
    keys.push(...found.keys);
    after = undefined;
    if (keys.length >= page.limit) return { keys, cursor: keys.at(-1)! };
  }
  return { keys };
}

/** A cursor is the last key that was shown: its shard follows from it. */
function parseCursor(text: string | undefined, shards: number): { shard: number; after?: Key } | Refusal {
  if (text === undefined) return { shard: 0 };
  const after = parseKey(text);
  return after ? { shard: shardOf(after, shards), after } : refuse("bad_query");
}

export const presenceRoutes = [announce, unregister, roster];
