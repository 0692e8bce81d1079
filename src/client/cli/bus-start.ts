/** `interlink-edge bus start`: a bus on this machine, as a process beneath ours, until somebody ends us. */

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { lockSession } from "../state/session-lock.ts";
import { quoted } from "../tools/escape.ts";
import type { CommandRun } from "./command-line.ts";
import { endWithParent, hasExited } from "./end-with-parent.ts";
import { askHealth, isFree } from "./loopback-port.ts";
import type { Machine } from "./machine.ts";
import type { Settings } from "./settings.ts";
import { refuse, report, type ExitCode, type Terminal } from "./terminal.ts";

const PORT = 9_440;
const HOST = "127.0.0.1";
const START_MAX_MS = 20_000;
const STOP_MAX_MS = 5_000;
const POLL_MS = 10;
const OUTPUT_MAX_CHARS = 4_096;

export async function startBus(
  { port = PORT, persistTo }: CommandRun<"bus start">,
  settings: Pick<Settings, "data">,
  machine: Machine,
  terminal: Terminal,
): Promise<ExitCode> {
  const folder = busFolder(machine);
  if (folder === undefined)
    return refuse(terminal, "this installation has no bus in it, and none could be built", "no_bus");
  const workerd = workerdPath();
  if (workerd === undefined)
    return refuse(
      terminal,
      "the bus runs on workerd, which is not installed here: install interlink-edge again, with its optional dependencies",
      "no_workerd",
    );

  const dir = persistTo === undefined ? join(settings.data, "bus") : resolve(persistTo);
  mkdirSync(join(dir, "objects"), { recursive: true, mode: 0o700 });
  const lock = lockSession(join(dir, "bus.lock"));
  if (typeof lock === "string") {
    const words =
      lock === "in_use" ? `a bus runs on the state in ${dir} already` : `${join(dir, "bus.lock")} is not ours`;
    return refuse(terminal, words, "in_use");
  }
  try {
    if (!(await isFree(port)))
      return refuse(
        terminal,
        `port ${port} is taken; choose another: interlink-edge bus start --port ${port + 1}`,
        "port_taken",
      );
    return await run(workerd, { folder, dir, port }, machine, terminal);
  } finally {
    lock.release();
  }
}

async function run(
  workerd: string,
  { folder, dir, port }: { readonly folder: string; readonly dir: string; readonly port: number },
  machine: Machine,
  terminal: Terminal,
): Promise<ExitCode> {
  const asked = machine.untilAsked();
  const args = ["serve", join(folder, "bus.capnp"), "config"];
  const where = ["--socket-addr", `http=${HOST}:${port}`, "--directory-path", `objects=${join(dir, "objects")}`];
  const env = {
    AUDIENCE: `http://${HOST}:${port},http://localhost:${port}`,
    // Any other name is a web page's that was rebound to this machine.
    HOSTS: `${HOST}:${port},localhost:${port},[::1]:${port}`,
    ADMISSION: "open",
    LOG: "faults",
  };
  const child = spawn(workerd, [...args, ...where], { env, stdio: ["ignore", "pipe", "pipe"] });
  endWithParent(child);
  let said = "";
  let isUp = false;
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      if (isUp) terminal.err(text.trimEnd());
      else said = (said + text).slice(-OUTPUT_MAX_CHARS);
    });
  const ended = once(child, "exit");
  child.once("error", () => {});
  const up = await Promise.race([isHealthy(port, child), asked.then(() => "asked" as const)]);
  if (up !== true) {
    await stop(child, ended);
    if (up === "asked") return 0;
    if (said !== "") terminal.err(said.trimEnd());
    return refuse(terminal, "the bus did not start; what it said of it is above", "not_started");
  }
  isUp = true;
  const url = `http://${HOST}:${port}`;
  report(terminal, { url, dir, pid: child.pid }, [`The bus is at ${url}`]);
  terminal.err(`Next, in another terminal: interlink-edge setup${port === PORT ? "" : ` ${url}`}`);
  terminal.err(`Ctrl-C ends the bus; what it keeps stays in ${quoted(dir).slice(1, -1)}.`);
  const why = await Promise.race([asked.then(() => "asked"), ended.then(() => "ended")]);
  await stop(child, ended);
  return why === "asked" ? 0 : refuse(terminal, "the bus ended by itself; what it said is above", "ended");
}

/** SIGTERM would drain: workerd serves open sockets for ever and lets new connections hang. */
async function stop(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  if (hasExited(child) || child.pid === undefined) return;
  child.kill("SIGINT");
  const late = setTimeout(() => child.kill("SIGKILL"), STOP_MAX_MS);
  await ended;
  clearTimeout(late);
}

/** In the package beside the client; in a checkout it is built anew, since the sources may have changed. */
function busFolder({ node, flags }: Machine): string | undefined {
  const packed = join(import.meta.dirname, "../../bus");
  if (existsSync(join(packed, "bus.capnp"))) return packed;
  const root = join(import.meta.dirname, "../../..");
  const script = join(root, "scripts", "build-bus.ts");
  if (!existsSync(script)) return undefined;
  const built = join(root, ".build", "bus");
  const { status } = spawnSync(node, [...flags, script, built], { stdio: ["ignore", "ignore", "inherit"] });
  return status === 0 ? built : undefined;
}

/** The executable itself: its npm package has a script in front of it, which would hide the process that we end. */
function workerdPath(): string | undefined {
  try {
    const load = createRequire(import.meta.url);
    const { default: path } = load("workerd") as { readonly default: string };
    return existsSync(path) ? path : undefined;
  } catch {
    return undefined;
  }
}

async function isHealthy(port: number, child: ChildProcess): Promise<boolean> {
  const untilMs = performance.now() + START_MAX_MS;
  while (!hasExited(child) && performance.now() < untilMs) {
    const status = await askHealth(port);
    if (status === 200) return true;
    await delay(POLL_MS);
  }
  return false;
}
