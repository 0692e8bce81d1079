#!/usr/bin/env node
/** `interlink-edge`: reads the process, runs one command, ends with its code. The only file of the client that knows `process`. */

import process from "node:process";
import { createInterface } from "node:readline/promises";
import { fingerprint } from "../../protocol/address.ts";
import { openIdentity } from "../trust/identity-file.ts";
import { PeersFile } from "../trust/peers.ts";
import { VERSION } from "../version.ts";
import { readCommand, USAGE, type Command } from "./command-line.ts";
import { stderrLog } from "./log.ts";
import { acceptKnock, listKnocks, rejectKnock } from "./pair.ts";
import { addPeer, listPeers, removePeer } from "./peers.ts";
import { readSettings } from "./settings.ts";
import type { ExitCode, Terminal } from "./terminal.ts";
import { complaint, wordsOfFile } from "./words.ts";

const terminal: Terminal = {
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

async function run(command: Command): Promise<ExitCode> {
  const settings = readSettings(process.env, process.platform);
  switch (command.run) {
    case "help":
      process.stdout.write(USAGE);
      return 0;
    case "version":
      terminal.out(VERSION);
      return 0;
    case "mcp":
      await serve();
      return 0;
  }

  const opened = await openIdentity(settings.trust.key);
  if ("refused" in opened) {
    terminal.err(complaint(wordsOfFile(opened)));
    return 1;
  }
  const me = opened.identity.key;
  if (opened.created) terminal.err(`A new key was made: ${settings.trust.key}`);
  const peers = new PeersFile({ path: settings.trust.peers, me });
  const desk = { terminal, peers, me, stateDirectory: settings.stateDirectory, nowMs: Date.now() };
  switch (command.run) {
    case "key":
      terminal.out(`${me}  ${fingerprint(me)}`);
      return 0;
    case "pair list":
      return listKnocks(desk);
    case "pair accept":
      return acceptKnock(desk, command);
    case "pair reject":
      return rejectKnock(desk, command);
    case "peers list":
      return listPeers(desk);
    case "peers add":
      return addPeer(desk, command);
    case "peers remove":
      return removePeer(desk, command);
  }

  async function serve(): Promise<void> {
    const ended = new Promise((resolve) => {
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, resolve);
    });
    // A log that nobody reads any more ends nothing.
    process.stderr.on("error", () => {});
    const log = stderrLog((line) => process.stderr.write(line));
    // Only here: the commands need none of it, and start in half the time.
    const { runMcp } = await import("./mcp.ts");
    const { stdin: input, stdout: output } = process;
    await runMcp({ settings, cwd: process.cwd(), input, output, log, ended });
  }
}

const command = readCommand(process.argv.slice(2));
if ("wrong" in command) {
  terminal.err(`${complaint(command.wrong.replace(/\.$/, ""))}\n\n${USAGE.trimEnd()}`);
  process.exitCode = 2;
} else {
  process.exitCode = await run(command);
  // Sockets and timers that are still closing must not keep a server that has said goodbye.
  if (command.run === "mcp") process.exit();
}
