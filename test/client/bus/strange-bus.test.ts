/** A connection to what is no bus, or a hostile one: nothing is believed for its shape, and nothing breaks us. */

import { describe, expect, it, onTestFinished } from "vitest";
import { WebSocketServer, type WebSocket } from "ws";
import { readFrame } from "../../../src/client/bus/bus-frame.ts";
import { SUBPROTOCOL } from "../../../src/protocol/frames.ts";
import { newSigner, Rig, startStranger } from "./support.ts";

const WELCOME = { t: "welcome", generation: "g", now_ms: Date.now(), queued: 0, versions: [1] };
const item = (seq: unknown, more: object = {}) => ({
  seq,
  envelope: { payload: { text: `m${String(seq)}` }, ts: 1 },
  ...more,
});

/** A bus that is played by the test. */
async function playBus(greet: (socket: WebSocket) => void): Promise<Rig> {
  const { url, server } = await startStranger();
  const sockets = new WebSocketServer({ server, handleProtocols: () => SUBPROTOCOL });
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
  });
  sockets.on("connection", (socket) => {
    socket.on("error", () => {});
    greet(socket);
  });
  return new Rig(url, await newSigner());
}

const saying =
  (...frames: (object | string)[]) =>
  (socket: WebSocket): void => {
    for (const frame of frames) {
      const isRaw = typeof frame === "string" || frame instanceof Uint8Array;
      socket.send(isRaw ? (frame as string | Uint8Array) : JSON.stringify(frame));
    }
  };

describe("a frame", () => {
  it.each([
    { text: JSON.stringify({ ...WELCOME, of_a_newer_bus: {} }), t: "welcome", why: "a field more" },
    { text: `{"t":"presence","x":1}`, t: "unknown", why: "of a newer bus" },
    { text: `{"t":"toString"}`, t: "unknown", why: "no key of an object of ours" },
    { text: `{"t":"err","error":"stale"}`, t: "err", why: "known" },
    { text: `{"t":"err","error":"of_a_newer_bus"}`, t: "err", why: "not known" },
    { text: `{"t":"err"}`, t: "err", why: "nothing" },
    { text: `{"t":"gap","count":1,"oldest_ts":2}`, t: "gap", why: "known" },
    {
      text: JSON.stringify({ t: "messages", items: [item(1), item(3, { redelivered: true })] }),
      t: "messages",
      why: "known",
    },
    { text: "", t: undefined, why: "nothing" },
    { text: "PONG", t: undefined, why: "no JSON" },
    { text: "[]", t: undefined, why: "a list" },
    { text: "null", t: undefined, why: "null" },
    { text: `{"t":1}`, t: undefined, why: "no word" },
    { text: "[".repeat(1e6), t: undefined, why: "nested" },
    { text: `{"t":"messages"}`, t: undefined, why: "no items" },
    { text: `{"t":"messages","items":[]}`, t: undefined, why: "none" },
    {
      text: JSON.stringify({ t: "messages", items: Array.from({ length: 65 }, (_, n) => item(n + 1)) }),
      t: undefined,
      why: "too many",
    },
    {
      text: JSON.stringify({ t: "messages", items: [item(2), item(1)] }),
      t: undefined,
      why: "an ack would count wrong",
    },
    { text: JSON.stringify({ t: "messages", items: [item(1), item(1)] }), t: undefined, why: "the same" },
    { text: JSON.stringify({ t: "messages", items: [item(-1)] }), t: undefined, why: "no number of ours" },
    { text: JSON.stringify({ t: "messages", items: [item("1")] }), t: undefined, why: "the same" },
    { text: JSON.stringify({ t: "messages", items: [item(1), { seq: 2 }] }), t: undefined, why: "half an item" },
    { text: JSON.stringify({ ...WELCOME, generation: "" }), t: undefined, why: "no life" },
    { text: JSON.stringify({ ...WELCOME, generation: "g".repeat(257) }), t: undefined, why: "a long one" },
    { text: JSON.stringify({ ...WELCOME, versions: "1" }), t: undefined, why: "no list" },
    { text: `{"t":"gap","count":-1,"oldest_ts":2}`, t: undefined, why: "no count" },
  ])("is $t: $why", ({ text, t }) => {
    expect(readFrame(text)?.t).toBe(t);
  });

  it("that refuses in unknown words, or has a fault, is no refusal", () => {
    expect(readFrame(`{"t":"err","error":"of_a_newer_bus"}`)).toMatchObject({ why: { unreachable: "bad_answer" } });
    expect(readFrame(`{"t":"err","error":"internal"}`)).toMatchObject({ why: { unreachable: "fault" } });
    expect(readFrame(`{"t":"err","error":"constructor"}`)).toMatchObject({ why: { unreachable: "bad_answer" } });
  });
});

describe("a bus that says", () => {
  it("what is new is understood in what is not", async () => {
    const rig = await playBus(saying({ t: "hello" }, WELCOME, { t: "presence" }, { t: "messages", items: [item(1)] }));
    await rig.received(1);
    expect(rig.connection.state.at).toBe("open");
  });

  it("that it speaks no version of ours is left for good", async () => {
    const rig = await playBus(saying({ ...WELCOME, versions: [2, 3] }));
    expect(await rig.reaches("stopped")).toMatchObject({ why: { by: "client_too_old" } });
    expect(rig.welcomes).toEqual([]);
  });

  it.each([
    { name: "nonsense", frames: ["nonsense"] },
    { name: "half a message", frames: [{ t: "messages", items: [{ seq: 1 }] }] },
    { name: "bytes", frames: [Buffer.from("bytes")] },
  ])("$name is dropped, and what comes behind is not heard", async ({ frames }) => {
    const rig = await playBus(saying(WELCOME, ...frames, { t: "messages", items: [item(2)] }));
    expect(await rig.reaches("waiting")).toMatchObject({ why: { broken: "bad_frame" } });
    expect(rig.items).toEqual([]);
    expect(rig.welcomes).toHaveLength(1);
  });

  it("messages before its welcome is dropped: they would be numbers of no life", async () => {
    const rig = await playBus(saying({ t: "messages", items: [item(1)] }, WELCOME));
    expect(await rig.reaches("waiting")).toMatchObject({ why: { broken: "bad_frame" } });
    expect(rig.items).toEqual([]);
  });

  it("more than a frame may hold is dropped", async () => {
    const rig = await playBus(saying(WELCOME, " ".repeat(5 * 1_048_576)));
    await rig.reaches("waiting");
    expect(rig.welcomes).toHaveLength(1);
  });

  it("two welcomes is heard once", async () => {
    const second = { ...WELCOME, generation: "h" };
    const rig = await playBus(saying(WELCOME, second, { t: "messages", items: [item(1)] }));
    await rig.received(1);
    expect(rig.welcomes).toHaveLength(1);
    expect(rig.connection.ack(1, "h")).toBe(false);
  });

  it("nothing after the handshake is given up", async () => {
    const rig = await playBus(() => {});
    rig.timers.advance(15_000);
    expect(rig.connection.state).toMatchObject({ at: "waiting", why: { broken: "no_welcome" } });
  });
});

describe("a handshake that is answered as HTTP", () => {
  const answer =
    (head: string, body = "") =>
    async () => {
      const { url, server } = await startStranger();
      server.on("upgrade", (_request, socket) => {
        socket.end(`HTTP/1.1 ${head}\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`);
      });
      return new Rig(url, await newSigner());
    };

  it.each([
    {
      name: "a refusal, and when to come again",
      dial: answer("429 Too Many Requests\r\nretry-after: 60", `{"error":"rate_limited"}`),
      why: { refused: "rate_limited", retryAfterMs: 60_000 },
      told: 1,
    },
    {
      name: "a refusal of no code of ours",
      dial: answer("403 Forbidden", "<html>"),
      why: { unreachable: "bad_answer" },
      told: 0,
    },
    {
      name: "a redirect, which is not followed",
      dial: answer("302 Found\r\nlocation: http://127.0.0.1:1/"),
      why: { unreachable: "redirected" },
      told: 0,
    },
    {
      name: "a fault",
      dial: answer("503 Busy\r\nretry-after: 2"),
      why: { unreachable: "fault", retryAfterMs: 2_000 },
      told: 0,
    },
    { name: "a page", dial: answer("200 OK", "{}"), why: { unreachable: "bad_answer" }, told: 0 },
  ])("with $name", async ({ dial, why, told }) => {
    const rig = await dial();
    const waiting = await rig.reaches("waiting");
    expect(waiting.why).toEqual(why);
    expect(rig.refusals).toHaveLength(told);
    const asked = "retryAfterMs" in why ? why.retryAfterMs! : 0;
    expect(waiting.dueAtMs - rig.timers.now()).toBe(asked + 500);
  });

  it("of a server that selects no protocol of ours", async () => {
    const { url, server } = await startStranger();
    const sockets = new WebSocketServer({ server, handleProtocols: () => false });
    onTestFinished(() => sockets.close());
    expect((await new Rig(url, await newSigner()).reaches("waiting")).why).toEqual({ closed: 1006 });
  });
});
