/**
 * PURE. Which of the two MCP eras a connection is in, and what that makes of a request: answered here, handed on, or refused.
 *
 * The first valid request opens the connection; an invalid one starts nothing. The eras never mix on one connection, also not
 * by way of a new process, which would take its first request for the opening.
 */

import { CODES, isRecord, type Fault, type Params, type Request } from "./frame.ts";

export const VERSION_META = "io.modelcontextprotocol/protocolVersion";
export const CAPABILITIES_META = "io.modelcontextprotocol/clientCapabilities";
export const CLIENT_META = "io.modelcontextprotocol/clientInfo";

/** The revisions that begin with `initialize`, the newest first: another one is answered with that. */
export const LEGACY_REVISIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"] as const;

/**
 * ```
 *   opening ─── discover ──────────────▶ opening, with the probe's claim
 *      │ ├───── initialize ────────────▶ legacy ◀─── initialize ───┐
 *      │ └───── request with a claim ──▶ modern                    │
 *      └─────── request without one ───────────────────────────▶ bare
 * ```
 */
export type Era =
  /** `claim`: what a probe said of its client. */
  | { readonly at: "opening"; readonly claim?: Params }
  /** A client that greets nobody; the SDK serves it as an older one. */
  | { readonly at: "bare" }
  | { readonly at: "legacy"; readonly initialize: Params }
  /** `claim`: the `_meta` of the request that opened it, as far as it names the client. */
  | { readonly at: "modern"; readonly claim: Params };

export type Admission =
  /** By the supervisor, at once; the process is asked the same, so that the answer stays true. */
  | { readonly as: "answered"; readonly what: "initialize" | "discover" | "tools" }
  /** By the supervisor, which is what is asked about. */
  | { readonly as: "pong" }
  | { readonly as: "forwarded" }
  | { readonly as: "refused"; readonly fault: Fault };

export const OPENING: Era = { at: "opening" };

/** @param revisions of the modern era that the process speaks */
export function admit(
  era: Era,
  { method, params }: Request,
  revisions: readonly string[],
): { readonly era: Era; readonly admission: Admission } {
  const refused = (fault: Fault) => ({ era, admission: { as: "refused", fault } as const });
  const meta = isRecord(params["_meta"]) ? params["_meta"] : {};
  const revision = meta[VERSION_META];
  if (method === "initialize" && era.at !== "modern") {
    if (!isInitialize(params)) return refused({ code: CODES.invalidParams, message: "Invalid params of initialize" });
    return { era: { at: "legacy", initialize: params }, admission: { as: "answered", what: "initialize" } };
  }
  if (era.at === "bare" || era.at === "legacy") return { era, admission: served(method, params) };

  if (method === "initialize") return refused(unsupported(params["protocolVersion"], revisions));
  if (revision === undefined) {
    // Health checks of hosts that have not said who they are.
    if (era.at === "opening" && method === "ping") return { era, admission: { as: "pong" } };
    if (era.at === "modern" || method === "server/discover") {
      return refused({ code: CODES.invalidParams, message: `Request is missing ${VERSION_META} in its _meta` });
    }
    return { era: { at: "bare" }, admission: served(method, params) };
  }
  // By this code hosts fall back to `initialize` on the same pipe.
  if (method === "server/discover" && revisions.length === 0)
    return refused({ code: CODES.methodNotFound, message: "Method not found" });
  if (typeof revision !== "string" || !revisions.includes(revision)) return refused(unsupported(revision, revisions));
  if (!isRecord(meta[CAPABILITIES_META])) {
    return refused({ code: CODES.invalidParams, message: `Request is missing ${CAPABILITIES_META} in its _meta` });
  }
  if (method === "server/discover") {
    const next: Era = era.at === "opening" ? { at: "opening", claim: claimOf(meta) } : era;
    return { era: next, admission: { as: "answered", what: "discover" } };
  }
  const next: Era = era.at === "opening" ? { at: "modern", claim: claimOf(meta) } : era;
  const isList = method === "tools/list" && params["cursor"] === undefined;
  return { era: next, admission: isList ? { as: "answered", what: "tools" } : { as: "forwarded" } };
}

/** The revision that an `initialize` is answered with. */
export function negotiate({ protocolVersion }: Params): string {
  return LEGACY_REVISIONS.find((revision) => revision === protocolVersion) ?? LEGACY_REVISIONS[0];
}

function served(method: string, params: Params): Admission {
  if (method === "ping") return { as: "pong" };
  const isList = method === "tools/list" && params["cursor"] === undefined;
  return isList ? { as: "answered", what: "tools" } : { as: "forwarded" };
}

function claimOf(meta: Params): Params {
  const named = [VERSION_META, CAPABILITIES_META, CLIENT_META].filter((name) => meta[name] !== undefined);
  return Object.fromEntries(named.map((name) => [name, meta[name]]));
}

function isInitialize({ protocolVersion, capabilities, clientInfo }: Params): boolean {
  if (typeof protocolVersion !== "string" || !isRecord(capabilities) || !isRecord(clientInfo)) return false;
  return typeof clientInfo["name"] === "string" && typeof clientInfo["version"] === "string";
}

function unsupported(requested: unknown, supported: readonly string[]): Fault {
  const name = typeof requested === "string" ? requested.slice(0, 64) : "none";
  const message = `Unsupported protocol version: ${name}`;
  return { code: CODES.unsupportedVersion, message, data: { supported, requested: name } };
}
