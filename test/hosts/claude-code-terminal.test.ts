/** The real Claude Code at a terminal, where it gives its servers no socket: the Stop hook wakes it. */

import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { until } from "../client/session/support.ts";
import { CLAUDE_KEY, claudeEnv, INSTALL, LAUNCH, offline, people, PLUGIN, programOf, wakesOf } from "./story.ts";

const claude = programOf("claude");
/** Of util-linux: it gives a program a terminal. */
const hasTerminal = process.platform === "linux" && spawnSync("script", ["--version"]).status === 0;
if (claude === undefined || !hasTerminal)
  console.warn(`Claude Code or script(1) is not here, so nothing is tested at a terminal: ${INSTALL}`);

const stage = offline();

it.skipIf(claude === undefined || !hasTerminal)("is woken by its Stop hook", { timeout: 90_000 }, async () => {
  const { bus, model } = stage;
  const { ann, bob } = await people(bus.url);
  // The plugin without the hook that would name the socket.
  const [plugin, project] = [join(bob.home, "plugin"), join(bob.home, "project")];
  cpSync(PLUGIN, plugin, { recursive: true });
  mkdirSync(project);
  const launch = { type: "command", command: process.execPath, args: [LAUNCH, "wait"], async: true, asyncRewake: true };
  writeFileSync(join(plugin, "hooks/hooks.json"), JSON.stringify({ hooks: { Stop: [{ hooks: [launch] }] } }));
  const server = {
    command: process.execPath,
    args: [LAUNCH, "mcp"],
    env: { INTERLINK_URL: bus.url, INTERLINK_NAME: "bob" },
  };
  writeFileSync(join(plugin, ".mcp.json"), JSON.stringify({ mcpServers: { interlink: server } }));
  const settled = {
    hasCompletedOnboarding: true,
    theme: "dark",
    projects: { [project]: { hasTrustDialogAccepted: true } },
    customApiKeyResponses: { approved: [CLAUDE_KEY.slice(-20)], rejected: [] },
  };
  writeFileSync(join(bob.home, ".claude.json"), JSON.stringify(settled));
  const env = { ...claudeEnv(model), HOME: bob.home, CLAUDE_CODE_MCP_ALLOWLIST_ENV: "1" };
  const command = `'${claude!}' --plugin-dir '${plugin}' --permission-mode default --allowedTools mcp__plugin_interlink_interlink`;
  const child = spawn("script", ["-qfec", command, "/dev/null"], { cwd: project, env, stdio: "pipe" });
  let screen = "";
  child.stdout.on("data", (chunk) => (screen += String(chunk)));
  const closed = new Promise((resolve) => child.once("close", resolve));
  onTestFinished(async () => {
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), 3_000);
    await closed;
    clearTimeout(timer);
  });
  const typed = async (text: string) => {
    child.stdin.write(text);
    await until(() => screen.includes(text.split(" ")[0]!), `the prompt: ${screen.slice(-2_000)}`);
    child.stdin.write("\r");
  };
  await until(() => screen.includes("❯"), `a prompt: ${screen.slice(-2_000)}`);
  // A terminal is there before its servers are.
  await ann.until("discover", { peer: "bob" }, ({ sessions }) => sessions.length === 1);
  await typed("CALL whoami {}END");
  await until(() => model.turns.some(({ isToolResult, text }) => isToolResult && text.includes("wake_path")), "whoami");
  await ann.ok("send_message", { to: "bob", text: "ping" });
  expect(await ann.mail(1)).toMatchObject([{ from: "bob", body: "pong" }]);
  expect(wakesOf(model)).toEqual([expect.stringContaining("Stop hook")]);
});
