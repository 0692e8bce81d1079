/** The closed list of refusals against the protocol's own, written out here so that neither drifts alone. */

import { describe, expect, it } from "vitest";
import {
  isRefusal,
  isRefusalCode,
  REFUSAL_CODES,
  refuse,
  sentenceOf,
  statusOf,
  type RefusalCode,
} from "../../src/protocol/refusal.ts";

/** The HTTP codes of the protocol's error list; `bad_key` stands there twice and has its own test below. */
const EXPECTED: Readonly<Record<number, readonly string[]>> = {
  400: [
    "bad_target",
    "bad_query",
    "bad_encoding",
    "bad_json",
    "too_deep",
    "unknown_field",
    "bad_field",
    "bad_route",
    "bad_session",
    "bad_key",
    "bad_sig_format",
    "bad_payload_signature",
    "bad_ts",
    "ts_out_of_range",
    "bad_msg_id",
    "bad_kind",
    "bad_status",
    "bad_text",
    "bad_name",
    "bad_ack",
    "bad_frame",
    "bad_join_token",
    "route_mismatch",
    "bad_protocol",
  ],
  401: ["auth_required", "bad_auth", "bad_signature", "clock_skew", "replay"],
  403: ["bad_origin", "sender_mismatch", "key_mismatch", "not_owner", "not_paired", "not_admitted", "join_denied"],
  404: ["not_found"],
  405: ["method_not_allowed"],
  409: ["stale", "msg_id_conflict"],
  413: ["too_large"],
  414: ["uri_too_long"],
  415: ["unsupported_media_type"],
  421: ["bad_host"],
  426: ["upgrade_required"],
  429: ["knock_limit", "sender_quota", "queue_full", "session_limit", "rate_limited"],
};

const rows = Object.entries(EXPECTED).flatMap(([status, codes]) => codes.map((code) => ({ code, status: +status })));

describe("the list", () => {
  it("holds every code of the protocol, and no code more", () => {
    expect([...REFUSAL_CODES].sort()).toStrictEqual(rows.map(({ code }) => code).sort());
  });

  it.each(rows)("answers $code with $status", ({ code, status }) => {
    expect(isRefusalCode(code)).toBe(true);
    expect(statusOf(refuse(code as RefusalCode))).toBe(status);
  });

  it("answers `bad_key` with 401 where the key is a token's", () => {
    expect(statusOf(refuse("bad_key", { status: 401 }))).toBe(401);
  });

  it.each(REFUSAL_CODES)("has one plain sentence for %s", (code) => {
    // It is shown to people and models, so it is one line and ends.
    expect(sentenceOf(code)).toMatch(/^[A-Z`][^\n]+\.$/);
  });
});

describe("a refusal", () => {
  it("carries its facts beside its code", () => {
    expect(refuse("clock_skew", { now_ms: 5 })).toStrictEqual({ refused: "clock_skew", now_ms: 5 });
    expect(refuse("stale")).toStrictEqual({ refused: "stale" });
  });

  it("is told from an answer", () => {
    expect(isRefusal(refuse("stale"))).toBe(true);
    for (const answer of [undefined, null, "stale", 7, [], {}, { state: "stored" }])
      expect(isRefusal(answer)).toBe(false);
  });
});

it.each(["", "internal", "toString", "constructor", "__proto__", "hasOwnProperty", "BAD_KEY", "bad_key "])(
  "knows no code %j",
  (text) => {
    expect(isRefusalCode(text)).toBe(false);
  },
);
