/**
 * A laptop's lid: the whole tree of a session is stopped for longer than a live session is silent, and goes on. Invariant 7:
 * mail for an away session is never rerouted to its sibling.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, inject, it, onTestFinished } from "vitest";
import { Person, type Answer, type Session } from "../../../scripts/demo/session.ts";
import { startBus } from "../../../scripts/local-bus.ts";

const HEARTBEAT_MS = 600;
const LIVE_MS = 1_800;
/** From waking to having all of it. */
const DRAINED_MS = 2_000;
const COUNT = 10;

const vars = { HEARTBEAT_MS: String(HEARTBEAT_MS), LIVE_MS: String(LIVE_MS), LOG: "faults" };
let bundle: string;
beforeAll(() => {
  bundle = inject("bundle");
});

it(
  "peers see it away with a true age, its mail waits for it beside a live sibling, and drains once, in order, in two seconds",
  {
    timeout: 90_000,
  },
  async () => {
    const root = mkdtempSync(join(tmpdir(), "interlink-sleep-"));
    const bus = await startBus({ bundle, vars });
    const people = ["alice", "bob"].map((name) => new Person(name, { home: join(root, name), url: bus.url, vars }));
    const [alice, bob] = people as [Person, Person];
    const [laptop, desktop, ci] = [alice.session("laptop"), alice.session("desktop"), bob.session("ci")];
    const sessions: Session[] = [];
    onTestFinished(async () => {
      for (const session of sessions) await session.close();
      await bus.stop();
      rmSync(root, { recursive: true, force: true });
    });
    for (const session of [laptop, desktop, ci]) {
      sessions.push(session);
      await session.start();
    }
    const keyOf = async (session: Session) => /[\w-]{43}/.exec(JSON.stringify(await session.call("whoami")))![0];
    await alice.type(`interlink-edge peers add bob ${await keyOf(ci)}`);
    await bob.type(`interlink-edge peers add alice ${await keyOf(laptop)}`);
    await laptop.call("send_message", { to: "bob", text: "from the laptop" });
    await ci.until("whoami", {}, ({ fields }) => fields["unread"] > 0);
    await ci.call("check_messages");

    laptop.sleep();
    const asleepMs = Date.now();
    const presenceOf = async (id: string) => {
      const lines = (await ci.call("discover", { peer: "alice" })).fields["sessions"] as string[];
      return lines.map((line) => JSON.parse(line)).find(({ session }) => session === id);
    };
    const isAway = ({ fields }: Answer) =>
      (fields["sessions"] as string[]).some((line) => {
        const { session, presence } = JSON.parse(line);
        return session === "laptop" && presence === "away";
      });
    await ci.until("discover", { peer: "alice" }, isAway);
    const seen = await presenceOf("laptop");
    const sleptMs = Date.now() - asleepMs;
    expect(seen).toMatchObject({ presence: "away" });
    expect(seen.age_ms).toBeGreaterThanOrEqual(LIVE_MS);
    // Heard at its last heartbeat before it slept, and not since.
    expect(seen.age_ms).toBeLessThanOrEqual(sleptMs + HEARTBEAT_MS + 500);
    expect(await presenceOf("desktop")).toMatchObject({ presence: "live" });

    const texts = Array.from({ length: COUNT }, (_, n) => `while it slept ${n}`);
    for (const text of texts) {
      const { fields, isRefusal } = await ci.call("send_message", { to: "alice", text, session: "laptop" });
      expect([isRefusal, fields["state"]]).toEqual([false, "stored"]);
    }
    expect((await desktop.call("check_messages")).fields["messages"]).toEqual([]);

    laptop.wake();
    const wokenMs = Date.now();
    await laptop.until("whoami", {}, ({ fields }) => fields["unread"] === COUNT);
    expect(Date.now() - wokenMs).toBeLessThan(DRAINED_MS);
    const read: string[] = [];
    while (read.length < COUNT) {
      const messages = (await laptop.call("check_messages")).fields["messages"] as string[];
      expect(messages).not.toEqual([]);
      read.push(...messages.map((line) => JSON.parse(line).body as string));
    }
    expect(read).toEqual(texts);
    expect((await laptop.call("check_messages")).fields["messages"]).toEqual([]);
    expect((await desktop.call("check_messages")).fields["messages"]).toEqual([]);
  },
);
