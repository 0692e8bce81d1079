/** Strangers cost nothing: whatever is not signed for this bus makes no object and finds no fault of ours. */

import { randomBytes } from "node:crypto";
import { Agent as HttpAgent } from "node:http";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { AUTH_SCHEME } from "../../src/protocol/constants.ts";
import { Agent, exchange, signAnnouncement, signMessage, signUnregister, type Json } from "../support/agent.ts";

const REQUESTS = 10_000;
const AT_A_TIME = 16;

let bus: LocalBus;

beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle") });
});

afterAll(() => bus.stop());

interface Junk {
  readonly method: string;
  readonly target: string;
  readonly headers: Record<string, string>;
  readonly body: Uint8Array | undefined;
}

/** The routes, so that most junk comes as far as the signature. */
const ROUTES: readonly (readonly [method: string, target: string])[] = [
  ...["announce", "unregister", "send", "ack", "receipts", "invite", "join", "forget"].map(
    (path) => ["POST", `/${path}`] as const,
  ),
  ["PUT", "/contacts"],
  ["GET", "/roster"],
  ["GET", "/recv"],
  ["GET", "/socket"],
];
const METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];

/** Characters that may stand in a request line or a header at all; Node sends no others. */
const printable = (maxLength: number) =>
  fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)), maxLength });
const base64url = (length: number) =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((bytes) => Buffer.from(bytes).toString("base64url"));

/** From nothing to a token of the right shape whose key and signature are random. */
const authorization = (key: string): fc.Arbitrary<string | undefined> =>
  fc.oneof(
    fc.constant(undefined),
    printable(60),
    printable(60).map((text) => `${AUTH_SCHEME} ${text}`),
    fc
      .record({
        key: fc.oneof(base64url(32), fc.constant(key)),
        ts: fc.oneof(fc.constant(Date.now()), fc.maxSafeNat()),
        nonce: base64url(16),
        sig: base64url(64),
      })
      .map(({ key: of, ts, nonce, sig }) => `${AUTH_SCHEME} il1.${of}.${ts}.${nonce}.${sig}`),
  );

const line = (key: string): fc.Arbitrary<readonly [method: string, target: string]> =>
  fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(...ROUTES) },
    {
      weight: 2,
      arbitrary: fc.constantFrom("recv", "socket").map((path) => ["GET", `/${path}?me=${key}%23s1`] as const),
    },
    fc
      .tuple(fc.constantFrom(...ROUTES), printable(40))
      .map(([[method, path], rest]) => [method, `${path}?${rest}`] as const),
    fc.tuple(fc.constantFrom(...METHODS), printable(80)).map(([method, rest]) => [method, `/${rest}`] as const),
  );

const junk = (key: string): fc.Arbitrary<Junk> =>
  fc
    .record({
      line: line(key),
      authorization: authorization(key),
      type: fc.oneof({ weight: 8, arbitrary: fc.constant("application/json") }, fc.constantFrom("text/plain", "")),
      body: fc.oneof(
        fc.json().map((text) => Buffer.from(text)),
        fc.uint8Array({ maxLength: 200 }),
      ),
    })
    .map(({ line: [method, target], authorization: auth, type, body }) => ({
      method,
      target,
      headers: { ...(auth !== undefined && { authorization: auth }), ...(type !== "" && { "content-type": type }) },
      body: method === "GET" ? undefined : body,
    }));

describe("requests that nobody signed", () => {
  it(`make no object and get no 5xx, all ${REQUESTS} of them`, { timeout: 60_000 }, async () => {
    const { key } = await Agent.create({ url: bus.url });
    const seed = Date.now() % 2 ** 31;
    const requests = fc.sample(junk(key), { numRuns: REQUESTS, seed });
    const origin = new URL(bus.url);
    const agent = new HttpAgent({ keepAlive: true, maxSockets: AT_A_TIME });
    const wrong: string[] = [];
    const sendSome = async () => {
      for (let request = requests.pop(); request; request = requests.pop()) {
        const { method, target, headers, body } = request;
        const { status } = await exchange(origin, method, target, { headers, agent, ...(body && { body }) });
        if (status < 400 || status >= 500) wrong.push(`${status} ${JSON.stringify(request)}`);
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, sendSome));
    agent.destroy();
    expect(wrong, `seed ${seed}`).toEqual([]);
    expect(await bus.objectFiles()).toEqual([]);
  });
});

/** A request that would be accepted, and the fields of its body that are signed beside the token. */
interface Valid {
  readonly target: string;
  readonly body: Json;
  readonly signed: readonly string[];
}

describe("a signed request with one field changed", () => {
  let agent: Agent;
  let peer: Agent;
  let makers: Record<string, () => Valid>;

  beforeAll(async () => {
    agent = await Agent.create({ url: bus.url });
    peer = await Agent.create({ url: bus.url });
    expect((await peer.contacts([agent.key])).status).toBe(200);
    const session = { session_id: "s1", cwd: "/work", git_root: "work", summary: "busy" };
    makers = {
      send: () => {
        const fields = { to: peer.key, text: "hello", ts: agent.nextTs(), in_reply_to: "m0", task_id: "t1" };
        const payload = signMessage(agent.signer, { ...fields, status: "update", reply_to: agent.route("s1") });
        const signed = ["from", "to", "text", "ts", "kind", "msg_id", "status", "task_id", "in_reply_to", "sig"];
        const body = { to: peer.route("s1"), payload };
        return { target: "/send", body, signed: signed.map((name) => `payload.${name}`) };
      },
      announce: () => ({
        target: "/announce",
        body: signAnnouncement(agent.signer, { name: "agent", session, ts: agent.nextTs() }),
        signed: ["pubkey", "name", "ts", "sig", ...Object.keys(session).map((name) => `session.${name}`)],
      }),
      unregister: () => ({
        target: "/unregister",
        body: signUnregister(agent.signer, { session_id: "s1", ts: agent.nextTs() }),
        signed: ["pubkey", "session.session_id", "ts", "sig"],
      }),
    };
  });

  it("is as valid as the property below supposes while nothing is changed", async () => {
    for (const make of Object.values(makers)) {
      const { target, body } = make();
      expect(await agent.request("POST", target, body)).toMatchObject({ status: 202 });
    }
  });

  /** What a field may become: near its own value, or anything. `undefined` removes it. */
  const change = fc.oneof(
    fc.constant((value: Json) => (typeof value === "number" ? value + 1 : String(value).slice(1))),
    fc.constant((value: Json) => (typeof value === "number" ? String(value) : `${value}x`)),
    fc.constant((value: Json) => flipLast(String(value))),
    fc.jsonValue().map((other) => () => other),
    fc.constant(() => undefined),
  );

  it("is never accepted under its old token", { timeout: 30_000 }, async () => {
    const anyField = fc.record({ kind: fc.constantFrom("send", "announce", "unregister"), at: fc.nat(), change });
    await fc.assert(
      fc.asyncProperty(anyField, async ({ kind, at, change: changed }) => {
        const { target, body, signed } = makers[kind]!();
        const token = agent.token({ method: "POST", target, body: JSON.stringify(body) });
        const mutant = withField(body, signed[at % signed.length]!, changed);
        fc.pre(JSON.stringify(mutant) !== JSON.stringify(body));
        const { status, body: answer } = await agent.request("POST", target, mutant, { token });
        expect([status, answer.error]).toEqual([401, "bad_signature"]);
      }),
      { numRuns: 100 },
    );
  });

  it("is never accepted under a new token over it, nor finds a fault", { timeout: 30_000 }, async () => {
    const anyField = fc.record({ kind: fc.constantFrom("send", "announce", "unregister"), at: fc.nat(), change });
    await fc.assert(
      fc.asyncProperty(anyField, async ({ kind, at, change: changed }) => {
        const { target, body, signed } = makers[kind]!();
        const mutant = withField(body, signed[at % signed.length]!, changed);
        fc.pre(JSON.stringify(mutant) !== JSON.stringify(body));
        const { status } = await agent.request("POST", target, mutant);
        expect(status).toBeGreaterThanOrEqual(400);
        expect(status).toBeLessThan(500);
      }),
      { numRuns: 300 },
    );
  });

  it("is never accepted with another token than its own", { timeout: 30_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.nat(), async (at, by) => {
        const { target, body } = makers["send"]!();
        const token = agent.token({ method: "POST", target, body: JSON.stringify(body) });
        const i = at % token.length;
        const other = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."[by % 65]!;
        fc.pre(token[i] !== other);
        const mutant = token.slice(0, i) + other + token.slice(i + 1);
        expect((await agent.request("POST", target, body, { token: mutant })).status).toBe(401);
      }),
      { numRuns: 100 },
    );
  });

  it("is never accepted at another path, or for another method", async () => {
    for (const { target, body } of Object.values(makers).map((make) => make())) {
      const nonce = randomBytes(16);
      for (const over of [{ target: "/ack" }, { target: `${target}?` }, { method: "PUT" }, { audience: "http://x" }]) {
        const answer = await agent.request("POST", target, body, { token: { ...over, nonce } });
        expect(answer).toMatchObject({ status: 401, body: { error: "bad_signature" } });
      }
    }
  });
});

/** A copy with the field at `path` changed. */
function withField(body: Json, path: string, change: (value: Json) => Json): Json {
  const [name, ...rest] = path.split(".") as [string, ...string[]];
  const value = rest.length > 0 ? withField(body[name], rest.join("."), change) : change(body[name]);
  return { ...body, [name]: value };
}

function flipLast(text: string): string {
  return text.slice(0, -1) + (text.endsWith("A") ? "B" : "A");
}
