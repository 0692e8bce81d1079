/**
 * Live, away, gone and closed, as the two clients see each other.
 *
 * Both have 90 s for live written into them, and no bus can shorten that, so this takes that long: those who are to be
 * away are killed first, and the other cases run meanwhile.
 */

import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { EdgeAgent, endAgents, RustAgent, until } from "./agents.ts";

const isMissing = "missing" in inject("rust");

const { LIVE_MS } = DEFAULT_LIMITS;
/** Soon after away, instead of three days. */
const AWAY_RETAIN_MS = LIVE_MS + 25_000;
/** For the processes to be started and looked at, on a busy machine. */
const SLACK_MS = 60_000;

describe.skipIf(isMissing)("presence", { timeout: AWAY_RETAIN_MS + SLACK_MS }, () => {
  let bus: LocalBus;
  let rust: RustAgent;
  let edge: EdgeAgent;
  /** Killed at the start; they come back when they are away. */
  const asleep = {} as { rust: RustAgent; edge: EdgeAgent };
  /** Killed at the start for good. */
  const dead = {} as { rust: RustAgent; edge: EdgeAgent };

  /** Another one of each, peers of the two who look on. */
  async function twoMore(rustName: string, edgeName: string): Promise<{ rust: RustAgent; edge: EdgeAgent }> {
    const other = {
      rust: new RustAgent({ bus: bus.url, name: rustName }),
      edge: new EdgeAgent({ bus: bus.url, name: edgeName }),
    };
    const [rustKey, edgeKey] = [await other.rust.setUp(), await other.edge.setUp()];
    await edge.type("peers", "add", rustName, rustKey, "--yes");
    await rust.call("add_peer", { petname: edgeName, key: edgeKey });
    await other.edge.type("peers", "add", "rust", keys.rust, "--yes");
    await other.rust.start();
    await other.rust.call("add_peer", { petname: "edge", key: keys.edge });
    await other.edge.start();
    await until(
      () => edge.sees(other.rust.session),
      (session) => session?.presence === "live" && session.peer === rustName,
    );
    await until(
      () => rust.sees(other.edge.session),
      (line) => line !== undefined && !line.includes("away"),
    );
    return other;
  }
  const keys = {} as { rust: string; edge: string };

  beforeAll(async () => {
    bus = await startBus({
      bundle: inject("bundle"),
      vars: { ACCESS: "open", LOG: "faults", AWAY_RETAIN_MS: String(AWAY_RETAIN_MS) },
    });
    rust = new RustAgent({ bus: bus.url, name: "rust" });
    edge = new EdgeAgent({ bus: bus.url, name: "edge" });
    [keys.rust, keys.edge] = [await rust.setUp(), await edge.setUp()];
    await Promise.all([rust.start(), edge.start()]);
    Object.assign(asleep, await twoMore("rust-asleep", "edge-asleep"));
    Object.assign(dead, await twoMore("rust-dead", "edge-dead"));
    await Promise.all([asleep, dead].flatMap((each) => [each.rust.kill(), each.edge.kill()]));
  }, SLACK_MS);
  afterAll(async () => {
    await endAgents();
    await bus?.stop();
  });

  it("a clean close is seen at once, with a goodbye to whom it talked with", async () => {
    const closing = await twoMore("rust-closing", "edge-closing");
    await closing.rust.send("edge", "hello from the one that closes");
    expect(await edge.readOne()).toMatchObject({ from: "rust-closing" });
    await edge.send("rust-closing", "hello");
    await closing.rust.readOne();
    await closing.rust.close();
    expect(await edge.sees(closing.rust.session)).toBeUndefined();
    await edge.until("whoami", {}, () =>
      edge.notices.includes(
        "rust-closing: the session that you talked with says that it has ended; discover shows who else is there",
      ),
    );

    await closing.edge.send("rust", "hello from the other that closes");
    expect(await rust.readOne()).toMatchObject({ from: "edge-closing" });
    await rust.send("edge-closing", "hello");
    await closing.edge.readOne();
    await closing.edge.close();
    expect(await rust.sees(closing.edge.session)).toBeUndefined();
    expect((await rust.readOne()).body).toContain(`ending this session (${closing.edge.session})`);
  });

  it("a killed one is away, and gets what was sent meanwhile when it comes back", async () => {
    // A kill is no goodbye.
    expect((await edge.sees(asleep.rust.session)).presence).toBe("live");
    await until(
      () => edge.sees(asleep.rust.session),
      (session) => session?.presence === "away",
      LIVE_MS + SLACK_MS,
    );
    await until(
      () => rust.sees(asleep.edge.session),
      (line) => line !== undefined && line.includes("(away · last seen"),
      SLACK_MS,
    );
    // They who run are not.
    expect((await edge.sees(rust.session)).presence).toBe("live");
    expect(await rust.sees(edge.session)).not.toContain("away");

    expect(await edge.send("rust-asleep", "for when you wake")).toMatchObject({ state: "stored", recipient: "away" });
    expect((await rust.send("edge-asleep", "for when you wake")).told).toContain("that session is away");
    await Promise.all([asleep.rust.start(), asleep.edge.start()]);
    expect(await asleep.rust.readOne()).toMatchObject({ from: "edge", body: "for when you wake" });
    expect(await asleep.edge.readOne()).toMatchObject({ from: "rust", body: "for when you wake" });
    await until(
      () => edge.sees(asleep.rust.session),
      (session) => session.presence === "live",
    );
    await until(
      () => rust.sees(asleep.edge.session),
      (line) => !line!.includes("away"),
    );
  });

  it("one that never comes back is gone", async () => {
    await until(
      () => edge.sees(dead.rust.session),
      (session) => session === undefined,
      AWAY_RETAIN_MS + SLACK_MS,
    );
    await until(
      () => rust.sees(dead.edge.session),
      (line) => line === undefined,
      SLACK_MS,
    );
    expect(await edge.sees(rust.session)).toMatchObject({ presence: "live" });
    expect(await rust.sees(edge.session)).toBeDefined();
  });
});
