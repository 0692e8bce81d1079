/** The bus over HTTP: against a real one, and against strangers who answer what no bus would. */

import { createServer as createTcpServer, type AddressInfo, type Socket } from "node:net";
import { once } from "node:events";
import type { IncomingMessage, RequestListener } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { BusClock } from "../../../src/client/bus/clock.ts";
import { ANSWER_MAX_BYTES } from "../../../src/client/bus/exchange.ts";
import { RETRY_AFTER_MAX_MS } from "../../../src/client/bus/outcome.ts";
import { signAnnouncement, signUnregister, signWakeLease } from "../../../src/client/bus/sign-presence.ts";
import type { BusHttp } from "../../../src/client/bus/http.ts";
import type { Signer } from "../../support/agent.ts";
import { httpOf, newSigner, ok, outgoing, routeOf, sid, startStranger, unreachable } from "./support.ts";

const admin = await newSigner();
const HOUR_MS = 3_600_000;

let bus: LocalBus;
let joinBus: LocalBus;
beforeAll(async () => {
  const bundle = inject("bundle");
  [bus, joinBus] = await Promise.all([
    startBus({ bundle, vars: { LOG: "faults" } }),
    startBus({ bundle, vars: { LOG: "faults", ADMISSION: "join", ADMIN_KEYS: admin.key } }),
  ]);
});
afterAll(() => Promise.all([bus.stop(), joinBus.stop()]));

async function newPair(): Promise<{ alice: Signer; bob: Signer; ofAlice: BusHttp; ofBob: BusHttp }> {
  const [alice, bob] = [await newSigner(), await newSigner()];
  const [ofAlice, ofBob] = [httpOf(bus.url, alice), httpOf(bus.url, bob)];
  expect(ok(await ofAlice.contacts([bob.key]))).toMatchObject({ count: 1 });
  ok(await ofBob.contacts([alice.key]));
  return { alice, bob, ofAlice, ofBob };
}

const saying =
  (signer: Signer, name = "agent", session = "s") =>
  (ts: number) => ({
    announcement: signAnnouncement(signer, { name, session: { session_id: sid(session), cwd: "/work" } }, ts),
    public: signAnnouncement(signer, { name, session: { session_id: sid(session) } }, ts),
  });

describe("each route of a real bus", () => {
  it("presence: announce, the roster of one and of all, unregister with goodbyes", async () => {
    const { alice, bob, ofAlice, ofBob } = await newPair();
    const life = ok(await ofAlice.announce(saying(alice)));
    expect(life.generation).not.toBe("");
    const seen = ok(await ofBob.rosterOf(alice.key));
    expect(seen).toMatchObject({ roster: [{ name: "agent", session: { cwd: "/work" }, connected: false }], gone: [] });
    expect(seen.dropped).toBe(0);
    expect(seen.roster[0]!.age_ms).toBeLessThan(5_000);

    const keys = new Set<string>();
    for (let page = ok(await ofBob.rosterPage({ limit: 1 })); ;) {
      for (const { pubkey } of page.roster) keys.add(pubkey);
      if (!page.cursor) break;
      page = ok(await ofBob.rosterPage({ limit: 1, cursor: page.cursor }));
    }
    expect(keys).toContain(alice.key);

    const goodbye = outgoing(alice, routeOf(bob.key, "b"), "bye");
    ok(await ofAlice.unregister((ts) => signUnregister(alice, sid("s"), ts), [goodbye]));
    expect(ok(await ofBob.rosterOf(alice.key))).toMatchObject({ roster: [], gone: [{ session_id: "s" }] });
    expect(ok(await ofBob.recv(sid("b"), { timeoutMs: 0 })).items).toMatchObject([
      { envelope: { payload: { text: "bye" } } },
    ]);
  });

  it("mail: send, duplicate, batch, recv, ack, receipts", async () => {
    const { alice, bob, ofAlice, ofBob } = await newPair();
    const to = routeOf(bob.key, "b");
    const first = outgoing(alice, to, "first");
    expect(ok(await ofAlice.send(first))).toMatchObject({ state: "stored", presence: "gone", queued: 1 });
    expect(ok(await ofAlice.send(first))).toMatchObject({ state: "duplicate" });
    const stranger = await newSigner();
    const results = ok(
      await ofAlice.sendBatch([outgoing(alice, to, "second"), outgoing(alice, routeOf(stranger.key, "x"), "no")]),
    );
    expect(results).toMatchObject([{ state: "stored", queued: 2 }, { refused: "not_paired" }]);

    const { items } = ok(await ofBob.recv(sid("b"), { timeoutMs: 0, max: 8 }));
    expect(items).toMatchObject([
      { envelope: { payload: { text: "first" } } },
      { envelope: { payload: { text: "second" } } },
    ]);
    expect(ok(await ofBob.ack(sid("b"), [items[0]!.ack]))).toEqual({ removed: 1 });
    const ids = [first.payload.msg_id, "never-sent"];
    expect(ok(await ofAlice.receipts(bob.key, ids))).toMatchObject([
      { msg_id: ids[0], state: "acked" },
      { msg_id: "never-sent", state: "unknown" },
    ]);
    expect(ok(await ofBob.recv(sid("none"), { timeoutMs: 0 }))).toEqual({ items: [] });
  });

  it("a poll that is held is answered by what comes, and can be given up", async () => {
    const { alice, bob, ofAlice, ofBob } = await newPair();
    const polled = ofBob.recv(sid("b"), { timeoutMs: 20_000 });
    ok(await ofAlice.send(outgoing(alice, routeOf(bob.key, "b"), "now")));
    expect(ok(await polled).items).toHaveLength(1);
    const giveUp = new AbortController();
    const held = ofBob.recv(sid("other"), { timeoutMs: 20_000, signal: giveUp.signal });
    ok(await ofBob.health());
    giveUp.abort();
    expect(await held).toEqual({ unreachable: "aborted" });
    expect(await ofBob.recv(sid("other"), { signal: giveUp.signal })).toEqual({ unreachable: "aborted" });
  });

  it("account: not admitted, invite, join, forget", async () => {
    const guest = await newSigner();
    const [ofAdmin, ofGuest] = [httpOf(joinBus.url, admin), httpOf(joinBus.url, guest)];
    expect(await ofGuest.announce(saying(guest))).toMatchObject({ refused: "not_admitted" });
    expect(await ofGuest.invite(HOUR_MS)).toMatchObject({ refused: "not_owner" });
    const { token, expires_at_ms } = ok(await ofAdmin.invite(HOUR_MS));
    expect(expires_at_ms).toBeGreaterThan(Date.now());
    expect(ok(await ofGuest.join(token))).toEqual({ admitted: true });
    expect(await httpOf(joinBus.url, await newSigner()).join(token)).toMatchObject({ refused: "join_denied" });
    ok(await ofGuest.announce(saying(guest)));
    expect(ok(await ofGuest.forget())).toEqual({ forgotten: true });
    expect(ok(await ofGuest.health())).toEqual({ ok: true });
  });

  it("refusals come with their facts", async () => {
    const { alice, bob, ofAlice } = await newPair();
    const to = routeOf(bob.key, "b");
    const batch = [outgoing(alice, to, "fine"), outgoing(alice, to, "")];
    expect(await ofAlice.sendBatch(batch)).toEqual({ refused: "bad_text", index: 1 });
    const knock = () => outgoing(alice, to, "Alice", { kind: "pair_request" });
    ok(await ofAlice.send(knock()));
    expect(await ofAlice.send(knock())).toEqual({ refused: "knock_limit", retryAfterMs: HOUR_MS });
  });

  it.each([-5 * 60_000, 5 * 60_000])(
    "a clock that is %i ms off is learned from the bus, and tried once more",
    async (ms) => {
      const { alice, bob } = await newPair();
      const clock = new BusClock(() => Date.now() + ms);
      const ofAlice = httpOf(bus.url, alice, { clock });
      ok(await ofAlice.announce(saying(alice)));
      expect(Math.abs(clock.offsetMs + ms)).toBeLessThan(5_000);
      ok(await ofAlice.contacts([bob.key]));
      ok(await ofAlice.unregister((ts) => signUnregister(alice, sid("s"), ts)));
    },
  );

  it("a body of another time is signed anew where the token's time was right", async () => {
    const alice = await newSigner();
    const clock = new BusClock();
    const ofAlice = httpOf(bus.url, alice, { clock });
    let asked = 0;
    const late = (ts: number) => saying(alice)(asked++ === 0 ? ts - HOUR_MS : ts);
    ok(await ofAlice.announce(late));
    expect(asked).toBe(2);
    const message = outgoing(alice, routeOf(alice.key, "s"), "from the future", { ts: Date.now() + HOUR_MS });
    expect(await ofAlice.send(message)).toMatchObject({ refused: "ts_out_of_range" }); // its own time is its sender's to mend
  });

  it("a clock that is past belief is refused, and nothing is learned", async () => {
    const alice = await newSigner();
    const clock = new BusClock(() => Date.now() - 400 * 24 * HOUR_MS);
    expect(await httpOf(bus.url, alice, { clock }).announce(saying(alice))).toMatchObject({ refused: "clock_skew" });
    expect(clock.offsetMs).toBe(0);
  });
});

it("a bus that restarts between two requests: the second one comes through, on a new connection", async () => {
  const own = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
  const http = httpOf(own.url, await newSigner());
  ok(await http.health());
  await own.kill();
  const again = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" }, port: own.port });
  onTestFinished(() => again.stop());
  ok(await http.health());
});

describe("strangers", () => {
  const http = async (listener: RequestListener) => httpOf((await startStranger(listener)).url, await newSigner());
  const body =
    (status: number, text: string, headers: Record<string, string> = {}): RequestListener =>
    (_request, response) =>
      void response.writeHead(status, headers).end(text);

  it.each([
    { name: "a page", listener: body(200, "<html>"), expected: { unreachable: "bad_answer" } },
    { name: "nothing", listener: body(200, ""), expected: { unreachable: "bad_answer" } },
    { name: "a list", listener: body(200, "[]"), expected: { unreachable: "bad_answer" } },
    { name: "another route's answer", listener: body(200, `{"ok":true}`), expected: { unreachable: "bad_answer" } },
    { name: "a half answer", listener: body(200, `{"generation":"g"}`), expected: { unreachable: "bad_answer" } },
    {
      name: "a generation that hides something",
      listener: body(200, JSON.stringify({ generation: "g\u202e", now_ms: 1 })),
      expected: { unreachable: "bad_answer" },
    },
    { name: "deep nesting", listener: body(200, "[".repeat(1e5)), expected: { unreachable: "bad_answer" } },
    {
      name: "a fault, in our own words",
      listener: body(500, `{"error":"not_paired"}`),
      expected: { unreachable: "fault" },
    },
    {
      name: "a proxy's fault",
      listener: body(503, "busy", { "retry-after": "7" }),
      expected: { unreachable: "fault", retryAfterMs: 7_000 },
    },
    {
      name: "a refusal of no code of ours",
      listener: body(403, `{"error":"blocked"}`),
      expected: { unreachable: "bad_answer" },
    },
    { name: "a refusal that is no JSON", listener: body(403, "Forbidden"), expected: { unreachable: "bad_answer" } },
    {
      name: "a refusal with 200",
      listener: body(200, `{"error":"not_paired"}`),
      expected: { unreachable: "bad_answer" },
    },
    {
      name: "a refusal with facts of the wrong kind",
      listener: body(429, `{"error":"queue_full","retry_after_s":"soon","now_ms":-1,"index":0.5,"text":"x"}`),
      expected: { refused: "queue_full" },
    },
    {
      name: "a refusal for ever",
      listener: body(429, `{"error":"queue_full","retry_after_s":1e300}`),
      expected: { refused: "queue_full", retryAfterMs: RETRY_AFTER_MAX_MS },
    },
    {
      name: "a redirect, which is not followed",
      listener: body(302, "", { location: "http://127.0.0.1:1/" }),
      expected: { unreachable: "redirected" },
    },
  ])("$name", async ({ listener, expected }) => {
    const signer = await newSigner();
    const outcome = await (await http(listener)).announce(saying(signer));
    expect(outcome).toEqual(expected);
  });

  it("an answer that does not end in size", async () => {
    const endless: RequestListener = (_request, response) => {
      const chunk = Buffer.alloc(1_048_576, 0x20);
      const pour = (): void => void (response.destroyed || response.write(chunk, () => setImmediate(pour)));
      pour();
    };
    expect(ANSWER_MAX_BYTES).toBeGreaterThan(1_048_576);
    expect(await unreachable((await http(endless)).health())).toBe("too_large");
  });

  it("an answer that does not come, or stops half-way", async () => {
    const silent = await startStranger(() => {});
    expect(await httpOf(silent.url, await newSigner(), { timeoutMs: 50 }).health()).toEqual({ unreachable: "timeout" });
    const half = await startStranger((_request, response) => {
      response.writeHead(200, { "content-length": "11" });
      response.write(`{"ok"`, () => response.destroy());
    });
    expect(await httpOf(half.url, await newSigner()).health()).toMatchObject({ unreachable: "network" });
  });

  it("nobody at all", async () => {
    const { url, server } = await startStranger();
    server.close();
    expect(await httpOf(url, await newSigner()).health()).toEqual({ unreachable: "network", detail: "ECONNREFUSED" });
  });

  it("a kept connection that was ended meanwhile: asked again once with another nonce, but not where once must be once", async () => {
    const LIFE = `{"generation":"g","now_ms":1}`;
    const seen: { target: string; auth: string }[] = [];
    let isOver = false;
    const sockets = new Set<Socket>();
    const server = createTcpServer((socket) => {
      sockets.add(socket);
      let served = 0;
      socket.on("error", () => {});
      socket.on("data", (data) => {
        const text = String(data);
        seen.push({ target: text.split(" ")[1]!, auth: /authorization: (.*)/i.exec(text)?.[1] ?? "" });
        if (isOver && served > 0) return void socket.resetAndDestroy();
        served++;
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${LIFE.length}\r\n\r\n${LIFE}`);
      });
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const signer = await newSigner();
    const client = httpOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, signer);
    ok(await client.announce(saying(signer)));
    isOver = true;
    ok(await client.announce(saying(signer)));
    expect(seen.map(({ target }) => target)).toEqual(["/announce", "/announce", "/announce"]);
    expect(new Set(seen.map(({ auth }) => auth)).size).toBe(3);
    expect(await client.join("x")).toMatchObject({ unreachable: "network", detail: "ECONNRESET" });
    expect(seen.filter(({ target }) => target === "/join")).toHaveLength(1);
  });

  it("a roster with forgeries: only what its keys signed, each session once, none that said goodbye later", async () => {
    const [alice, mallory] = [await newSigner(), await newSigner()];
    const say = (signer: Signer, session: string, ts: number, name = "n") =>
      signAnnouncement(signer, { name, session: { session_id: sid(session) } }, ts);
    const bye = (session: string, ts: number) => ({ ...signUnregister(alice, sid(session), ts), session_id: session });
    const stamped = (entry: object) => ({ ...entry, age_ms: 5, connected: true, of_a_newer_bus: 1 });
    const roster = [
      stamped(say(alice, "a", 10, "older")),
      stamped(say(alice, "a", 20, "newer")),
      stamped({ ...say(alice, "forged", 10), name: "changed" }),
      stamped(say(mallory, "m", 10)),
      stamped(say(alice, "closed", 10)),
      stamped(say(alice, "reopened", 30)),
      { ...say(alice, "ageless", 10), connected: true },
      { ...say(alice, "minus", 10), age_ms: -1, connected: true },
      null,
      "text",
    ];
    const gone = [
      { ...bye("closed", 10), at_ms: 11 },
      { ...bye("reopened", 20), at_ms: 21 },
      { ...bye("a", 30), ts: 31, at_ms: 32 }, // signed for another time
    ];
    const answer = JSON.stringify({ roster, gone, now_ms: 100, view_at_ms: 200, cursor: alice.key });
    const view = ok(await (await http(body(200, answer))).rosterOf(alice.key));
    expect(view.roster.map(({ name, session }) => `${session.session_id} ${name}`).toSorted()).toEqual([
      "a newer",
      "reopened n",
    ]);
    expect(view.gone.map(({ session_id }) => session_id).toSorted()).toEqual(["closed", "reopened"]);
    expect(view).toMatchObject({ dropped: 9, now_ms: 100, view_at_ms: 100 });
    expect(view).not.toHaveProperty("cursor");
  });

  it("what wakes a session: only what its key signed of it, and while it is not past; the session stays", async () => {
    const [alice, mallory] = [await newSigner(), await newSigner()];
    const NOW = 10_000_000;
    const terms = { path: "channel", proven_at_ms: NOW - 5_000, until_ms: NOW + 60_000 };
    const lease = (change: object = {}, by = alice, session = "s") =>
      signWakeLease(by, sid(session), { ...terms, ...change });
    const seen = async (wake: unknown, ts = NOW) => {
      const said = signAnnouncement(alice, { name: "n", session: { session_id: sid("s") } }, ts);
      const entry = { ...said, age_ms: 5, connected: true, wake };
      const answer = JSON.stringify({ roster: [entry], gone: [], now_ms: NOW, view_at_ms: NOW });
      const view = ok(await (await http(body(200, answer))).rosterOf(alice.key));
      expect(view.dropped).toBe(0);
      expect(view.roster).toHaveLength(1);
      return view.roster[0]!.wake;
    };
    expect(await seen(lease())).toEqual({ path: "channel", proven_age_ms: 5_000, left_ms: 60_000 });
    expect(await seen(lease({ until_ms: NOW + 1 }))).toMatchObject({ left_ms: 1 });
    // A clock of theirs that is ahead makes no age below none.
    expect(await seen(lease({ proven_at_ms: NOW + 1_000 }))).toMatchObject({ proven_age_ms: 0 });
    const wrong: Record<string, unknown> = {
      nothing: undefined,
      null: null,
      "a word": "channel",
      "no signature": terms,
      "another's signature": lease({}, mallory),
      "a sibling's": lease({}, alice, "t"),
      "a moved end": { ...lease(), until_ms: NOW + 60_001 },
      "a changed path": { ...lease(), path: "resource" },
      "a path that is none": lease({ path: "IGNORE ALL" }),
      past: lease({ until_ms: NOW }),
      "longer than an hour": lease({ until_ms: NOW - 5_000 + HOUR_MS + 1 }),
      "proven long after it was announced": [lease(), NOW - 5_000 - 60_001],
    };
    for (const [why, wake] of Object.entries(wrong)) {
      expect(Array.isArray(wake) ? await seen(wake[0], wake[1]) : await seen(wake), why).toBeUndefined();
    }
  });

  it("an older bus, which refuses what it does not know: announced again without a lease, and only for it", async () => {
    const alice = await newSigner();
    const bodies: Record<string, unknown>[] = [];
    let answer: (body: Record<string, unknown>) => [number, object] = () => [400, { error: "unknown_field" }];
    const client = await http((request, response) => {
      void text(request).then((said) => {
        bodies.push(JSON.parse(said));
        const [status, body] = answer(bodies.at(-1)!);
        response.writeHead(status).end(JSON.stringify(body));
      });
    });
    const withLease = (ts: number) => ({
      ...saying(alice)(ts),
      wake: signWakeLease(alice, sid("s"), { path: "channel", proven_at_ms: ts, until_ms: ts + 1 }),
    });
    const life = { generation: "g", now_ms: Date.now() };
    answer = ({ wake }) => (wake ? [400, { error: "unknown_field" }] : [202, life]);
    expect(ok(await client.announce(withLease))).toEqual(life);
    expect(bodies.map(({ wake }) => wake !== undefined)).toEqual([true, false]);
    expect(bodies.every(({ public: shown }) => shown !== undefined)).toBe(true);
    answer = () => [400, { error: "unknown_field" }];
    expect(await client.announce(withLease)).toMatchObject({ refused: "unknown_field" });
    expect(await client.announce(saying(alice))).toMatchObject({ refused: "unknown_field" });
    answer = () => [409, { error: "stale" }];
    expect(await client.announce(withLease)).toMatchObject({ refused: "stale" });
    expect(bodies.map(({ wake }) => wake !== undefined)).toEqual([true, false, true, false, false, true]);
  });

  it("mail and results that were not asked for", async () => {
    const alice = await newSigner();
    const item = { envelope: { payload: {}, ts: 1 }, ack: "a" };
    const mail = (items: object[]) => http(body(200, JSON.stringify({ status: "messages", items })));
    expect(ok(await (await mail([item])).recv(sid("s"), { max: 1 })).items).toEqual([item]);
    expect(await unreachable((await mail([item, item])).recv(sid("s"), { max: 1 }))).toBe("bad_answer");
    expect(await unreachable((await mail([{ ...item, ack: "" }])).recv(sid("s")))).toBe("bad_answer");
    expect(await unreachable((await mail([{ ...item, envelope: { payload: [], ts: 1 } }])).recv(sid("s")))).toBe(
      "bad_answer",
    );
    const message = outgoing(alice, routeOf(alice.key, "x"), "text");
    const other = { state: "stored", msg_id: "another" };
    expect(await unreachable((await http(body(202, JSON.stringify(other)))).send(message))).toBe("bad_answer");
    const results = { results: [other] };
    expect(ok(await (await http(body(200, JSON.stringify(results)))).sendBatch([message]))).toEqual([
      { unreachable: "bad_answer" },
    ]);
    expect(await unreachable((await http(body(200, JSON.stringify(results)))).sendBatch([message, message]))).toBe(
      "bad_answer",
    );
  });

  it("no request says more than it must: no agent, no cookie, one token", async () => {
    let seen: IncomingMessage | undefined;
    const client = await http((request, response) => {
      seen = request;
      response.end(`{"removed":0}`);
    });
    ok(await client.ack(sid("s"), ["a"]));
    const { authorization, ...headers } = seen!.headers;
    expect(authorization).toMatch(/^Interlink il1\./);
    expect(Object.keys(headers).toSorted()).toEqual(["accept", "connection", "content-length", "content-type", "host"]);
  });
});

it("a client that is closed gives up what is under way, and asks nothing more", async () => {
  const { url } = await startStranger(() => {});
  const client = httpOf(url, await newSigner());
  const asked = client.health();
  client.close();
  expect(await asked).toEqual({ unreachable: "aborted" });
  expect(await client.health()).toEqual({ unreachable: "aborted" });
});
