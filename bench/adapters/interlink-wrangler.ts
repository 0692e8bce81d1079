/** This bus under `wrangler dev`, as `npm start` runs it: signed sends by POST, mail by the session's WebSocket. */

import { createRequire } from "node:module";
import { join } from "node:path";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";
import type { Adapter } from "../adapter.ts";
import { findFreePort, ServerProcess } from "../server/server-process.ts";
import { BUS_SURVIVES, BUS_VARS, InterlinkSystem } from "./interlink-bus.ts";
import { openSocket } from "./interlink-socket.ts";

const START_SCRIPT = join(PROJECT_DIR, "scripts", "start.ts");

export const interlinkWrangler: Adapter = {
  name: "interlink-wrangler",
  survives: BUS_SURVIVES,
  probe: async () => {
    const { version } = createRequire(import.meta.url)("wrangler/package.json") as { version: string };
    return { version: `wrangler ${version}` };
  },
  start: async ({ dir }) => {
    const port = await findFreePort();
    const vars = Object.entries(BUS_VARS).flatMap(([name, value]) => ["--var", `${name}:${value}`]);
    const server = await ServerProcess.start({
      command: process.execPath,
      args: [START_SCRIPT, "--port", String(port), "--persist-to", dir, ...vars],
      port,
      signal: "SIGINT",
    });
    return new InterlinkSystem({
      port,
      signed: true,
      openReceiver: openSocket,
      pids: () => server.pids(),
      stop: () => server.stop(),
    });
  },
};
