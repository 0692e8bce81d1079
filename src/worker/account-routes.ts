/** What a key says of itself to the bus: whom it admits, and that it be forgotten. */

import { CONTACTS_MAX } from "../protocol/constants.ts";
import { isRefusal, refuse } from "../protocol/refusal.ts";
import { keyField, list, parse, record, tsField } from "../protocol/schema.ts";
import { askIdentity } from "./ask.ts";
import { route } from "./pipeline.ts";

const contactsSchema = record({ contacts: list(keyField, CONTACTS_MAX, 0), ts: tsField });

const contacts = route({
  method: "PUT",
  path: "/contacts",
  check({ body, settings, nowMs }) {
    const parsed = parse(contactsSchema, body);
    if (isRefusal(parsed)) return parsed;
    if (parsed.ts > nowMs + settings.limits.CLOCK_SKEW_MS) return refuse("ts_out_of_range", { now_ms: nowMs });
    return { contacts: [...new Set(parsed.contacts)], ts: parsed.ts };
  },
  async act(call, { env, caller }) {
    const answer = await askIdentity(env, caller!.key, "contacts", call);
    return isRefusal(answer) ? answer : { status: 200, body: answer };
  },
});

const forget = route({
  method: "POST",
  path: "/forget",
  check: ({ body }) => parse(record({}), body),
  async act(_, { env, caller }) {
    const { key, nonce, nonceExpiresAtMs } = caller!;
    const answer = await askIdentity(env, key, "forget", { nonce: { nonce, expiresAtMs: nonceExpiresAtMs } });
    return isRefusal(answer) ? answer : { status: 200, body: answer };
  },
});

export const accountRoutes = [contacts, forget];
