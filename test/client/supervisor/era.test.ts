/** What a request is in each era: every state by every kind of request is a row. */

import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  PROTOCOL_VERSION_META_KEY,
} from "@modelcontextprotocol/server";
import { describe, expect, it } from "vitest";
import {
  admit,
  CAPABILITIES_META,
  CLIENT_META,
  LEGACY_REVISIONS,
  negotiate,
  OPENING,
  VERSION_META,
  type Era,
} from "../../../src/client/supervisor/era.ts";
import type { Params, Request } from "../../../src/client/supervisor/frame.ts";

const REVISIONS = ["2026-07-28"];
const CLAIM = { [VERSION_META]: "2026-07-28", [CAPABILITIES_META]: {}, [CLIENT_META]: { name: "t", version: "1" } };
const INITIALIZE = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } };

const ERAS: Readonly<Record<string, Era>> = {
  opening: OPENING,
  bare: { at: "bare" },
  legacy: { at: "legacy", initialize: INITIALIZE },
  modern: { at: "modern", claim: CLAIM },
};
const request = (method: string, params: Params = {}): Request => ({ kind: "request", id: 1, method, params });
const modern = (method: string, meta: Params = CLAIM) => request(method, { _meta: meta });
const REQUESTS: Readonly<Record<string, Request>> = {
  initialize: request("initialize", INITIALIZE),
  "bad initialize": request("initialize", { protocolVersion: "2025-06-18" }),
  ping: request("ping"),
  list: request("tools/list"),
  "list from a cursor": request("tools/list", { cursor: "x" }),
  call: request("tools/call", { name: "whoami" }),
  "bare discover": request("server/discover"),
  discover: modern("server/discover"),
  "modern list": modern("tools/list"),
  "modern call": modern("tools/call"),
  "modern ping": modern("ping"),
  "future call": modern("tools/call", { ...CLAIM, [VERSION_META]: "2027-01-01" }),
  "odd call": modern("tools/call", { ...CLAIM, [VERSION_META]: 7 }),
  "half a claim": modern("tools/call", { [VERSION_META]: "2026-07-28" }),
};

/** `[era afterwards, what it is]`, in the order of opening, bare, legacy, modern. */
const TABLE: Readonly<Record<keyof typeof REQUESTS, readonly [string, string, string, string]>> = {
  initialize: ["legacy initialize", "legacy initialize", "legacy initialize", "modern -32022"],
  "bad initialize": ["opening -32602", "bare -32602", "legacy -32602", "modern -32022"],
  ping: ["opening pong", "bare pong", "legacy pong", "modern -32602"],
  list: ["bare tools", "bare tools", "legacy tools", "modern -32602"],
  "list from a cursor": ["bare forwarded", "bare forwarded", "legacy forwarded", "modern -32602"],
  call: ["bare forwarded", "bare forwarded", "legacy forwarded", "modern -32602"],
  "bare discover": ["opening -32602", "bare forwarded", "legacy forwarded", "modern -32602"],
  discover: ["opening discover", "bare forwarded", "legacy forwarded", "modern discover"],
  "modern list": ["modern tools", "bare tools", "legacy tools", "modern tools"],
  "modern call": ["modern forwarded", "bare forwarded", "legacy forwarded", "modern forwarded"],
  "modern ping": ["modern forwarded", "bare pong", "legacy pong", "modern forwarded"],
  "future call": ["opening -32022", "bare forwarded", "legacy forwarded", "modern -32022"],
  "odd call": ["opening -32022", "bare forwarded", "legacy forwarded", "modern -32022"],
  "half a claim": ["opening -32602", "bare forwarded", "legacy forwarded", "modern -32602"],
};

const rows = Object.keys(REQUESTS).flatMap((what) =>
  Object.keys(ERAS).map((era, index) => ({ what, era, wanted: TABLE[what]![index]! })),
);

describe("a request", () => {
  it.each(rows)("$what, when it is $era: $wanted", ({ what, era, wanted }) => {
    const after = admit(ERAS[era]!, REQUESTS[what]!, REVISIONS);
    const { admission } = after;
    const as =
      admission.as === "refused" ? admission.fault.code : admission.as === "answered" ? admission.what : admission.as;
    expect(`${after.era.at} ${as}`).toBe(wanted);
    // What is refused opens nothing.
    if (admission.as === "refused") expect(after.era).toBe(ERAS[era]);
  });

  it("keeps what a probe said of its client, and of a caller only who it is", () => {
    expect(admit(OPENING, REQUESTS["discover"]!, REVISIONS).era).toEqual({ at: "opening", claim: CLAIM });
    const call = modern("tools/call", { ...CLAIM, progressToken: 3, "x/secret": "s" });
    expect(admit(OPENING, call, REVISIONS).era).toEqual({ at: "modern", claim: CLAIM });
  });

  it("is answered with the revision that it asked for, or the newest of its era", () => {
    for (const revision of LEGACY_REVISIONS) expect(negotiate({ protocolVersion: revision })).toBe(revision);
    expect(negotiate({ protocolVersion: "1999-01-01" })).toBe(LEGACY_REVISIONS[0]);
  });

  it("names its keys as the SDK does", () => {
    expect([VERSION_META, CAPABILITIES_META, CLIENT_META]).toEqual([
      PROTOCOL_VERSION_META_KEY,
      CLIENT_CAPABILITIES_META_KEY,
      CLIENT_INFO_META_KEY,
    ]);
  });
});
