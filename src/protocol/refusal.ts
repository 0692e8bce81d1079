/**
 * The closed list of what this bus refuses: code, HTTP status, sentence.
 *
 * A refusal is a value, never thrown: errors lose their class on the way out of an object, and a
 * caller must be able to list the cases. A throw means a fault of ours and answers 500 `internal`.
 */

/** Code → [HTTP status, sentence for a person]. A code may be stable for ever; the sentence may improve. */
const REFUSALS = {
  bad_target: [400, "The request target has characters outside A-Z a-z 0-9 _ - / . % = & ? ~."],
  bad_query: [400, "A query parameter is missing, unknown, repeated or malformed."],
  bad_encoding: [400, "The body is not UTF-8."],
  bad_json: [400, "The body is not a JSON object."],
  too_deep: [400, "The JSON is nested too deeply."],
  unknown_field: [400, "A field is not part of this request."],
  bad_field: [400, "A field is missing or malformed."],
  bad_route: [400, "A route is `key#session`, or the bare key for an identity's own inbox."],
  bad_session: [400, "A session id is 1 to 64 characters of A-Z a-z 0-9 _ -."],
  bad_key: [400, "A key is the canonical base64url of a 32-byte Ed25519 public key that is not of small order."],
  bad_sig_format: [400, "A signature is the canonical base64url of 64 bytes."],
  bad_payload_signature: [400, "The payload's signature does not hold for its bytes and key."],
  bad_ts: [400, "A `ts` is a whole number of Unix milliseconds."],
  ts_out_of_range: [400, "The `ts` is too far from the bus's clock, or older than mail is kept."],
  bad_msg_id: [400, "A `msg_id` is 1 to 64 characters of A-Z a-z 0-9 _ -."],
  bad_kind: [400, "A `kind` is message, pair_request or pair_accept."],
  bad_status: [400, "A `status` is update, needs_input, result, failed or canceled, and only with a `task_id`."],
  bad_text: [400, "A `text` is whole Unicode of 1 byte up to the bus's limit."],
  bad_name: [400, "A name is 1 to 64 bytes, trimmed, without invisible or control characters."],
  bad_ack: [400, "An `ack` is the handle that came with the message, for the inbox it came from."],
  bad_frame: [400, "The frame is not one of this protocol."],
  bad_join_token: [400, "A join token is 43 base64url characters."],
  route_mismatch: [400, "The route's key is not the payload's `to`."],
  bad_protocol: [400, "Offer the subprotocols `interlink.v1` and one token."],
  auth_required: [
    401,
    "Sign the request: `Authorization: Interlink il1.…`. A client of the original shapes needs a bus started with ACCESS=open.",
  ],
  bad_auth: [401, "The token is malformed, or there is more than one."],
  bad_signature: [401, "The token's signature does not hold for this request at this bus."],
  clock_skew: [401, "The token's `ts` is too far from `now_ms`; keep the offset and sign again."],
  replay: [401, "The token was used before; sign each request anew."],
  bad_origin: [403, "Requests from web pages are not accepted."],
  sender_mismatch: [403, "The payload's `from` is not the key that signed the request."],
  key_mismatch: [403, "The announcement's `pubkey` is not the key that signed the request."],
  not_owner: [403, "Not yours: only a key itself reads and acks its inboxes, and only admin keys invite."],
  not_paired: [403, "The recipient has not admitted this sender; knock first with a pair_request."],
  not_admitted: [403, "The key is not admitted to this bus; ask its operator for an invite and join."],
  join_denied: [403, "The invite is unknown, used or expired."],
  not_found: [404, "There is no such route."],
  method_not_allowed: [405, "The route has another method."],
  stale: [409, "Something newer of this session or identity is already known."],
  msg_id_conflict: [409, "The `msg_id` was used for other bytes; mint a new one."],
  too_large: [413, "The body is larger than the bus takes."],
  uri_too_long: [414, "The request target is too long."],
  unsupported_media_type: [415, "Send `application/json` without a content encoding."],
  bad_host: [421, "This bus does not answer to that Host."],
  upgrade_required: [426, "This route is a WebSocket."],
  knock_limit: [429, "A knock of yours is pending, or the recipient has too many."],
  sender_quota: [429, "You hold as many unacked messages in that inbox as one sender may."],
  queue_full: [429, "The inbox is full; nothing that it holds was dropped."],
  session_limit: [429, "The identity holds as many sessions as it may."],
  rate_limited: [429, "Too many requests."],
} as const satisfies Record<string, readonly [number, string]>;

/** The code of a refusal; stable, for programs. */
export type RefusalCode = keyof typeof REFUSALS;

/** Facts that a refusal may carry beside its code; each is a number so that none can carry text of a peer. */
export interface RefusalFacts {
  /** The bus's clock, with every refusal about time. */
  now_ms?: number;
  /** Seconds after which asking again makes sense; becomes `Retry-After`. */
  retry_after_s?: number;
  /** Which entry of a batch. */
  index?: number;
  /** Where the status is not the code's usual one: `bad_key` is 400 in a body or route, 401 in a token. */
  status?: number;
}

/** An expected "no". `refused` is the tag that tells it from an answer. */
export interface Refusal extends RefusalFacts {
  readonly refused: RefusalCode;
}

/** Makes a refusal. */
export function refuse(code: RefusalCode, facts: RefusalFacts = {}): Refusal {
  return { refused: code, ...facts };
}

/** Tells a refusal from an answer. */
export function isRefusal(value: unknown): value is Refusal {
  return typeof value === "object" && value !== null && "refused" in value;
}

/** The HTTP status of a refusal. */
export function statusOf({ refused, status }: Refusal): number {
  return status ?? REFUSALS[refused][0];
}

/** The sentence for a person. */
export function sentenceOf(code: RefusalCode): string {
  return REFUSALS[code][1];
}

/** True if a string is one of our codes: for schemas, whose issues carry a code as their message. */
export function isRefusalCode(text: string): text is RefusalCode {
  return Object.hasOwn(REFUSALS, text);
}

/** Every code, for tests and documentation. */
export const REFUSAL_CODES = Object.keys(REFUSALS) as RefusalCode[];
