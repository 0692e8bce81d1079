/**
 * Reads test/vectors/bad_inputs.json: turns a case into the request that goes out, sends it, and says what came
 * back. How a case is written stands in docs of the table: macros `{{…}}`, `$auth`, `$now`, `bodyGen`, `pre`.
 */

import { createHash, randomBytes } from "node:crypto";
import { WebSocket } from "ws";
import { encodeBase64url } from "../../src/protocol/base64url.ts";
import { announcementBytes, tokenBytes, wakeLeaseBytes } from "../../src/protocol/canonical.ts";
import { AUTH_SCHEME, MESSAGE_DOMAIN, TOKEN_DOMAIN } from "../../src/protocol/constants.ts";
import { formatToken } from "../../src/protocol/token.ts";
import {
  exchange,
  newMessageId,
  signAnnouncement,
  signMessage,
  signUnregister,
  type Json,
  type Signer,
} from "./agent.ts";

export interface Expectation {
  readonly status?: number;
  readonly error?: string;
  /** Close code of the socket. */
  readonly close?: number;
  /** Fields of a frame that must come. */
  readonly frame?: Readonly<Record<string, unknown>>;
  /** The handshake succeeds. */
  readonly open?: true;
}

/** One request, or one socket with the frames sent on it. */
export interface Step {
  /** An HTTP method, or `WS` for a socket's handshake. */
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, Json>>;
  readonly body?: string;
  readonly bodyGen?: Json;
  readonly frames?: readonly {
    readonly text?: string;
    readonly repeat?: string;
    readonly n?: number;
    /** As a body's, in a frame of its own: `announce` alone. */
    readonly bodyGen?: Json;
  }[];
  readonly expect: Expectation;
}

/** A step before the case's own; `sameRequest` sends the case's very bytes. */
export type PreStep =
  | { readonly sameRequest: true; readonly expect: Expectation }
  | (Step & { readonly sameRequest?: never; readonly repeat?: number });

export interface BadInput extends Step {
  readonly name: string;
  readonly pre?: readonly PreStep[];
  /** The Host allow-list is on. */
  readonly profile?: "local-bus";
}

/** Who and what the table's names stand for. */
export interface Cast {
  /** A to E and Z. */
  readonly signers: Readonly<Record<string, Signer>>;
  /** JOIN, JOINOLD and JOINGUESS. */
  readonly joinTokens: Readonly<Record<string, string>>;
}

/** A step as it goes out. */
export interface Outgoing {
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: Uint8Array;
  readonly frames: readonly string[];
}

/** What came back: an HTTP answer, or what a socket did. */
export type Outcome =
  | { readonly status: number; readonly body: Json }
  | { readonly open: true; readonly frames: readonly Json[]; readonly close?: number; readonly reason?: string };

/** Resolves macros, makes the body and mints the tokens. `i` is the counter of a repeated step, from 1. */
export function prepare(step: Step, cast: Cast, audience: string, i = 1): Outgoing {
  const expand = (value: Json): Json => expandMacros(value, cast, i);
  const target: string = expand(step.path);
  const body = makeBody(step, cast, expand);
  const request = { method: step.method, target, body: body ?? new Uint8Array(), audience };
  const header = (value: Json): string | readonly string[] => {
    if (Array.isArray(value)) return value.flatMap(header);
    if (typeof value === "string") return expand(value);
    const token = mintToken(expand(value["$auth"]), request, cast);
    return step.method === "WS" ? token : `${AUTH_SCHEME} ${token}`;
  };
  return {
    method: step.method,
    target,
    headers: Object.fromEntries(Object.entries(step.headers).map(([name, value]) => [name, header(value)])),
    ...(body && { body }),
    frames: (step.frames ?? []).map(({ text, repeat, n, bodyGen }) => {
      if (bodyGen !== undefined) return JSON.stringify(announceFrame(expand(bodyGen), cast));
      return expand(text ?? repeat!.repeat(n!));
    }),
  };
}

/** Sends a prepared step and waits for what it `expect`s, or for the end of the exchange. */
export async function perform(outgoing: Outgoing, url: string, expect: Expectation): Promise<Outcome> {
  if (outgoing.method === "WS") return performSocket(outgoing, url, expect);
  const { method, target, headers, body } = outgoing;
  return exchange(new URL(url), method, target, { headers, ...(body && { body }) });
}

/** Why an outcome is not the expected one, or undefined if it is. */
export function mismatch(outcome: Outcome, expect: Expectation): string | undefined {
  const got = JSON.stringify(outcome);
  if ("status" in outcome) {
    if (expect.status === undefined) return `expected ${JSON.stringify(expect)}, but no socket opened: ${got}`;
    if (outcome.status !== expect.status) return `expected status ${expect.status}, got ${got}`;
    if (outcome.body?.error !== expect.error) return `expected error ${expect.error}, got ${got}`;
    if (expect.error === undefined) return undefined;
    if (typeof outcome.body.message !== "string") return `a refusal without a sentence: ${got}`;
    const aboutTime = expect.error === "clock_skew";
    return aboutTime && !Number.isSafeInteger(outcome.body.now_ms) ? `no now_ms: ${got}` : undefined;
  }
  if (expect.status !== undefined) return `expected status ${expect.status}, but the socket opened: ${got}`;
  if (expect.close !== outcome.close) return `expected close ${expect.close}, got ${got}`;
  if (expect.error !== undefined && outcome.reason !== expect.error) return `expected ${expect.error}, got ${got}`;
  return expect.frame && !outcome.frames.some((frame) => hasFields(frame, expect.frame!))
    ? `expected frame ${JSON.stringify(expect.frame)}, got ${got}`
    : undefined;
}

function hasFields(frame: Json, fields: Readonly<Record<string, unknown>>): boolean {
  return Object.entries(fields).every(([name, value]) => frame?.[name] === value);
}

/** The same for strings, lists and objects; `{"$now": ms}` becomes a time. */
function expandMacros(value: Json, cast: Cast, i: number): Json {
  if (typeof value === "string") {
    return value
      .replace(/\{\{rep:(.):(\d+)\}\}/gs, (_, unit: string, n: string) => unit.repeat(Number(n)))
      .replace(/\{\{alias:([A-Z])\}\}/g, (_, who: string) => aliasOf(cast.signers[who]!.key))
      .replace(/\{\{i4\}\}/g, String(i).padStart(4, "0"))
      .replace(/\{\{([A-Z]+)\}\}/g, (macro, name: string) => {
        const text = cast.signers[name]?.key ?? cast.joinTokens[name];
        if (text === undefined) throw new Error(`unknown macro ${macro}`);
        return text;
      });
  }
  if (Array.isArray(value)) return value.map((entry) => expandMacros(entry, cast, i));
  if (typeof value !== "object" || value === null) return value;
  if ("$now" in value) return Date.now() + value["$now"];
  return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, expandMacros(entry, cast, i)]));
}

/** Another spelling of the same bytes: the last character's unused bits are set. */
function aliasOf(base64url: string): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return base64url.slice(0, -1) + alphabet[alphabet.indexOf(base64url.at(-1)!) + 1]!;
}

function makeBody(step: Step, cast: Cast, expand: (value: Json) => Json): Uint8Array | undefined {
  if (step.body !== undefined) return Buffer.from(expand(step.body), "utf8");
  if (step.bodyGen === undefined) return undefined;
  const spec = expand(step.bodyGen);
  switch (spec.gen) {
    case "bytes":
      return Buffer.from(spec.hex, "hex");
    case "repeat":
      return Buffer.from(spec.prefix + spec.unit.repeat(spec.n) + spec.suffix);
    case "send":
      return toBytes(makeSend(spec, cast));
    case "announce":
      return toBytes({ ...makeAnnounced(spec, cast), ...spec.after });
    case "unregister":
      return toBytes({ ...makePresence(spec, cast.signers[spec.key]!), ...spec.after });
    default:
      throw new Error(`unknown bodyGen ${spec.gen}`);
  }
}

function makeSend(spec: Json, { signers }: Cast): Json {
  const to = signers[spec.to]!.key;
  const fields = { to, text: "hello", ts: Date.now(), msg_id: newMessageId(), ...spec.set };
  const payload = { ...signMessage(signers[spec.from]!, fields), ...spec.after };
  if (spec.aliasSig) payload.sig = aliasOf(payload.sig);
  return { to: spec.route ?? `${to}#${spec.session}`, payload };
}

/** An announcement with what may stand beside it. */
function makeAnnounced(spec: Json, cast: Cast): Json {
  const signer = cast.signers[spec.key]!;
  const said = makePresence(spec, signer);
  const shown = spec.public && makePresence({ ...spec, set: { ...spec.set, ts: said.ts, ...spec.public } }, signer);
  const wake = spec.wake && { wake: makeWake(spec.wake, said, cast) };
  return { ...said, ...(shown && { public: shown }), ...wake };
}

function announceFrame(spec: Json, cast: Cast): Json {
  const { public: shown, wake, ...announcement } = makeAnnounced(spec, cast);
  return { t: "announce", announcement, ...(shown && { public: shown }), ...(wake !== undefined && { wake }) };
}

/**
 * What wakes the announced session: for a minute (`forMs`), proven a second before it is announced (`provenInMs` from then),
 * signed by its key. `raw` stands in its place; `set` is signed, `after` is not; `by` and `session` are whose it is signed as.
 */
function makeWake(spec: Json, said: Json, { signers }: Cast): Json {
  if ("raw" in spec) return spec.raw;
  const proven_at_ms = said.ts + (spec.provenInMs ?? -1_000);
  const fields = { path: "channel", proven_at_ms, until_ms: proven_at_ms + (spec.forMs ?? 60_000), ...spec.set };
  const session_id = spec.session ?? said.session.session_id;
  const by = signers[spec.by] ?? Object.values(signers).find(({ key }) => key === said.pubkey)!;
  const isSignable = [fields.proven_at_ms, fields.until_ms].every((at) => Number.isSafeInteger(at) && at >= 0);
  const sig = by.sign(wakeLeaseBytes({ key: by.key, session_id, ...fields, ...(!isSignable && ZERO_TIMES) }));
  return { ...fields, sig, ...spec.after };
}

const ZERO_TIMES = { proven_at_ms: 0, until_ms: 0 };

function makePresence(spec: Json, signer: Signer): Json {
  const session = { session_id: "s1", cwd: "", git_root: "", summary: "", ...spec.set?.session };
  const ts = spec.set?.ts ?? Date.now();
  const announcement = { name: "agent", ...spec.set, session, ts };
  if (spec.gen === "announce") return signAnnouncement(signer, announcement);
  const goodbye = signUnregister(signer, { session_id: session.session_id, ts });
  if (spec.sigFrom !== "announce") return goodbye;
  return { ...goodbye, sig: signer.sign(announcementBytes({ pubkey: signer.key, ...announcement })) };
}

function toBytes(value: Json): Uint8Array {
  return Buffer.from(JSON.stringify(value), "utf8");
}

/** A token with parts replaced or broken as `$auth` says. */
function mintToken(
  auth: Json,
  request: { method: string; target: string; body: Uint8Array; audience: string },
  cast: Cast,
): string {
  const signer = cast.signers[auth.key]!;
  const nonce: Uint8Array = auth.nonce === undefined ? randomBytes(16) : Buffer.from(auth.nonce, "hex");
  const ts: number = auth.ts ?? Date.now();
  const parts = { ts, nonce: encodeBase64url(nonce) };
  if (auth.forge === "small-order") {
    // The identity point as key and as R, with S = 0: holds for any bytes where points are not checked.
    const point = Buffer.from(`01${"00".repeat(31)}`, "hex");
    const sig = encodeBase64url(Buffer.concat([point, Buffer.alloc(32)]));
    return formatToken({ ...parts, key: encodeBase64url(point) as Signer["key"], sig });
  }
  let bytes = tokenBytes({
    key: signer.key,
    ts,
    nonce,
    audience: auth.aud ?? request.audience,
    method: auth.method ?? request.method,
    target: auth.target ?? request.target,
    bodyHash: createHash("sha256")
      .update(auth.body ?? request.body)
      .digest(),
  });
  if (auth.domain === "message") {
    bytes = Uint8Array.from(Buffer.concat([Buffer.from(MESSAGE_DOMAIN), bytes.subarray(TOKEN_DOMAIN.length)]));
  }
  const sig = Buffer.from(signer.sign(bytes), "base64url");
  if (auth.flip) sig[0]! ^= 1;
  if (auth.sPlusL) addOrder(sig);
  const key = auth.aliasKey ? (aliasOf(signer.key) as Signer["key"]) : signer.key;
  return formatToken({ ...parts, key, sig: encodeBase64url(sig) });
}

/** S + L: the same signature to a verifier that does not check S < L. */
function addOrder(sig: Buffer): void {
  const order = Buffer.from("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010", "hex");
  let carry = 0;
  for (let i = 0; i < 32; i++) {
    carry += sig[32 + i]! + order[i]!;
    sig[32 + i] = carry & 0xff;
    carry >>= 8;
  }
}

/** Opens a socket, sends the frames, and waits for the close, the frame or the opening that is expected. */
function performSocket(outgoing: Outgoing, url: string, expect: Expectation): Promise<Outcome> {
  const { "sec-websocket-protocol": offered = [], ...headers } = outgoing.headers;
  const protocols = typeof offered === "string" ? [offered] : [...offered];
  const socket = new WebSocket(url.replace(/^http/, "ws") + outgoing.target, protocols, {
    headers: headers as Record<string, string>,
    perMessageDeflate: false,
  });
  const frames: Json[] = [];
  const outcome = new Promise<Outcome>((resolve, reject) => {
    socket.on("error", reject);
    socket.on("unexpected-response", (_, response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode!, body: JSON.parse(text) }));
    });
    socket.on("open", () => {
      for (const frame of outgoing.frames) socket.send(frame);
      if (expect.open) resolve({ open: true, frames });
    });
    socket.on("message", (data) => {
      frames.push(JSON.parse(String(data)));
      if (expect.frame && hasFields(frames.at(-1), expect.frame)) resolve({ open: true, frames });
    });
    socket.on("close", (close, reason) => resolve({ open: true, frames, close, reason: String(reason) }));
  });
  return outcome.finally(() => {
    socket.on("error", () => {}); // ending it early may still report
    socket.terminate();
  });
}
