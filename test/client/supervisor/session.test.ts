/** Whole host sessions over agent processes that die, on a real bus: nothing is lost, nothing comes twice, and the host sees no end. */

import { spawn } from "node:child_process";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { checkHistory } from "../../history/checker.ts";
import { History } from "../../history/history.ts";
import { ok, until as eventually } from "../session/support.ts";
import type { Result } from "../tools/clients.ts";
import { INITIALIZE, isAlive, until } from "./host.ts";
import { drive, NODE, peersOf } from "./hosted.ts";

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

/** The same at each run: which call is cut short, how, and how long after it was made. */
function dice(seed: number) {
  let state = seed;
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const WAYS = ["SIGKILL", "SIGWINCH", "SIGUSR2"] as const; // killed, exit 1, exit 75
/** Enough for all of a test's ends; the real numbers have tests of their own. */
const LIMITS = { endsMax: 1_000, backoffBaseMs: 5, backoffMaxMs: 20 };
const BODY = /^(?:agent process|the agent process) (?:ended|handed over)/;

describe.each([
  { kind: "v1", calls: 200, kills: 20 },
  { kind: "v2 auto", calls: 200, kills: 20 },
  // The same era as the first; what differs is the client.
  { kind: "v2 legacy", calls: 80, kills: 4 },
] as const)(
  "$calls calls of $kind, whose process ends $kills times",
  { timeout: 120_000 },
  ({ kind, calls, kills }) => {
    it("loses no message, doubles none, and is told once of each end", async () => {
      const { alice, bob, env, dir } = await peersOf(bus.url);
      const { key: bobs } = await bob.whoami();
      const host = await drive(kind, env, dir, LIMITS);
      const roll = dice(kills);
      const results: Result[] = [];
      const history = new History();
      let [sent, written, got, heard] = [0, 0, 0, 0];
      const note = (by: string, from: string, bodies: readonly string[]) => {
        for (const text of bodies) history.read(by, { from, msg_id: text });
        return bodies.length;
      };
      const sessions = new Set<string>();

      const make = async (index: number): Promise<void> => {
        // Mail is read in the second half only: who has read is asked before it writes on and on.
        const isLate = index >= calls / 2;
        const which = index % 4;
        if (which === 3) {
          const me = await host.call("whoami");
          sessions.add(me.structuredContent!["session"]);
          results.push(me);
        } else if (which === 2) results.push(await host.call("list_pending"));
        else if (!isLate) {
          const text = `to bob ${index}`;
          sent++;
          const call = history.invoke({ op: "send", from: alice, to: bobs, msg_id: text });
          // Every other host gives its calls an id.
          const meta = index % 8 < 4 ? undefined : { "claudecode/toolUseId": `toolu_${index}` };
          results.push(await host.call("send_message", { to: "bob", text }, meta));
          call.ok();
        } else {
          const read = await host.call("check_messages");
          results.push(read);
          got += note(alice, bobs, bodiesOf(read));
        }
      };

      const cuts = new Set<number>();
      // Two of three while something is written or taken: what could come twice, or be lost.
      while (cuts.size < kills) {
        const quarter = 4 * roll(calls / 8);
        const [early, late, any] = [quarter + roll(2), calls / 2 + quarter + roll(2), roll(calls - 1)];
        cuts.add([early, late, any][cuts.size % 3]!);
      }
      let ends = 0;
      // Bob's mail is let in once the bus knows that he is a peer.
      await eventually(async () => (await host.call("whoami")).structuredContent!["presence"] === "live", "alice");
      for (let index = 0; index < calls; index++) {
        if (index % 4 === 0) {
          const text = `to alice ${index}`;
          written++;
          const call = history.invoke({ op: "send", from: bobs, to: alice, msg_id: text });
          ok(await bob.send({ to: "alice", text }));
          call.ok();
        }
        const pid = cuts.has(index) ? await host.up() : undefined;
        const inFlight = [make(index)];
        if (pid !== undefined) {
          // Some of what is in flight is of another kind.
          if (roll(2) === 0 && index + 1 < calls && !cuts.has(index + 1)) inFlight.push(make(++index));
          await delay(roll(8));
          process.kill(pid, WAYS[ends++ % WAYS.length]);
        }
        await Promise.all(inFlight);
        if (pid !== undefined) await until(() => host.pids().length > ends, "the next process");
      }
      // What is left of mail and of news.
      await eventually(async () => {
        const read = await host.call("check_messages");
        results.push(read);
        got += note(alice, bobs, bodiesOf(read));
        return got >= written;
      }, "all of bob's messages");
      const last = await host.call("check_messages");
      note(alice, bobs, bodiesOf(last));
      results.push(last, await host.call("whoami"));

      expect(host.isClosed()).toBe(false);
      expect(results.filter(({ isError }) => isError)).toEqual([]);
      await eventually(async () => {
        const { messages } = await bob.checkMessages({ max: 64, maxBytes: 1_000_000 });
        heard += note(
          bobs,
          alice,
          messages.map(({ body }) => body),
        );
        return heard >= sent;
      }, "all of alice's messages");
      history.drained([alice, bobs]);
      const { violations, counted } = checkHistory(history.events);
      expect(violations).toEqual([]);
      const all = sent + written;
      expect(counted).toMatchObject({ sent: all, acknowledged: all, read: all });
      // No id was given, and yet it is one session all along.
      expect(sessions.size).toBe(1);
      const notices = results.flatMap(({ structuredContent }) => (structuredContent?.["notices"] as string[]) ?? []);
      expect(notices.filter((notice) => BODY.test(notice))).toHaveLength(ends);
      expect(ends).toBe(kills);
      expect(host.pids()).toHaveLength(kills + 1);
      expect(notices.filter((notice) => notice.includes("may not have arrived"))).toEqual([]);
    });
  },
);

function bodiesOf({ structuredContent }: Result): string[] {
  return (structuredContent!["messages"] as string[]).map((line) => (JSON.parse(line) as { body: string }).body);
}

describe("on the roster", { timeout: 60_000 }, () => {
  const seen = async (bob: Awaited<ReturnType<typeof peersOf>>["bob"]) =>
    ok(await bob.discover("alice")).identities.flatMap(({ sessions }) => sessions.map(({ session }) => session));

  it("a session outlives its process, and is gone when the supervisor is killed", async () => {
    const { bob, env, dir } = await peersOf(bus.url);
    const host = await drive("v2 legacy", env, dir, LIMITS);
    const { session } = (await host.call("whoami")).structuredContent!;
    await eventually(async () => (await seen(bob)).includes(session), "alice");
    process.kill(await host.up(), "SIGKILL");
    await until(() => host.pids().length === 2, "the next process");
    // Nobody calls a tool: it rejoins by itself, under its id.
    await host.up();
    expect(await seen(bob)).toEqual([session]);
    await eventually(
      async () =>
        (await bob.discover("alice").then(ok)).identities.some(({ sessions }) =>
          sessions.some(({ connected }) => connected),
        ),
      "alice connected",
    );
    const agent = host.pids().at(-1)!;
    process.kill(host.supervisor(), "SIGKILL");
    await until(() => !isAlive(agent), "the agent's end");
    expect(await seen(bob)).toEqual([]);
  });

  it.each(["SIGTERM", "stdin"] as const)("a session is gone within 400 ms of %s", async (how) => {
    const { bob, env } = await peersOf(bus.url);
    const child = spawn(
      process.execPath,
      [...NODE, join(import.meta.dirname, "../../../src/client/cli/bin.ts"), "mcp"],
      {
        env,
        stdio: ["pipe", "pipe", "ignore"],
      },
    );
    const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
    child.stdout.resume();
    child.stdin.write(
      `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "whoami", arguments: {} } })}\n`,
    );
    await eventually(async () => (await seen(bob)).length > 0, "alice");
    const startMs = performance.now();
    if (how === "stdin") child.stdin.end();
    else child.kill(how);
    await closed;
    expect(performance.now() - startMs).toBeLessThan(400);
    expect(await seen(bob)).toEqual([]);
  });

  it("hosts that stay and call nothing are there after a while, in both eras", async () => {
    const kinds = ["v2 legacy", "v2 auto"] as const;
    const stay = async (kind: (typeof kinds)[number]) => {
      const { bob, env, dir } = await peersOf(bus.url);
      await drive(kind, env, dir, LIMITS);
      expect(await seen(bob)).toEqual([]);
      // The supervisor answered the list; the agent was asked the same, and so knows the era.
      await eventually(async () => (await seen(bob)).length === 1, `alice, ${kind}`);
    };
    await Promise.all(kinds.map(stay));
  });

  it("hosts that only look leave no trace", async () => {
    const { bob, env } = await peersOf(bus.url);
    const BIN = join(import.meta.dirname, "../../../src/client/cli/bin.ts");
    for (let look = 0; look < 3; look++) {
      const child = spawn(process.execPath, [...NODE, BIN, "mcp"], { env, stdio: ["pipe", "pipe", "ignore"] });
      const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
      let text = "";
      const answered = new Promise<void>((resolve) =>
        child.stdout.on("data", (chunk) => {
          text += String(chunk);
          if (text.split("\n").length > 2) resolve();
        }),
      );
      const frames = [
        { id: 1, method: "initialize", params: INITIALIZE },
        { method: "notifications/initialized" },
        { id: 2, method: "tools/list" },
      ];
      for (const frame of frames) child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...frame })}\n`);
      await answered;
      child.stdin.end();
      await closed;
      expect(await seen(bob)).toEqual([]);
    }
  });
});

describe("a question to the operator, whose process ends before they have answered", { timeout: 60_000 }, () => {
  const yes = { action: "accept", content: { approve: true } } as const;

  it("is answered to the next process where the client asks it: the seal is the same", async () => {
    const { env, dir } = await peersOf(bus.url);
    let host: Awaited<ReturnType<typeof drive>>;
    let asked = 0;
    host = await drive("v2 auto", env, dir, LIMITS, async () => {
      asked++;
      process.kill(await host.up(), "SIGKILL");
      await until(() => host.pids().length === 2, "the next process");
      return yes;
    });
    const removed = await host.call("remove_peer", { petname: "bob" });
    expect(removed.structuredContent).toMatchObject({ feedback: expect.stringMatching(/^The operator removed "bob"/) });
    expect(asked).toBe(1);
    expect((await host.call("list_peers")).structuredContent).toMatchObject({ peers: [] });
  });

  it("is withdrawn where the process asks it, changes nothing, and can be asked again", async () => {
    const { env, dir } = await peersOf(bus.url);
    let host: Awaited<ReturnType<typeof drive>>;
    let asked = 0;
    host = await drive("v2 legacy", env, dir, LIMITS, async () => {
      if (asked++ === 0) {
        process.kill(await host.up(), "SIGKILL");
        await until(() => host.pids().length === 2, "the next process");
        await host.up();
      }
      return yes;
    });
    const unknown = await host.call("remove_peer", { petname: "bob" });
    expect(unknown).toMatchObject({ isError: true, structuredContent: { error: { code: "outcome_unknown" } } });
    const peers = (await host.call("list_peers")).structuredContent!["peers"] as string[];
    expect(peers).toEqual([expect.stringContaining("bob")]);
    expect(await host.call("remove_peer", { petname: "bob" })).not.toMatchObject({ isError: true });
    expect(asked).toBe(2);
  });
});
