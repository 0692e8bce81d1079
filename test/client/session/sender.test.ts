/** The outbox at work, on a clock that is moved: what waits comes in its time, and what a bus has lost is not held against it. */

import { setImmediate as turn } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import type { BusLink } from "../../../src/client/session/bus-link.ts";
import { Outbox } from "../../../src/client/session/outbox.ts";
import { BACKOFF_MIN_MS } from "../../../src/client/session/outbox-policy.ts";
import { NEW_LIFE_PATIENCE_MS, Sender } from "../../../src/client/session/sender.ts";
import type { Key } from "../../../src/protocol/address.ts";
import { publicKeyOf, sign } from "../../../src/protocol/signing.ts";
import { fakeKey } from "../../support/fake-agent.ts";
import { ManualTimers } from "../bus/support.ts";
import { open, session } from "../state/state-fixture.ts";

const HOUR_MS = 3_600_000;
const seed = new Uint8Array(32).fill(7);
const ann = fakeKey(2);
let key: Key;
beforeAll(async () => {
  key = await publicKeyOf(seed);
});

/** A sender to one bus, which says to each try what it is told to say. */
function senderOn(answer: object, sinceNewLifeMs?: number, at: BusLink["state"]["at"] = "idle") {
  const timers = new ManualTimers();
  const newLifeAtMs = sinceNewLifeMs === undefined ? undefined : timers.now() - sinceNewLifeMs;
  const { state } = open();
  const author = { key, session: session("me"), sign: (bytes: Uint8Array) => sign(bytes, seed) };
  const outbox = new Outbox({ state, author, buses: () => ["main"], random: () => 0 });
  let tries = 0;
  const http = {
    send: async () => {
      tries++;
      return answer;
    },
  };
  const sender = new Sender({
    outbox,
    links: [{ name: "main", http, state: { at } } as unknown as BusLink],
    timers,
    isPeer: () => true,
    newLifeAtMs: () => newLifeAtMs,
    onChanged: () => {},
    onFault: (fault) => {
      throw fault;
    },
  });
  const send = async (text: string) => {
    const outgoing = await outbox.enqueue({ to: { key: ann }, text }, timers.now());
    sender.kick();
    await turn();
    return outgoing as Extract<typeof outgoing, { life: object }>;
  };
  return { timers, sender, send, tries: () => tries, lifeOf: (id: string) => state.outbox.get(id)?.life };
}

describe("a wait for an answer", () => {
  it.each([-24 * HOUR_MS, -HOUR_MS, -BACKOFF_MIN_MS, 0, HOUR_MS, 24 * HOUR_MS])(
    "ends in its time when the clock is set by %d ms, also where mail is written meanwhile",
    async (byMs) => {
      const { timers, sender, send, tries } = senderOn({ unreachable: "network" });
      await send("1");
      for (let n = 0; n < 12; n++) {
        timers.advance(HOUR_MS);
        await turn();
      }
      expect(tries()).toBe(13);
      // The longest wait is half a minute, with no luck at all.
      timers.advance(10_000);
      timers.setBy(byMs);
      await send("2");
      timers.advance(20_001 + Math.min(BACKOFF_MIN_MS, Math.abs(byMs)));
      await turn();
      expect(tries()).toBe(14);
      sender.close();
    },
  );
});

describe("of a peer, 'not paired'", () => {
  it.each([
    { sinceMs: 0, state: "pending", why: "its contacts are not back yet" },
    { sinceMs: NEW_LIFE_PATIENCE_MS - 1, state: "pending", why: "they may be late" },
    { sinceMs: NEW_LIFE_PATIENCE_MS, state: "refused", why: "they have had their time" },
    { sinceMs: HOUR_MS, state: "refused", why: "long ago" },
    { sinceMs: 1 - NEW_LIFE_PATIENCE_MS, state: "pending", why: "the clock was corrected since" },
    { sinceMs: -NEW_LIFE_PATIENCE_MS, state: "refused", why: "the clock was set back, and it may be long ago" },
    { sinceMs: -24 * HOUR_MS, state: "refused", why: "by a day" },
  ])("leaves it $state $sinceMs ms after a bus lost what it kept: $why", async ({ sinceMs, state }) => {
    const { sender, send, lifeOf } = senderOn({ refused: "not_paired" }, sinceMs);
    const { msg_id } = await send("1");
    expect(lifeOf(msg_id)?.state).toBe(state);
    sender.close();
  });

  it.each([
    { at: "dialing", state: "pending", why: "what answers may be a new life of the bus" },
    { at: "waiting", state: "pending", why: "the same" },
    { at: "open", state: "refused", why: "its welcome has said that it is the old one" },
  ] as const)("leaves it $state while the socket is $at: $why", async ({ at, state }) => {
    const { sender, send, lifeOf } = senderOn({ refused: "not_paired" }, undefined, at);
    const { msg_id } = await send("1");
    expect(lifeOf(msg_id)?.state).toBe(state);
    sender.close();
  });
});
