/** A process that serves the tools on a {@link FakeAgent}: the scene from a file, what it was asked into another. */

import { appendFileSync, readFileSync } from "node:fs";
import { serveTools } from "../../src/client/tools/server.ts";
import { systemTimers } from "../../src/client/bus/timers.ts";
import { stderrLog } from "../../src/client/cli/log.ts";
import { FakeAgent, NOW_MS, type Scene } from "./fake-agent.ts";

const scene = JSON.parse(readFileSync(process.env["FAKE_SCENE"]!, "utf8")) as Scene;
const note = (call: string, facts: object = {}) =>
  appendFileSync(process.env["FAKE_TRACE"]!, `${JSON.stringify({ call, ...facts })}\n`);

const agent = new FakeAgent(scene, note);
const server = serveTools({
  open: async () => agent,
  version: "0.0.0",
  stateKey: Buffer.alloc(32, 7),
  timers: { ...systemTimers, now: () => NOW_MS },
  log: stderrLog((line) => process.stderr.write(line)),
  input: process.stdin,
  output: process.stdout,
});
// The test asks for mail to come.
process.on("SIGUSR2", () => agent.ring());
await server.closed;
await server.close(300);
