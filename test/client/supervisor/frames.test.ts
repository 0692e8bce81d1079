/** Bytes as lines, and lines as messages; hostile ones are rows. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readFrame } from "../../../src/client/supervisor/frame.ts";
import { LineReader } from "../../../src/client/supervisor/lines.ts";

describe("bytes", () => {
  const read = (chunks: readonly Uint8Array[], maxBytes = 1_000) => {
    const seen: (string | "too long")[] = [];
    const sink = {
      line: (bytes: Buffer) => void seen.push(bytes.toString("latin1")),
      tooLong: () => void seen.push("too long"),
    };
    const reader = new LineReader(sink, maxBytes);
    for (const chunk of chunks) reader.push(Buffer.from(chunk));
    return seen;
  };
  const bytes = (text: string) => Buffer.from(text, "latin1");

  it("are the same lines however they are cut", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "\n", "é", "{", "\r") });
    fc.assert(
      fc.property(text, fc.array(fc.nat(40)), (whole, cuts) => {
        const all = Buffer.from(whole);
        const at = [...new Set(cuts.filter((cut) => cut < all.length))].sort((a, b) => a - b);
        const chunks = [0, ...at].map((from, index) => all.subarray(from, at[index] ?? all.length));
        const lines = all.toString("latin1").split("\n").slice(0, -1).filter(Boolean);
        expect(read(chunks)).toEqual(lines);
      }),
    );
  });

  it.each([
    { why: "a last line without an end is none", chunks: ["a\nb"], wanted: ["a"] },
    { why: "empty lines are passed over", chunks: ["\n\na\n\n"], wanted: ["a"] },
    { why: "the longest that is taken", chunks: ["12345\n"], wanted: ["12345"] },
    { why: "one byte more, told at its end", chunks: ["1234", "56", "78\nok\n"], wanted: ["too long", "ok"] },
    { why: "not told before its end", chunks: ["123456789"], wanted: [] },
  ])("$why", ({ chunks, wanted }) => expect(read(chunks.map(bytes), 5)).toEqual(wanted));
});

describe("a line", () => {
  const read = (line: string | Uint8Array) => readFrame(typeof line === "string" ? Buffer.from(line) : line);
  const kindOf = (line: string | Uint8Array) => {
    const frame = read(line);
    return frame.kind === "wrong" ? frame.fault.code : frame.kind;
  };

  it.each([
    { line: '{"jsonrpc":"2.0","id":1,"method":"m"}', wanted: "request" },
    { line: '{"jsonrpc":"2.0","id":"1","method":"m","params":{}}\r', wanted: "request" },
    { line: '{"jsonrpc":"2.0","method":"m"}', wanted: "notification" },
    { line: '{"jsonrpc":"2.0","id":1,"result":{}}', wanted: "response" },
    { line: '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}', wanted: "response" },
    { line: '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}', wanted: "stray" },
    { line: "{}", wanted: "stray" },
    { line: "no json", wanted: -32_700 },
    { line: '{"jsonrpc":"2.0","id":1,"method":"m"', wanted: -32_700 },
    { line: Buffer.from([0x22, 0xff, 0x22]), wanted: -32_700 },
    { line: "[]", wanted: -32_600 },
    { line: '[{"jsonrpc":"2.0","id":1,"method":"m"}]', wanted: -32_600 },
    { line: "null", wanted: -32_600 },
    { line: '{"id":1,"method":"m"}', wanted: -32_600 },
    { line: '{"jsonrpc":"2.0","id":1,"method":7}', wanted: -32_600 },
    { line: '{"jsonrpc":"2.0","id":1,"method":"m","params":[]}', wanted: -32_600 },
    // It would come back as another number.
    { line: '{"jsonrpc":"2.0","id":9007199254740993,"method":"m"}', wanted: -32_600 },
    { line: '{"jsonrpc":"2.0","id":1.5,"method":"m"}', wanted: -32_600 },
    { line: '{"jsonrpc":"2.0","id":null,"method":"m"}', wanted: -32_600 },
  ])("$line is $wanted", ({ line, wanted }) => expect(kindOf(line)).toBe(wanted));

  it("never throws", () => fc.assert(fc.property(fc.uint8Array(), (line) => void readFrame(line))));
});
