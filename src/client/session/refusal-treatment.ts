/** PURE: what a bus's refusal of a message means for the message. One row a code, so that a new code does not compile without one. */

import type { RefusalCode } from "../../protocol/refusal.ts";

/**
 * `for_good`: no bus of this kind will ever take these bytes as things stand.
 * `back_pressure`: taken later, after `Retry-After`.
 * `our_clock`: the request's time was wrong; the offset is in the answer.
 * `message_clock`: the message's own time is ahead of the bus, or too old for any.
 * `not_heard`: the request, not the message, was refused; the message waits as if nobody had answered.
 */
export type Treatment = "for_good" | "back_pressure" | "our_clock" | "message_clock" | "not_heard";

/** What would have to change before the same words could be sent again, as a new message. */
export type Remedy = "after_pairing" | "after_admission" | "with_other_words" | "as_a_new_message";

interface Row {
  readonly treatment: Treatment;
  readonly retry?: Remedy;
}

const badBytes: Row = { treatment: "for_good", retry: "with_other_words" };
const badRequest: Row = { treatment: "not_heard" };

const ROWS: Readonly<Record<RefusalCode, Row>> = {
  // The recipient does not want us: only people change that, and a queue that fires afterwards would surprise them.
  not_paired: { treatment: "for_good", retry: "after_pairing" },
  // The same of the bus's operator.
  not_admitted: { treatment: "for_good", retry: "after_admission" },
  join_denied: { treatment: "for_good", retry: "after_admission" },
  // The id names other bytes at that bus: ours will never be these.
  msg_id_conflict: { treatment: "for_good", retry: "as_a_new_message" },

  // The payload or its route: the same bytes get the same answer.
  unknown_field: badBytes,
  bad_field: badBytes,
  bad_route: badBytes,
  bad_session: badBytes,
  bad_key: badBytes,
  bad_sig_format: badBytes,
  bad_payload_signature: badBytes,
  bad_ts: badBytes,
  bad_msg_id: badBytes,
  bad_kind: badBytes,
  bad_status: badBytes,
  bad_text: badBytes,
  bad_name: badBytes,
  route_mismatch: badBytes,
  sender_mismatch: badBytes,
  too_large: badBytes,
  too_deep: badBytes,
  bad_json: badBytes,
  bad_encoding: badBytes,

  // Full or too fast: refused is not lost, and we are told when.
  queue_full: { treatment: "back_pressure" },
  sender_quota: { treatment: "back_pressure" },
  rate_limited: { treatment: "back_pressure" },
  knock_limit: { treatment: "back_pressure" },
  session_limit: { treatment: "back_pressure" },

  clock_skew: { treatment: "our_clock" },
  ts_out_of_range: { treatment: "message_clock" },

  // How we asked, or whom: a wrong URL or AUDIENCE, a proxy's doing, a deployment under way. The message is blameless.
  bad_target: badRequest,
  bad_query: badRequest,
  bad_ack: badRequest,
  bad_frame: badRequest,
  bad_join_token: badRequest,
  bad_protocol: badRequest,
  auth_required: badRequest,
  bad_auth: badRequest,
  bad_signature: badRequest,
  replay: badRequest,
  bad_origin: badRequest,
  key_mismatch: badRequest,
  not_owner: badRequest,
  not_found: badRequest,
  method_not_allowed: badRequest,
  stale: badRequest,
  uri_too_long: badRequest,
  unsupported_media_type: badRequest,
  bad_host: badRequest,
  upgrade_required: badRequest,
};

/** @param status the HTTP status, where it is not the code's usual one: a `bad_key` of 401 is the token's, not the route's */
export function treatmentOf(code: RefusalCode, status?: number): Row {
  return code === "bad_key" && status === 401 ? badRequest : ROWS[code];
}
