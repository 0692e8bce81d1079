/**
 * A real bus, in workerd: requests, tokens and frames that are nearly right.
 *
 * Each has an answer, of the closed list and never 5xx; each frame is refused in its turn, taken, or closes the socket with its
 * code; what is not signed makes no object; and after each batch the bus still serves.
 */

import { randomBytes } from "node:crypto";
import { request as httpRequest } from "node:http";
import * as fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import { WebSocket } from "ws";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { verifyAnnouncement } from "../../src/protocol/announcement.ts";
import { AUTH_SCHEME } from "../../src/protocol/constants.ts";
import { CLOSE, parseClientFrame, PING, SUBPROTOCOL } from "../../src/protocol/frames.ts";
import { isRefusal } from "../../src/protocol/refusal.ts";
import { verifyWakeLease } from "../../src/protocol/wake-lease.ts";
import { Agent, exchange, signAnnouncement, signUnregister, signWake, type Answer } from "../support/agent.ts";
import { SessionSocket } from "../support/session-socket.ts";
import { changed, changes, expectCode, fuzzed, near, SLOW } from "./inputs.ts";

let bus: LocalBus;
let agent: Agent;
let peer: Agent;

beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { RATE_PER_S: "1000000" } });
  [agent, peer] = [await Agent.create({ url: bus.url }), await Agent.create({ url: bus.url })];
  for (const [each, other] of [
    [agent, peer],
    [peer, agent],
  ] as const) {
    expect((await each.contacts([other.key])).status).toBe(200);
    expect((await each.announce("s1")).status).toBe(202);
  }
});

/** After each batch. */
afterEach(async () => {
  const { body } = await agent.send(peer.route("s1"), "still there?");
  expect(body).toMatchObject({ state: "stored" });
  const mail = await peer.recv({ session: "s1", timeoutMs: 0, max: 1 });
  expect(mail.body.items).toHaveLength(1);
  expect((await peer.ack("s1", mail.body.items[0].ack)).body).toMatchObject({ removed: 1 });
  expect(bus.output()).not.toMatch(/"internal"|uncaught|exception/i);
});

afterAll(() => bus?.stop());

/** Answered, and not by a fault. */
function judge({ status, body }: Answer): void {
  expect(status, JSON.stringify(body)).toBeLessThan(500);
  if (status < 400) return;
  expectCode(body?.error);
  expect(typeof body.message).toBe("string");
}

/** Characters that a request line takes; Node sends no others. */
const inLine = (text: string) => text.replace(/[^\u0021-\u007e]/g, "");

describe("requests that their key signed", () => {
  it("with a body that is nearly right are answered, never with a fault", SLOW, async () => {
    const handle = "1.1";
    const bodies: readonly (readonly [method: string, target: string, body: () => object])[] = [
      [
        "POST",
        "/announce",
        () => {
          const ts = agent.nextTs();
          const wake = signWake(agent.signer, "s1", { path: "channel", proven_at_ms: ts, until_ms: ts + 1_000 });
          return { ...signAnnouncement(agent.signer, { name: "a", session: { session_id: "s1" }, ts }), wake };
        },
      ],
      [
        "POST",
        "/send",
        () => agent.message(peer.route("s9"), "hello", { kind: "message", task_id: "t1", status: "update" }),
      ],
      ["POST", "/send", () => ({ messages: [agent.message(peer.route("s9"), "a"), agent.message(peer.key, "b")] })],
      ["POST", "/ack", () => ({ me: agent.route("s1"), acks: [handle] })],
      ["PUT", "/contacts", () => ({ contacts: [peer.key], ts: agent.nextTs() })],
      ["POST", "/receipts", () => ({ to: peer.key, msg_ids: ["m1"] })],
      ["POST", "/invite", () => ({ ttl_ms: 1_000 })],
      ["POST", "/join", () => ({ token: randomBytes(32).toString("base64url") })],
      [
        "POST",
        "/unregister",
        () => ({
          ...signUnregister(agent.signer, { session_id: "s8", ts: agent.nextTs() }),
          goodbyes: [agent.message(peer.route("s9"), "bye")],
        }),
      ],
    ];
    await fc.assert(
      fc.asyncProperty(fc.nat(), changes, async (at, all) => {
        const [method, target, body] = bodies[at % bodies.length]!;
        judge(await agent.request(method, target, changed(JSON.stringify(body()), all)));
      }),
      fuzzed(2),
    );
    // Whatever of these was taken, the rest of the tests begin as the first did.
    expect((await agent.contacts([peer.key])).status).toBe(200);
    expect((await agent.announce("s1")).status).toBe(202);
  });

  it("with a target that is nearly right are answered, never with a fault", SLOW, async () => {
    const targets = [
      `/recv?me=${agent.key}%23s7&timeout_ms=0&max=3&ack=1.1`,
      `/roster?identity=${peer.key}`,
      `/roster?limit=3&cursor=${peer.key}`,
      `/socket?me=${agent.key}%23s1`,
      "/stats",
    ];
    await fc.assert(
      fc.asyncProperty(near(...targets), async (text) => {
        // A poll that is held would only wait.
        const target = `/${inLine(text).replace(/^\//, "")}`.replace(/timeout_ms=\d+/g, "timeout_ms=0").slice(0, 9_000);
        fc.pre(!target.startsWith("/recv") || target.includes("timeout_ms=0"));
        const answer = await agent.request("GET", target);
        // What is no URL at all the runtime refuses by itself.
        if (answer.headers["content-type"] === "text/plain") return void expect(answer.status).toBe(400);
        judge(answer);
      }),
      fuzzed(),
    );
  });
});

describe("requests that nobody signed", () => {
  it("with a token that is nearly right touch no object, over HTTP or as a socket", SLOW, async () => {
    const before = await bus.objectFiles();
    await fc.assert(
      fc.asyncProperty(changes, fc.boolean(), async (all, isSocket) => {
        const stranger = await Agent.create({ url: bus.url });
        const target = isSocket ? `/socket?me=${stranger.key}%23s1` : "/send";
        const body = isSocket ? "" : JSON.stringify(stranger.message(peer.route("s1"), "x"));
        const token = stranger.token({ method: isSocket ? "WS" : "POST", target, body });
        const other = inLine(changed(token, all));
        fc.pre(other !== token);
        if (isSocket) {
          const end = await handshake(target, other);
          return void expect(typeof end === "number" ? end >= 400 && end < 500 : end === "err", String(end)).toBe(true);
        }
        const headers = { "content-type": "application/json", authorization: `${AUTH_SCHEME} ${other}` };
        const answer = await exchange(new URL(bus.url), "POST", target, { headers, body });
        judge(answer);
        expect(answer.status).toBeGreaterThanOrEqual(400);
      }),
      fuzzed(),
    );
    expect(await bus.objectFiles()).toEqual(before);
  });

  it("are told from those that it did sign", async () => {
    const target = `/socket?me=${agent.key}%23s1`;
    expect(await handshake(target, agent.token({ method: "WS", target }))).toBe("welcome");
  });

  /** How a handshake ends. By hand, so that its header goes out as it is. */
  function handshake(target: string, token: string): Promise<number | "welcome" | "err" | "closed"> {
    const headers = {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": randomBytes(16).toString("base64"),
      "sec-websocket-protocol": `${SUBPROTOCOL}, ${token}`.slice(0, 8_000),
    };
    return new Promise((resolve, reject) => {
      const request = httpRequest({ host: "127.0.0.1", port: bus.port, path: target, headers });
      request.on("error", reject);
      request.on("response", (response) => {
        response.resume();
        resolve(response.statusCode!);
      });
      request.on("upgrade", (_response, socket, head) => {
        let heard = "";
        const hear = (bytes: Buffer) => {
          heard += String(bytes);
          const word = (["welcome", "err"] as const).find((each) => heard.includes(`"t":"${each}"`));
          if (word === undefined) return;
          resolve(word);
          socket.destroy();
        };
        socket.on("data", hear);
        socket.on("error", () => {});
        socket.on("close", () => resolve("closed"));
        hear(head);
      });
      request.end();
    });
  }
});

describe("frames of a session", () => {
  it("are refused in their turn, taken, or close the socket with its code", SLOW, async () => {
    let socket: SessionSocket | undefined;
    const open = async () => {
      if (!socket || socket.close) socket = await SessionSocket.open(agent, "s1");
      return socket;
    };
    const frames = (): readonly string[] => {
      const announcement = signAnnouncement(agent.signer, {
        name: "a",
        session: { session_id: "s1" },
        ts: agent.nextTs(),
      });
      const times = { proven_at_ms: announcement.ts, until_ms: announcement.ts + 1_000 };
      const wake = signWake(agent.signer, "s1", { path: "channel", ...times });
      const { sig, ts } = signUnregister(peer.signer, { session_id: "s1", ts: agent.nextTs() }); // of another, lest it end
      return [
        { t: "announce", announcement, wake },
        { t: "announce", announcement, public: announcement },
        { t: "ack", through: 0 },
        { t: "unregister", ts, sig, goodbyes: [agent.message(peer.route("s9"), "bye")] },
      ].map((frame) => JSON.stringify(frame));
    };
    await fc.assert(
      fc.asyncProperty(fc.nat(3), near("{}"), changes, fc.nat(9), async (at, anything, all, how) => {
        const text = how === 0 ? anything : changed(frames()[at]!, all);
        fc.pre(text !== PING && text.isWellFormed());
        const on = await open();
        const before = on.errors.length;
        on.send(text);
        on.send({ t: "ack", through: Number.MAX_SAFE_INTEGER }); // refused, and in its turn
        const read = parseClientFrame(text);
        const isBadAck = !isRefusal(read) && read.t === "ack" && read.through > 0;
        const badAcks = () => on.errors.slice(before).filter((error) => error === "bad_ack").length;
        await on.waitFor(() => on.close ?? badAcks() === (isBadAck ? 2 : 1), "an answer");
        if (on.close && on.errors.length === before) {
          expect([CLOSE.tooManyErrors, CLOSE.tooLarge]).toContain(on.close.code);
          return;
        }
        const [first] = on.errors.slice(before);
        expectCode(first);
        if (isRefusal(read)) return void expect(first).toBe(read.refused);
        if (first !== "bad_ack" || isBadAck) return; // refused for what it asks
        if (read.t === "announce") {
          expect(await verifyAnnouncement(read.announcement)).toBe(true);
          if (read.wake) expect(await verifyWakeLease(read.wake, read.announcement)).toBe(true);
        } else if (read.t === "ack") expect(read.through).toBe(0);
        else throw new Error(`a goodbye of another was taken: ${text}`);
      }),
      fuzzed(),
    );
    expect(socket!.errors).not.toContain("internal");
    socket!.terminate();
  });

  it("that are bytes, or no UTF-8, close it", SLOW, async () => {
    for (const isBinary of [true, false]) {
      const target = `/socket?me=${agent.key}%23s1`;
      const token = agent.token({ method: "WS", target });
      const socket = new WebSocket(bus.url.replace(/^http/, "ws") + target, [SUBPROTOCOL, token]);
      const code = new Promise<number>((resolve) => socket.on("close", resolve));
      socket.on("error", () => {});
      await new Promise((resolve) => socket.once("message", resolve));
      socket.send(Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), { binary: isBinary });
      if (isBinary) expect(await code).toBe(CLOSE.binary);
      else {
        // The runtime's own matter; what counts is that it is no frame and no fault.
        const next = new Promise<string>((resolve) => socket.once("message", (data) => resolve(String(data))));
        const end = await Promise.race([code, next]);
        if (typeof end === "string") expect(JSON.parse(end)).toMatchObject({ t: "err", error: "bad_json" });
        else expect(end).toBeGreaterThan(1_000);
        socket.terminate();
      }
    }
  });
});
