/** Send, recv, ack, receipts. */

import { parseRoute, type Key, type Route, type SessionId } from "../protocol/address.ts";
import { BATCH_MAX, POLL_DEFAULT_MS, POLL_MAX_MS, RECEIPTS_MAX } from "../protocol/constants.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { keyField, list, messageIdField, parse, record, routeField, text } from "../protocol/schema.ts";
import type { PollCall, Stored } from "../durable/calls.ts";
import { askIdentity, pollIdentity } from "./ask.ts";
import { checkDelivery, deliverySchema, toEntry, type Delivery } from "./delivery.ts";
import { waitOnSocket } from "./parked-poll.ts";
import { route } from "./pipeline.ts";
import { wholeOf } from "./query.ts";
import { refusalBody } from "./reply.ts";
import type { Call, Caller } from "./route.ts";

/** Recipients asked at a time: the platform may cancel a seventh connection. */
const RECIPIENTS_AT_A_TIME = 6;

const batchSchema = record({ messages: list(deliverySchema, BATCH_MAX) });

const send = route({
  method: "POST",
  path: "/send",
  isOpen: true,
  async check(call): Promise<{ isBatch: boolean; deliveries: Delivery[] } | Refusal> {
    const isBatch = "messages" in call.body;
    const parsed = isBatch ? parse(batchSchema, call.body) : parse(deliverySchema, call.body);
    if (isRefusal(parsed)) return parsed;
    const asked = "messages" in parsed ? parsed.messages : [parsed];
    const deliveries: Delivery[] = [];
    // All or nothing of what is malformed: a half-stored batch could not be told from a whole one.
    for (const [index, each] of asked.entries()) {
      const delivery = await checkDelivery(each, call.caller?.key, call.settings, call.nowMs);
      if (isRefusal(delivery)) return isBatch ? { ...delivery, index } : delivery;
      deliveries.push(delivery);
    }
    return { isBatch, deliveries };
  },
  async act({ isBatch, deliveries }, { env }) {
    const results = await deliver(env, deliveries);
    if (isBatch) {
      return { status: 200, body: { results: results.map((each) => (isRefusal(each) ? refusalBody(each) : each)) } };
    }
    const [result] = results;
    if (isRefusal(result)) return result;
    return { status: result!.state === "stored" ? 202 : 200, body: result! };
  },
});

/** One call to each recipient's object, its messages in their order; the results in the order asked. */
async function deliver(env: Call["env"], deliveries: readonly Delivery[]): Promise<(Stored | Refusal)[]> {
  const results: (Stored | Refusal)[] = [];
  const byRecipient = [...Map.groupBy(deliveries.keys(), (index) => deliveries[index]!.route.key)];
  for (let i = 0; i < byRecipient.length; i += RECIPIENTS_AT_A_TIME) {
    const group = byRecipient.slice(i, i + RECIPIENTS_AT_A_TIME);
    await Promise.all(
      group.map(async ([key, indexes]) => {
        const entries = await Promise.all(indexes.map((index) => toEntry(deliveries[index]!)));
        const answer = await askIdentity(env, key, "enqueue", { entries });
        for (const [at, index] of indexes.entries()) results[index] = isRefusal(answer) ? answer : answer.results[at]!;
      }),
    );
  }
  return results;
}

const recv = route({
  method: "GET",
  path: "/recv",
  query: ["me", "timeout_ms", "max"],
  many: ["ack"],
  isOpen: true,
  check({ query, caller }): { call: PollCall; timeoutMs: number } | Refusal {
    const [me] = query.get("me") ?? [];
    if (me === undefined) return refuse("bad_query");
    const route = parseRoute(me);
    if (isRefusal(route)) return route;
    const session = ownSession(route, caller);
    if (isRefusal(session)) return session;
    const timeoutMs = wholeOf(query, "timeout_ms", 0, POLL_MAX_MS, POLL_DEFAULT_MS);
    if (isRefusal(timeoutMs)) return timeoutMs;
    const max = wholeOf(query, "max", 1, BATCH_MAX, 1);
    if (isRefusal(max)) return max;
    const acks = query.get("ack") ?? [];
    if (acks.length > BATCH_MAX || !acks.every(isHandle)) return refuse("bad_ack");
    return {
      timeoutMs,
      call: {
        key: route.key,
        session,
        acks,
        ...(query.has("max") ? { max } : {}),
        ...(caller ? { nonce: { nonce: caller.nonce, expiresAtMs: caller.nonceExpiresAtMs } } : {}),
      },
    };
  },
  async act({ call, timeoutMs }, { env, signal }) {
    const answer = await pollIdentity(env, call, timeoutMs > 0);
    if (answer.webSocket) return waitOnSocket(answer.webSocket, timeoutMs, signal);
    if (answer.status === 200) return { status: 200, body: await answer.text() };
    const refusal: unknown = await answer.json();
    if (isRefusal(refusal)) return refusal;
    throw new Error(`the object answered a poll with ${answer.status}`);
  },
});

const handleField = text("bad_ack", isHandle);
const ackSchema = record({ me: routeField, ack: handleField });
const acksSchema = record({ me: routeField, acks: list(handleField, BATCH_MAX, 1, "bad_ack") });

const ack = route({
  method: "POST",
  path: "/ack",
  isOpen: true,
  check({ body, caller }): { key: Key; session: SessionId; acks: readonly string[] } | Refusal {
    const parsed = "acks" in body ? parse(acksSchema, body) : parse(ackSchema, body);
    if (isRefusal(parsed)) return parsed;
    const session = ownSession(parsed.me, caller);
    if (isRefusal(session)) return session;
    return { key: parsed.me.key, session, acks: "acks" in parsed ? parsed.acks : [parsed.ack] };
  },
  async act({ key, ...call }, { env }) {
    const answer = await askIdentity(env, key, "ack", call);
    return isRefusal(answer) ? answer : { status: 200, body: answer };
  },
});

const receiptsSchema = record({ to: keyField, msg_ids: list(messageIdField, RECEIPTS_MAX) });

const receipts = route({
  method: "POST",
  path: "/receipts",
  check: ({ body }) => parse(receiptsSchema, body),
  async act({ to, msg_ids }, { env, caller }) {
    const answer = await askIdentity(env, to, "receipts", { sender: caller!.key, msgIds: msg_ids });
    return isRefusal(answer) ? answer : { status: 200, body: answer };
  },
});

/** The session that a route names, if it is the caller's own: only the key reads and acks its inboxes. */
function ownSession(route: Route, caller: Caller | undefined): SessionId | Refusal {
  if (caller && caller.key !== route.key) return refuse("not_owner");
  return route.session ?? refuse("bad_route");
}

/** The shape of a handle; whose it is, the object knows. */
function isHandle(handle: string): boolean {
  return /^[A-Za-z0-9_.-]{1,96}$/.test(handle);
}

export const mailRoutes = [send, recv, ack, receipts];
