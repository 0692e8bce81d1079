/** The plugin for Claude Code as a host runs it: what it names is there, and its launcher ends no hook but as a hook may end. */

import { execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const read = (path: string) => JSON.parse(readFileSync(join(ROOT, path), "utf8")) as Record<string, any>;

/** A copy that stands alone, as an installed one does, and a package on its PATH. */
function installed(version?: string) {
  const dir = mkdtempSync(join(tmpdir(), "interlink-plugin-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  cpSync(join(ROOT, "plugin"), join(dir, "cache/plugin"), { recursive: true });
  const program = join(dir, "bin/node_modules/interlink-edge");
  if (version !== undefined) {
    mkdirSync(join(program, "dist/client/cli"), { recursive: true });
    writeFileSync(join(program, "package.json"), JSON.stringify({ version, type: "module" }));
    // Does what an older command line does with words that it does not know.
    const says = `process.stderr.write("ran " + process.argv.slice(2).join(" ")); process.exitCode = 2;`;
    writeFileSync(join(program, "dist/client/cli/launch.js"), says);
  }
  return async (...args: string[]) => {
    const env = { PATH: `${join(dir, "bin")}:/usr/bin`, HOME: dir };
    const child = spawn(process.execPath, [join(dir, "cache/plugin/interlink-edge.mjs"), ...args], { env });
    let err = "";
    child.stderr.on("data", (chunk) => (err += String(chunk)));
    child.stdin.end("{}");
    return { code: await new Promise((resolve) => child.once("close", resolve)), err };
  };
}

it("names only what is there, in the version of the package", () => {
  expect(read("plugin/.claude-plugin/plugin.json")["version"]).toBe(read("package.json")["version"]);
  const [plugin] = read(".claude-plugin/marketplace.json")["plugins"];
  expect(existsSync(join(ROOT, plugin.source, ".claude-plugin/plugin.json"))).toBe(true);
  const server = read("plugin/.mcp.json")["mcpServers"].interlink;
  const hooks = Object.values<any>(read("plugin/hooks/hooks.json")["hooks"]).flatMap((groups) =>
    groups.flatMap(({ hooks: each }: any) => each),
  );
  for (const { command, args } of [server, ...hooks]) {
    expect(command).toBe("node");
    expect(existsSync(args[0].replace("${CLAUDE_PLUGIN_ROOT}", join(ROOT, "plugin")))).toBe(true);
  }
  // Only what waits may wake, and what waits for anything holds nobody up.
  for (const { args, async: isBeside = false, asyncRewake: mayWake = false } of hooks) {
    expect(mayWake, args.join(" ")).toBe(args[1] === "wait");
    expect(isBeside, args.join(" ")).toBe(args[1] === "wait" || args[2] === "session-start");
  }
});

it("runs the package that it is part of", () => {
  const path = `${dirname(process.execPath)}:/usr/bin`;
  const home = mkdtempSync(join(tmpdir(), "interlink-plugin-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const env = { PATH: path, HOME: home };
  const out = execFileSync(process.execPath, [join(ROOT, "plugin/interlink-edge.mjs"), "--version"], { env });
  expect(String(out).trim()).toBe(read("package.json")["version"]);
});

it.each([
  { why: "nothing is installed", version: undefined, hook: { code: 0, err: "" }, wait: { code: 0, err: "" }, mcp: 1 },
  { why: "an older one", version: "0.0.9", hook: { code: 0, err: "" }, wait: { code: 0, err: "" }, mcp: 2 },
  {
    why: "the same",
    version: "0.1.0",
    hook: { code: 0, err: "ran hook prompt" },
    wait: { code: 2, err: "ran wait" },
    mcp: 2,
  },
  {
    why: "a newer one",
    version: "1.0.0",
    hook: { code: 0, err: "ran hook prompt" },
    wait: { code: 2, err: "ran wait" },
    mcp: 2,
  },
])("else what is on the PATH, if that knows hooks: $why", async ({ version, hook, wait, mcp }) => {
  const run = installed(version);
  expect(await run("hook", "prompt")).toEqual(hook);
  expect(await run("wait")).toEqual(wait);
  expect((await run("mcp")).code).toBe(mcp);
});
