/** The agent process on a bus that no longer speaks its version: it ends with 75 once, so that a newer one may take over. */

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, it, onTestFinished } from "vitest";
import { WebSocketServer } from "ws";
import { dropHandoff, leaveHandoff } from "../../../src/client/supervisor/handoff.ts";
import { SUBPROTOCOL } from "../../../src/protocol/frames.ts";
import { startStranger } from "../bus/support.ts";

const BIN = join(import.meta.dirname, "../../../src/client/cli/bin.ts");
const NODE = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types", BIN];

async function newerBus(): Promise<string> {
  const { url, server } = await startStranger((_, response) => response.writeHead(404).end());
  const sockets = new WebSocketServer({ server, handleProtocols: () => SUBPROTOCOL });
  const welcome = { t: "welcome", generation: "g", queued: 0, versions: [999] };
  sockets.on("connection", (socket) => socket.send(JSON.stringify({ ...welcome, now_ms: Date.now() })));
  onTestFinished(() => sockets.close());
  return url;
}

/** An agent process as the supervisor starts it, whose session is real. */
async function startAgent(reason?: string) {
  const home = mkdtempSync(join(tmpdir(), "interlink-too-old-"));
  mkdirSync(join(home, ".config", "interlink"), { recursive: true, mode: 0o700 });
  const handoff = leaveHandoff({
    generation: reason === undefined ? 1 : 2,
    ...(reason !== undefined && { reason }),
    session: "s-1",
    state_key: randomBytes(32).toString("base64url"),
    rejoin: true,
    arrived: [],
    threads: [],
  });
  const env = { PATH: process.env["PATH"]!, HOME: home, INTERLINK_URL: await newerBus(), INTERLINK_HANDOFF: handoff };
  const child = spawn(process.execPath, [...NODE, "agent"], { env, stdio: ["pipe", "pipe", "ignore"] });
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exited;
    dropHandoff(handoff);
    rmSync(home, { recursive: true, force: true });
  });
  return { child, exited };
}

it("ends with 75, so that the supervisor looks for a newer one", { timeout: 30_000 }, async () => {
  const { exited } = await startAgent();
  expect(await exited).toEqual([75, null]);
});

it("stays where the one before ended so too, and tells what mends it", { timeout: 30_000 }, async () => {
  const { child, exited } = await startAgent("exit 75");
  const lines = createInterface({ input: child.stdout });
  const answers = lines[Symbol.asyncIterator]();
  const ask = async (id: number, method: string, params: object): Promise<any> => {
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    for (;;) {
      const answer = JSON.parse((await answers.next()).value as string) as { id?: number };
      if (answer.id === id) return answer;
    }
  };
  const clientInfo = { name: "test", version: "1" };
  await ask(1, "initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo });
  let me: any;
  for (let id = 2; me?.reason !== "client_too_old"; id++) {
    expect(id).toBeLessThan(100);
    me = (await ask(id, "tools/call", { name: "whoami", arguments: {} })).result.structuredContent;
  }
  expect(me).toMatchObject({
    readiness: { receive: "client_too_old", send: "ready", trust: "ready" },
    last_drop: { what: "disconnected", reason: "client_too_old", call: "reconnect" },
  });
  expect(me.notices.join("\n")).toContain("(disconnected, client_too_old) until you call reconnect");
  child.stdin.end();
  expect(await exited).toEqual([0, null]);
});
