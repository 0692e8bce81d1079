/** Two sessions of one identity on one machine, as two hosts see them: an inbox each, `self` is the other, never oneself. */

import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { Host, twoMachines, type Machine } from "./machine.ts";

let bus: LocalBus;
let machines: readonly Machine[];
let one: Host;
let two: Host;
let zoe: Host;

beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
  machines = await twoMachines(bus.url, "ann", "zoe");
  const [a, z] = machines as [Machine, Machine];
  [one, two, zoe] = await Promise.all([
    Host.start(a, "v1", false, "desk-1"),
    Host.start(a, "v2 auto", false, "desk-2"),
    Host.start(z, "v2 legacy", false),
  ]);
  await Promise.all([one.connected(), two.connected(), zoe.connected()]);
}, 30_000);
afterAll(async () => {
  await Promise.all([one.close(), two.close(), zoe.close()]);
  for (const machine of machines) machine.remove();
  await bus.stop();
});

it("are one identity with two sessions, each of which knows which one it is", { timeout: 30_000 }, async () => {
  for (const [host, session] of [
    [one, "desk-1"],
    [two, "desk-2"],
  ] as const) {
    const seen = await host.until("discover", { peer: "self" }, ({ sessions }) => sessions.length === 2);
    const lines = seen["sessions"].map((line: string) => JSON.parse(line));
    expect(lines.filter(({ is_us }: { is_us: boolean }) => is_us)).toMatchObject([{ session, peer: "self" }]);
  }
});

it("write to each other as self, and hear no echo", { timeout: 30_000 }, async () => {
  expect(await one.ok("send_message", { to: "self", text: "to two" })).toMatchObject({ to: "self", session: "desk-2" });
  expect(await two.mail(1)).toMatchObject([{ from: "self", session: "desk-1", body: "to two" }]);
  expect(await two.ok("send_message", { to: "self", text: "to one" })).toMatchObject({ session: "desk-1" });
  expect(await one.mail(1)).toMatchObject([{ from: "self", session: "desk-2", body: "to one" }]);
  for (const host of [one, two]) expect(await host.ok("check_messages")).toMatchObject({ messages: [], left: 0 });
});

it("never write to themselves, by whatever name", { timeout: 30_000 }, async () => {
  const key = await one.machine.key();
  for (const to of ["self", key])
    for (const [host, own] of [
      [one, "desk-1"],
      [two, "desk-2"],
    ] as const)
      expect((await host.refusal("send_message", { to, text: "x", session: own })).code).toBe("oneself");
  for (const host of [one, two]) expect(await host.ok("list_pending")).toMatchObject({ unsent: [] });
});

it("are told apart by whoever writes to them, and what is for one reaches no other", { timeout: 30_000 }, async () => {
  await zoe.until("discover", { peer: "ann" }, ({ sessions }) => sessions.length === 2);
  const several = await zoe.refusal("send_message", { to: "ann", text: "x" });
  expect(several).toMatchObject({
    code: "several_live",
    message: expect.stringMatching(/desk-1 .*desk-2|desk-2 .*desk-1/),
  });
  expect((await zoe.refusal("send_message", { to: "ann", text: "x", session: "desk" })).message).toContain("desk-2");
  expect(await zoe.ok("send_message", { to: "ann", text: "for one", session: "desk-1" })).toMatchObject({
    session: "desk-1",
  });
  expect(await one.mail(1)).toMatchObject([{ from: "zoe", body: "for one" }]);
  expect(await two.ok("check_messages")).toMatchObject({ messages: [], left: 0 });
  // The answer goes back to Zoe, and hers to the one that answered.
  await one.ok("send_message", { to: "zoe", text: "heard" });
  await zoe.mail(1);
  expect(await zoe.ok("send_message", { to: "ann", text: "good" })).toMatchObject({ session: "desk-1" });
  expect(await one.mail(1)).toMatchObject([{ body: "good" }]);

  await one.close();
  await two.until("discover", { peer: "self" }, ({ sessions }) => sessions.length === 1);
  expect((await two.refusal("send_message", { to: "self", text: "alone" })).code).toBe("oneself");
});
