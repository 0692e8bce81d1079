/** The demo as a newcomer runs it: what it says, that it ends well, and that it leaves nothing behind. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as readText } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";

const MAX_MS = 15_000;

let temp: string;
beforeAll(async () => {
  temp = await mkdtemp(join(tmpdir(), "interlink-demo-test-"));
});
afterAll(() => rm(temp, { recursive: true, force: true }));

function startDemo(): ChildProcess & { stdout: NodeJS.ReadableStream; stderr: NodeJS.ReadableStream } {
  return spawn(process.execPath, [join(PROJECT_DIR, "scripts/demo.ts")], {
    stdio: ["ignore", "pipe", "pipe"],
    // vitest asks for colours; the demo must decide by its own stdout.
    env: { ...process.env, TMPDIR: temp, FORCE_COLOR: undefined },
  });
}

/** What the demo left in its temporary folder; Node and wrangler may keep caches of theirs there. */
const leftovers = async () => (await readdir(temp)).filter((name) => name.startsWith("interlink-"));

describe("the demo", () => {
  it("shows the main job with the bus's own answers, and exits 0", { timeout: 2 * MAX_MS }, async () => {
    const startedMs = performance.now();
    const demo = startDemo();
    const [transcript, complaints, [code]] = await Promise.all([
      readText(demo.stdout),
      readText(demo.stderr),
      once(demo, "exit"),
    ]);
    expect(complaints).toBe("");
    expect(code, transcript).toBe(0);
    expect(performance.now() - startedMs).toBeLessThan(MAX_MS);
    for (const fact of [
      /403 \{"error":"not_paired"/,
      /"state":"stored",[^\n]*"presence":"away","age_ms":\d+,"queued":3\}/,
      /200 \{"state":"duplicate"/,
      /alice\/desktop GET \/recv\n +200 \{"status":"timeout"\}/,
      /"text":"the tests are red".*"text":"it is the parser".*"text":"never mind/,
      /"state":"acked".*"state":"acked".*"state":"acked"/,
      /"gone":\[\{"session_id":"laptop"\}\]/,
      /409 \{"error":"stale"/,
    ]) {
      expect(transcript).toMatch(fact);
    }
    const [, held, facts] = /^(\d+) of (\d+) facts held\.$/m.exec(transcript) ?? [];
    expect(held).toBe(facts);
    expect(Number(facts)).toBeGreaterThan(0);
    expect(transcript, "colours are for terminals").not.toContain("\u001b");
    expect(await leftovers()).toEqual([]);
  });

  it("ends on Ctrl-C with its bus, and leaves no file", { timeout: 2 * MAX_MS }, async () => {
    const demo = startDemo();
    const [first] = (await once(demo.stdout, "data")) as [Buffer];
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(String(first))![0];
    expect((await fetch(`${url}/health`)).status).toBe(200);
    demo.kill("SIGINT");
    const [code] = await once(demo, "exit");
    expect(code).toBe(130);
    await expect(fetch(`${url}/health`)).rejects.toThrow();
    expect(await leftovers()).toEqual([]);
  });
});
