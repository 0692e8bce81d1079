/**
 * An agent process of a few lines, which starts in the time of Node alone. It is copied into a package of its own, whose
 * `package.json` says its version, and does what its tools are called.
 *
 * `STUB_NOTES`: a file to which it writes what happens to it. `STUB_DIES`: a file whose presence makes it end as it starts.
 */

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";

const { version, tools } = JSON.parse(readFileSync(new URL("package.json", import.meta.url), "utf8"));
const note = (what, facts = {}) =>
  appendFileSync(process.env.STUB_NOTES, `${JSON.stringify({ what, pid: process.pid, version, ...facts })}\n`);
const handoff = process.env.INTERLINK_HANDOFF;
note("start", {
  args: process.argv.slice(2),
  handoff: handoff && existsSync(handoff) ? JSON.parse(readFileSync(handoff, "utf8")) : null,
  path: handoff,
});
if (existsSync(process.env.STUB_DIES ?? "")) process.exit(1);

const info = { name: "stub", version };
const meta = { "io.modelcontextprotocol/serverInfo": info };
const list = tools.map((name) => ({
  name,
  inputSchema: { type: "object" },
  annotations: { readOnlyHint: name === "read" },
}));
const answer = (id, result) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
const results = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: { listChanged: true } },
    serverInfo: info,
  }),
  "server/discover": () => ({ supportedVersions: ["2026-07-28"], capabilities: {}, _meta: meta }),
  ping: () => ({}),
  "tools/list": () => ({ tools: list }),
};
const deeds = {
  exit: ({ code }) => process.exit(code),
  noise: () => process.stdout.write("this is no message\n"),
  hang: () => new Promise(() => {}),
  big: ({ chars }) => ({ content: [{ type: "text", text: "x".repeat(chars) }] }),
};

createInterface({ input: process.stdin })
  .on("line", async (line) => {
    const { id, method, params } = JSON.parse(line);
    note("line", { method, name: params?.name });
    if (results[method]) return answer(id, results[method](params));
    if (method !== "tools/call") return;
    const told = await deeds[params.arguments?.do]?.(params.arguments);
    answer(
      id,
      told?.content ? told : { content: [{ type: "text", text: `${version}:${params.name}` }], structuredContent: {} },
    );
  })
  .on("close", () => {
    note("stdin_end");
    process.exit(0);
  });
process.on("SIGTERM", () => {
  note("SIGTERM");
  process.exit(0);
});
