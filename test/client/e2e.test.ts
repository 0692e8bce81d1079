/** Two agents as hosts run them: real MCP clients, each driving its own `interlink-edge mcp`, on a real bus. */

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";

const run = promisify(execFile);
const BIN = join(import.meta.dirname, "../../src/client/cli/bin.ts");
const NODE_ARGS = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types", BIN];
const home = mkdtempSync(join(tmpdir(), "interlink-e2e-"));

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(async () => {
  await bus.stop();
  rmSync(home, { recursive: true, force: true });
});

/** One person's machine: a home of its own, the command line, and a host. */
class Machine {
  readonly env: Record<string, string>;
  readonly client = new Client({ name: "e2e", version: "1" });

  constructor(name: string) {
    this.env = {
      PATH: process.env["PATH"]!,
      HOME: join(home, name),
      INTERLINK_URL: bus.url,
      INTERLINK_NAME: name,
      INTERLINK_SESSION: `${name}-session`,
    };
  }

  cli(...args: string[]) {
    return run(process.execPath, [...NODE_ARGS, ...args], { env: this.env });
  }

  connect(): Promise<void> {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [...NODE_ARGS, "mcp"],
      env: this.env,
      stderr: "ignore",
    });
    return this.client.connect(transport);
  }

  async call(name: string, args: object = {}): Promise<any> {
    const result: any = await this.client.callTool({ name, arguments: args as Record<string, unknown> });
    if (result.isError) throw new Error(`${name}: ${result.content[0].text}`);
    return result.structuredContent;
  }

  /** Asks until the answer is what is waited for; each asking is a tool call. */
  async until(name: string, args: object, isThere: (answer: any) => boolean): Promise<any> {
    for (let tries = 0; tries < 200; tries++) {
      const answer = await this.call(name, args);
      if (isThere(answer)) return answer;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    throw new Error(`${name} never answered what was waited for`);
  }
}

it("two agents are told of each other, talk, hand over a task, and one closes", { timeout: 60_000 }, async () => {
  const [alice, bob] = [new Machine("alice"), new Machine("bob")];
  const keyOf = async (machine: Machine) => /[\w-]{43}/.exec((await machine.cli("key")).stdout)![0];
  const [aliceKey, bobKey] = [await keyOf(alice), await keyOf(bob)];
  await alice.cli("peers", "add", "bob", bobKey, "--yes");
  await bob.cli("peers", "add", "alice", aliceKey, "--yes");
  await Promise.all([alice.connect(), bob.connect()]);
  const connected = (answer: any) => answer.connection === "connected";
  await Promise.all([alice.until("whoami", {}, connected), bob.until("whoami", {}, connected)]);
  await alice.until("discover", { peer: "bob" }, (answer) => JSON.stringify(answer).includes("bob-session"));

  await alice.call("send_message", { to: "bob", text: "please run the tests", task_id: "tests" });
  const read = await bob.until("check_messages", {}, (answer) => JSON.stringify(answer).includes("please run"));
  expect(JSON.stringify(read)).toContain("alice");
  expect(JSON.stringify(await bob.call("check_messages"))).not.toContain("please run"); // never twice to the model
  await bob.call("send_message", { to: "alice", text: "all green", task_id: "tests", status: "result" });
  await alice.until("check_messages", {}, (answer) => JSON.stringify(answer).includes("all green"));

  await bob.client.close();
  const after = await alice.until("discover", { peer: "bob" }, (a) => !JSON.stringify(a).includes("bob-session"));
  expect(after).toBeDefined();
  await alice.client.close();
});
