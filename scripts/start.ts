/**
 * `npm start`: a bus on this machine, as `wrangler dev` runs it, without network, account or configuration.
 *
 * Arguments are wrangler's own and go on to it; the few that also change what we must set or print are read here.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import {
  endWithParent,
  hasExited,
  isFree,
  isLoopback,
  killNow,
  loopbackAudience,
  loopbackHosts,
  PROJECT_DIR,
  waitUntilHealthy,
} from "./local-bus.ts";

const DEFAULT_PORT = 9_440;
const STATE_DIR = join(PROJECT_DIR, ".interlink");
const STOP_MAX_MS = 5_000;
const PARENT_POLL_MS = 500;

/** What the arguments say, as far as it concerns us. */
interface Flags {
  readonly given: ReadonlySet<string>;
  readonly port: number;
  readonly ip: string;
  readonly persistTo: string;
  readonly vars: ReadonlyMap<string, string>;
}

/** Wrangler takes `--flag value`, `--flag=value` and, for variables, several values after one `--var`. */
function readFlags(args: readonly string[]): Flags {
  const values = new Map<string, string[]>();
  let flag = "";
  for (const arg of args) {
    const [, name, value] = /^--([^=]+)(?:=(.*))?$/s.exec(arg) ?? [];
    if (name !== undefined) values.set((flag = name), values.get(name) ?? []);
    const text = name === undefined ? arg : value;
    if (text !== undefined) values.get(flag)?.push(text);
  }
  const last = (name: string): string | undefined => values.get(name)?.at(-1);
  return {
    given: new Set(values.keys()),
    port: Number(last("port") ?? DEFAULT_PORT),
    ip: last("ip") ?? "127.0.0.1",
    persistTo: resolve(last("persist-to") ?? join(STATE_DIR, "bus")),
    vars: new Map(
      (values.get("var") ?? []).map((pair) => {
        const colon = pair.indexOf(":");
        return [pair.slice(0, colon), pair.slice(colon + 1)] as const;
      }),
    ),
  };
}

/** A sentence why the bus must not start, or undefined. */
async function objection({ port, ip, vars }: Flags): Promise<string | undefined> {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) return "--port needs a number from 1 to 65535.";
  if (vars.get("ACCESS") === "open") {
    const far = (vars.get("AUDIENCE") ?? "").split(",").find((origin) => origin !== "" && !isLoopback(origin));
    if (far !== undefined) {
      return `ACCESS=open lets anyone who reaches the bus read and write as anybody, so it is only for this machine, but AUDIENCE names ${far}. Leave out one of the two.`;
    }
  }
  if (!(await isFree(port, ip))) {
    return `Port ${port} on ${ip} is taken, perhaps by a bus that already runs. Choose another: npm start -- --port ${port + 1}`;
  }
  return undefined;
}

function startWrangler(args: readonly string[], { given, port, ip, persistTo, vars }: Flags): ChildProcess {
  const ours = [
    ...(given.has("port") ? [] : ["--port", String(port)]),
    ...(given.has("ip") ? [] : ["--ip", ip]),
    ...(given.has("persist-to") ? [] : ["--persist-to", persistTo]),
    ...(given.has("log-level") ? [] : ["--log-level", "warn"]), // else a line for every request
    ...(vars.has("AUDIENCE") ? [] : ["--var", `AUDIENCE:${loopbackAudience(port)}`]),
    ...(vars.has("ADMISSION") ? [] : ["--var", "ADMISSION:open"]), // the deployment's default is join
    ...(vars.has("HOSTS") ? [] : ["--var", `HOSTS:${loopbackHosts(port)}`]),
    "--show-interactive-dev-session=false",
  ];
  const wrangler = join(dirname(createRequire(import.meta.url).resolve("wrangler/package.json")), "bin", "wrangler.js");
  const child = spawn(process.execPath, [wrangler, "dev", ...args, ...ours], {
    cwd: PROJECT_DIR,
    detached: true, // a group of its own, so that all of it can be ended
    stdio: ["ignore", "inherit", "inherit"],
    env: {
      ...process.env,
      // Nothing from the network: the place of a request, metrics, crash reports, the newest version.
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      WRANGLER_SEND_METRICS: "false",
      WRANGLER_SEND_ERROR_REPORTS: "false",
      WRANGLER_HIDE_BANNER: "true",
      WRANGLER_NO_SKILLS_UPDATE_PROMPTS: "true",
      // Nothing that shows the bus's storage to whoever can reach the port.
      X_LOCAL_EXPLORER: "false",
      X_LOCAL_OBSERVABILITY: "false",
      // Nothing outside of the project.
      WRANGLER_LOG_PATH: join(STATE_DIR, "wrangler", "logs"),
      WRANGLER_REGISTRY_PATH: join(STATE_DIR, "wrangler", "registry"),
      WRANGLER_CACHE_DIR: join(STATE_DIR, "wrangler", "cache"),
    },
  });
  endWithParent(child, { group: true });
  return child;
}

/** Asks wrangler to end, and ends what is left of its processes. */
async function stopTree(child: ChildProcess): Promise<void> {
  if (!hasExited(child)) {
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    const late = setTimeout(() => killNow(child, true), STOP_MAX_MS);
    await exited;
    clearTimeout(late);
  }
  killNow(child, true);
}

function greeting({ port, ip, persistTo, vars }: Flags): string {
  const everywhere = ip === "0.0.0.0" || ip === "::";
  const host = everywhere ? "127.0.0.1" : ip.includes(":") ? `[${ip}]` : ip;
  const fromHere = relative(process.cwd(), persistTo);
  const lines = [
    `The bus is at http://${host}:${port}`,
    "Next: `npm run demo` in another terminal shows agents that find each other and talk.",
    `Ctrl-C ends the bus; what it keeps stays in ${fromHere.startsWith("..") ? persistTo : fromHere || "."}.`,
  ];
  if (!isLoopback(`http://${host}`) || everywhere) {
    if (!vars.has("AUDIENCE") || !vars.has("HOSTS")) {
      lines.push(
        `Other machines can reach it under a name only once that is set: --var AUDIENCE:http://NAME:${port} --var HOSTS:NAME:${port}`,
      );
    }
    if (vars.get("ACCESS") === "open") lines.push("ACCESS=open: whoever reaches it can read and write as anybody.");
  }
  return lines.join("\n");
}

/** npm runs us in a shell, and a SIGTERM to npm ends only that shell: when it is gone, someone asked us to end. */
function watchParent(onGone: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onGone();
  }, PARENT_POLL_MS);
  timer.unref();
}

async function main(args: readonly string[]): Promise<number> {
  const flags = readFlags(args);
  const no = await objection(flags);
  if (no !== undefined) {
    console.error(no);
    return 1;
  }
  const child = startWrangler(args, flags);
  const exited = once(child, "exit") as Promise<[number | null]>;
  let isStopping = false;
  const stop = (): void => {
    isStopping = true;
    void stopTree(child);
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, stop);
  if (process.env["npm_lifecycle_event"] !== undefined) watchParent(stop);
  try {
    await waitUntilHealthy(flags.port, child, /^(0\.0\.0\.0|::)$/.test(flags.ip) ? "127.0.0.1" : flags.ip);
    console.log(greeting(flags));
  } catch (error) {
    await stopTree(child);
    if (isStopping) return 0;
    console.error(`The bus did not start: ${(error as Error).message}. What wrangler said of it is above.`);
    return 1;
  }
  const [code] = await exited;
  await stopTree(child);
  if (isStopping) return 0;
  console.error("The bus ended by itself; what it said is above.");
  return code || 1;
}

process.exitCode = await main(process.argv.slice(2));
