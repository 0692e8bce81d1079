/**
 * Parts of schemas that several tools share, and how facts are written into them.
 *
 * A check whose fault the session has a code for gives that code as its message, so that it is the same wherever it is found.
 */

import * as z from "zod/v4";
import { SUMMARY_MAX_BYTES, TASK_ID_MAX_BYTES } from "../../protocol/constants.ts";
import type { PeerRef, Sent } from "../session/agent.ts";
import type { Life } from "../session/outbox-policy.ts";
import { shown } from "./escape.ts";
import { lifeReason, lifeSentence, sentFeedback, tierOf } from "./render.ts";
import type { Answer } from "./tool.ts";

/** Longest thing that may name a peer: 64 bytes of petname, or a key; prefixes are shorter. */
const NAME_MAX = 128;

export const inputs = {
  peer: z
    .string()
    .min(1)
    .max(NAME_MAX)
    .describe("The peer: petname from list_peers, fingerprint or key; `self` for another session of this identity"),
  msgId: z.string().min(1).max(64).describe("The msg_id, or a beginning of it that no other has"),
  taskId: z.string().min(1).max(TASK_ID_MAX_BYTES).describe("The task's id, exactly as it was given"),
  petname: z
    .string()
    .min(1, "bad_name")
    .max(64, "bad_name")
    .describe("What the peer is to be called on this machine; 1 to 64 bytes"),
  summary: z
    .string()
    .max(SUMMARY_MAX_BYTES)
    .describe(`What this session works on, one line of at most ${SUMMARY_MAX_BYTES} bytes; empty clears it`),
  noArguments: z.strictObject({}),
} as const;

export const outputs = {
  petname: z.string().describe("The peer's local name, escaped as in JSON"),
  fingerprint: z.string().describe("Fingerprint of the peer's key"),
  state: z
    .enum(["pending", "stored", "refused", "acked", "expired", "evicted"])
    .describe(
      "pending: only on this machine · stored: on the bus · acked: on the recipient's machine · refused, expired, evicted: nobody will get it",
    ),
  reason: z.string().optional().describe("The bus's code that it waits for or failed by"),
  feedback: z.string().describe("All of this in a sentence, with the next step where there is one"),
  lines: z.array(z.string()),
} as const;

/** What a message that was handed over is answered with. */
export const sentFields = z.object({
  msg_id: z.string().describe("Id of the message; message_status follows it"),
  to: outputs.petname,
  key: outputs.fingerprint,
  state: outputs.state,
  reason: outputs.reason,
  session: z.string().optional().describe("The session it is for; absent: the first of the identity that comes"),
  recipient: z
    .enum(["live", "away", "away_stale", "gone", "unknown"])
    .describe("Who is there: away_stale and gone may never read it; unknown: the roster could not be read"),
  age_ms: z.int().min(0).optional().describe("Time since the recipient's last sign of life"),
  live_sibling: z.string().optional().describe("Another session of the same identity that is live"),
  task_id: z.string().optional().describe("The whole id of the task that it is about, escaped as in JSON"),
  in_reply_to: z.string().optional().describe("The whole msg_id that it answers, escaped as in JSON"),
  feedback: outputs.feedback,
});

export function sentAnswer(sent: Sent, nowMs: number): Answer<z.output<typeof sentFields>> {
  const { peer, msg_id, life, route, task_id, in_reply_to } = sent;
  const feedback = sentFeedback(sent, nowMs);
  const session = route.to === "identity" ? undefined : route.session;
  const fields = {
    msg_id,
    ...peerFields(peer),
    ...lifeFields(life),
    ...(session !== undefined && { session }),
    recipient: tierOf(route),
    ...(route.to === "session" && { age_ms: wholeMs(route.age_ms) }),
    ...(route.to === "session" && route.live_sibling !== undefined && { live_sibling: route.live_sibling }),
    ...(task_id !== undefined && { task_id: shown(task_id) }),
    ...(in_reply_to !== undefined && { in_reply_to: shown(in_reply_to) }),
    feedback,
  };
  return { text: feedback, fields };
}

/** Where a message stands, when that was asked. */
export const statusFields = z.object({
  msg_id: z.string().describe("The whole id"),
  to: outputs.petname,
  key: outputs.fingerprint,
  state: outputs.state,
  reason: outputs.reason,
  feedback: outputs.feedback,
});

export function statusOf(
  { msg_id, peer, life }: { msg_id: string; peer: PeerRef; life: Life },
  nowMs: number,
): z.output<typeof statusFields> {
  return { msg_id, ...peerFields(peer), ...lifeFields(life), feedback: lifeSentence(life, nowMs) };
}

export function peerFields({ petname, fingerprint }: PeerRef): { to: string; key: string } {
  return { to: shown(petname), key: fingerprint };
}

function lifeFields(life: Life): { state: Life["state"]; reason?: string } {
  const reason = lifeReason(life);
  return { state: life.state, ...(reason !== undefined && { reason: shown(reason) }) };
}

/** A clock may be off and give a part or a negative; the schema says a whole number from 0. */
export function wholeMs(ms: number): number {
  return Math.max(0, Math.floor(ms));
}
