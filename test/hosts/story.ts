/** What the hosts' tests share: where their packages are, two people, and a model that does what a wake says. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { Host, twoMachines, type Machine } from "../client/hosts/machine.ts";
import { until } from "../client/session/support.ts";
import type { Model, Say } from "./model-stub.ts";

const PACKAGES = join(import.meta.dirname, "../../node_modules/.cache/hosts/node_modules");
export const PLUGIN = join(import.meta.dirname, "../../plugin");
export const LAUNCH = join(import.meta.dirname, "../../src/client/cli/launch.ts");

/** A host's program, or undefined where its package is not installed for this machine. */
export function programOf(host: "claude" | "codex"): string | undefined {
  const path = {
    claude: `@anthropic-ai/claude-code-${process.platform}-${process.arch}/claude`,
    codex: `@openai/codex-${process.platform}-${process.arch}/vendor/${tripleOf()}/bin/codex`,
  }[host];
  const program = join(PACKAGES, path);
  return existsSync(program) ? program : undefined;
}

function tripleOf(): string {
  const cpu = process.arch === "arm64" ? "aarch64" : "x86_64";
  return process.platform === "darwin" ? `${cpu}-apple-darwin` : `${cpu}-unknown-linux-musl`;
}

/** Why a host's tests are skipped. */
export const INSTALL =
  "npm install --prefix node_modules/.cache/hosts --no-save @anthropic-ai/claude-code@2.1.332 @openai/codex@0.171.0";

/** Ann has a plain client, bob a real host. */
export async function people(bus: string): Promise<{ ann: Host; bob: Machine }> {
  const [annAt, bob] = await twoMachines(bus, "ann", "bob");
  const ann = await Host.start(annAt, "v2 auto", false);
  onTestFinished(async () => {
    await ann.close();
    annAt.remove();
    bob.remove();
  });
  const isThere = async () => (await ann.call("whoami")).structuredContent?.["presence"] === "live";
  await until(isThere, "ann's presence");
  return { ann, bob };
}

/** `CALL tool {json}END` in a prompt calls that tool; a wake is followed by a look, and a ping by a pong. */
export const obedient: Model = ({ text, isToolResult, tools }) => {
  const call = (name: string, input: object): Say => {
    const tool = tools.find((each) => each.endsWith(`__${name}`));
    return tool === undefined ? `there is no ${name}` : { tool, input };
  };
  if (isToolResult) return /body\W+ping/.test(text) ? call("send_message", { to: "ann", text: "pong" }) : "done";
  if (/Interlink: \d+ unread message.* Call check_messages\. \(wake [0-9a-f]+\)/.test(text))
    return call("check_messages", {});
  const [, name, input] = /CALL (\w+) (\{.*\})END/.exec(text) ?? [];
  return name === undefined ? "ok" : call(name, JSON.parse(input!) as object);
};
