/** Several buses through a real host, whose agent process is killed: the next is where that one was, and not where the user left. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { ok, until } from "../session/support.ts";
import { drive, peersOf } from "../supervisor/hosted.ts";
import type { Result } from "./clients.ts";

let one: LocalBus;
let two: LocalBus;
beforeAll(async () => {
  const vars = { LOG: "faults" };
  [one, two] = await Promise.all([
    startBus({ bundle: inject("bundle"), vars }),
    startBus({ bundle: inject("bundle"), vars }),
  ]);
});
afterAll(() => Promise.all([one.stop(), two.stop()]));

const LIMITS = { endsMax: 1_000, backoffBaseMs: 5, backoffMaxMs: 20 };

const rolesIn = ({ structuredContent }: Result) =>
  Object.fromEntries(
    (structuredContent!["buses"] as string[]).map((line) => {
      const { bus, role } = JSON.parse(line) as { bus: string; role: string };
      return [bus, role];
    }),
  );

it.each(["v1", "v2 auto"] as const)("with the client %s", { timeout: 60_000 }, async (kind) => {
  const { bob, env, dir } = await peersOf(one.url);
  const config = join(dir, ".config", "interlink");
  mkdirSync(config, { recursive: true, mode: 0o700 });
  writeFileSync(
    join(config, "buses.json"),
    JSON.stringify({
      first: { url: one.url, key: env["INTERLINK_KEY"] },
      second: { url: two.url, key: env["INTERLINK_KEY"] },
    }),
    { mode: 0o600 },
  );
  const host = await drive(kind, env, dir, LIMITS);
  const roles = async () => rolesIn((await host.call("list_buses")) as Result);
  const killed = async () => {
    const count = host.pids().length;
    process.kill(await host.up(), "SIGKILL");
    await until(() => host.pids().length > count, "the next process");
  };
  const isSeen = async () =>
    ok(await bob.discover("alice")).identities.flatMap(({ sessions }) => sessions.filter(({ connected }) => connected))
      .length === 1;

  await until(isSeen, "alice");
  expect((await host.call("connect_bus", { bus: "second" })).structuredContent).toMatchObject({ bus: "second" });
  await killed();
  await until(async () => (await roles())["first"] === "parked", "the parked one again");
  expect(await roles()).toEqual({ first: "parked", second: "active" });
  // Mail by the parked one reaches the new process, with the bus's name.
  await until(isSeen, "alice again");
  ok(await bob.send({ to: "alice", text: "to the parked one" }));
  const mail = await until(async () => {
    const [line] = (await host.call("check_messages")).structuredContent!["messages"] as string[];
    return line === undefined ? undefined : (JSON.parse(line) as object);
  }, "the mail");
  expect(mail).toMatchObject({ bus: "first", from: "bob", body: "to the parked one" });

  // Left is left: the next process goes to neither.
  for (const bus of ["first", "second"])
    expect((await host.call("disconnect_bus", { bus })).isError ?? false).toBe(false);
  await killed();
  const me = (await host.call("whoami")).structuredContent!;
  expect(me).toMatchObject({ connection: "disconnected", readiness: { receive: "not_connected", trust: "ready" } });
  expect(await roles()).toEqual({ first: "named", second: "named" });
  expect(await isSeen()).toBe(false);
  const refused = await host.call("send_message", { to: "bob", text: "x" });
  expect(refused.structuredContent!["error"]).toMatchObject({ code: "not_connected" });
  expect((await host.call("connect_bus", { bus: "first" })).structuredContent).toMatchObject({
    connection: "connected",
  });
  await until(isSeen, "alice, by her own word");
  expect(host.isClosed()).toBe(false);
});
