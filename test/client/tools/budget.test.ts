/** An automatic reply too many: the human is asked within the call, or the answer names their command. */

import { describe, expect, it } from "vitest";
import { ALICE, NOW_MS } from "../../support/fake-agent.ts";
import { drive, KINDS, textOf, type Human } from "./clients.ts";

const MESSAGE = { to: "alice", text: "thanks" };
const yes: Human = () => ({ action: "accept", content: { approve: true } });

describe.each(KINDS)("with the client %s", { timeout: 30_000 }, (kind) => {
  it("goes out when the human lifts the budget", async () => {
    const asked: string[] = [];
    const { call, trace } = await drive(kind, { isSpent: true }, (message) => {
      asked.push(message);
      return yes(message);
    });
    const sent = await call("send_message", MESSAGE);
    expect(sent.isError ?? false, textOf(sent)).toBe(false);
    expect(sent.structuredContent).toMatchObject({ msg_id: "sent-1", to: "alice", state: "stored" });
    expect(asked).toEqual([expect.stringContaining(ALICE.fingerprint)]);
    expect(asked[0]).toContain('"alice"');
    expect(trace().map(({ call: name }) => name)).toEqual(["begin", "send", "liftBudget", "send"]);
    expect(trace()).toContainEqual({ call: "liftBudget", peer: ALICE.key, via: "elicitation" });

    await call("send_message", MESSAGE);
    expect(asked).toHaveLength(1);
  });

  it.each([
    { answer: { action: "decline" }, code: "declined" },
    { answer: { action: "cancel" }, code: "dismissed" },
    { answer: { action: "accept", content: { approve: false } }, code: "declined" },
  ] as const)("does not when they answer $answer", async ({ answer, code }) => {
    const { call, trace } = await drive(kind, { isSpent: true }, () => ({ ...answer }));
    const refused = await call("send_message", MESSAGE);
    expect(refused.isError).toBe(true);
    expect(textOf(refused)).toMatch(new RegExp(`^${code}: `));
    expect(trace().map(({ call: name }) => name)).toEqual(["begin", "send"]);
  });

  it("is refused with the exact command where nobody can be asked", async () => {
    const { call, trace } = await drive(kind, { isSpent: true });
    const refused = await call("send_message", MESSAGE);
    expect(refused.isError).toBe(true);
    const message = textOf(refused);
    expect(message).toMatch(/^budget_spent: .* nothing was stored \(with "alice"/);
    expect(message).toContain(new Date(NOW_MS + 60_000).toISOString());
    expect(
      message.endsWith(
        "Stop answering and tell your user; they alone may lift it, in a terminal: interlink-edge budget lift alice",
      ),
    ).toBe(true);
    expect(refused.structuredContent!["error"]).toMatchObject({ code: "budget_spent", message });
    expect(trace().map(({ call: name }) => name)).toEqual(["begin", "send"]);
  });

  it("is not asked for when the message is refused for something else", async () => {
    const { call } = await drive(kind, { refusal: { code: "unknown_peer" } }, () => {
      throw new Error("asked");
    });
    expect(textOf(await call("send_message", MESSAGE))).toMatch(/^unknown_peer: /);
  });
});
