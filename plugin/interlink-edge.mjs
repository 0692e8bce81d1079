/**
 * Finds interlink-edge for the plugin and runs it: the package that the plugin is part of, a checkout, or what is on the PATH.
 *
 * A hook must not fail: by code 2 Claude Code would hold a prompt back, or begin a turn. So what is not found ends a hook with 0, and
 * so does a version from before the plugin's, which may not know the hook.
 */

import { existsSync, readFileSync, realpathSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const [, , command] = process.argv;
const isHook = command === "hook" || command === "wait";

process.on("exit", (code) => {
  const isWake = command === "wait" && code === 2;
  if (isHook && !isWake) process.exitCode = 0;
});

/** Programs that there may be, the nearest first. */
function* programs() {
  for (const path of ["dist/client/cli/launch.js", "src/client/cli/launch.ts"]) yield join(HERE, "..", path);
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    if (folder === "") continue;
    const link = join(folder, "interlink-edge");
    // A link on POSIX; on Windows a script beside the packages.
    if (existsSync(link) && process.platform !== "win32") yield realpathSync(link);
    yield join(folder, "node_modules/interlink-edge/dist/client/cli/launch.js");
  }
}

function versionOf(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8")).version.split(".").map(Number);
  } catch {
    return undefined;
  }
}

/** True if a program is at least as new as the plugin. */
function knowsHooks(program) {
  const [own, its] = [join(HERE, ".claude-plugin/plugin.json"), join(dirname(program), "../../../package.json")].map(
    versionOf,
  );
  if (!own || !its) return false;
  const at = own.findIndex((part, index) => part !== its[index]);
  return at < 0 || its[at] > own[at];
}

const program = [...programs()].find((path) => /launch\.[jt]s$/.test(path) && existsSync(path));
if (program === undefined) {
  if (!isHook) {
    process.stderr.write("interlink-edge is not installed: npm install --global interlink-edge\n");
    process.exitCode = 1;
  }
} else if (!isHook || knowsHooks(program)) {
  await import(pathToFileURL(program).href);
}
