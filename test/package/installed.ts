/** An installed package, driven as its user and their host do: by the name that npm gave its bin. */

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { onTestFinished } from "vitest";

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export class Installed {
  /** Where it was installed. */
  readonly folder: string;
  readonly #bin: string;
  readonly #node: string;

  /** @param nodeFolder folder of the `node` that runs it */
  constructor(folder: string, nodeFolder: string) {
    this.folder = folder;
    this.#bin = join(folder, "node_modules", ".bin", "interlink-edge");
    this.#node = nodeFolder;
  }

  /** A user's environment: a home of its own, this Node alone, and a port that nobody listens at. */
  home(): Record<string, string> {
    const HOME = mkdtempSync(join(tmpdir(), "interlink-package-"));
    onTestFinished(() => rmSync(HOME, { recursive: true, force: true }));
    return { HOME, PATH: this.#node, INTERLINK_URL: "http://127.0.0.1:9" };
  }

  type(env: Record<string, string>, ...args: string[]): Promise<Ended> {
    return run(this.#bin, args, { env, cwd: this.folder });
  }

  /** Starts a command that goes on until it is stopped, as by Ctrl-C. */
  start(env: Record<string, string>, ...args: string[]) {
    const child = spawn(this.#bin, args, { env, cwd: this.folder, stdio: ["ignore", "pipe", "pipe"] });
    onTestFinished(() => void child.kill("SIGINT"));
    let said = "";
    const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
    const says = (text: string) =>
      new Promise<void>((resolve, reject) => {
        child.stdout.on("data", (chunk) => {
          said += String(chunk);
          if (said.includes(text)) resolve();
        });
        child.stderr.on("data", (chunk) => (said += String(chunk)));
        child.once("close", () => reject(new Error(said)));
      });
    const stop = () => {
      child.kill("SIGINT");
      return ended;
    };
    return { says, stop };
  }

  /** Runs a module's text in the folder, as a program that depends on the package. */
  program(text: string): Promise<Ended> {
    return run(join(this.#node, "node"), ["--input-type=module", "--eval", text], { env: {}, cwd: this.folder });
  }

  /** A host that starts it. */
  async connect(env: Record<string, string>, mode: "auto" | "legacy") {
    const transport = new StdioClientTransport({ command: this.#bin, args: ["mcp"], env, stderr: "pipe" });
    const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
    let log = "";
    transport.stderr?.on("data", (chunk: Buffer) => (log += String(chunk)));
    // What is no message on stdout is a fault, and the transport tells it.
    const faults: Error[] = [];
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the SDK has no other way
    client.onerror = (fault) => void faults.push(fault);
    await client.connect(transport);
    onTestFinished(() => client.close());
    return { client, log: () => log, faults };
  }
}

/** Runs to the end. */
export async function run(
  command: string,
  args: readonly string[],
  { env, cwd }: { readonly env: Record<string, string>; readonly cwd: string },
): Promise<Ended> {
  const child = spawn(command, args, { env, cwd, stdio: ["ignore", "pipe", "pipe"] });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk) => (out += String(chunk)));
  child.stderr.on("data", (chunk) => (err += String(chunk)));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  return { code, out, err };
}
