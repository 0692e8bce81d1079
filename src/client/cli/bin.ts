#!/usr/bin/env node
/** `interlink-edge`: reads the process, runs one command, ends with its code. The only file of the client that knows `process`. */

import { homedir, userInfo } from "node:os";
import process from "node:process";
import { createInterface } from "node:readline/promises";
import { text } from "node:stream/consumers";
import { VERSION } from "../version.ts";
import { readCommand, type Command } from "./command-line.ts";
import { usage, usageOf } from "./command-table.ts";
import { stderrLog } from "./log.ts";
import type { Machine } from "./machine.ts";
import { readSettings } from "./settings.ts";
import type { ExitCode, Terminal } from "./terminal.ts";
import { complaint } from "./words.ts";

/** A host waits for its hooks. */
const HOOK_MAX_MS = 1_800;

const command = readCommand(process.argv.slice(2));

const terminal: Terminal = {
  isJson: "json" in command,
  hasColour: process.stdout.isTTY === true && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb",
  isPerson: process.stdin.isTTY === true && process.stderr.isTTY === true,
  out: (line) => void process.stdout.write(`${line}\n`),
  err: (line) => void process.stderr.write(`${line}\n`),
  ask: async (question) => {
    const lines = createInterface({ input: process.stdin, output: process.stderr });
    // Whoever closes the input has not said yes.
    const left = new Promise<string>((resolve) => lines.once("close", () => resolve("")));
    const answer = await Promise.race([lines.question(question), left]);
    lines.close();
    return answer;
  },
};

async function run(command: Command): Promise<ExitCode | 75> {
  const settings = readSettings(process.env, process.platform);
  switch (command.run) {
    case "help":
      process.stdout.write(command.of === undefined ? usage() : usageOf(command.of));
      return 0;
    case "version":
      terminal.out(VERSION);
      return 0;
    case "mcp":
      await serve();
      return 0;
    case "agent":
      return serveAgent();
    case "wait": {
      const { waitForMail } = await import("./wait.ts");
      return waitForMail(settings, terminal);
    }
    case "hook": {
      const { tellAgent } = await import("./hook.ts");
      return command.hook === undefined ? 0 : tellAgent(command.hook, settings, process.stdin, terminal);
    }
    default: {
      // Only now: a host waits for its first answer, and needs none of it.
      const { operate } = await import("./commands.ts");
      return operate(command, settings, terminal, machine());
    }
  }

  async function serve(): Promise<void> {
    const { runMcp } = await import("./mcp.ts");
    const { stdin: input, stdout: output, execPath: node, execArgv: flags, argv } = process;
    const env = { ...process.env, INTERLINK_HOST_PID: String(process.ppid) };
    await runMcp({ settings, program: { node, flags, script: argv[1]!, env }, input, output, ...untilAsked() });
  }

  async function serveAgent(): Promise<0 | 75> {
    const { runAgent } = await import("./agent.ts");
    const { stdin: input, stdout: output } = process;
    return runAgent({ settings, cwd: process.cwd(), input, output, ...untilAsked() });
  }
}

/** What a hook of a host runs: nothing that is wrong here is the host's affair. */
async function runHook(command: Command): Promise<ExitCode | 75> {
  if (command.run === "hook") setTimeout(() => process.exit(0), HOOK_MAX_MS).unref();
  try {
    return await run(command);
  } catch {
    return 0;
  }
}

function machine(): Machine {
  const { platform, env, versions, execPath: node, execArgv: flags, argv, stdin } = process;
  return {
    platform,
    home: env["HOME"] || homedir(),
    user: userInfo().username,
    env,
    nodeVersion: versions.node,
    node,
    flags,
    script: argv[1]!,
    stdin: () => text(stdin),
    untilAsked: () => untilAsked().ended,
  };
}

/** What a server has of the process beside its pipe. */
function untilAsked() {
  const ended = new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, resolve);
  });
  // A log that nobody reads any more ends nothing.
  process.stderr.on("error", () => {});
  return { ended, log: stderrLog((line) => process.stderr.write(line)) };
}

if ("wrong" in command) {
  terminal.err(`${complaint(command.wrong.replace(/\.$/, ""))}\n\n${usage().trimEnd()}`);
  process.exitCode = 2;
} else {
  const isHook = command.run === "hook" || command.run === "wait";
  process.exitCode = await (isHook ? runHook(command) : run(command));
  // Sockets and timers that are still closing must not keep a server that has said goodbye.
  if (command.run === "mcp" || command.run === "agent") process.exit();
}
