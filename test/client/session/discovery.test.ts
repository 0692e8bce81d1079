/** What discover takes of a roster, however it came by it: here a bus that shows what none should. */

import { expect, it } from "vitest";
import type { WakeSeen } from "../../../src/client/bus/roster-view.ts";
import { isToolRefusal } from "../../../src/client/session/agent.ts";
import { discover, type DiscoveryOptions } from "../../../src/client/session/discovery.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/constants.ts";
import { ALICE, ME, sessionId, STRANGER } from "../../support/fake-agent.ts";

const sessionOf = (pubkey: typeof ME.key, wake?: WakeSeen) => ({
  pubkey,
  name: "n",
  session: { session_id: sessionId("s") },
  ts: 1,
  sig: "sig",
  age_ms: 5,
  connected: true,
  ...(wake && { wake }),
});

/** Everybody's one session, each with the same lease. */
async function wakesBy(wake: WakeSeen | undefined) {
  const options = {
    me: ME.key,
    peers: { current: () => ({ petnames: new Map([[ALICE.key, "alice"]]) }) },
    addressing: { ref: (key: typeof ME.key) => (key === ALICE.key ? ALICE : ME) },
    rosters: {
      of: async (key: typeof ME.key) => ({ sessions: [sessionOf(key, wake)], gone: [], age_ms: 0 }),
      everyone: async () => ({ sessions: [sessionOf(STRANGER.key, wake)], isPartial: false }),
    },
    limits: DEFAULT_LIMITS,
  } as unknown as DiscoveryOptions;
  const seen = await discover(options);
  if (isToolRefusal(seen)) throw new Error(seen.code);
  const of = ({ key }: typeof ME) => seen.identities.find((each) => each.key === key)!.sessions[0]!;
  return { us: of(ME).wake, peer: of(ALICE).wake, stranger: of(STRANGER).wake };
}

const seenBy = (path: string): WakeSeen => ({ path, proven_age_ms: 60_000, left_ms: 1 });

it("takes what wakes a session from those whom we know, in our own words alone", async () => {
  const known = { path: "codex_queue", proven_age_ms: 60_000 };
  expect(await wakesBy(seenBy("codex_queue"))).toEqual({ us: known, peer: known, stranger: undefined });
  expect(await wakesBy(undefined)).toEqual({ us: undefined, peer: undefined, stranger: undefined });
  for (const path of ["call-me-now", "none", "other", "tostring", "constructor"]) {
    expect((await wakesBy(seenBy(path))).peer).toEqual({ path: "other", proven_age_ms: 60_000 });
  }
});
