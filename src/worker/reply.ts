/** Answers on their way out: a refusal becomes its status, code and sentence; nothing else decides those. */

import { isRefusal, sentenceOf, statusOf, type Refusal } from "../protocol/refusal.ts";

/** What a route answers: a status with a JSON body, which may already be text. */
export interface Reply {
  readonly status: number;
  readonly body: object | string;
  readonly headers?: Record<string, string>;
}

const HEADERS = {
  "content-type": "application/json",
  // No answer is anyone else's: no cache may keep one, no page may read or frame one.
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
};

export function toResponse(reply: Reply | Refusal): Response {
  const { status, body, headers = {} } = isRefusal(reply) ? refusalReply(reply) : reply;
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return new Response(text, { status, headers: { ...HEADERS, ...headers } });
}

/** A refusal as JSON: in a batch's result it stands for itself. */
export function refusalBody(refusal: Refusal): object {
  const { refused, status: _status, ...facts } = refusal;
  return { error: refused, message: sentenceOf(refused), ...facts };
}

function refusalReply(refusal: Refusal): Reply {
  const headers: Record<string, string> = {};
  if (refusal.retry_after_s !== undefined) headers["retry-after"] = String(refusal.retry_after_s);
  if (refusal.refused === "auth_required") headers["www-authenticate"] = "Interlink";
  return { status: statusOf(refusal), body: refusalBody(refusal), headers };
}

/** A fault of ours: its detail is in the log alone. */
export function faultResponse(): Response {
  return toResponse({
    status: 500,
    body: { error: "internal", message: "The bus has a fault; it is safe to try again." },
  });
}
