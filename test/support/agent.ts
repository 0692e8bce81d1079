/**
 * A small signing client for tests, the demo and the bench. It is not the product's client: it checks nothing that
 * it receives, keeps nothing, and can be told to sign what is wrong.
 */

import { createHash, createPrivateKey, randomBytes, sign as nativeSign, type KeyObject } from "node:crypto";
import { Agent as HttpAgent, request as httpRequest, type IncomingHttpHeaders } from "node:http";
import type { Key } from "../../src/protocol/address.ts";
import { encodeBase64url } from "../../src/protocol/base64url.ts";
import {
  announcementBytes,
  messageBytes,
  tokenBytes,
  unregisterBytes,
  wakeLeaseBytes,
} from "../../src/protocol/canonical.ts";
import { AUTH_SCHEME } from "../../src/protocol/constants.ts";
import { publicKeyOf } from "../../src/protocol/signing.ts";
import { formatToken } from "../../src/protocol/token.ts";

/** JSON of an answer. Loosely typed, because a test reads just the fields that it asserts. */
export type Json = any;

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The parsed JSON, or undefined if the body is empty or something else. */
  readonly body: Json;
}

/** The fields of a message that a test may set; the rest is filled in. Also takes wrong ones. */
export interface MessageInput {
  readonly to: string;
  readonly text: string;
  readonly ts: number;
  readonly msg_id?: string;
  readonly kind?: string;
  readonly task_id?: string;
  readonly status?: string;
  readonly in_reply_to?: string;
  readonly reply_to?: string;
}

export interface SessionInput {
  readonly session_id: string;
  readonly cwd?: string;
  readonly git_root?: string;
  readonly summary?: string;
}

/** A signing key and the public key that names it. */
export interface Signer {
  readonly key: Key;
  sign(bytes: Uint8Array): string;
}

/** The part of a request that a token signs, and what a test may put in place of it. */
export interface TokenOverrides {
  readonly key?: Key;
  readonly ts?: number;
  readonly nonce?: Uint8Array;
  readonly audience?: string;
  readonly method?: string;
  readonly target?: string;
  readonly body?: string | Uint8Array;
}

export interface RequestOptions {
  /** `false` sends no token, a string sends that one, an object signs with these in place of the request's own. */
  readonly token?: false | string | TokenOverrides;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** Drops the request when aborted. */
  readonly signal?: AbortSignal;
}

export interface AgentOptions {
  /** Origin of the bus, `http://127.0.0.1:PORT`. */
  readonly url: string;
  /** What tokens are signed for; the url if absent. */
  readonly audience?: string;
  /** 32 bytes; random if absent. */
  readonly seed?: Uint8Array;
  /** Clock in Unix milliseconds; the system's if absent. */
  readonly now?: () => number;
}

/** A signer from a 32-byte seed. Node's own Ed25519: the same signatures as noble's, and many times faster. */
export async function signerOf(seed: Uint8Array): Promise<Signer> {
  // PKCS#8 in front of a raw Ed25519 seed (RFC 8410).
  const der = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), seed]);
  const privateKey: KeyObject = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  return {
    key: await publicKeyOf(seed),
    sign: (bytes) => encodeBase64url(nativeSign(null, bytes, privateKey)),
  };
}

/** A signed message as it goes into `payload`. */
export function signMessage(signer: Signer, input: MessageInput): Json {
  const { kind = "message", msg_id = newMessageId(), reply_to, ...rest } = input;
  const fields = { from: signer.key, ...rest, to: input.to as Key, kind, msg_id };
  const sig = signer.sign(messageBytes(fields));
  return { ...fields, ...(reply_to === undefined ? {} : { reply_to }), sig };
}

/** A signed announcement. */
export function signAnnouncement(
  signer: Signer,
  input: { readonly name: string; readonly session: SessionInput; readonly ts: number },
): Json {
  const fields = { pubkey: signer.key, ...input };
  return { ...fields, sig: signer.sign(announcementBytes(fields)) };
}

/** A signed lease of what wakes a session. */
export function signWake(
  signer: Signer,
  session_id: string,
  terms: { readonly path: string; readonly proven_at_ms: number; readonly until_ms: number },
): Json {
  return { ...terms, sig: signer.sign(wakeLeaseBytes({ key: signer.key, session_id, ...terms })) };
}

/** A signed goodbye of a session. */
export function signUnregister(signer: Signer, input: { readonly session_id: string; readonly ts: number }): Json {
  const { session_id, ts } = input;
  return {
    pubkey: signer.key,
    session: { session_id },
    ts,
    sig: signer.sign(unregisterBytes(signer.key, session_id, ts)),
  };
}

/** 32 hex characters, as our clients mint them. */
export function newMessageId(): string {
  return randomBytes(16).toString("hex");
}

/** The key of a route. */
export function keyOf(route: string): string {
  return route.split("#")[0]!;
}

/** An agent with one key, any number of sessions, and a connection of its own. */
export class Agent {
  readonly key: Key;
  readonly url: string;
  readonly audience: string;
  readonly signer: Signer;
  readonly #now: () => number;
  readonly #origin: URL;
  readonly #http = new HttpAgent({ keepAlive: true });
  #lastTs = 0;

  private constructor(options: AgentOptions, signer: Signer) {
    this.signer = signer;
    this.key = signer.key;
    this.url = options.url;
    this.audience = options.audience ?? options.url;
    this.#origin = new URL(options.url);
    this.#now = options.now ?? Date.now;
  }

  static async create(options: AgentOptions): Promise<Agent> {
    return new Agent(options, await signerOf(options.seed ?? randomBytes(32)));
  }

  /** Closes idle connections. */
  close(): void {
    this.#http.destroy();
  }

  /** A time for the next thing signed: strictly increasing, as announcements and contacts must be. */
  nextTs(): number {
    this.#lastTs = Math.max(this.#now(), this.#lastTs + 1);
    return this.#lastTs;
  }

  /** `key#session`, or the bare key. */
  route(session?: string): string {
    return session === undefined ? this.key : `${this.key}#${session}`;
  }

  /** A token over a request, or over what the overrides say. */
  token(
    request: { readonly method: string; readonly target: string; readonly body?: string | Uint8Array },
    overrides: TokenOverrides = {},
  ): string {
    const key = overrides.key ?? this.key;
    const ts = overrides.ts ?? this.#now();
    const nonce = overrides.nonce ?? randomBytes(16);
    const bytes = tokenBytes({
      key,
      ts,
      nonce,
      audience: overrides.audience ?? this.audience,
      method: overrides.method ?? request.method,
      target: overrides.target ?? request.target,
      bodyHash: createHash("sha256")
        .update(overrides.body ?? request.body ?? "")
        .digest(),
    });
    return formatToken({ key, ts, nonce: encodeBase64url(nonce), sig: this.signer.sign(bytes) });
  }

  /**
   * Sends one signed request. An object becomes JSON; a string or bytes go out as they are.
   * @throws if the connection breaks before the whole answer is here
   */
  request(method: string, target: string, body?: Json, options: RequestOptions = {}): Promise<Answer> {
    const raw = body === undefined || typeof body === "string" || body instanceof Uint8Array;
    const bytes = raw ? (body as string | Uint8Array | undefined) : JSON.stringify(body);
    const headers: Record<string, string | readonly string[]> = {};
    if (bytes !== undefined) headers["content-type"] = "application/json";
    if (options.token !== false) {
      const given = options.token;
      const token = typeof given === "string" ? given : this.token({ method, target, body: bytes ?? "" }, given);
      headers["authorization"] = `${AUTH_SCHEME} ${token}`;
    }
    return exchange(this.#origin, method, target, {
      headers: { ...headers, ...options.headers },
      ...(bytes === undefined ? {} : { body: bytes }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
      agent: this.#http,
    });
  }

  /** @param shown fields of the second, public announcement; none is sent if absent */
  announce(session: SessionInput | string, name = "agent", shown?: { readonly name: string }): Promise<Answer> {
    const whole = typeof session === "string" ? { session_id: session } : session;
    const ts = this.nextTs();
    const announcement = signAnnouncement(this.signer, { name, session: whole, ts });
    if (!shown) return this.request("POST", "/announce", announcement);
    const session_id = whole.session_id;
    const publicPart = signAnnouncement(this.signer, { ...shown, session: { session_id }, ts });
    return this.request("POST", "/announce", { ...announcement, public: publicPart });
  }

  /** @param goodbyes `[{to, payload}]`, from {@link message} */
  unregister(session_id: string, goodbyes?: readonly Json[]): Promise<Answer> {
    const signed = signUnregister(this.signer, { session_id, ts: this.nextTs() });
    return this.request("POST", "/unregister", goodbyes ? { ...signed, goodbyes } : signed);
  }

  /** `{to, payload}` to a route, signed; sending it twice is a retry. */
  message(to: string, text: string, fields: Partial<MessageInput> = {}): { to: string; payload: Json } {
    return { to, payload: signMessage(this.signer, { text, ts: this.nextTs(), ...fields, to: keyOf(to) }) };
  }

  send(to: string, text: string, fields: Partial<MessageInput> = {}): Promise<Answer> {
    return this.request("POST", "/send", this.message(to, text, fields));
  }

  /** @param messages from {@link message} */
  sendBatch(messages: readonly Json[]): Promise<Answer> {
    return this.request("POST", "/send", { messages });
  }

  /** @param query `session` absent polls the identity's own inbox; `ack`: handles that ride on the poll */
  recv(
    query: { session?: string; timeoutMs?: number; max?: number; ack?: readonly string[] } = {},
    options: RequestOptions = {},
  ): Promise<Answer> {
    const parts = [`me=${encodeURIComponent(this.route(query.session))}`];
    if (query.timeoutMs !== undefined) parts.push(`timeout_ms=${query.timeoutMs}`);
    if (query.max !== undefined) parts.push(`max=${query.max}`);
    for (const handle of query.ack ?? []) parts.push(`ack=${encodeURIComponent(handle)}`);
    return this.request("GET", `/recv?${parts.join("&")}`, undefined, options);
  }

  ack(session: string | undefined, acks: string | readonly string[]): Promise<Answer> {
    const me = this.route(session);
    return this.request("POST", "/ack", typeof acks === "string" ? { me, ack: acks } : { me, acks });
  }

  contacts(keys: readonly string[], ts = this.nextTs()): Promise<Answer> {
    return this.request("PUT", "/contacts", { contacts: keys, ts });
  }

  receipts(to: string, msgIds: readonly string[]): Promise<Answer> {
    return this.request("POST", "/receipts", { to, msg_ids: msgIds });
  }

  /** The roster of one identity, or without it a page of the whole bus. */
  roster(identity?: string, page: { limit?: number; cursor?: string } = {}): Promise<Answer> {
    const query = Object.entries({ ...(identity === undefined ? {} : { identity }), ...page })
      .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
      .join("&");
    return this.request("GET", query === "" ? "/roster" : `/roster?${query}`);
  }

  forget(): Promise<Answer> {
    return this.request("POST", "/forget", {});
  }

  /** For a key of ADMIN_KEYS. */
  invite(ttlMs: number): Promise<Answer> {
    return this.request("POST", "/invite", { ttl_ms: ttlMs });
  }

  join(token: string): Promise<Answer> {
    return this.request("POST", "/join", { token });
  }
}

/** What {@link exchange} sends; nothing in it is checked or completed but the length of the body. */
export interface RawRequest {
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Uint8Array;
  readonly agent?: HttpAgent;
  readonly signal?: AbortSignal;
}

/**
 * One HTTP exchange as it is written: target, Host and repeated headers are not normalised, as `fetch` would.
 * An answer that comes before the body is all sent counts: a bus may refuse a large body at its head.
 */
export function exchange(origin: URL, method: string, target: string, raw: RawRequest = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const body = raw.body === undefined ? undefined : Buffer.from(raw.body as Uint8Array);
    const request = httpRequest({
      host: origin.hostname.replace(/^\[|\]$/g, ""),
      port: origin.port,
      method,
      path: target,
      headers: { ...(raw.headers as Record<string, string>), ...(body && { "content-length": body.length }) },
      ...(raw.agent && { agent: raw.agent }),
      ...(raw.signal && { signal: raw.signal }),
    });
    let answered = false;
    request.on("error", (error) => {
      if (!answered) reject(error);
    });
    request.on("response", (response) => {
      answered = true;
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () =>
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          body: parseOrUndefined(Buffer.concat(chunks).toString("utf8")),
        }),
      );
    });
    request.end(body);
  });
}

function parseOrUndefined(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
