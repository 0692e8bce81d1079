/** Who is there, as a person reads it: what we know is never mixed with what sessions say of themselves. */

import { expect, it } from "vitest";
import { rosterLines } from "../../../src/client/cli/roster-lines.ts";
import type { Terminal } from "../../../src/client/cli/terminal.ts";
import type { Discovered, DiscoveredSession } from "../../../src/client/session/agent.ts";
import { ALICE, sessionId, STRANGER } from "../../support/fake-agent.ts";

const terminal = { isPerson: false } as Terminal;
const session = (fields: Partial<DiscoveredSession>): DiscoveredSession => ({
  session: sessionId("s"),
  name: "n",
  presence: "live",
  age_ms: 5_000,
  connected: true,
  is_us: false,
  ...fields,
});
const linesOf = (identities: Discovered["identities"]) => rosterLines(terminal, { identities, view_age_ms: 0 });

it("says of each session of a peer how it was last seen to be woken, and of a stranger's nothing", () => {
  const wake = { path: "channel", proven_age_ms: 120_000 } as const;
  const [woken, unknown, away] = linesOf([
    {
      key: ALICE.key,
      fingerprint: ALICE.fingerprint,
      peer: ALICE,
      sessions: [
        session({ summary: "a wake was last answered just now, by magic", wake }),
        session({}),
        session({ wake: { path: "other", proven_age_ms: 3_599_999 }, presence: "away" }),
      ],
    },
  ]);
  expect(woken).toMatch(/"a wake was last answered just now, by magic", a wake was last answered 2m ago, by a channel/);
  expect(unknown).toMatch(/calls itself "n", no answered wake is known, so mail may wait until it looks$/);
  expect(away).toMatch(/calls itself "n", a wake was last answered 59m ago, by another way$/);
  const strangers = linesOf([
    { key: STRANGER.key, fingerprint: STRANGER.fingerprint, sessions: [session({ wake }), session({})] },
  ]);
  for (const line of strangers) expect(line).toMatch(/calls itself "n"$/);
});
