/** One person with a home of their own, who types commands; and the hosts that their `setup` has told. */

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { until } from "../session/support.ts";
import { attach, textOf } from "../tools/clients.ts";

const BIN = join(import.meta.dirname, "../../../src/client/cli/bin.ts");
const NODE = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types", BIN];

export interface Typed {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export class Person {
  readonly home = mkdtempSync(join(tmpdir(), "interlink-person-"));
  readonly #children = new Set<ChildProcess>();

  constructor() {
    onTestFinished(async () => {
      await Promise.all([...this.#children].map(endOf));
      rmSync(this.home, { recursive: true, force: true });
    });
  }

  env(more: Record<string, string> = {}): Record<string, string> {
    return { HOME: this.home, PATH: process.env["PATH"]!, ...more };
  }

  start(args: readonly string[], env: Record<string, string> = {}) {
    const child = spawn(process.execPath, [...NODE, ...args], { env: this.env(env), stdio: ["pipe", "pipe", "pipe"] });
    this.#children.add(child);
    const said = { out: "", err: "" };
    child.stdout.on("data", (chunk) => (said.out += String(chunk)));
    child.stderr.on("data", (chunk) => (said.err += String(chunk)));
    const ended = new Promise<Typed>((resolve) =>
      child.once("close", (code) => {
        this.#children.delete(child);
        resolve({ code, ...said });
      }),
    );
    return { child, said, ended };
  }

  async type(...args: string[]): Promise<Typed> {
    return this.#run(args);
  }

  async typeWith(env: Record<string, string>, ...args: string[]): Promise<Typed> {
    return this.#run(args, "", env);
  }

  /** @param stdin what is piped in */
  async pipe(stdin: string, ...args: string[]): Promise<Typed> {
    return this.#run(args, stdin);
  }

  /** One answer in JSON, of a command that does what it should. */
  async json(...args: string[]): Promise<any> {
    const typed = await this.type(...args, "--json");
    expect(typed.code, typed.out + typed.err).toBe(0);
    return JSON.parse(typed.out);
  }

  /** Until Ctrl-C, which comes with the test's end at the latest. */
  async startBus(port: number, ...more: string[]) {
    const bus = this.start(["bus", "start", "--port", String(port), ...more]);
    await until(() => bus.said.err.includes("Ctrl-C") || bus.child.exitCode !== null, "the bus");
    return bus;
  }

  path(...parts: string[]): string {
    return join(this.home, ...parts);
  }

  write(path: string, text: string): string {
    mkdirSync(dirname(this.path(path)), { recursive: true });
    writeFileSync(this.path(path), text);
    return text;
  }

  read(path: string): string | undefined {
    return existsSync(this.path(path)) ? readFileSync(this.path(path), "utf8") : undefined;
  }

  /** Claude Code, as it would start what stands in its file: with next to nothing of an environment. */
  async claude() {
    const { command, args, env = {} } = JSON.parse(this.read(".claude.json")!).mcpServers.interlink;
    const attached = await attach("v2 auto", { command, args, env: { HOME: this.home, PATH: "/nowhere", ...env } });
    onTestFinished(() => attached.client.close());
    const ok = async (name: string, fields: object = {}) => {
      const result = await attached.call(name, fields);
      expect(result.isError ?? false, textOf(result)).toBe(false);
      return result.structuredContent!;
    };
    await until(async () => (await ok("whoami"))["presence"] === "live", "the agent is live");
    return { ok, close: () => attached.client.close() };
  }

  async #run(args: readonly string[], stdin = "", env: Record<string, string> = {}): Promise<Typed> {
    const { child, ended } = this.start(args, env);
    child.stdin.end(stdin);
    return ended;
  }
}

async function endOf(child: ChildProcess): Promise<void> {
  const closed = new Promise((resolve) => child.once("close", resolve));
  child.kill("SIGINT");
  await closed;
}

/** A port below those that systems lend. */
export const somePort = (): number => 30_000 + Math.floor(Math.random() * 2_000);
