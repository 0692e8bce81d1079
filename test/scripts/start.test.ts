/** `npm start`, as a newcomer types it: a bus on this machine that keeps its state between runs, and says what is wrong. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { isFree, PROJECT_DIR } from "../../scripts/local-bus.ts";
import { Agent } from "../support/agent.ts";

/** Wrangler takes some seconds, and more on a busy machine. */
const START_MAX_MS = 60_000;

interface Started {
  readonly child: ChildProcess;
  /** Settles with what it printed once that matches. */
  says(pattern: RegExp): Promise<string>;
  end(): Promise<number | null>;
}

function npmStart(...flags: string[]): Started {
  const child = spawn("npm", ["start", "--", ...flags], {
    cwd: PROJECT_DIR,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  const exited = once(child, "exit") as Promise<[number | null]>;
  const says = (pattern: RegExp) =>
    new Promise<string>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`never said ${pattern}: ${text}`)), START_MAX_MS);
      const look = () => {
        if (!pattern.test(text)) return;
        clearTimeout(late);
        resolve(text);
      };
      for (const stream of [child.stdout, child.stderr]) stream.on("data", look);
      look();
    });
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
  const end = async () => {
    // As Ctrl-C does: all of the terminal's foreground group.
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, "SIGINT");
    return (await exited)[0];
  };
  onTestFinished(async () => void (await end()));
  return { child, says, end };
}

async function freePort(): Promise<number> {
  for (;;) {
    const port = 30_000 + Math.floor(Math.random() * 2_000);
    if (await isFree(port)) return port;
  }
}

describe("npm start", { timeout: 3 * START_MAX_MS }, () => {
  it("serves on the port that it prints, takes wrangler's flags, and finds its state again, also with ACCESS:open", async () => {
    const folder = mkdtempSync(join(tmpdir(), "interlink-start-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const flags = ["--port", String(port), "--persist-to", folder];

    const first = npmStart(...flags, "--var", "LIVE_MS:2000");
    expect(await first.says(/Ctrl-C ends the bus/)).toContain(`The bus is at ${url}`);
    const agent = await Agent.create({ url });
    onTestFinished(() => agent.close());
    expect((await agent.announce("kept", "agent", { name: "agent" })).status).toBe(202);
    // A newcomer is not asked for an invite, and a stranger is not let in unsigned.
    expect((await agent.request("GET", `/roster?identity=${agent.key}`, undefined, { token: false })).status).toBe(401);
    await first.end();
    expect(await isFree(port)).toBe(true);

    const second = npmStart(...flags, "--var", "ACCESS:open");
    await second.says(/Ctrl-C ends the bus/);
    const { status, body } = await agent.request("GET", `/roster?identity=${agent.key}`, undefined, { token: false });
    expect(status).toBe(200);
    expect(JSON.stringify(body)).toContain('"session_id":"kept"');

    const third = npmStart("--port", String(port));
    await third.says(new RegExp(`Port ${port} on 127\\.0\\.0\\.1 is taken.*npm start -- --port ${port + 1}`));
    expect(await third.end()).not.toBe(0);
    await second.end();
  });
});
