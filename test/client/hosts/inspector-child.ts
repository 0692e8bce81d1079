/**
 * Runs the Inspector's CLI, once for each list of arguments that it is sent: what `mcp-inspector --cli` does, without the
 * time that its own start takes. Answers with what a shell would see.
 */

import { join } from "node:path";
import process from "node:process";

const INSPECTOR = join(
  import.meta.dirname,
  "../../../node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js",
);

export interface Seen {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const { runCli } = (await import(INSPECTOR)) as { runCli: (argv: readonly string[]) => Promise<void> };

async function run(args: readonly string[]): Promise<Seen> {
  const seen = { stdout: "", stderr: "" };
  const { stdout, stderr } = process;
  const writes = { stdout: stdout.write, stderr: stderr.write };
  const capture = (to: "stdout" | "stderr") =>
    ((chunk: string | Uint8Array, ...rest: unknown[]) => {
      seen[to] += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
      (rest.findLast((each) => typeof each === "function") as (() => void) | undefined)?.();
      return true;
    }) as typeof process.stdout.write;
  stdout.write = capture("stdout");
  stderr.write = capture("stderr");
  try {
    await runCli(["node", "inspector-cli", ...args]);
    return { code: 0, ...seen };
  } catch (fault) {
    const { exitCode = 1 } = fault as { exitCode?: number };
    return { code: exitCode, stdout: seen.stdout, stderr: `${seen.stderr}${String(fault)}` };
  } finally {
    stdout.write = writes.stdout;
    stderr.write = writes.stderr;
  }
}

let last: Promise<unknown> = Promise.resolve();
process.on("message", (args: string[]) => {
  last = last.then(async () => process.send!(await run(args)));
});
process.send!("ready");
