/**
 * `npm run bench:client`: how long the installed package takes until an MCP host has its first answers, what memory it
 * holds then, and how large it is.
 *
 * Each reading is a fresh process of a package that npm installed; the bus cannot be reached, so no network is in it.
 * Cold is the process, not the disk: the files were read before. The two eras take turns.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { cpus, release, tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { installPackage, packPackage } from "../../scripts/install-package.ts";
import { processTree, residentBytes } from "../server/process-stats.ts";
import { median } from "../stats.ts";

const USAGE = `npm run bench:client -- [options]
  --runs N     processes of each era; 20 if absent
  --node PATH  the node that runs them; the project's own if absent`;

const RUNS = 20;
/** The first ones fill the disk's cache. */
const WARM_UP_RUNS = 2;
const ANSWER_MAX_MS = 30_000;

const LEGACY = "2025-11-25";
const MODERN = "2026-07-28";
const clientInfo = { name: "bench", version: "1" };
const _meta = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientInfo": clientInfo,
  "io.modelcontextprotocol/clientCapabilities": {},
};
const WHOAMI = { name: "whoami", arguments: {} };

type Frame = readonly [method: string, params: object];

/** What a host of each era asks first, one after the other. */
const ERAS = {
  initialize: [
    ["initialize", { protocolVersion: LEGACY, capabilities: {}, clientInfo }],
    ["tools/list", {}],
    ["tools/call", WHOAMI],
  ],
  "server/discover": [
    ["server/discover", { _meta }],
    ["tools/list", { _meta }],
    ["tools/call", { ...WHOAMI, _meta }],
  ],
} as const satisfies Record<string, readonly Frame[]>;
type Era = keyof typeof ERAS;

/** Since the process was started; and what it and its children held after the last answer. */
interface Reading {
  readonly firstMs: number;
  readonly toolsMs: number;
  readonly resultMs: number;
  readonly residentMiB: number;
}

interface Program {
  readonly bin: string;
  readonly env: Record<string, string>;
}

async function start({ bin, env }: Program, era: Era): Promise<Reading> {
  const startMs = performance.now();
  const child = spawn(bin, ["mcp"], { env, stdio: ["pipe", "pipe", "ignore"] });
  const closed = once(child, "close");
  const deadline = setTimeout(() => child.kill("SIGKILL"), ANSWER_MAX_MS);
  try {
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const timesMs: number[] = [];
    for (const [id, [method, params]] of ERAS[era].entries()) {
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
      await answerTo(id, method, lines);
      timesMs.push(performance.now() - startMs);
      if (method === "initialize") child.stdin.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}\n`);
    }
    const residentMiB = residentBytes(processTree(child.pid!)) / 2 ** 20;
    const [firstMs, toolsMs, resultMs] = timesMs as [number, number, number];
    return { firstMs, toolsMs, resultMs, residentMiB };
  } finally {
    clearTimeout(deadline);
    child.stdin.end();
    await closed;
  }
}

/** @throws if it is an error, or the output ends before it */
async function answerTo(id: number, method: string, lines: AsyncIterator<string>): Promise<void> {
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const message = JSON.parse(line.value) as { id?: number; result?: { isError?: boolean } };
    if (message.id !== id) continue;
    if (!message.result || message.result.isError) throw new Error(`${method} was answered with ${line.value}`);
    return;
  }
  throw new Error(`${method} was not answered.`);
}

/** How long this Node takes to do nothing: no program that it runs can be faster. */
async function startBareNode(node: string): Promise<number> {
  const startMs = performance.now();
  await once(spawn(node, ["--eval", "0"], { stdio: "ignore" }), "close");
  return performance.now() - startMs;
}

function bytesIn(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((total, { parentPath, name }) => total + statSync(join(parentPath, name)).size, 0);
}

/** What npm put beneath a folder, as it wrote down itself. */
function packagesIn(modules: string): number {
  const { packages } = JSON.parse(readFileSync(join(modules, ".package-lock.json"), "utf8")) as { packages: object };
  return Object.keys(packages).length;
}

function row(name: string, values: readonly number[], unit: string): string {
  const [low, high] = [Math.min(...values), Math.max(...values)].map(Math.round);
  return `| ${name} | ${Math.round(median(values))} ${unit} | ${low}–${high} |`;
}

async function main(runs: number, node: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "interlink-start-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const tarball = await packPackage(folder);
  const home = join(folder, "home");
  await installPackage(tarball, home, dirname(node));
  const modules = join(home, "node_modules");

  const program: Program = {
    bin: join(modules, ".bin", "interlink-edge"),
    env: {
      HOME: join(folder, "user"),
      PATH: [dirname(node), process.env["PATH"]].join(delimiter),
      INTERLINK_URL: "http://127.0.0.1:9", // a port that nobody listens at
    },
  };
  const readings: Record<Era, Reading[]> = { initialize: [], "server/discover": [] };
  const bare: number[] = [];
  for (let run = -WARM_UP_RUNS; run < runs; run++) {
    process.stderr.write(run < 0 ? "warming up\n" : `run ${run + 1} of ${runs}\n`);
    const bareMs = await startBareNode(node);
    if (run >= 0) bare.push(bareMs);
    for (const era of Object.keys(ERAS) as Era[]) {
      const reading = await start(program, era);
      if (run >= 0) readings[era].push(reading);
    }
  }

  const kB = (bytes: number) => `${Math.round(bytes / 1_000).toLocaleString("en")} kB`;
  const [old, now] = [readings.initialize, readings["server/discover"]];
  const lines = [
    `| from the start of the process to | median of ${runs} | min–max |`,
    "| --- | --- | --- |",
    row(
      "the answer to `server/discover`",
      now.map((each) => each.firstMs),
      "ms",
    ),
    row(
      "… then to `tools/list`",
      now.map((each) => each.toolsMs),
      "ms",
    ),
    row(
      "… then to the first result of a tool (`whoami`, no bus)",
      now.map((each) => each.resultMs),
      "ms",
    ),
    row(
      "the answer to `initialize`",
      old.map((each) => each.firstMs),
      "ms",
    ),
    row(
      "… then to `tools/list`",
      old.map((each) => each.toolsMs),
      "ms",
    ),
    row(
      "… then to the first result of a tool (`whoami`, no bus)",
      old.map((each) => each.resultMs),
      "ms",
    ),
    row("the end of `node --eval 0`, for comparison", bare, "ms"),
    row(
      "memory after that result (RSS of all its processes)",
      [...now, ...old].map((each) => each.residentMiB),
      "MiB",
    ),
    "",
    "| size | |",
    "| --- | --- |",
    `| the package, packed | ${kB(statSync(tarball).size)} |`,
    `| … unpacked | ${kB(bytesIn(join(modules, "interlink-edge")))} |`,
    `| with what it depends on | ${kB(bytesIn(modules))} in ${packagesIn(modules)} packages |`,
    "",
  ];
  const { model } = cpus()[0]!;
  const version = await versionOf(node);
  process.stdout.write(`Node ${version}, ${cpus().length} × ${model}, Linux ${release()}\n\n${lines.join("\n")}`);
}

async function versionOf(node: string): Promise<string> {
  const child = spawn(node, ["--print", "process.versions.node"], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (chunk) => (text += String(chunk)));
  await once(child, "close");
  return text.trim();
}

const { values } = parseArgs({
  options: { runs: { type: "string" }, node: { type: "string" }, help: { type: "boolean", default: false } },
});
const runs = values.runs === undefined ? RUNS : Number(values.runs);
if (values.help) console.log(USAGE);
else if (!Number.isInteger(runs) || runs < 1) {
  console.error(`--runs takes a whole number above 0.\n\n${USAGE}`);
  process.exitCode = 2;
} else await main(runs, values.node ?? process.execPath);
