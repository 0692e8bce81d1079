/** The package is replaced beneath a running host: the next call is answered by the new one, and nobody is told goodbye. */

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { watchInstalled } from "../../../src/client/cli/installed-version.ts";
import { CallsInFlight } from "../../../src/client/tools/calls-in-flight.ts";

const ROOT = join(import.meta.dirname, "../../..");
const NEXT = "9.9.9";

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "interlink-upgrade-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe("the package on the disk", () => {
  it("is looked at until it is another; what is half there is waited out", () => {
    const path = join(newFolder(), "package.json");
    const write = (text: string) => writeFileSync(path, text);
    const due: (() => void)[] = [];
    const found: string[] = [];
    write('{"version":"1.0.0"}');
    const timers = { setTimeout: (run: () => void) => due.push(run), clearTimeout: () => {} };
    watchInstalled({ path, timers, onReplaced: (version) => found.push(version) });
    const look = () => due.shift()!();
    look();
    write('{"version":');
    look();
    rmSync(path);
    look();
    expect([found, due.length]).toEqual([[], 1]);
    write('{"version":"1.0.1"}');
    look();
    expect([found, due.length]).toEqual([["1.0.1"], 0]);
  });

  it("is not looked at where there is none", () => {
    let looks = 0;
    const timers = { setTimeout: () => looks++, clearTimeout: () => {} };
    watchInstalled({ path: join(newFolder(), "package.json"), timers, onReplaced: () => {} });
    expect(looks).toBe(0);
  });
});

describe("calls in flight", () => {
  const call = (id: number) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "x" } }) as const;
  const result = (id: number) => ({ jsonrpc: "2.0", id, result: {} }) as const;
  const isNow = async (calls: CallsInFlight) =>
    Promise.race([calls.none().then(() => true), Promise.resolve().then(() => false)]);

  it("are those without an answer that nobody took back; other requests may stay open", async () => {
    const calls = new CallsInFlight();
    expect(await isNow(calls)).toBe(true);
    calls.heard({ jsonrpc: "2.0", id: 9, method: "subscriptions/listen", params: {} });
    expect(await isNow(calls)).toBe(true);
    calls.heard(call(1));
    calls.heard(call(2));
    let isIdle = false;
    const idle = calls.none().then(() => (isIdle = true));
    calls.said(result(1));
    await Promise.resolve();
    expect(isIdle).toBe(false);
    calls.heard({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 2 } });
    await idle;
  });
});

describe("a host whose package is upgraded", { timeout: 60_000 }, () => {
  let bus: LocalBus;
  beforeAll(async () => {
    bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
  });
  afterAll(() => bus.stop());

  it("goes on under the same session: no goodbye, one banner from what to what", async () => {
    const folder = newFolder();
    const manifest = join(folder, "package.json");
    mkdirSync(join(folder, "src"));
    for (const room of ["client", "protocol"])
      cpSync(join(ROOT, "src", room), join(folder, "src", room), { recursive: true });
    cpSync(join(ROOT, "package.json"), manifest);
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    const home = newFolder();
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [
        "--disable-warning=ExperimentalWarning",
        "--experimental-strip-types",
        join(folder, "src/client/cli/bin.ts"),
        "mcp",
      ],
      env: { PATH: process.env["PATH"]!, HOME: home, INTERLINK_URL: bus.url, INTERLINK_NAME: "ann" },
      stderr: "ignore",
    });
    const client = new Client({ name: "test", version: "1" });
    await client.connect(transport);
    onTestFinished(() => client.close());
    const call = async (name: string): Promise<any> =>
      (await client.callTool({ name, arguments: {} })).structuredContent;
    const before = await call("whoami");

    const version = join(folder, "src/client/version.ts");
    const old = readFileSync(version, "utf8");
    writeFileSync(version, old.replace(/"[\d.]+"/, `"${NEXT}"`));
    writeFileSync(manifest, readFileSync(manifest, "utf8").replace(/"version": "[^"]+"/, `"version": "${NEXT}"`));

    const told: string[] = [];
    // Each look is a call, and every one is answered; the bound is the test's own.
    while (!told.some((line) => line.includes(NEXT))) {
      const after = await call("whoami");
      expect(after.session).toBe(before.session);
      expect(after.presence?.presence ?? "live").not.toBe("gone");
      told.push(...(after.notices ?? []).filter((line: string) => line.includes("agent process")));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(told).toEqual([expect.stringMatching(/handed over .*0\.1\.0 was replaced by 9\.9\.9/)]);
  });
});
