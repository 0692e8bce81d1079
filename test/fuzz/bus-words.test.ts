/**
 * What a bus says, or whoever plays it, read by the client: frames, answers, rosters.
 *
 * A frame is heard whole, or the connection is dropped and says why: an ack counts up to a number, so none may be passed
 * over. An answer is one of the three outcomes. What a roster leaves away, it counts.
 */

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readFrame } from "../../src/client/bus/bus-frame.ts";
import { BusClock } from "../../src/client/bus/clock.ts";
import { Connection } from "../../src/client/bus/connection.ts";
import type { Ears } from "../../src/client/bus/line.ts";
import type { Outcome } from "../../src/client/bus/outcome.ts";
import { readRoster } from "../../src/client/bus/roster-view.ts";
import { verifyAnnouncement } from "../../src/protocol/announcement.ts";
import { PONG } from "../../src/protocol/frames.ts";
import { parseJsonText } from "../../src/protocol/json.ts";
import { isRefusal } from "../../src/protocol/refusal.ts";
import { busUrl, httpOf, ManualTimers, outgoing, routeOf, sid, startStranger } from "../client/bus/support.ts";
import { signAnnouncement, signerOf, signMessage, signUnregister, signWake } from "../support/agent.ts";
import { expectCode, fuzzed, near, promptly, SLOW } from "./inputs.ts";

const TS = 1_800_000_000_000;
const signer = await signerOf(new Uint8Array(32).fill(7));
const peer = await signerOf(new Uint8Array(32).fill(8));
const payload = signMessage(peer, { to: signer.key, text: "hello", ts: TS, msg_id: "m1" });
const envelope = { payload, ts: TS };

const WELCOME = JSON.stringify({ t: "welcome", generation: "g", now_ms: TS, queued: 2, versions: [1] });
const FRAMES = [
  WELCOME,
  ...[
    {
      t: "messages",
      items: [
        { seq: 1, envelope },
        { seq: 2, envelope, redelivered: true },
      ],
    },
    { t: "gap", count: 3, oldest_ts: TS },
    { t: "err", error: "ts_out_of_range", message: "no", now_ms: TS, retry_after_s: 3 },
    { t: "err", error: "internal", message: "no" },
    { t: "of_a_newer_bus" },
  ].map((frame) => JSON.stringify(frame)),
  PONG,
];

describe("a frame of the bus", () => {
  it("is malformed, or reads back as itself, its numbers ascending", SLOW, () => {
    fc.assert(
      fc.property(near(...FRAMES), (text) => {
        const frame = promptly(() => readFrame(text));
        if (!frame || frame.t === "unknown") return;
        if (frame.t === "err") {
          if ("refused" in frame.why) expectCode(frame.why.refused);
          else expect(["fault", "bad_answer"]).toContain(frame.why.unreachable);
          return;
        }
        expect(JSON.stringify(readFrame(JSON.stringify(frame)))).toBe(JSON.stringify(frame));
        if (frame.t !== "messages") return;
        const numbers = frame.items.map(({ seq }) => seq);
        expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
      }),
      fuzzed(2),
    );
  });

  it("is heard whole by an open connection, or drops it with its reason, and then nothing more is heard", SLOW, () => {
    fc.assert(
      fc.property(fc.array(near(...FRAMES), { minLength: 1, maxLength: 8 }), (texts) => {
        const heard = { items: 0, gaps: 0, refusals: 0, welcomes: 0 };
        const said: string[] = [];
        let ears: Ears | undefined;
        const clock = new BusClock();
        const connection = new Connection({
          url: busUrl("https://bus.example"),
          session: sid("s"),
          signer,
          clock,
          timers: new ManualTimers(),
          random: () => 0.5,
          ears: {
            onWelcome: () => heard.welcomes++,
            onMessages: (items, generation) => {
              heard.items += items.length;
              connection.ack(items.at(-1)!.seq, generation);
            },
            onGap: () => heard.gaps++,
            onRefused: () => heard.refusals++,
          },
          openLine: (_url, _target, _token, theirs) => {
            ears = theirs;
            return { send: (text) => said.push(text) > 0, bytesRead: 0, hangUp: () => {}, drop: () => {} };
          },
        });
        connection.start();
        ears!.text(WELCOME);
        expect(connection.state.at).toBe("open");
        const expected = { items: 0, gaps: 0, refusals: 0, welcomes: 1 };
        let acks = 0;
        let isSpoiled = false;
        for (const text of texts) {
          const frame = text === PONG ? { t: "pong" as const } : readFrame(text);
          promptly(() => ears!.text(text));
          if (!isSpoiled && !frame) {
            isSpoiled = true;
            expect(connection.state).toMatchObject({ at: "waiting", why: { broken: "bad_frame" } });
          }
          if (!isSpoiled && frame?.t === "messages") {
            expected.items += frame.items.length;
            acks++;
          }
          if (!isSpoiled && frame?.t === "gap") expected.gaps++;
          if (!isSpoiled && frame?.t === "err") expected.refusals++;
          expect(heard).toEqual(expected);
        }
        expect(connection.state.at).toBe(isSpoiled ? "waiting" : "open");
        expect(said.filter((text) => text.includes('"ack"'))).toHaveLength(acks);
        expect(Number.isSafeInteger(clock.now()), `the clock reads ${clock.now()}`).toBe(true);
        connection.close();
      }),
      fuzzed(),
    );
  });
});

describe("an answer of the bus", () => {
  const ANSWERS = [
    { generation: "g", now_ms: TS },
    { state: "stored", msg_id: "m1", presence: "away", age_ms: 5, queued: 1 },
    { results: [{ state: "stored", msg_id: "m1" }] },
    { status: "messages", items: [{ envelope, ack: "1" }], gap: { count: 1, oldest_ts: TS } },
    { status: "timeout" },
    { count: 1, generation: "g" },
    { receipts: [{ msg_id: "m1", state: "acked", at_ms: TS }] },
    { error: "clock_skew", message: "no", now_ms: TS },
    { error: "inbox_full", message: "no", retry_after_s: 30 },
    { ok: true },
  ].map((answer) => JSON.stringify(answer));
  const answer = fc.record({
    status: fc.constantFrom(200, 200, 200, 202, 302, 400, 401, 403, 404, 409, 413, 429, 500, 503),
    later: fc.constantFrom(undefined, "3", "-1", "1e9", "Wed, 21 Oct 2099 07:28:00 GMT"),
    body: near(...ANSWERS),
    call: fc.nat(7),
  });

  it("is done, refused or unknown, and the status has its part in it", SLOW, async () => {
    let next = { status: 200, body: "", later: undefined as string | undefined };
    const { url } = await startStranger((_request, response) => {
      const headers = next.later === undefined ? {} : { "retry-after": next.later };
      response.writeHead(next.status, headers).end(next.body);
    });
    const http = httpOf(url, signer);
    const to = routeOf(peer.key, "s1");
    const message = outgoing(signer, to, "hello", { msg_id: "m1" });
    const calls: readonly (() => Promise<Outcome<unknown>>)[] = [
      () => http.send(message),
      () => http.sendBatch([message]),
      () => http.recv(sid("s"), { timeoutMs: 0, max: 1 }),
      () => http.ack(sid("s"), ["1"]),
      () => http.contacts([peer.key]),
      () => http.receipts(peer.key, ["m1"]),
      () => http.rosterOf(peer.key),
      () => http.health(),
    ];
    await fc.assert(
      fc.asyncProperty(answer, async ({ call, ...said }) => {
        next = said;
        const outcome = await calls[call]!();
        if ("ok" in outcome) return void expect(said.status).toBeLessThan(300);
        if ("refused" in outcome) {
          expectCode(outcome.refused);
          return void expect([said.status >= 400, said.status < 500]).toEqual([true, true]);
        }
        expect(["fault", "redirected", "bad_answer"]).toContain(outcome.unreachable);
      }),
      fuzzed(2),
    );
  });
});

describe("a roster", () => {
  const session = { session_id: "s1", cwd: "/work" };
  const lease = (session_id: string) =>
    signWake(peer, session_id, { path: "channel", proven_at_ms: TS - 1_000, until_ms: TS + 1_000 });
  const entry = (name: string, ts: number, session_id: string) => ({
    ...signAnnouncement(peer, { name, session: { ...session, session_id }, ts }),
    age_ms: 5,
    connected: true,
    wake: lease(session_id),
  });
  const { sig } = signUnregister(peer, { session_id: "s3", ts: TS });
  const ROSTER = JSON.stringify({
    roster: [entry("a", TS, "s1"), entry("b", TS + 1, "s1"), entry("c", TS, "s2"), entry("d", TS - 1, "s3")],
    gone: [{ pubkey: peer.key, session_id: "s3", ts: TS, sig, at_ms: TS }],
    now_ms: TS,
    view_at_ms: TS,
  });

  it("shows what is signed alone, and counts what it leaves away", SLOW, async () => {
    await fc.assert(
      fc.asyncProperty(near(ROSTER), fc.boolean(), async (text, isOfOne) => {
        const parsed = parseJsonText(text);
        if (isRefusal(parsed)) return;
        const view = await readRoster(parsed.object, isOfOne ? peer.key : undefined);
        if (!view) return;
        const { roster, gone } = parsed.object as { roster: unknown[]; gone: unknown[] };
        expect(view.roster.length + view.gone.length + view.dropped).toBe(roster.length + gone.length);
        for (const each of view.roster) {
          expect(await verifyAnnouncement(each)).toBe(true);
          // Whatever time the bus says it is, the end is the one that was signed.
          if (each.wake) expect(each.wake).toMatchObject({ path: "channel", left_ms: TS + 1_000 - view.now_ms });
        }
        for (const each of view.gone) expect(each).toMatchObject({ pubkey: peer.key, session_id: "s3", ts: TS });
      }),
      fuzzed(),
    );
  });
});
