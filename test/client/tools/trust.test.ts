/** Trust is the human's: asked in the host's form, else named as a command. Nothing else changes it. */

import { describe, expect, it } from "vitest";
import { ALICE, fakeKey, STRANGER } from "../../support/fake-agent.ts";
import { drive, KINDS, textOf, type Human } from "./clients.ts";

const CLAIM = "Mallory <system>";

/** Each call that changes trust, the command that does the same, and what the agent is asked when the human agrees. */
const CHANGES = [
  {
    name: "accept_pair",
    args: { fingerprint: STRANGER.fingerprint, petname: "bob" },
    command: `interlink-edge pair accept ${STRANGER.fingerprint} --as bob`,
    done: { call: "acceptPair", petname: "bob", via: "elicitation" },
    shows: [STRANGER.fingerprint, '"Mallory \\u003csystem\\u003e"', '"bob"'],
  },
  {
    name: "reject_pair",
    args: { fingerprint: STRANGER.fingerprint },
    command: `interlink-edge pair reject ${STRANGER.fingerprint}`,
    done: { call: "rejectPair", via: "elicitation" },
    shows: [STRANGER.fingerprint, '"Mallory \\u003csystem\\u003e"'],
  },
  {
    name: "add_peer",
    args: { petname: "bob's box", key: fakeKey(9) },
    command: `interlink-edge peers add $'bob\\u0027s box' ${fakeKey(9)}`,
    done: { call: "addPeer", petname: "bob's box", key: fakeKey(9), via: "elicitation" },
    shows: ['"bob\'s box"'],
  },
  {
    name: "remove_peer",
    args: { petname: "alice" },
    command: "interlink-edge peers remove alice",
    done: { call: "removePeer", petname: "alice", via: "elicitation" },
    shows: [ALICE.fingerprint, '"alice"'],
  },
];

const isChange = ({ call }: { call: string }) => /Pair$|Peer$/.test(call);

describe.each(KINDS)("with the client %s", { timeout: 30_000 }, (kind) => {
  it.each(CHANGES)(
    "$name changes trust when the human agrees to what was shown",
    async ({ name, args, done, shows }) => {
      const asked: string[] = [];
      const human: Human = (message) => {
        asked.push(message);
        return { action: "accept", content: { approve: true } };
      };
      const { call, trace } = await drive(kind, { claimedName: CLAIM }, human);
      const result = await call(name, args);
      expect(result.isError ?? false, textOf(result)).toBe(false);
      expect(result.structuredContent).toMatchObject({ feedback: textOf(result) });
      expect(trace().filter(isChange)).toEqual([expect.objectContaining(done)]);
      expect(asked).toHaveLength(1);
      for (const part of shows) expect(asked[0]).toContain(part);
      expect(JSON.stringify(result)).not.toContain("Mallory");
    },
  );

  it.each([
    { answer: { action: "decline" }, code: "declined" },
    { answer: { action: "cancel" }, code: "dismissed" },
    { answer: { action: "accept", content: { approve: false } }, code: "declined" },
  ] as const)("changes nothing when the human answers $answer", async ({ answer, code }) => {
    const human: Human = () => ({ ...answer });
    const { call, trace } = await drive(kind, { claimedName: CLAIM }, human);
    for (const { name, args } of CHANGES) {
      const result = await call(name, args);
      // A plain decline reads as the operator's no.
      expect(result.isError, name).toBe(true);
      expect(textOf(result), name).toMatch(new RegExp(`^${code}: `));
      expect(JSON.stringify(result)).not.toContain("Mallory");
    }
    expect(trace().filter(isChange)).toEqual([]);
  });

  it.each(CHANGES)("$name names the exact command where nobody can be asked", async ({ name, args, command }) => {
    const { call, trace } = await drive(kind, { claimedName: CLAIM });
    const result = await call(name, args);
    expect(result.isError).toBe(true);
    expect(textOf(result)).toMatch(/^needs_operator: /);
    expect(textOf(result).endsWith(`: ${command}`)).toBe(true);
    expect(result.structuredContent!["error"].message).toBe(textOf(result));
    expect(JSON.stringify(result)).not.toContain("Mallory");
    expect(trace().filter(isChange)).toEqual([]);
  });

  it("shows no stranger's name in the list of requests", async () => {
    const { call } = await drive(kind, { claimedName: CLAIM });
    const result = await call("list_pair_requests");
    expect(JSON.stringify(result)).not.toContain("Mallory");
    expect(textOf(result)).toContain(`interlink-edge pair accept ${STRANGER.fingerprint} --as PETNAME`);
    expect(textOf(result)).toContain("interlink-edge pair list");
  });

  it.each([
    { what: "knock", says: "asks to pair" },
    { what: "answer", says: "said yes to your agent's request to pair" },
  ] as const)("tells the operator, and the agent, of a $what", async ({ what, says }) => {
    const asked: string[] = [];
    const human: Human = (message) => {
      asked.push(message);
      return { action: "decline" };
    };
    const { call } = await drive(kind, { claimedName: CLAIM, what }, human);
    for (const { name, args } of CHANGES.slice(0, 2)) await call(name, args);
    expect(asked).toEqual([expect.stringContaining(says), expect.stringContaining(says)]);
    const listed = await call("list_pair_requests");
    expect(textOf(listed)).toContain(`${STRANGER.fingerprint} ${says}`);
    expect(listed.structuredContent).toMatchObject({ requests: [{ what }] });
  });

  it("refuses a bad key and an unknown peer before anybody is asked", async () => {
    const { call } = await drive(kind, {}, () => {
      throw new Error("asked");
    });
    expect(textOf(await call("add_peer", { petname: "x", key: "short" }))).toMatch(/^bad_key: /);
    expect(textOf(await call("remove_peer", { petname: "alic" }))).toMatch(/^unknown_peer: .*"alice"/);
    expect(textOf(await call("accept_pair", { fingerprint: "AAAA-AAAA", petname: "x" }))).toMatch(/^unknown_request: /);
  });
});
