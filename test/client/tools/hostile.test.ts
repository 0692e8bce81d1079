/**
 * Whatever a peer writes is one line of JSON that parses back exactly, with no markup and nothing hidden, and the only sender
 * shown is the one that was verified: in every tool that shows it, and in the log.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fingerprint } from "../../../src/protocol/address.ts";
import { isVisible } from "../../../src/protocol/text.ts";
import { stderrLog } from "../../../src/client/cli/log.ts";
import { cutEscaped, escapedSize, jsonLine, shown } from "../../../src/client/tools/escape.ts";
import { BODIES_MAX_BYTES, messageLines } from "../../../src/client/tools/lines.ts";
import { ALICE, fakeKey, NOW_MS } from "../../support/fake-agent.ts";
import { HOSTILE } from "../../support/hostile.ts";
import { drive, textOf, type Driven, type Result } from "./clients.ts";

/** A line as a model gets it: nothing hidden, no markup, and JSON. */
function parsed(line: string): Record<string, any> {
  expect(isVisible(line), line.slice(0, 200)).toBe(true);
  expect(line).not.toMatch(/[<>&]/);
  return JSON.parse(line) as Record<string, any>;
}

/** The lines of an answer under its first sentence, the same in text and structure. */
function linesOf(result: Result, field: string): Record<string, any>[] {
  const [sentence, ...lines] = textOf(result).split("\n");
  expect(isVisible(sentence!) && !/[<>&]/.test(sentence!)).toBe(true);
  expect(result.structuredContent![field]).toEqual(lines);
  return lines.map(parsed);
}

/** A body from its beginning and the parts that follow. */
async function wholeBody({ call }: Driven, line: Record<string, any>): Promise<string> {
  let body = line["body"] as string;
  let next = line["next_offset"] as number | undefined;
  expect(line["truncated"]).toBe(next !== undefined);
  while (next !== undefined) {
    const result = await call("read_message", { msg_id: line["msg_id"], offset: next });
    const part = parsed(result.structuredContent!["message"]);
    expect(textOf(result)).toBe(result.structuredContent!["message"]);
    expect(part).toMatchObject({ from: "alice", key: ALICE.fingerprint, offset: next });
    expect(part["next_offset"]).toBe(result.structuredContent!["next_offset"]);
    body += part["body"];
    next = part["next_offset"];
  }
  return body;
}

describe.each(["v1", "v2 auto"] as const)("through the client %s", { timeout: 60_000 }, (kind) => {
  it(
    "bodies come back exactly by check_messages and read_message, five at a time, under the cap",
    { timeout: 60_000 },
    async () => {
      expect(HOSTILE.length).toBeGreaterThanOrEqual(60);
      const driven = await drive(kind, { mail: HOSTILE.map((body) => ({ body, task_id: body.slice(0, 100) })) });
      const bodies: string[] = [];
      for (let left = HOSTILE.length; left > 0;) {
        const result = await driven.call("check_messages");
        left = result.structuredContent!["left"];
        expect(Buffer.byteLength(textOf(result))).toBeLessThan(BODIES_MAX_BYTES + 8 * 1_024);
        const lines = linesOf(result, "messages");
        expect(lines.length).toBeLessThanOrEqual(5);
        for (const line of lines) {
          expect(line).toMatchObject({
            interlink: 1,
            from: "alice",
            key: ALICE.fingerprint,
            kind: "message",
            session: "s-live",
          });
          expect(line["task_id"]).toBe(HOSTILE[bodies.length]!.slice(0, 100));
          bodies.push(await wholeBody(driven, line));
        }
      }
      expect(bodies.length).toBe(HOSTILE.length);
      for (const [index, body] of bodies.entries())
        expect(body === HOSTILE[index], HOSTILE[index]!.slice(0, 60)).toBe(true);
      expect(textOf(await driven.call("check_messages"))).toBe("No unread messages.");
    },
  );

  it("the history is lines as well, each with its side and its verified name", { timeout: 60_000 }, async () => {
    const { call } = await drive(kind, { mail: HOSTILE.map((body) => ({ body })) });
    const result = await call("conversation_history", { with: "alice", max: 50 });
    const lines = linesOf(result, "messages");
    expect(lines).toHaveLength(HOSTILE.length + 1);
    for (const [index, line] of lines.slice(0, -1).entries()) {
      expect(line).toMatchObject({ from: "alice", key: ALICE.fingerprint, direction: "in" });
      expect(HOSTILE[index]!.startsWith(line["body"])).toBe(true);
    }
    expect(lines.at(-1)).toMatchObject({ to: "alice", direction: "out", body: "ours" });
    expect(Buffer.byteLength(textOf(result))).toBeLessThan(BODIES_MAX_BYTES + HOSTILE.length * 400);
  });

  it("petnames of any kind are lines of list_peers", async () => {
    const peers = HOSTILE.map((petname, index) => {
      return { petname, key: fakeKey(index + 10), fingerprint: fingerprint(fakeKey(index + 10)) };
    });
    const { call } = await drive(kind, { peers });
    const lines = linesOf(await call("list_peers"), "peers");
    expect(lines.map(({ peer }) => peer as string)).toEqual(HOSTILE);
    expect(lines.map(({ key }) => key as string)).toEqual(peers.map(({ fingerprint }) => fingerprint));
  });
});

describe("what sessions say of themselves", () => {
  it("is lines of discover; of a stranger only a claim; and no other text shows it", { timeout: 60_000 }, async () => {
    const words = HOSTILE.filter(({ length }) => length < 1_000);
    for (let at = 0; at < words.length; at += 10) {
      const says = words.slice(at, at + 10);
      const { call, close } = await drive("v1", { says });
      const lines = linesOf(await call("discover"), "sessions");
      expect(lines).toHaveLength(says.length * 2);
      for (const [index, text] of says.entries()) {
        const [known, stranger] = [lines[index]!, lines[says.length + index]!];
        expect(known).toMatchObject({ peer: "alice", key: ALICE.fingerprint, paired: true });
        expect(known).toMatchObject({ claimed_name: text, cwd: text, git_root: text, summary: text });
        expect(stranger).toMatchObject({ paired: false, claimed_name: text });
        for (const field of ["peer", "cwd", "git_root", "summary"]) expect(stranger).not.toHaveProperty(field);
      }
      const { tasks } = (await call("list_pending")).structuredContent!;
      for (const [index, text] of says.entries())
        expect(parsed(tasks[index])).toMatchObject({ with: "alice", task_id: text });
      // Sentences that quote it stay one line without markup.
      const sentence = textOf(await call("whoami"));
      expect(isVisible(sentence)).toBe(true);
      expect(sentence).not.toMatch(/[<>&]/);
      await close();
    }
  });
});

describe("the log", () => {
  it("is one line of JSON an event that parses back exactly", () => {
    for (const text of HOSTILE) {
      const lines: string[] = [];
      stderrLog((line) => lines.push(line))("event", { text });
      expect(lines).toHaveLength(1);
      expect(lines[0]!.endsWith("\n")).toBe(true);
      expect(parsed(lines[0]!.slice(0, -1))).toMatchObject({ event: "event", text });
    }
  });

  it("survives a reader that is gone", () => {
    const log = stderrLog(() => {
      throw new Error("EPIPE");
    });
    expect(() => log("event")).not.toThrow();
  });
});

describe("escaping", () => {
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.string({ unit: "grapheme" }),
    fc.constantFrom(...HOSTILE.slice(0, 66)),
  );

  it("is lossless, on one line, with nothing hidden, for any text", () => {
    fc.assert(
      fc.property(text, (body) => {
        const line = jsonLine({ body });
        expect(parsed(line)).toEqual({ body });
        expect(JSON.parse(`"${shown(body)}"`)).toBe(body);
      }),
      { numRuns: 2_000 },
    );
  });

  it("cuts to a size, and never within a character", () => {
    fc.assert(
      fc.property(text, fc.nat(200), (body, max) => {
        const cut = cutEscaped(body, max);
        expect(escapedSize(cut)).toBeLessThanOrEqual(max);
        expect(body.startsWith(cut)).toBe(true);
        if (body.isWellFormed()) expect(cut.isWellFormed()).toBe(true);
        // No shorter than it must be: the next character would not fit.
        const [next = ""] = body.slice(cut.length);
        if (next !== "") expect(escapedSize(cut + next)).toBeGreaterThan(max);
      }),
      { numRuns: 1_000 },
    );
  });

  it("lets short messages stay whole beside long ones, and bounds all together", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(40_000), { minLength: 1, maxLength: 5 }), (sizes) => {
        const shownOf = (body: string) => ({
          from: ALICE,
          msg_id: "m",
          sent_at_ms: NOW_MS,
          received_at_ms: NOW_MS,
          clock_ok: true,
          truncated: false,
          body,
        });
        const lines = messageLines(sizes.map((size) => shownOf("x".repeat(size)))).map(parsed);
        const total = lines.reduce((sum, { body }) => sum + (body as string).length, 0);
        expect(total).toBeLessThanOrEqual(BODIES_MAX_BYTES);
        for (const [index, line] of lines.entries()) {
          const size = sizes[index]!;
          expect((line["body"] as string).length).toBeLessThanOrEqual(8 * 1_024);
          if (size <= Math.min(8 * 1_024, BODIES_MAX_BYTES / sizes.length))
            expect((line["body"] as string).length).toBe(size);
          expect(line["truncated"]).toBe((line["body"] as string).length < size);
        }
      }),
    );
  });

  it("names an instant that no calendar has", () => {
    const message = { from: ALICE, msg_id: "m", received_at_ms: NOW_MS, clock_ok: false, truncated: false, body: "x" };
    const [line] = messageLines([{ ...message, sent_at_ms: Number.MAX_SAFE_INTEGER }]);
    expect(parsed(line!)["sent"]).toBe(String(Number.MAX_SAFE_INTEGER));
  });
});
