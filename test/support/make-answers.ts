/**
 * What the tools answer before they are called: the built-in copy of it is made from this,
 * `node test/support/make-answers.ts > src/client/supervisor/built-in-answers.json`, and formatted.
 */

import { PassThrough } from "node:stream";
import { pathToFileURL } from "node:url";
import { systemTimers } from "../../src/client/bus/timers.ts";
import { learn, type Answers } from "../../src/client/supervisor/answers.ts";
import { CAPABILITIES_META, VERSION_META } from "../../src/client/supervisor/era.ts";
import { serveTools } from "../../src/client/tools/server.ts";
import { notStarted } from "../../src/client/tools/render-refusal.ts";
import { VERSION } from "../../src/client/version.ts";

const META = { [VERSION_META]: "2026-07-28", [CAPABILITIES_META]: {} };
const CLIENT = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "maker", version: "1" } };

/** One question to a server of its own. */
async function ask(method: string, params: object): Promise<Record<string, unknown>> {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const server = serveTools({
    open: async () => notStarted("nothing is opened"),
    version: VERSION,
    stateKey: Buffer.alloc(32),
    timers: systemTimers,
    log: () => {},
    input,
    output,
  });
  input.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method, params })}\n`);
  let text = "";
  for await (const chunk of output) {
    text += String(chunk);
    if (text.includes("\n")) break;
  }
  await server.close(0);
  const answer = JSON.parse(text) as { result: Record<string, unknown> };
  return answer.result;
}

/** The answers of both eras; the tools as `era` lists them. */
export async function makeAnswers(era: "legacy" | "modern" = "modern"): Promise<Answers> {
  const none: Answers = { version: VERSION, initialize: {}, discover: {}, tools: [], list: {} };
  const told = [
    ["initialize", await ask("initialize", CLIENT)],
    ["discover", await ask("server/discover", { _meta: META })],
    ["tools", await ask("tools/list", era === "modern" ? { _meta: META } : {})],
  ] as const;
  return told.reduce((answers, [what, result]) => learn(answers, what, result), none);
}

if (import.meta.url === pathToFileURL(process.argv[1]!).href) {
  process.stdout.write(`${JSON.stringify(await makeAnswers(), null, 2)}\n`);
  process.exit();
}
