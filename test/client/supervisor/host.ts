/** A host that speaks in raw lines to a supervisor over stub processes, and sees all that happens to those. */

import { spawn } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { onTestFinished } from "vitest";
import type { RestartLimits } from "../../../src/client/supervisor/restart-budget.ts";
import { moveClock } from "../../support/moved-clock.ts";

const SUPPORT = join(import.meta.dirname, "../../support");
const NODE = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"];
const CLOCK = `--import=${pathToFileURL(join(SUPPORT, "moved-clock.ts")).href}`;
/** Long above what any step takes here. */
const WAIT_MAX_MS = 20_000;

export const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};
export const INITIALIZE = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "raw", version: "1" },
};

/** What a stub wrote down. */
export interface Note {
  readonly what: "start" | "line" | "stdin_end" | "SIGTERM";
  readonly pid: number;
  readonly version: string;
  readonly method?: string;
  readonly name?: string;
  readonly args?: string[];
  readonly handoff?: Record<string, any> | null;
  readonly path?: string;
}

export type Message = Record<string, any>;

/** Until something is so. */
export async function until<T>(look: () => T, what: string): Promise<NonNullable<T>> {
  const untilMs = performance.now() + WAIT_MAX_MS;
  for (;;) {
    const seen = look();
    if (seen) return seen;
    if (performance.now() > untilMs) throw new Error(`never: ${what}`);
    await delay(5);
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** A folder with packages, of which one is installed under a name that stays. */
function packages(dir: string) {
  const current = join(dir, "current");
  return {
    script: join(current, "agent.mjs"),
    /** Installs a version: its folder is whole before the name leads to it. */
    install(version: string, tools: readonly string[] = ["read", "write"]) {
      const home = join(dir, version);
      mkdirSync(home);
      copyFileSync(join(SUPPORT, "stub-agent.mjs"), join(home, "agent.mjs"));
      writeFileSync(join(home, "package.json"), JSON.stringify({ type: "module", version, tools }));
      if (existsSync(current)) unlinkSync(current);
      symlinkSync(home, current);
    },
    remove: () => unlinkSync(current),
  };
}

export interface HostOptions {
  readonly limits?: Partial<RestartLimits>;
  /** It leads a process group of its own, by which a host may end all of it. */
  readonly isGroup?: boolean;
}

/** Starts a supervisor; it and its processes end with the test. */
export function startHost({ limits = {}, isGroup = false }: HostOptions = {}) {
  const dir = mkdtempSync(join(tmpdir(), "interlink-supervisor-"));
  const pack = packages(dir);
  pack.install("1.0.0");
  const [notesPath, dies, answers] = [join(dir, "notes"), join(dir, "dies"), join(dir, "state/answers.json")];
  writeFileSync(notesPath, "");
  const clock = join(dir, "clock");
  moveClock(clock, 0);
  const child = spawn(process.execPath, [...NODE, CLOCK, join(SUPPORT, "supervise.ts")], {
    stdio: ["pipe", "pipe", "pipe"],
    detached: isGroup,
    env: {
      PATH: process.env["PATH"]!,
      TMPDIR: dir,
      STUB_NOTES: notesPath,
      STUB_DIES: dies,
      MOVED_CLOCK: clock,
      SUPERVISE: JSON.stringify({ script: pack.script, answers, limits }),
    },
  });
  const messages: Message[] = [];
  let [text, errors] = ["", ""];
  child.stdout.on("data", (chunk) => {
    text += String(chunk);
    const lines = text.split("\n");
    text = lines.pop()!;
    messages.push(...lines.map((line) => JSON.parse(line) as Message));
  });
  child.stdin.on("error", () => {});
  child.stderr.on("data", (chunk) => (errors += String(chunk)));
  const closed = new Promise<{ code: number | null; signal: string | null }>((resolve) =>
    child.once("close", (code, signal) => resolve({ code, signal })),
  );
  const notes = () =>
    readFileSync(notesPath, "utf8")
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Note);
  const starts = () => notes().filter(({ what }) => what === "start");
  onTestFinished(async () => {
    // In good order, or the system takes a second to clear its children away.
    child.stdin.end();
    child.stdout.resume();
    const late = setTimeout(() => child.kill("SIGKILL"), 2_000);
    await closed;
    clearTimeout(late);
    for (const { pid } of starts()) await until(() => !isAlive(pid), "the stub's end");
    rmSync(dir, { recursive: true, force: true });
  });

  let id = 0;
  const write = (line: string) => void child.stdin.write(`${line}\n`);
  const send = (message: object) => write(JSON.stringify({ jsonrpc: "2.0", ...message }));
  const answer = (own: number | string) =>
    until(() => messages.find((each) => each["id"] === own), `an answer to ${own}`);
  const ask = (method: string, params: object = {}) => {
    const own = ++id;
    send({ id: own, method, params });
    return answer(own);
  };
  return {
    dir,
    pack,
    pid: child.pid!,
    answers,
    messages,
    closed,
    notes,
    starts,
    write,
    send,
    ask,
    answer,
    /** A tool's result; a modern call. */
    call: async (name: string, args: object = {}) =>
      (await ask("tools/call", { name, arguments: args, _meta: META }))["result"] as Message,
    errors: () => errors,
    input: child.stdin,
    output: child.stdout,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    /** The agent process that runs. */
    agent: () => starts().at(-1)!.pid,
    /** Sets the clock of supervisor and stubs, from what it is. */
    setClock: (byMs: number) => moveClock(clock, byMs),
    die: (isDying: boolean) => (isDying ? writeFileSync(dies, "") : rmSync(dies, { force: true })),
  };
}
