/** Send, recv, ack, receipts. */

import { parseRoute, type Key, type SessionId } from "../protocol/address.ts";
import { BATCH_MAX, POLL_DEFAULT_MS, POLL_MAX_MS, RECEIPTS_MAX } from "../protocol/constants.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { keyField, list, messageIdField, parse, record, routeField, text } from "../protocol/schema.ts";
import { meter } from "../durable/meter.ts";
import { deliverySchema } from "../protocol/message.ts";
import type { PollCall, Stored } from "../durable/calls.ts";
import { takeDeliveries, takeDelivery, type Intake } from "../durable/intake.ts";
import { askIdentity, pollIdentity, refusalIn } from "./ask.ts";
import { waitOnSocket } from "./parked-poll.ts";
import { route } from "./pipeline.ts";
import { wholeOf } from "./query.ts";
import { refusalBody } from "./reply.ts";
import { nonceOf, ownSession, type Call } from "./route.ts";

/** Recipients asked at a time: the platform may cancel a seventh connection. */
const RECIPIENTS_AT_A_TIME = 6;

const batchSchema = record({ messages: list(deliverySchema, BATCH_MAX) });

const send = route({
  method: "POST",
  path: "/send",
  isOpen: true,
  async check({ body, caller, settings, nowMs }): Promise<{ isBatch: boolean; intakes: Intake[] } | Refusal> {
    const isBatch = "messages" in body;
    const parsed = isBatch ? parse(batchSchema, body) : parse(deliverySchema, body);
    if (isRefusal(parsed)) return parsed;
    if ("messages" in parsed) {
      const intakes = await takeDeliveries(parsed.messages, caller?.key, settings, nowMs);
      return isRefusal(intakes) ? intakes : { isBatch, intakes };
    }
    const intake = await takeDelivery(parsed, caller?.key, settings, nowMs);
    return isRefusal(intake) ? intake : { isBatch, intakes: [intake] };
  },
  async act({ isBatch, intakes }, { env }) {
    const results = await deliver(env, intakes);
    if (isBatch) {
      for (const each of results) if (isRefusal(each)) meter.refusal(each.refused); // the batch itself answers 200
      return { status: 200, body: { results: results.map((each) => (isRefusal(each) ? refusalBody(each) : each)) } };
    }
    const [result] = results;
    if (isRefusal(result)) return result;
    return { status: result!.state === "stored" ? 202 : 200, body: result! };
  },
});

/** One call to each recipient's object, its messages in their order; the results in the order asked. */
async function deliver(env: Call["env"], intakes: readonly Intake[]): Promise<(Stored | Refusal)[]> {
  const results: (Stored | Refusal)[] = [];
  const byRecipient = [...Map.groupBy(intakes.keys(), (index) => intakes[index]!.to)];
  for (let i = 0; i < byRecipient.length; i += RECIPIENTS_AT_A_TIME) {
    const group = byRecipient.slice(i, i + RECIPIENTS_AT_A_TIME).map(async ([key, indexes]) => {
      const entries = indexes.map((index) => intakes[index]!.entry);
      const answer = await askIdentity(env, key, "enqueue", { entries });
      for (const [at, index] of indexes.entries()) results[index] = isRefusal(answer) ? answer : answer.results[at]!;
    });
    await Promise.all(group);
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
        ...(caller ? { nonce: nonceOf(caller) } : {}),
      },
    };
  },
  async act({ call, timeoutMs }, { env, signal }) {
    const answer = await pollIdentity(env, call, timeoutMs > 0);
    if (answer.webSocket) return waitOnSocket(answer.webSocket, timeoutMs, signal);
    return answer.status === 200 ? { status: 200, body: await answer.text() } : refusalIn(answer);
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

/** The shape of a handle; whose it is, the object knows. */
function isHandle(handle: string): boolean {
  return /^[A-Za-z0-9_.-]{1,96}$/.test(handle);
}

export const mailRoutes = [send, recv, ack, receipts];
