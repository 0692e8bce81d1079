/** The loop guard as hosts meet it: real MCP clients, each driving its own `interlink-edge mcp`, a peer and a real bus. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, expect, inject, it, onTestFinished } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { PEER_BUDGET } from "../../src/client/session/loop-guard.ts";
import { Operator } from "../../src/client/trust/operator.ts";
import type { Key } from "../../src/protocol/address.ts";
import { begin, newHome, ok, reaches, until } from "./session/support.ts";

const run = promisify(execFile);
const NODE_ARGS = ["--disable-warning=ExperimentalWarning", join(import.meta.dirname, "../../src/client/cli/bin.ts")];

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

it("one wake, one budget, and a human who lifts it in a form or in a terminal", { timeout: 60_000 }, async () => {
  const env = {
    PATH: process.env["PATH"]!,
    HOME: newHome("ann").dir,
    INTERLINK_URL: bus.url,
    INTERLINK_NAME: "ann",
    INTERLINK_SESSION: "ann-1",
  };
  const cli = (...args: string[]) => run(process.execPath, [...NODE_ARGS, ...args], { env });
  const bob = await begin(newHome("bob"), bus.url);
  const anns = /[\w-]{43}/.exec((await cli("key")).stdout)![0] as Key;
  await cli("peers", "add", "bob", (await bob.whoami()).key, "--yes");
  ok(await bob.addPeer("ann", anns, Operator.attest(anns, "cli")));

  const updates: string[] = [];
  const asked: string[] = [];
  /** @param hasForm whether this host shows its user a form; they say yes */
  async function host(hasForm: boolean) {
    const client = new Client(
      { name: "test", version: "1" },
      { capabilities: hasForm ? { elicitation: {} } : {}, versionNegotiation: { mode: hasForm ? "auto" : "legacy" } },
    );
    if (hasForm)
      client.setRequestHandler("elicitation/create", ({ params }) => {
        asked.push(params.message);
        return { action: "accept", content: { approve: true } };
      });
    client.setNotificationHandler("notifications/resources/updated", ({ params }) => void updates.push(params.uri));
    const command = { command: process.execPath, args: [...NODE_ARGS, "mcp"], env, stderr: "ignore" as const };
    await client.connect(new StdioClientTransport(command));
    onTestFinished(() => client.close());
    const call = async (name: string, args: Record<string, unknown> = {}): Promise<any> =>
      client.callTool({ name, arguments: args });
    await until(async () => (await call("whoami")).structuredContent.connection === "connected", "the bus");
    return { client, call };
  }
  const thanks = { to: "bob", text: "thanks" };

  const plain = await host(false);
  await plain.client.subscribeResource({ uri: "interlink://inbox" });
  for (let n = 0; n < 3; n++) await reaches(bob, ok(await bob.send({ to: "ann", text: `mail ${n}` })), "acked");
  await until(() => updates.length > 0, "a wake");
  expect((await plain.call("check_messages")).structuredContent.messages).toHaveLength(3);
  await reaches(bob, ok(await bob.send({ to: "ann", text: "more" })), "acked");
  await until(() => updates.length > 1, "the next wake");
  expect(updates).toEqual(["interlink://inbox", "interlink://inbox"]);

  for (let n = 1; n < PEER_BUDGET.burst; n++)
    expect(await plain.call("send_message", thanks)).not.toHaveProperty("isError", true);
  const last = await plain.call("send_message", thanks);
  expect(last.structuredContent).toMatchObject({ to: "bob", state: "stored" });
  expect(last.structuredContent.notices).toContainEqual(
    expect.stringMatching(/^the budget of automatic replies with bob is used up/),
  );
  const refused = await plain.call("send_message", thanks);
  expect(refused).toMatchObject({ isError: true, structuredContent: { error: { code: "budget_spent" } } });
  const [, command] = /: interlink-edge (budget lift bob)$/.exec(refused.structuredContent.error.message)!;
  await cli(...command!.split(" "), "--yes");
  expect((await plain.call("send_message", thanks)).structuredContent).toMatchObject({ state: "stored" });
  await plain.client.close();

  const formed = await host(true);
  for (let n = 1; n < PEER_BUDGET.burst; n++) await formed.call("send_message", thanks);
  expect(asked).toEqual([]);
  expect((await formed.call("send_message", thanks)).structuredContent).toMatchObject({ state: "stored" });
  expect(asked).toEqual([expect.stringContaining('"bob"')]);
  // That message was the human's.
  expect((await cli("budget")).stderr).toContain("every budget is full");
});
