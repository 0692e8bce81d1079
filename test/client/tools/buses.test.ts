/** The tools of buses as a model sees them, through the SDK's real clients: names, refusals with the call that mends them, and the human's word. */

import { describe, expect, it } from "vitest";
import { ME } from "../../support/fake-agent.ts";
import { drive, KINDS, textOf } from "./clients.ts";
import { dropNotice, parkedNotices } from "../../../src/client/session/drop.ts";
import { busLine } from "../../../src/client/tools/lines.ts";
import { busesSentence, busSentence, dropSentence } from "../../../src/client/tools/render-buses.ts";
import { refusalOf } from "../../../src/client/tools/render-refusal.ts";

const UNLISTED = { bus: "https://other.example" };

describe.each(KINDS)("with the client %s", { timeout: 30_000 }, (kind) => {
  it("a bus that nobody named needs the human: without a form nothing is done, and it says where they name it", async () => {
    const { call, trace } = await drive(kind);
    const result = await call("connect_bus", UNLISTED);
    expect(result.isError).toBe(true);
    expect(result.structuredContent!["error"]["code"]).toBe("unlisted_bus");
    expect(textOf(result)).toContain("/home/u/.config/interlink/buses.json");
    expect(trace().filter(({ call: name }) => name === "connectBus")).toEqual([]);
  });

  it.each(["accept", "decline", "cancel"] as const)("with a form they are asked, and %s", async (action) => {
    const asked: string[] = [];
    const { call, trace } = await drive(kind, {}, (message) => {
      asked.push(message);
      return { action, ...(action === "accept" && { content: { approve: true } }) };
    });
    const result = await call("connect_bus", UNLISTED);
    expect(asked).toHaveLength(1);
    expect(asked[0]).toContain(`"https://other.example", which you have not named, as ${ME.fingerprint}`);
    const connects = trace().filter(({ call: name }) => name === "connectBus");
    expect(connects).toMatchObject(action === "accept" ? [{ bus: UNLISTED.bus, hasOperator: true }] : []);
    expect(result.isError ?? false).toBe(action !== "accept");
  });

  it("whoami tells what can be done, and the exact call that mends what cannot", async () => {
    const { call } = await drive(kind);
    const me = await call("whoami");
    expect(me.structuredContent).toMatchObject({
      bus_name: "work",
      parked: ["home"],
      readiness: { receive: "ready", wake: "no_wake_path" },
      last_drop: { what: "switched", bus: "home", call: "connect_bus", bus_argument: "home" },
    });
    expect(textOf(me)).toContain(
      'The bus is called "work"; parked: "home". Now ready: read_roster, send, receive, trust; not: wake (no_wake_path).',
    );
    expect(textOf(me)).toContain('to go back, call connect_bus with bus="home"');
  });
});

describe("words", () => {
  const bus = {
    name: "w<ork>",
    address: "https://a",
    role: "parked",
    connection: "evicted",
    reason: "not_admitted",
    unread: 2,
    pending: 1,
  } as const;
  const mend = { tool: "connect_bus", bus: 'a"<b>' } as const;
  it.each([
    [
      busSentence(bus),
      '"w\\u003cork\\u003e" ("https://a") is parked: evicted ("not_admitted"), 2 unread, 1 not stored yet.',
    ],
    [busSentence({ ...bus, role: "named" }), '"w\\u003cork\\u003e" ("https://a") is named and not connected.'],
    [busesSentence([bus]), "No bus is active; 1 parked."],
    [busesSentence([{ ...bus, role: "active" }]), 'The active bus is "w\\u003cork\\u003e"; 0 parked.'],
    [
      busLine(bus),
      '{"interlink":1,"kind":"bus","bus":"w\\u003cork\\u003e","address":"https://a","role":"parked","connection":"evicted","reason":"not_admitted","unread":2,"pending":1}',
    ],
    [
      dropSentence({ what: "evicted", bus: "x", reason: "forgotten", mend }),
      'Bus "x" refused this session for good ("forgotten"): it was evicted, and is not retried; once your operator has mended that, call connect_bus with bus="a\\"\\u003cb\\u003e".',
    ],
    [
      dropSentence({ what: "disconnected", bus: "x", reason: "client_too_old", mend: { tool: "reconnect" } }),
      'Bus "x" was disconnected ("client_too_old"); to be there again, call reconnect.',
    ],
    [
      dropNotice({ what: "disconnected", bus: "x", reason: "unregistered", mend: { tool: "connect_bus", bus: "x" } }),
      'nothing comes in from bus x (disconnected, unregistered) until you call connect_bus with bus="x"',
    ],
    [
      parkedNotices("x", ["unread: 1 (1 from bob); call check_messages"])[0],
      "on the parked bus x: unread: 1 (1 from bob); call check_messages",
    ],
    [
      refusalOf({ code: "not_connected", detail: "network ECONNREFUSED", connect: "work" }).message,
      'not_connected: The bus that this needs is not connected now (network ECONNREFUSED). Call connect_bus with bus="work".',
    ],
    [
      refusalOf({ code: "unknown_message", connect: "first" }).message,
      'unknown_message: No message has that id here. Call connect_bus with bus="first".',
    ],
    [
      refusalOf({ code: "unknown_bus", candidates: ["work"] }).message,
      'unknown_bus: No bus has that name. Near: "work". Call list_buses.',
    ],
    [
      refusalOf({ code: "not_admitted", detail: "not_admitted", connect: "work" }).message,
      "not_admitted: The bus refuses this key for good, so it is not tried again; what was active stays so (not_admitted). Ask your operator: the bus must admit the key first.",
    ],
  ])("%s", (said, wanted) => {
    expect(said).toBe(wanted);
  });
});
