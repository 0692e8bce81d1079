/** The bus over real HTTP: what the door adds to the objects' rules. */

import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { DEFAULT_LIMITS, WAKE_LEASE_MAX_MS } from "../../src/protocol/constants.ts";
import { Agent, newMessageId, signAnnouncement, signUnregister, signWake } from "../support/agent.ts";
import { SessionSocket } from "../support/session-socket.ts";

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { SENDER_SHARE: "8" } });
});
afterAll(() => bus.stop());

const agent = (options: { now?: () => number; audience?: string } = {}) => Agent.create({ url: bus.url, ...options });

/** Two agents that admit each other. */
async function pair(): Promise<[Agent, Agent]> {
  const [a, b] = [await agent(), await agent()];
  await a.contacts([b.key]);
  await b.contacts([a.key]);
  return [a, b];
}

describe("a poll", () => {
  it("is woken by the send, long before its time", async () => {
    const [a, b] = await pair();
    await b.announce("s");
    const startedMs = performance.now();
    const poll = b.recv({ session: "s", timeoutMs: 20_000 });
    await parked(a, b);
    await a.send(b.route("s"), "wake up");
    expect((await poll).body).toMatchObject({ status: "message", envelope: { payload: { text: "wake up" } } });
    expect(performance.now() - startedMs).toBeLessThan(5_000);
  });

  it("gives way to a newer one of its session, and says so", async () => {
    const [a, b] = await pair();
    await b.announce("s");
    const older = b.recv({ session: "s", timeoutMs: 20_000 });
    await parked(a, b);
    const newer = b.recv({ session: "s", timeoutMs: 20_000 });
    expect(await older).toMatchObject({ status: 409, body: { error: "stale" } });
    await a.send(b.route("s"), "to the newer");
    expect((await newer).body).toMatchObject({ status: "message" });
  });

  it("takes an ack along, and answers a list when max is given", async () => {
    const [a, b] = await pair();
    await a.sendBatch(["one", "two", "three"].map((text) => a.message(b.route("s"), text)));
    const first = await b.recv({ session: "s", timeoutMs: 0, max: 2 });
    const texts = (answer: typeof first) => answer.body.items.map((item: any) => item.envelope.payload.text);
    expect(texts(first)).toEqual(["one", "two"]);
    const handles = first.body.items.map((item: any) => item.ack);
    const second = await b.recv({ session: "s", timeoutMs: 0, max: 2, ack: handles });
    expect(texts(second)).toEqual(["three"]);
    expect((await b.ack("s", second.body.items[0].ack)).body).toEqual({ removed: 1 });
    expect((await b.recv({ session: "s", timeoutMs: 0 })).body).toEqual({ status: "timeout" });
  });

  it("of a client that went away takes no mail with it", async () => {
    const [a, b] = await pair();
    await b.announce("s");
    const abort = new AbortController();
    const poll = b.recv({ session: "s", timeoutMs: 20_000 }, { signal: abort.signal });
    poll.catch(() => undefined);
    await parked(a, b);
    abort.abort();
    await a.send(b.route("s"), "still here");
    expect((await b.recv({ session: "s", timeoutMs: 5_000 })).body).toMatchObject({ status: "message" });
  });

  /** Until the viewer sees the other's session "s" connected. */
  async function parked(viewer: Agent, of: Agent): Promise<void> {
    for (;;) {
      const { body } = await viewer.roster(of.key);
      if (body.roster.some((each: any) => each.session.session_id === "s" && each.connected)) return;
    }
  }
});

describe("a batch", () => {
  it("answers each message, in the order asked, over several recipients", async () => {
    const [a, b] = await pair();
    const stranger = await agent();
    const first = a.message(b.route("s"), "first");
    const { status, body } = await a.sendBatch([
      first,
      a.message(stranger.route("s"), "to a stranger"),
      a.message(a.route("self"), "to myself"),
      first,
    ]);
    expect(status).toBe(200);
    expect(body.results).toMatchObject([
      { state: "stored" },
      { error: "not_paired" },
      { state: "stored" },
      { state: "duplicate" },
    ]);
  });

  it("with one malformed message stores none, and names it", async () => {
    const [a, b] = await pair();
    const good = a.message(b.route("s"), "good");
    const bad = { ...a.message(b.route("s"), "bad"), to: b.route("s") };
    bad.payload = { ...bad.payload, text: "changed after signing" };
    expect(await a.sendBatch([good, bad])).toMatchObject({
      status: 400,
      body: { error: "bad_payload_signature", index: 1 },
    });
    expect((await b.recv({ session: "s", timeoutMs: 0 })).body).toEqual({ status: "timeout" });
  });

  it("may be empty or too long in no case", async () => {
    const [a, b] = await pair();
    expect(await a.sendBatch([])).toMatchObject({ status: 400, body: { error: "bad_field" } });
    const one = a.message(b.route("s"), "x");
    expect(await a.sendBatch(Array.from({ length: 65 }, () => one))).toMatchObject({ status: 400 });
  });
});

describe("the whole-bus roster", () => {
  it("pages through those who show themselves, once each, and through no one else", async () => {
    const shown = await Promise.all(Array.from({ length: 12 }, () => agent()));
    const hidden = await agent();
    for (const each of shown) await each.announce("s", "whole name", { name: "public name" });
    await hidden.announce("s", "whole name");
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const { body } = await hidden.roster(undefined, cursor === undefined ? { limit: 5 } : { limit: 5, cursor });
      expect(body.roster.length).toBeLessThanOrEqual(5);
      for (const each of body.roster) {
        expect(each).toMatchObject({ name: "public name" });
        expect(each.age_ms).toBeGreaterThanOrEqual(0);
        found.push(each.pubkey);
      }
      cursor = body.cursor;
    } while (cursor !== undefined);
    expect(found.toSorted()).toEqual(expect.arrayContaining(shown.map((each) => each.key as string).toSorted()));
    expect(new Set(found).size).toBe(found.length);
    expect(found).not.toContain(hidden.key);

    await shown[0]!.unregister("s");
    const after = (await hidden.roster(undefined, { limit: 200 })).body;
    expect(after.roster.map((each: any) => each.pubkey)).not.toContain(shown[0]!.key);
  });

  it("refuses a page size or cursor that is none", async () => {
    const a = await agent();
    for (const query of ["limit=0", "limit=201", "limit=x", "cursor=x", "limit=1&limit=2", "identity=x&limit=1"]) {
      expect(await a.request("GET", `/roster?${query}`)).toMatchObject({ status: 400, body: { error: "bad_query" } });
    }
    expect(await a.request("GET", "/roster?identity=x")).toMatchObject({ status: 400, body: { error: "bad_key" } });
  });
});

describe("what wakes a session", () => {
  /** Of an hour, as signed for the session. */
  const leaseOf = (who: Agent, id: string, path: string) => {
    const proven_at_ms = Date.now() - 1_000;
    return signWake(who.signer, id, { path, proven_at_ms, until_ms: proven_at_ms + WAKE_LEASE_MAX_MS });
  };
  const saying = (who: Agent, id: string) => {
    const said = { name: "a", session: { session_id: id }, ts: who.nextTs() };
    const announcement = signAnnouncement(who.signer, said);
    return { announcement, public: announcement };
  };
  const seen = async (by: Agent, whose: Agent) => (await by.roster(whose.key)).body.roster[0];

  it("is told by HTTP or by socket, and its very bytes are shown to contacts alone", async () => {
    const [a, b] = await pair();
    const stranger = await agent();
    const lease = leaseOf(b, "s", "channel");
    const { announcement, public: shown } = saying(b, "s");
    const answer = await b.request("POST", "/announce", { ...announcement, public: shown, wake: lease });
    expect(answer.status).toBe(202);
    expect((await seen(a, b)).wake).toEqual(lease);
    expect((await seen(b, b)).wake).toEqual(lease);
    expect(await seen(stranger, b)).toMatchObject({ name: "a" });
    expect(await seen(stranger, b)).not.toHaveProperty("wake");
    for (let cursor: string | undefined; ;) {
      const { body } = await a.roster(undefined, { limit: 200, ...(cursor && { cursor }) });
      for (const each of body.roster) expect(each).not.toHaveProperty("wake");
      cursor = body.cursor;
      if (!cursor) break;
    }

    const socket = await SessionSocket.open(b, "s");
    const another = leaseOf(b, "s", "a-way_of-theirs");
    socket.send({ t: "announce", ...saying(b, "s"), wake: another });
    await socket.settled();
    expect((await seen(a, b)).wake).toEqual(another);
    socket.send({ t: "announce", ...saying(b, "s") });
    await socket.settled();
    expect(await seen(a, b)).not.toHaveProperty("wake");
    await socket.end();
  });
});

describe("a token", () => {
  it("from a wrong clock is told the bus's time, and with that offset works", async () => {
    const fast = await agent({ now: () => Date.now() + 3_600_000 });
    const refused = await fast.roster();
    expect(refused).toMatchObject({ status: 401, body: { error: "clock_skew" } });
    expect(Math.abs(refused.body.now_ms - Date.now())).toBeLessThan(5_000);
    const offset = refused.body.now_ms - (Date.now() + 3_600_000);
    const mended = await agent({ now: () => Date.now() + 3_600_000 + offset });
    expect((await mended.roster()).status).toBe(200);
  });

  it("may be signed for any of the bus's origins, and for no other", async () => {
    expect((await (await agent({ audience: `http://localhost:${bus.port}` })).roster()).status).toBe(200);
    expect(await (await agent({ audience: "https://bus.example" })).roster()).toMatchObject({
      status: 401,
      body: { error: "bad_signature" },
    });
  });
});

it("takes no body of a signer for a refusal of its own, whatever its fields say", async () => {
  const a = await agent();
  for (const body of [
    { refused: "x" },
    { refused: "bad_json", status: 200 },
    { refused: "stale", retry_after_s: "a\nb" },
  ]) {
    for (const [method, target] of [
      ["POST", "/ack"],
      ["POST", "/send"],
      ["PUT", "/contacts"],
    ] as const) {
      expect(await a.request(method, target, body)).toMatchObject({ status: 400, body: { error: "unknown_field" } });
    }
  }
  expect(await a.request("GET", "/health?token=x")).toMatchObject({ status: 400, body: { error: "bad_query" } });
});

it("tells a refused sender when to come again, and keeps what is stored", async () => {
  const [a, b] = await pair();
  for (let i = 0; i < 8; i++) expect((await a.send(b.route("s"), `message ${i}`)).status).toBe(202);
  const refused = await a.send(b.route("s"), "one too many");
  expect(refused).toMatchObject({ status: 429, body: { error: "sender_quota" } });
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  expect((await b.recv({ session: "s", timeoutMs: 0, max: 64 })).body.items).toHaveLength(8);
});

it("with OVERFLOW=evict lets the oldest of who holds most go, with a receipt and a gap", async () => {
  const evicting = await startBus({
    bundle: inject("bundle"),
    vars: { OVERFLOW: "evict", INBOX_MAX_MESSAGES: "4" },
  });
  try {
    const [much, little, b] = await Promise.all([1, 2, 3].map(() => Agent.create({ url: evicting.url })));
    await b!.contacts([much!.key, little!.key]);
    const ids = [newMessageId(), newMessageId(), newMessageId()];
    await little!.send(b!.route("s"), "oldest of all, but of who holds little");
    for (const msg_id of ids) await much!.send(b!.route("s"), "much", { msg_id });
    expect((await little!.send(b!.route("s"), "one more")).status).toBe(202);
    const { items, gap } = (await b!.recv({ session: "s", timeoutMs: 0, max: 64 })).body;
    expect(items).toHaveLength(4);
    expect(gap).toMatchObject({ count: 1 });
    const { receipts } = (await much!.receipts(b!.key, ids)).body;
    expect(receipts.map((receipt: any) => receipt.state)).toEqual(["evicted", "stored", "stored"]);
  } finally {
    await evicting.stop();
  }
});

it("with ADMISSION=join lets in only who redeemed an invite, until it is forgotten", async () => {
  const seed = new Uint8Array(32).fill(9);
  const key = (await Agent.create({ url: bus.url, seed })).key;
  const closed = await startBus({ bundle: inject("bundle"), vars: { ADMISSION: "join", ADMIN_KEYS: key } });
  try {
    const operator = await Agent.create({ url: closed.url, seed });
    const [guest, stranger] = [await Agent.create({ url: closed.url }), await Agent.create({ url: closed.url })];
    expect(await guest.invite(60_000)).toMatchObject({ status: 403, body: { error: "not_owner" } });
    const { token } = (await operator.invite(60_000)).body;
    expect((await guest.join(token)).status).toBe(200);
    expect(await stranger.join(token)).toMatchObject({ status: 403, body: { error: "join_denied" } });
    expect((await guest.announce("s")).status).toBe(202);
    const before = (await closed.objectFiles()).filter((file) => file.includes("Identity")).length;
    for (const answer of [
      await stranger.announce("s"),
      await stranger.recv({ session: "s", timeoutMs: 0 }),
      await stranger.roster(guest.key),
      await stranger.contacts([]),
      await stranger.send(guest.route("s"), "alice", { kind: "pair_request" }),
      await stranger.forget(),
    ]) {
      expect(answer).toMatchObject({ status: 403, body: { error: "not_admitted" } });
    }
    expect((await closed.objectFiles()).filter((file) => file.includes("Identity"))).toHaveLength(before);
    expect((await guest.forget()).status).toBe(200);
    expect(await guest.announce("s")).toMatchObject({ status: 403, body: { error: "not_admitted" } });
  } finally {
    await closed.stop();
  }
});

describe("an operator", () => {
  const seed = new Uint8Array(32).fill(9);

  it("counts sessions, mail and refusals; nobody else may", async () => {
    const LIVE_MS = 400;
    const { key } = await Agent.create({ url: bus.url, seed });
    const counted = await startBus({
      bundle: inject("bundle"),
      vars: { ADMIN_KEYS: key, LIVE_MS: String(LIVE_MS), LOG: "faults" },
    });
    try {
      const operator = await Agent.create({ url: counted.url, seed });
      const [a, b] = [await Agent.create({ url: counted.url }), await Agent.create({ url: counted.url })];
      const stats = (query = "") => operator.request("GET", `/stats${query}`);
      expect((await stats()).body).toMatchObject({
        identities: 0,
        sessions_live: 0,
        sessions_away: 0,
        queued: 0,
        oldest_unacked_ms: 0,
        isolate: { object_runs: 0, rows_written: 0, refusals: {} },
      });

      await a.announce("asleep");
      await b.contacts([a.key]);
      await b.announce("asleep");
      const sentAtMs = Date.now();
      await a.send(b.route("asleep"), "the oldest");
      const answeredAtMs = Date.now();
      for (const to of [b.route("asleep"), b.key, a.route("self")]) await a.send(to, "more");
      let body: any;
      do ({ body } = await stats());
      while (body.sessions_away < 2);
      expect(body).toMatchObject({ identities: 2, sessions_live: 0, queued: 4 });
      const oldestAtMs = body.now_ms - body.oldest_unacked_ms;
      expect(oldestAtMs).toBeGreaterThan(sentAtMs - 50);
      expect(oldestAtMs).toBeLessThan(answeredAtMs + 50);
      expect(body.isolate.rows_written).toBeGreaterThan(0);
      await a.announce("awake");
      expect((await stats()).body).toMatchObject({ sessions_live: 1, sessions_away: 2 });

      const pages = [await stats("?limit=1")];
      pages.push(await stats(`?limit=1&cursor=${pages[0]!.body.cursor}`));
      expect(pages.map((page) => page.body.identities)).toEqual([1, 1]);
      expect(pages[0]!.body.queued + pages[1]!.body.queued).toBe(4);

      const runs = (await stats()).body.isolate.object_runs;
      for (const other of [a, b]) {
        expect(await other.request("GET", "/stats")).toMatchObject({ status: 403, body: { error: "not_owner" } });
      }
      expect(await a.request("GET", "/stats", undefined, { token: false })).toMatchObject({ status: 401 });
      expect(await b.send(a.route("awake"), "a did not admit b")).toMatchObject({ status: 403 });
      expect(await a.recv({}, { token: { audience: "https://bus.example" } })).toMatchObject({ status: 401 });
      const { isolate } = (await stats("?limit=1")).body;
      expect(isolate.refusals).toEqual({ not_owner: 2, auth_required: 1, not_paired: 1, bad_signature: 1 });
      // The census of a page of one, and of the refusals the one that only an object could decide.
      expect(isolate.object_runs - runs).toBe(2);
      expect(await stats("?limit=0")).toMatchObject({ status: 400, body: { error: "bad_query" } });
    } finally {
      await counted.stop();
    }
  });

  it("lists no more than LISTED_MAX, serves the rest all the same, and is told that it counts too few", async () => {
    const { key } = await Agent.create({ url: bus.url, seed });
    const full = await startBus({
      bundle: inject("bundle"),
      vars: { ADMIN_KEYS: key, LISTED_MAX: "1", DIRECTORY_SHARDS: "1", LOG: "faults" },
    });
    try {
      const [operator, hidden, shown, late] = (await Promise.all(
        [seed, undefined, undefined, undefined].map((own) =>
          Agent.create({ url: full.url, ...(own && { seed: own }) }),
        ),
      )) as [Agent, Agent, Agent, Agent];
      const stats = async () => (await operator.request("GET", "/stats")).body;
      const listed = async () => (await late.roster()).body.roster.map((each: any) => each.pubkey);
      expect(await stats()).not.toHaveProperty("directory_full");
      await hidden.announce("s");
      await hidden.send(hidden.route("s"), "to myself");
      expect(await stats()).toMatchObject({ identities: 1, queued: 1, directory_full: true });
      for (const who of [shown, late]) {
        const said = await who.announce("s", "agent", { name: "agent" });
        expect(said.status).toBe(202);
      }
      expect(await listed()).toEqual([shown.key]);
      expect(await stats()).toMatchObject({ identities: 1, queued: 0, directory_full: true });
      // What is not listed is there: its mail, and who asks for it by its key.
      expect((await hidden.recv({ session: "s", timeoutMs: 0 })).body).toMatchObject({ status: "message" });
      expect((await shown.roster(late.key)).body.roster).toMatchObject([{ pubkey: late.key }]);
      expect(await late.send(late.route("s"), "to myself")).toMatchObject({ status: 202, body: { queued: 1 } });
    } finally {
      await full.stop();
    }
  });

  it("reads one line of JSON a request, escaped, and in no line what is anyone's own", async () => {
    const { key } = await Agent.create({ url: bus.url, seed });
    const logged = await startBus({ bundle: inject("bundle"), vars: { ADMIN_KEYS: key, ADMISSION: "join" } });
    try {
      const people = await Promise.all([seed, undefined, undefined].map((own) => agentOf(own)));
      const [operator, a, b] = people as [Agent, Agent, Agent];
      /** What may stand in no line: texts, tokens and their parts, signatures. */
      const secrets: string[] = [];
      const keep = (text: string) => (secrets.push(text), text);
      let requests = 0;
      const ask = async (who: Agent, method: string, target: string, body?: any, headers = {}) => {
        const json = body === undefined ? undefined : JSON.stringify(body);
        const token = who.token({ method, target, body: json ?? "" });
        const [, , , nonce, sig] = token.split(".");
        for (const part of [token, nonce!, sig!]) keep(part);
        requests++;
        return who.request(method, target, json, { token, headers });
      };
      const signed = <Signed extends { sig: string }>(it: Signed) => (keep(it.sig), it);
      const ESCAPES = "\u001b[2J\u202e\u200b";

      for (const who of [a, b]) {
        const invite = (await ask(operator, "POST", "/invite", { ttl_ms: 60_000 })).body.token;
        expect((await ask(who, "POST", "/join", { token: keep(invite) })).status).toBe(200);
      }
      await ask(a, "POST", "/join", { token: keep(Buffer.alloc(32, 5).toString("base64url")) });
      await ask(b, "PUT", "/contacts", { contacts: [a.key], ts: b.nextTs() });
      const session = { session_id: "s", cwd: keep("/home/secret-folder"), summary: keep("secret summary") };
      const announcement = { name: keep("secret name"), session, ts: b.nextTs() };
      await ask(b, "POST", "/announce", signed(signAnnouncement(b.signer, announcement)));
      await ask(b, "POST", "/announce", { name: keep("a secret that is refused"), sig: keep("not a signature") });
      const mail = [`one text ${ESCAPES}`, "two texts"].map((text) => a.message(b.route("s"), keep(text)));
      for (const { payload } of mail) signed(payload);
      expect((await ask(a, "POST", "/send", mail[0])).status).toBe(202);
      expect((await ask(a, "POST", "/send", { messages: mail })).status).toBe(200);
      const changed = { ...mail[0]!, payload: { ...mail[0]!.payload, text: keep("another text") } };
      expect((await ask(a, "POST", "/send", changed)).status).toBe(400);
      const poll = await ask(b, "GET", `/recv?me=${encodeURIComponent(b.route("s"))}&timeout_ms=0&max=1`);
      await ask(b, "POST", "/ack", { me: b.route("s"), ack: poll.body.items[0].ack });
      await ask(a, "GET", `/roster?identity=${b.key}`);
      await ask(a, "GET", `/roster?token=${keep("secret-in-a-query")}`);
      await ask(a, "GET", `/${keep("secret-path")}/%1b%5b2J`);
      await ask(a, "DELETE", "/send", undefined, { [keep("x-secret-name")]: keep("secret value") });
      requests++;
      await a.request("GET", "/roster", undefined, { token: keep("il1.half-a-token") });

      const handshake = b.token({ method: "WS", target: `/socket?me=${encodeURIComponent(b.route("s"))}` });
      for (const part of [handshake, handshake.split(".")[3]!, handshake.split(".")[4]!]) keep(part);
      requests += 2;
      const socket = await SessionSocket.open(b, "s", { token: handshake });
      await (await SessionSocket.dial(b, "s", { token: handshake })).closed(); // a replay
      socket.send(keep("a secret that is no frame"));
      socket.send({ t: "announce", announcement: signed(signAnnouncement(b.signer, { ...announcement, ts: 5 })) });
      await socket.settled();
      const bye = signed(signUnregister(b.signer, { session_id: "s", ts: b.nextTs() }));
      const goodbyes = [b.message(a.route("s"), keep("a secret goodbye"))];
      for (const { payload } of goodbyes) signed(payload);
      socket.send({ t: "unregister", ts: bye.ts, sig: bye.sig, goodbyes });
      await socket.closed();
      await ask(a, "POST", "/forget", {});

      const lines = () => logged.output().split("\n").slice(0, -1);
      const events = () => lines().map((line) => JSON.parse(line));
      const ofRequests = () => events().filter(({ event }) => event === "request");
      while (ofRequests().length < requests) await new Promise((resolve) => setTimeout(resolve, 5)); // the pipe is read late
      expect(ofRequests()).toHaveLength(requests);
      for (const { route, status, ms } of ofRequests()) {
        expect(["/socket", "none", ...ROUTES]).toContain(route);
        expect([Number.isSafeInteger(status), Number.isSafeInteger(ms)]).toEqual([true, true]);
      }
      expect(events().filter(({ event }) => !["request", "no_brake"].includes(event))).toEqual([]);
      for (const line of lines()) expect(line).toMatch(/^[\u0020-\u007e]*$/);
      const output = logged.output();
      expect(secrets.filter((secret) => output.includes(secret))).toEqual([]);
      expect(secrets.filter((secret) => output.includes(encodeURIComponent(secret)))).toEqual([]);
      for (const who of people) who.close();
    } finally {
      await logged.stop();
    }

    function agentOf(own: Uint8Array | undefined): Promise<Agent> {
      return Agent.create({ url: logged.url, ...(own && { seed: own }) });
    }
  });

  const ROUTES = [
    "announce",
    "unregister",
    "send",
    "recv",
    "ack",
    "roster",
    "contacts",
    "invite",
    "join",
    "forget",
  ].map((name) => `/${name}`);
});

it("stops reading a body that does not say how long it is as soon as it is too long", async () => {
  const headers = { "content-type": "application/json" };
  const status = await new Promise<number>((resolve, reject) => {
    const outgoing = request(`${bus.url}/send`, { method: "POST", headers }, (response) => {
      resolve(response.statusCode!);
      response.resume();
    });
    outgoing.on("error", reject);
    outgoing.flushHeaders(); // without a length, so in chunks
    outgoing.end("x".repeat(DEFAULT_LIMITS.BODY_MAX_BYTES + 1));
  });
  expect(status).toBe(413); // before its token is asked for, which it has none of
});
