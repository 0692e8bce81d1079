/** What can be done, and the one reason why not: each operation by each way in which a session stands. */

import { describe, expect, it } from "vitest";
import type { State } from "../../../src/client/bus/connection-state.ts";
import { dropOf } from "../../../src/client/session/drop.ts";
import { readinessOf } from "../../../src/client/session/readiness.ts";

const open: State = { at: "open", dueAtMs: 0, sinceMs: 0, isPinged: false };
const waiting: State = { at: "waiting", dueAtMs: 0, why: { unreachable: "network" } };
const stopped = (why: (State & { at: "stopped" })["why"]): State => ({ at: "stopped", why });
const goodbye = stopped({ by: "unregister", isConfirmed: true });
const evicted = stopped({ by: "evicted", code: "not_admitted" });
const superseded = stopped({ by: "superseded" });
const tooOld = stopped({ by: "client_too_old" });
const facts = { links: [open], isAway: false, roster: "fresh", hasWakePath: true } as const;

describe("Session Access Pattern: readiness per operation", () => {
  it.each([
    { why: "all is well", given: {}, want: ["ready", "ready", "ready", "ready", "ready"] },
    {
      why: "no way to wake",
      given: { hasWakePath: false },
      want: ["ready", "ready", "ready", "ready", "no_wake_path"],
    },
    {
      why: "the roster is old",
      given: { roster: "retained" },
      want: ["bus_stale", "ready", "ready", "ready", "ready"],
    },
    {
      why: "the roster cannot be read",
      given: { roster: "none" },
      want: ["bus_stale", "ready", "ready", "ready", "ready"],
    },
    {
      why: "the bus is away",
      given: { links: [waiting], roster: "retained" },
      want: ["bus_stale", "ready", "not_connected", "ready", "ready"],
    },
    {
      why: "the bus was never there",
      given: { links: [waiting], roster: "none" },
      want: ["not_connected", "ready", "not_connected", "ready", "ready"],
    },
    {
      why: "the user closed it",
      given: { links: [goodbye], isAway: true, roster: "none" },
      want: ["not_connected", "not_connected", "not_connected", "ready", "ready"],
    },
    {
      why: "another process said goodbye",
      given: { links: [goodbye], roster: "none" },
      want: ["not_connected", "ready", "not_connected", "ready", "ready"],
    },
    { why: "superseded", given: { links: [superseded] }, want: ["ready", "ready", "superseded", "ready", "ready"] },
    {
      why: "not admitted",
      given: { links: [evicted], roster: "none" },
      want: ["not_admitted", "ready", "not_admitted", "ready", "ready"],
    },
    {
      why: "too old",
      given: { links: [tooOld], roster: "none" },
      want: ["client_too_old", "ready", "client_too_old", "ready", "ready"],
    },
    {
      why: "one of two is there",
      given: { links: [evicted, open] },
      want: ["ready", "ready", "ready", "ready", "ready"],
    },
    {
      why: "one of two will be",
      given: { links: [evicted, waiting] },
      want: ["ready", "ready", "not_connected", "ready", "ready"],
    },
  ] as const)("$why", ({ given, want }) => {
    const [read_roster, send, receive, trust, wake] = want;
    expect(readinessOf({ ...facts, ...given })).toEqual({ read_roster, send, receive, trust, wake });
  });
});

describe("Session Drop Tracking", () => {
  const nameOf = (target: string) => `name of ${target}`;
  const at = (standing: object, isStopped = true) =>
    ({ active: { name: "work", standing: standing as never, isStopped }, nameOf }) as const;
  const mend = (bus: string) => ({ tool: "connect_bus", bus });
  it.each([
    { why: "nothing happened", given: { nameOf }, want: undefined },
    {
      why: "Switched",
      given: { departed: { what: "switched", target: "A" }, nameOf },
      want: { what: "switched", bus: "name of A", mend: mend("name of A") },
    },
    {
      why: "Disconnected by the user",
      given: { departed: { what: "disconnected", target: "A", why: "asked" }, nameOf },
      want: { what: "disconnected", bus: "name of A", reason: "asked", mend: mend("name of A") },
    },
    {
      why: "Disconnected to make room",
      given: { departed: { what: "disconnected", target: "A", why: "made_room" }, nameOf },
      want: { what: "disconnected", bus: "name of A", reason: "made_room", mend: mend("name of A") },
    },
    {
      why: "Disconnected by another process",
      given: at({ connection: "disconnected", reason: "unregistered" }),
      want: { what: "disconnected", bus: "work", reason: "unregistered", mend: mend("work") },
    },
    {
      why: "Evicted",
      given: at({ connection: "evicted", reason: "forgotten" }),
      want: { what: "evicted", bus: "work", reason: "forgotten", mend: mend("work") },
    },
    {
      why: "too old, which only another version mends",
      given: at({ connection: "disconnected", reason: "client_too_old" }),
      want: { what: "disconnected", bus: "work", reason: "client_too_old", mend: { tool: "reconnect" } },
    },
    {
      why: "what is wrong now comes first",
      given: { ...at({ connection: "evicted" }), departed: { what: "switched", target: "A" } },
      want: { what: "evicted", bus: "work", mend: mend("work") },
    },
    { why: "away is no drop", given: at({ connection: "disconnected", reason: "network" }, false), want: undefined },
  ] as const)("$why", ({ given, want }) => {
    expect(dropOf(given as never)).toEqual(want);
  });
});
