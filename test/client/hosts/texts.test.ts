/** What is written arrives as it was: alphabets and sizes up to the limit, between two agents as their hosts see them. */

import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { Host, twoMachines, type Machine } from "./machine.ts";

const TEXT_MAX_BYTES = 65_536;
const SIZES = [1_024, 16_383, TEXT_MAX_BYTES];

/** One unit of each, again and again. */
const ALPHABETS = [
  ["ASCII", "The quick brown fox. "],
  ["ASCII that JSON and markup escape", `<a href="x">&\\"</a>${"plain ".repeat(12)}`],
  ["Cyrillic", "Съешь ещё этих мягких булок. "],
  ["CJK", "天地玄黄，宇宙洪荒。"],
  ["emoji", "🙂👩‍👩‍👧🇺🇳❤️"],
  ["right to left", "שלום \u200fعالم\u202b؟ "],
  ["CRLF", "one line, of common length, and its end\r\n"],
  ["NUL", "before\0after, with some more beside it "],
] as const;

let bus: LocalBus;
let ann: Host;
let bob: Host;
const machines: Machine[] = [];

beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
  const [a, b] = await twoMachines(bus.url, "ann", "bob");
  machines.push(a, b);
  [ann, bob] = await Promise.all([Host.start(a, "v2 legacy", false), Host.start(b, "v2 auto", false)]);
  await Promise.all([ann.connected(), bob.connected()]);
}, 30_000);
afterAll(async () => {
  await Promise.all([ann.close(), bob.close()]);
  for (const machine of machines) machine.remove();
  await bus.stop();
});

/** Exactly so many bytes of a unit, the rest filled up. */
function textOf(unit: string, bytes: number): string {
  const whole = unit.repeat(Math.floor(bytes / Buffer.byteLength(unit)));
  return whole + "x".repeat(bytes - Buffer.byteLength(whole));
}

/** The next message, put together from its parts. */
async function nextAt(host: Host): Promise<{ msg_id: string; text: string }> {
  const [first] = await host.mail(1);
  let { body: text, next_offset } = first as { body: string; next_offset?: number };
  while (next_offset !== undefined) {
    expect(next_offset).toBe(text.length);
    const part = await host.ok("read_message", { msg_id: first!["msg_id"], offset: next_offset });
    const { body } = JSON.parse(part["message"]);
    expect(body).not.toBe("");
    text += body;
    next_offset = part["next_offset"];
  }
  return { msg_id: first!["msg_id"], text };
}

describe("a text arrives byte for byte", { timeout: 30_000 }, () => {
  it.each(["x", "\n", "\0", " ", '"', "я", "🙂", "\ufeff"])("of one character: %j", async (text) => {
    const { msg_id } = await ann.ok("send_message", { to: "bob", text });
    expect(await nextAt(bob)).toEqual({ msg_id, text });
  });

  it.each(ALPHABETS)("in %s, of 1 KiB to 64 KiB", async (_name, unit) => {
    for (const bytes of SIZES) {
      const text = textOf(unit, bytes);
      expect(Buffer.byteLength(text)).toBe(bytes);
      const { msg_id } = await ann.ok("send_message", { to: "bob", text });
      const got = await nextAt(bob);
      expect(got.msg_id).toBe(msg_id);
      expect(Buffer.from(got.text).equals(Buffer.from(text)), `${bytes}`).toBe(true);
    }
    const refusal = await ann.refusal("send_message", { to: "bob", text: `${textOf(unit, TEXT_MAX_BYTES)}x` });
    expect(refusal).toMatchObject({ code: "bad_text", message: expect.stringContaining("more than 65536 bytes") });
  });
});

describe("a text that its escapes make too large", { timeout: 30_000 }, () => {
  it.each([
    ["line breaks", "\n", 60_000],
    ["CRLF", "\r\n", 30_000],
    ["quotes", '"', 60_000],
    ["control characters", "\u0001", 20_000],
  ])("%s: is refused before it is stored, and what is not refused the bus takes", async (_name, unit, fits) => {
    // The largest that is taken lies between what surely fits and the limit; each try is a call.
    let [taken, refused] = [fits, Math.ceil(TEXT_MAX_BYTES / unit.length)];
    const tryIt = async (count: number) => {
      const result = await ann.call("send_message", { to: "bob", text: unit.repeat(count) });
      if (result.isError) return result.structuredContent!["error"];
      // The bus took it: it is not refused there, now or later.
      expect(["stored", "acked"]).toContain(result.structuredContent!["state"]);
      expect((await nextAt(bob)).text).toBe(unit.repeat(count));
      return undefined;
    };
    expect(await tryIt(taken)).toBeUndefined();
    expect(await tryIt(refused)).toMatchObject({ code: "bad_text" });
    while (refused - taken > 1) {
      const middle = (taken + refused) >> 1;
      if (await tryIt(middle)) refused = middle;
      else taken = middle;
    }
    const refusal = await ann.refusal("send_message", { to: "bob", text: unit.repeat(refused) });
    // What is refused is not far from the limit: a message's other fields take some hundred bytes.
    const size = Buffer.byteLength(JSON.stringify(unit.repeat(refused)));
    expect(size).toBeGreaterThan(131_072 - 1_024);
    expect(refusal.message).toMatch(/^bad_text: .*two to six bytes.*131072 bytes/);
    expect(await ann.ok("list_pending")).toMatchObject({ unsent: [] });
  });
});
