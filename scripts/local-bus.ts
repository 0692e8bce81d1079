/**
 * A real bus as a plain `workerd serve` process: the bundle that a deployment would get, on loopback, with its
 * state in a folder of its own. For tests that need a process to kill, for the demo and for the bench.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { endWithParent, hasExited } from "../src/client/cli/end-with-parent.ts";
import { askHealth, isFree } from "../src/client/cli/loopback-port.ts";

export { isFree } from "../src/client/cli/loopback-port.ts";
export { endWithParent, hasExited, killNow } from "../src/client/cli/end-with-parent.ts";

/** The folder of the project. */
export const PROJECT_DIR = join(import.meta.dirname, "..");

const require = createRequire(import.meta.url);

/** Binding → class. The unique key names the folder of the objects' files, and every object's id comes from it. */
const OBJECTS = { IDENTITIES: "IdentityObject", DIRECTORY: "DirectoryObject" } as const;
const uniqueKeyOf = (className: string): string => `interlink-edge-${className}-v1`;

/** Ports are taken from below the range that systems lend to outgoing connections, so a restart gets its port back. */
const PORT_MIN = 20_000;
const PORT_COUNT = 10_000;
const START_TRIES = 5;
const POLL_MS = 4;
const START_MAX_MS = 20_000;
const STOP_MAX_MS = 5_000;
const OUTPUT_MAX_CHARS = 65_536;

export type Variables = Readonly<Record<string, string>>;

/** The origins under which a client of this machine names a bus: a bus's AUDIENCE. */
export function loopbackAudience(port: number): string {
  return `http://127.0.0.1:${port},http://localhost:${port}`;
}

/** The Host headers of such clients: a bus's HOSTS. Any other name is a web page's that was rebound to loopback. */
export function loopbackHosts(port: number): string {
  return `127.0.0.1:${port},localhost:${port},[::1]:${port}`;
}

/** True if an origin names this machine only. */
export function isLoopback(origin: string): boolean {
  const host = URL.canParse(origin) ? new URL(origin).hostname : "";
  return host === "localhost" || host === "[::1]" || /^127(\.\d+){3}$/.test(host);
}

/** What {@link startBus} may be told. */
export interface BusOptions {
  /** Path of the bundle; from {@link buildBundle}. */
  readonly bundle: string;
  /** A free one if absent. */
  readonly port?: number;
  /** Folder for the state, kept after `stop`. A temporary one if absent, removed on `stop`. */
  readonly dir?: string;
  /** Worker variables, or what makes them for the port. `AUDIENCE` defaults to {@link loopbackAudience}. */
  readonly vars?: Variables | ((port: number) => Variables);
  /** A command in front, which is to become the bus (`exec "$@"`): for what a process inherits. */
  readonly through?: readonly string[];
}

/** A running bus. */
export interface LocalBus {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  readonly port: number;
  /** Folder of its state; starting again with it is a restart. */
  readonly dir: string;
  readonly pid: number;
  /** What the process printed so far, its newest 64 Ki characters. */
  output(): string;
  /** Files of objects on disk: one an object, so that "no object was made" can be checked. */
  objectFiles(): Promise<string[]>;
  /** Ends it with SIGINT and waits; a temporary folder is removed. */
  stop(): Promise<void>;
  /** Ends it with SIGKILL and waits; the folder stays. */
  kill(): Promise<void>;
}

/**
 * Makes the bundle of the Worker with wrangler, offline.
 * @param outDir where; `.build` of the project, as `npm run build`, if absent
 * @returns path of the bundle
 */
export async function buildBundle(outDir = join(PROJECT_DIR, ".build")): Promise<string> {
  const wrangler = join(dirname(require.resolve("wrangler/package.json")), "bin", "wrangler.js");
  const child = spawn(process.execPath, [wrangler, "deploy", "--dry-run", "--outdir", outDir], {
    cwd: PROJECT_DIR,
    env: { ...process.env, CI: "1", WRANGLER_SEND_METRICS: "false", WRANGLER_HIDE_BANNER: "true" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = collectOutput(child);
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`wrangler could not build the Worker (exit ${code}):\n${output()}`);
  return join(outDir, "index.js");
}

/**
 * Starts a bus and waits until it answers.
 * @throws with what the process printed, if it ends or does not answer
 */
export async function startBus(options: BusOptions): Promise<LocalBus> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), "interlink-bus-")));
  const tries = options.port === undefined ? START_TRIES : 1;
  try {
    for (let left = tries; ; left--) {
      try {
        return await startOnce(options, dir, options.port ?? (await findFreePort()));
      } catch (error) {
        // Another process may take the port between our look and workerd's.
        if (left <= 1 || !/address already in use/i.test(String(error))) throw error;
      }
    }
  } catch (error) {
    if (options.dir === undefined) await rm(dir, { recursive: true, force: true });
    throw error;
  }
}

async function startOnce(options: BusOptions, dir: string, port: number): Promise<LocalBus> {
  const objectsDir = join(dir, "objects");
  const config = join(dir, "bus.capnp");
  const vars = typeof options.vars === "function" ? options.vars(port) : options.vars;
  const runtime = await readRuntimeSettings();
  await mkdir(objectsDir, { recursive: true });
  // A copy, since `embed` takes only paths beside its file, and so that a later build changes no running bus.
  await copyFile(options.bundle, join(dir, "index.js"));
  const bindings = Object.entries({ AUDIENCE: loopbackAudience(port), ...vars });
  await writeFile(
    config,
    formatConfig(
      port,
      runtime,
      bindings.map(([name, value]) => [name, "text", value] as const),
    ),
  );

  const args = ["serve", config, "config", "--directory-path", `objects=${objectsDir}`];
  const [command, ...rest] = [...(options.through ?? []), workerdPath(), ...args] as [string, ...string[]];
  const child = spawn(command, rest, { stdio: ["ignore", "pipe", "pipe"] });
  const output = collectOutput(child);
  const exited = once(child, "exit");
  endWithParent(child);

  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (hasExited(child)) return;
    child.kill(signal);
    const late = setTimeout(() => child.kill("SIGKILL"), STOP_MAX_MS);
    await exited;
    clearTimeout(late);
  };

  try {
    await waitUntilHealthy(port, child);
  } catch (error) {
    await end("SIGKILL");
    throw new Error(`the bus did not start: ${(error as Error).message}\n${output()}`, { cause: error });
  }
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    dir,
    pid: child.pid!,
    output,
    objectFiles: () => listObjectFiles(objectsDir),
    // SIGTERM would drain: workerd serves open sockets for ever and lets new connections hang.
    stop: async () => {
      await end("SIGINT");
      if (options.dir === undefined) await rm(dir, { recursive: true, force: true });
    },
    kill: () => end("SIGKILL"),
  };
}

/** The compatibility date and flags, from wrangler.toml, so that they are written once. */
interface RuntimeSettings {
  readonly date: string;
  readonly flags: readonly string[];
}

/** A binding's name, how it is given, and its value or where that comes from. */
export type Binding = readonly [name: string, kind: "text" | "fromEnvironment", value: string];

export async function readRuntimeSettings(): Promise<RuntimeSettings> {
  const toml = await readFile(join(PROJECT_DIR, "wrangler.toml"), "utf8");
  const date = /^compatibility_date\s*=\s*"([^"]+)"/m.exec(toml)?.[1];
  const flags = /^compatibility_flags\s*=\s*(\[[^\]]*\])/m.exec(toml)?.[1];
  if (date === undefined || flags === undefined) throw new Error("wrangler.toml has no compatibility date or flags");
  return { date, flags: Array.from(flags.matchAll(/"([^"]+)"/g), (match) => match[1]!) };
}

/** What workerd is told; `index.js` is beside it. */
export function formatConfig(port: number, { date, flags }: RuntimeSettings, vars: readonly Binding[]): string {
  const namespaces = Object.values(OBJECTS).map(
    (name) => `( className = ${quote(name)}, uniqueKey = ${quote(uniqueKeyOf(name))}, enableSql = true )`,
  );
  const bindings = [
    ...Object.entries(OBJECTS).map(([binding, name]) => [binding, "durableObjectNamespace", name] as const),
    ...vars,
  ].map(([name, kind, value]) => `( name = ${quote(name)}, ${kind} = ${quote(value)} )`);
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    ( name = "bus", worker = .bus ),
    ( name = "objects", disk = ( writable = true ) ),
    ( name = "internet", network = ( allow = [] ) ),
  ],
  sockets = [ ( name = "http", address = "127.0.0.1:${port}", http = (), service = "bus" ) ],
);
const bus :Workerd.Worker = (
  modules = [ ( name = "index.js", esModule = embed "index.js" ) ],
  compatibilityDate = ${quote(date)},
  compatibilityFlags = [ ${flags.map(quote).join(", ")} ],
  durableObjectNamespaces = [
    ${namespaces.join(",\n    ")},
  ],
  durableObjectStorage = ( localDisk = "objects" ),
  bindings = [
    ${bindings.join(",\n    ")},
  ],
);
`;
}

/** A string of Cap'n Proto's text format: C escapes for what would end it or is not printable. */
function quote(text: string): string {
  const escaped = text.replace(/["\\]/g, "\\$&").replace(
    // oxlint-disable-next-line no-control-regex -- these are what must not stand in it
    /[\u0000-\u001f\u007f]/g,
    (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  return `"${escaped}"`;
}

/** The executable itself: its npm package has a script in front of it, which would hide the process that we kill. */
function workerdPath(): string {
  return (require(require.resolve("workerd")) as { default: string }).default;
}

async function findFreePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries++) {
    const port = PORT_MIN + Math.floor(Math.random() * PORT_COUNT);
    if (await isFree(port)) return port;
  }
  throw new Error("found no free port");
}

/**
 * Waits until a bus answers GET /health.
 * @param child the process that should answer; when it ends there is nothing to wait for
 * @throws if it ends, answers anything but 200, or takes too long
 */
export async function waitUntilHealthy(port: number, child: ChildProcess, host = "127.0.0.1"): Promise<void> {
  const deadline = Date.now() + START_MAX_MS;
  for (;;) {
    const status = await askHealth(port, host);
    if (status === 200) return;
    if (status !== undefined) throw new Error(`GET /health answered ${status}`);
    if (hasExited(child)) throw new Error(`the process ended (${child.signalCode ?? child.exitCode})`);
    if (Date.now() > deadline) throw new Error(`no answer within ${START_MAX_MS} ms`);
    await delay(POLL_MS);
  }
}

async function listObjectFiles(objectsDir: string): Promise<string[]> {
  const files = await readdir(objectsDir, { recursive: true });
  // An object's file is its id; `metadata.sqlite` holds the alarms of a class. Journals end in -wal and -shm.
  return files.filter((file) => file.endsWith(".sqlite") && !file.endsWith("metadata.sqlite")).sort();
}

function collectOutput(child: ChildProcess): () => string {
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (chunk: string) => {
      text = (text + chunk).slice(-OUTPUT_MAX_CHARS);
    });
  }
  return () => text;
}
