/** The real Claude Code with the plugin, offline: a model on loopback, a home of its own. */

import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Machine } from "../client/hosts/machine.ts";
import { until } from "../client/session/support.ts";
import { claudeEnv, INSTALL, LAUNCH, LineHost, offline, people, PLUGIN, programOf, wakesOf } from "./story.ts";

const claude = programOf("claude");
if (claude === undefined) console.warn(`Claude Code is not installed here, so nothing is tested with it: ${INSTALL}`);

const stage = offline();

function envOf(bob: Machine): Record<string, string> {
  const { INTERLINK_SESSION: _, ...env } = bob.env();
  return { ...env, ...claudeEnv(stage.model) };
}

/** A session that goes on between prompts, as one at a terminal does. */
class Claude extends LineHost {
  constructor(bob: Machine) {
    const cwd = join(bob.home, "project");
    mkdirSync(cwd, { recursive: true });
    writeFileSync(join(bob.home, ".claude.json"), JSON.stringify({ hasCompletedOnboarding: true }));
    const stream = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
    const args = [...stream, "--plugin-dir", PLUGIN, "--allowedTools", "mcp__plugin_interlink_interlink"];
    super(claude!, args, { cwd, env: envOf(bob) });
  }

  /** Types a prompt. */
  say(content: string): void {
    this.write({ type: "user", message: { role: "user", content } });
  }

  /** Has a tool called. @returns its answer, once there is one that fits */
  async call(name: string, input: object, answer: RegExp): Promise<string> {
    const before = this.#results().length;
    this.say(`CALL ${name} ${JSON.stringify(input)}END`);
    const fits = () =>
      this.#results()
        .slice(before)
        .find((result) => answer.test(result));
    return until(fits, `an answer of ${name}`).catch((fault: unknown) => {
      throw new Error(`${String(fault)}: ${this.#results().slice(before).join("\n")} ${this.err}`);
    });
  }

  #results(): string[] {
    const messages = this.lines.filter(({ type }) => type === "user").map(({ message }) => JSON.stringify(message));
    return messages.filter((message) => message.includes("tool_result"));
  }
}

describe.skipIf(claude === undefined)("Claude Code", { timeout: 120_000 }, () => {
  it("lists the tools, sends, is woken while idle, reads and answers; /clear loses nothing", async () => {
    const { ann, bob } = await people(stage.bus.url);
    const session = new Claude(bob);
    await session.call("whoami", {}, /inbox_socket/);
    const { tools } = session.lines.find(({ subtype }) => subtype === "init")!;
    expect(tools).toContain("mcp__plugin_interlink_interlink__send_message");
    await session.call("send_message", { to: "ann", text: "hello from bob" }, /stored|acked/);
    expect(await ann.mail(1)).toMatchObject([{ from: "bob", body: "hello from bob" }]);

    // Idle: nothing is typed from here on.
    await ann.ok("send_message", { to: "bob", text: "ping" });
    expect(await ann.mail(1)).toMatchObject([{ from: "bob", body: "pong" }]);
    expect(wakesOf(stage.model)).toEqual([expect.not.stringContaining("ping")]);

    session.say("/clear");
    await until(() => new Set(session.lines.map(({ session_id }) => session_id).filter(Boolean)).size > 1, "a clear");
    await ann.ok("send_message", { to: "bob", text: "ping" });
    expect(await ann.mail(1)).toMatchObject([{ from: "bob", body: "pong" }]);
    await session.call("whoami", {}, /wake_proof[^a-z]+proven|in Claude Code \(proven/);
    await session.quit();
    await ann.until("discover", { peer: "bob" }, ({ sessions }) => sessions.length === 0);
  });

  it("leaves no ghost when its servers are only listed", async () => {
    const { ann, bob } = await people(stage.bus.url);
    const server = {
      type: "stdio",
      command: process.execPath,
      args: [LAUNCH, "mcp"],
      env: { INTERLINK_URL: stage.bus.url },
    };
    writeFileSync(
      join(bob.home, ".claude.json"),
      JSON.stringify({ hasCompletedOnboarding: true, mcpServers: { interlink: server } }),
    );
    const child = spawn(claude!, ["mcp", "list"], { env: envOf(bob), cwd: bob.home });
    let out = "";
    child.stdout.on("data", (chunk) => (out += String(chunk)));
    await new Promise((resolve) => child.once("close", resolve));
    expect(out).toMatch(/interlink: .*Connected/);
    expect(await ann.ok("discover", { peer: "bob" })).toMatchObject({ sessions: [] });
  });

  it("finds the plugin in order", async () => {
    const { bob } = await people(stage.bus.url);
    const child = spawn(claude!, ["plugin", "validate", PLUGIN, "--strict", "--profile", "directory"], {
      env: envOf(bob),
    });
    let out = "";
    child.stdout.on("data", (chunk) => (out += String(chunk)));
    expect(await new Promise((resolve) => child.once("close", resolve)), out).toBe(0);
    const { version } = JSON.parse(readFileSync(join(PLUGIN, "../package.json"), "utf8")) as { version: string };
    expect(JSON.parse(readFileSync(join(PLUGIN, ".claude-plugin/plugin.json"), "utf8"))).toMatchObject({ version });
  });
});
