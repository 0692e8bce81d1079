/** A real agent beneath a supervisor, driven by a real client of the SDK, and its peer bob as a session of this process. */

import { join } from "node:path";
import { Client as Client2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { onTestFinished } from "vitest";
import { openIdentity } from "../../../src/client/trust/identity-file.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import { PeersFile } from "../../../src/client/trust/peers.ts";
import type { RestartLimits } from "../../../src/client/supervisor/restart-budget.ts";
import { begin, newHome, ok } from "../session/support.ts";
import type { Kind, Result } from "../tools/clients.ts";
import { until } from "./host.ts";

const SUPPORT = join(import.meta.dirname, "../../support");
const BIN = join(import.meta.dirname, "../../../src/client/cli/bin.ts");
export const NODE = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"];

/** Alice's folders and environment, and bob, who is her peer and there. */
export async function peersOf(bus: string) {
  const home = newHome("alice");
  const [key, peers] = [join(home.dir, "id.key"), join(home.dir, "peers.json")];
  const opened = await openIdentity(key);
  if ("refused" in opened) throw new Error(opened.refused);
  const alice = opened.identity.key;
  const bob = await begin(newHome("bob"), bus);
  const me = await bob.whoami();
  const added = await new PeersFile({ path: peers, me: alice }).add(
    "bob",
    me.key,
    Operator.attest(me.key, "elicitation"),
  );
  if ("refused" in added) throw new Error(added.refused);
  ok(await bob.addPeer("alice", alice, Operator.attest(alice, "elicitation")));
  const env: Record<string, string> = {
    PATH: process.env["PATH"]!,
    HOME: home.dir,
    TMPDIR: home.dir,
    XDG_STATE_HOME: join(home.dir, "state"),
    INTERLINK_KEY: key,
    INTERLINK_PEERS: peers,
    INTERLINK_NAME: "alice",
    INTERLINK_URL: bus,
  };
  return { alice, bob, env, dir: home.dir };
}

/** A host of one kind over a supervisor with a test's numbers. */
export async function drive(
  kind: Kind,
  env: Record<string, string>,
  dir: string,
  limits: Partial<RestartLimits>,
  human?: () => Promise<{ action: "accept"; content: { approve: boolean } }>,
) {
  const SUPERVISE = JSON.stringify({ script: BIN, answers: join(dir, "state/interlink/answers.json"), limits });
  const command = {
    command: process.execPath,
    args: [...NODE, "--import", join(SUPPORT, "die-by-signal.mjs"), join(SUPPORT, "supervise.ts")],
    env: { ...env, SUPERVISE },
    stderr: "pipe" as const,
  };
  let [errors, isClosed] = ["", false];
  const transport = kind === "v1" ? new Stdio1(command) : new Stdio2(command);
  transport.stderr?.on("data", (chunk: Buffer) => (errors += String(chunk)));
  const capabilities = human ? { elicitation: {} } : {};
  const info = { name: "host", version: "1" };
  const client =
    kind === "v1"
      ? new Client1(info, { capabilities })
      : new Client2(info, { capabilities, versionNegotiation: { mode: kind === "v2 auto" ? "auto" : "legacy" } });
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the SDK has one callback
  client.onclose = () => (isClosed = true);
  if (human && client instanceof Client2) client.setRequestHandler("elicitation/create", human);
  await client.connect(transport as Stdio1 & Stdio2);
  await client.listTools();
  onTestFinished(() => client.close());
  const pids = () =>
    [...errors.matchAll(/"event":"agent_start","generation":\d+,"pid":(\d+)/g)].map(([, pid]) => Number(pid));
  return {
    client,
    errors: () => errors,
    pids,
    isClosed: () => isClosed,
    supervisor: () => transport.pid!,
    /** The process that runs and has answered. */
    up: () =>
      until(() => {
        const events = [...errors.matchAll(/"event":"agent","is":"(\w+)"/g)];
        return events.at(-1)?.[1] === "up" ? pids().at(-1) : undefined;
      }, "an agent process that is up"),
    call: async (name: string, args: object = {}, _meta?: Record<string, unknown>) =>
      (await client.callTool({ name, arguments: args as Record<string, unknown>, ...(_meta && { _meta }) })) as Result,
  };
}
