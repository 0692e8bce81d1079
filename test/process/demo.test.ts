/** The demo as a newcomer runs it: every scene's checks, that it ends well, and that it leaves nothing behind. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as readText } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";

/** Under 15 s on a machine with nothing else to do; this one runs other tests beside it. */
const MAX_MS = 30_000;
const COLUMNS = 100;
const SCENES = 7;

let temp: string;
beforeAll(async () => {
  temp = await mkdtemp(join(tmpdir(), "interlink-demo-test-"));
});
afterAll(() => rm(temp, { recursive: true, force: true }));

type Demo = ChildProcess & { stdout: NodeJS.ReadableStream; stderr: NodeJS.ReadableStream };

/** At the head of a process group, as a shell starts it. */
function startDemo(): Demo {
  return spawn("npm", ["run", "demo"], {
    cwd: PROJECT_DIR,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    // vitest asks for colours; the demo must decide by its own stdout.
    env: { ...process.env, TMPDIR: temp, FORCE_COLOR: undefined, npm_config_update_notifier: "false" },
  });
}

/** What the demo left in its temporary folder; Node and wrangler may keep caches of theirs there. */
const leftovers = async () => (await readdir(temp)).filter((name) => name.startsWith("interlink-"));

/** No process of the demo's group is left: the bus, the agents and their supervisors were in it. */
async function expectGroupGone({ pid }: ChildProcess): Promise<void> {
  const isThere = () => {
    try {
      return process.kill(-pid!, 0);
    } catch {
      return false;
    }
  };
  // One that has ended counts until the system has taken note of it.
  await expect.poll(isThere, { timeout: 5_000 }).toBe(false);
}

/** The transcript's scenes, without what stands before the first. */
const scenesOf = (transcript: string) => transcript.split(/^(?=\d+\. )/m).slice(1);

describe("the demo", () => {
  it("shows the main job by the tools' own answers, and exits 0", { timeout: 2 * MAX_MS }, async () => {
    const startedMs = performance.now();
    const demo = startDemo();
    const [transcript, complaints, [code]] = await Promise.all([
      readText(demo.stdout),
      readText(demo.stderr),
      once(demo, "exit"),
    ]);
    const tookMs = performance.now() - startedMs;
    expect(complaints, transcript).toBe("");
    expect(code, transcript).toBe(0);
    await expectGroupGone(demo);
    expect(await leftovers()).toEqual([]);

    const scenes = scenesOf(transcript);
    expect(scenes).toHaveLength(SCENES);
    for (const scene of scenes) {
      expect(scene).toMatch(/^ +✓ /m);
      expect(scene).not.toContain("✗");
    }
    const checks = transcript.match(/^ +✓ /gm) ?? [];
    expect(transcript).toContain(`${checks.length} of ${checks.length} facts held.`);
    for (const tool of ["request_pair", "accept_pair", "discover", "send_message", "check_messages", "message_status"])
      expect(transcript, tool).toMatch(new RegExp(`^ +\\w+/\\w+ +${tool}\\b`, "m"));

    const tooLong = transcript.split("\n").filter((line) => line.length > COLUMNS);
    expect(tooLong).toEqual([]);
    expect(transcript, "colours are for terminals").not.toContain("\u001b");
    expect(tookMs).toBeLessThan(MAX_MS);
  });

  it.each([
    ["the agents start", /http:/],
    ["an agent is stopped", /\(stopped\)/],
  ])("ends on Ctrl-C while %s, and leaves no process and no file", { timeout: 2 * MAX_MS }, async (_when, sign) => {
    const demo = startDemo();
    const ended = once(demo, "exit");
    let transcript = "";
    for await (const chunk of demo.stdout) {
      transcript += String(chunk);
      if (sign.test(transcript)) break;
    }
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(transcript)![0];
    expect((await fetch(`${url}/health`)).status).toBe(200);
    process.kill(-demo.pid!, "SIGINT"); // a terminal tells the whole group
    // npm hands the code on, or ends by the signal itself; a shell shows 130 for both.
    const [code, signal] = await ended;
    expect(signal ?? code).toBeOneOf(["SIGINT", 130]);
    await expect(fetch(`${url}/health`)).rejects.toThrow();
    await expectGroupGone(demo);
    expect(await leftovers()).toEqual([]);
  });
});
