/** A line between a hook and an agent: what is none is none, and nothing throws. */

import { expect, it } from "vitest";
import { readAnswer, readRequest } from "../../../src/client/wake/hook-line.ts";

it.each([
  { why: "an object without words", line: '{"say":"no","why":{"toString":null,"valueOf":null}}' },
  { why: "no reason", line: '{"say":"no"}' },
  { why: "a number for the model", line: '{"say":"tell","text":1}' },
  { why: "a list", line: "[]" },
  { why: "half a line", line: '{"say":"no"' },
])("an answer with $why is none", ({ line }) => {
  expect(readAnswer(line)).toBeUndefined();
});

it.each([
  { why: "no secret", line: '{"ask":"human"}' },
  { why: "a secret that is no text", line: '{"ask":"human","secret":["s"]}' },
  { why: "a word that we do not know", line: '{"ask":"all","secret":"s"}' },
  {
    why: "a thread of a thousand characters and more",
    line: JSON.stringify({ ask: "bind", source: "clear", thread: "t".repeat(1_025), secret: "s" }),
  },
])("a request with $why is none", ({ line }) => {
  expect(readRequest(line, "s")).toBeUndefined();
});

it("a refusal is told with its reason", () => {
  expect(readAnswer('{"say":"no","why":"off","more":1}')).toEqual({ say: "no", why: "off" });
});
