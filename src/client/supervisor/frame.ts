/**
 * PURE. A line of the pipe, read as far as it must be to know where it goes. The bytes that go on are the ones that came.
 */

export type Id = string | number;
export type Params = Readonly<Record<string, unknown>>;

export interface Request {
  readonly kind: "request";
  readonly id: Id;
  readonly method: string;
  readonly params: Params;
}

export interface Notification {
  readonly kind: "notification";
  readonly method: string;
  readonly params: Params;
}

export interface Response {
  readonly kind: "response";
  readonly id: Id;
  /** Absent: it is an error. */
  readonly result?: Params;
}

export interface Fault {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

export type Frame =
  | Request
  | Notification
  | Response
  /** It is told to whoever sent it. */
  | { readonly kind: "wrong"; readonly fault: Fault }
  /** A response to nothing, which is never answered: two ends that answer errors with errors would not stop. */
  | { readonly kind: "stray" };

/** Codes of JSON-RPC and MCP that the supervisor answers with itself. */
export const CODES = {
  parse: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internal: -32_603,
  unsupportedVersion: -32_022,
} as const;

export const ID_IN_USE: Fault = { code: CODES.invalidRequest, message: "Invalid Request: that id is in use" };

/** @param line without its end */
export function readFrame(line: Uint8Array): Frame {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(line));
  } catch {
    return { kind: "wrong", fault: { code: CODES.parse, message: "Parse error" } };
  }
  if (!isRecord(value)) return invalid("A message is one JSON object");
  const { id, method, params, result } = value;
  if (method === undefined) {
    if (!isId(id)) return { kind: "stray" };
    return isRecord(result) ? { kind: "response", id, result } : { kind: "response", id };
  }
  if (typeof method !== "string" || value["jsonrpc"] !== "2.0") return invalid("No JSON-RPC 2.0 message");
  if (params !== undefined && !isRecord(params)) return invalid("params is no object");
  if (id === undefined) return { kind: "notification", method, params: params ?? {} };
  return isId(id) ? { kind: "request", id, method, params: params ?? {} } : invalid("An id is a string or an integer");
}

/** Tells 1 from "1". */
export function keyOf(id: Id): string {
  return `${typeof id}:${id}`;
}

export function isRecord(value: unknown): value is Params {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** An integer beyond 2^53 would come back as another one. */
export function isId(value: unknown): value is Id {
  return typeof value === "string" || Number.isSafeInteger(value);
}

function invalid(message: string): Frame {
  return { kind: "wrong", fault: { code: CODES.invalidRequest, message: `Invalid Request: ${message}` } };
}
