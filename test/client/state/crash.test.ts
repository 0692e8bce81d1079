/**
 * `kill -9` of the client between any two steps: nothing is lost, nothing reaches the model twice.
 *
 * Invariant 1: an acked message survives `kill -9` of the client.
 * Invariant 3: the same message never reaches the model twice; retrying anything is free.
 */

import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Due } from "../../../src/client/session/outbox.ts";
import type { Outgoing } from "../../../src/client/state/outbox-table.ts";
import type { Route } from "../../../src/protocol/address.ts";
import { publicKeyOf } from "../../../src/protocol/signing.ts";
import { checkHistory } from "../../history/checker.ts";
import { History } from "../../history/history.ts";
import type { Command } from "./crash-child.ts";
import { arrival, newPath, T0 } from "./state-fixture.ts";

const SCRIPT = join(dirname(fileURLToPath(import.meta.url)), "crash-child.ts");
const children: Child[] = [];
let ann: Route;

beforeAll(async () => {
  ann = { key: await publicKeyOf(new Uint8Array(32).fill(8)) };
});
afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => child.kill()));
});

/** One life of the client. */
class Child {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  readonly exited: Promise<unknown>;

  constructor(path: string) {
    const flags = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"];
    this.#process = spawn(process.execPath, [...flags, SCRIPT, path, String(T0)]);
    this.#process.stderr.pipe(process.stderr);
    this.#process.stdin.on("error", () => undefined); // it may be dead already: that is the point
    this.exited = once(this.#process, "close");
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
    children.push(this);
  }

  /** @returns undefined: it died before it answered */
  async answer<T>(): Promise<T | undefined> {
    const { value, done } = await this.#lines.next();
    return done ? undefined : (JSON.parse(value) as T);
  }

  async ask<T>(command: Command): Promise<T | undefined> {
    this.#process.stdin.write(`${JSON.stringify(command)}\n`);
    return this.answer<T>();
  }

  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.exited;
  }
}

async function start(path: string): Promise<Child> {
  const child = new Child(path);
  expect(await child.answer()).toEqual({ ready: true });
  return child;
}

const receive = (...ids: string[]): Command => ({ do: "receive", arrivals: ids.map((id) => arrival(id)) });
const take: Command = { do: "take", max: 99 };

describe("receiving", { timeout: 30_000 }, () => {
  it("killed before the commit: nothing is there, and the redelivery is new", async () => {
    const path = newPath();
    const first = await start(path);
    expect(await first.ask({ do: "receive", arrivals: [arrival("a")], dieBeforeCommit: true })).toBeUndefined();
    await first.exited;
    const second = await start(path);
    expect(await second.ask(receive("a"))).toEqual(["new"]);
    expect(await second.ask(take)).toEqual(["a"]);
  });

  it("killed between receive and ack: it is there, and the redelivery is a duplicate", async () => {
    const path = newPath();
    const first = await start(path);
    expect(await first.ask(receive("a", "b"))).toEqual(["new", "new"]);
    await first.kill();
    const second = await start(path);
    expect(await second.ask(receive("a", "b", "c"))).toEqual(["duplicate", "duplicate", "new"]);
    expect(await second.ask(take)).toEqual(["a", "b", "c"]);
  });

  it("killed between ack and read: it is read by the next process, once", async () => {
    const path = newPath();
    const first = await start(path);
    await first.ask(receive("a"));
    await first.kill(); // acked: the bus will not bring it again
    const second = await start(path);
    expect(await second.ask(take)).toEqual(["a"]);
    await second.kill();
    expect(await (await start(path)).ask(take)).toEqual([]);
  });

  it("killed between marking and answering: it is not given twice, and it is named to the next process", async () => {
    const path = newPath();
    const first = await start(path);
    await first.ask(receive("a", "b"));
    expect(await first.ask({ do: "take", max: 1, dieAfter: true })).toBeUndefined();
    await first.exited;
    const second = await start(path);
    expect(await second.ask({ do: "handed" })).toEqual(["a"]);
    expect(await second.ask(take)).toEqual(["b"]);
    await second.ask({ do: "confirm" });
    await second.kill();
    expect(await (await start(path)).ask({ do: "handed" })).toEqual([]);
  });
});

describe("sending", { timeout: 30_000 }, () => {
  it("killed between outbox write and send: the next process sends it", async () => {
    const path = newPath();
    const first = await start(path);
    const text = "written, then killed";
    expect(await first.ask({ do: "enqueue", to: ann, text, dieAfter: true })).toBeUndefined();
    await first.exited;
    const tries = await (await start(path)).ask<Due[]>({ do: "due" });
    expect(tries!.map(({ body }) => JSON.parse(body).payload.text)).toEqual([text]);
  });

  it("killed between send and its answer: the same bytes go out again, and once it is settled none", async () => {
    const path = newPath();
    const first = await start(path);
    await first.ask({ do: "enqueue", to: ann, text: "x" });
    const sent = await first.ask<Due[]>({ do: "due" });
    await first.kill();
    const second = await start(path);
    const again = await second.ask<Due[]>({ do: "due" });
    expect(again).toEqual(sent);
    await second.ask({ do: "settleStored", msg_id: again![0]!.msg_id });
    await second.kill();
    expect(await (await start(path)).ask({ do: "due" })).toEqual([]);
  });

  it("killed before its caller heard of it: calling again with the same id writes nothing", async () => {
    const path = newPath();
    const first = await start(path);
    await first.ask({ do: "enqueue", to: ann, text: "x", msg_id: "k1", dieAfter: true });
    await first.exited;
    const second = await start(path);
    expect(await second.ask<Outgoing>({ do: "enqueue", to: ann, text: "x", msg_id: "k1" })).toMatchObject({
      msg_id: "k1",
    });
    expect(await second.ask({ do: "due" })).toHaveLength(1);
  });
});

describe("one process a session", { timeout: 30_000 }, () => {
  it("refuses the second at once, also of two that start together, and lets it in after kill -9", async () => {
    const path = newPath();
    const pair = [new Child(path), new Child(path)];
    const answers = await Promise.all(pair.map((child) => child.answer<object>()));
    expect(answers).toContainEqual({ ready: true });
    expect(answers).toContainEqual({ refusal: "in_use", path });
    await Promise.all(pair.map((child) => child.kill()));
    await start(path);
  });
});

it("loses nothing and gives nothing twice through kills at any moment", { timeout: 120_000 }, async () => {
  const KILLS = 12;
  const IDS = Array.from({ length: 300 }, (_, n) => `m${n}`);
  const [by, from] = ["me", "ann"];
  const path = newPath();
  const history = new History();
  for (const msg_id of IDS) history.invoke({ op: "send", from, to: by, msg_id }).ok();
  /** What the bus still holds: a message leaves it only by ack. */
  const held = new Set(IDS);
  const had = new Set<string>();
  const read = (msg_id: string) => {
    had.add(msg_id);
    history.read(by, { from, msg_id });
  };
  for (let life = 0; life <= KILLS; life++) {
    const child = await start(path);
    // A call killed before its answer: named instead of given again. One killed after it: had and named.
    const named = (await child.ask<string[]>({ do: "handed" })) ?? [];
    for (const id of named) if (!had.has(id)) read(id);
    await child.ask({ do: "confirm" });
    // The last life may finish.
    const killed = life < KILLS ? delay(5 + life * 7).then(() => child.kill()) : undefined;
    for (;;) {
      const batch = [...held].slice(0, 5);
      const verdicts = await child.ask<string[]>(receive(...batch));
      if (!verdicts) break;
      for (const id of batch) held.delete(id); // the ack
      const taken = await child.ask<string[]>({ do: "take", max: 3 });
      if (!taken) break;
      for (const id of taken) read(id);
      await child.ask({ do: "confirm" });
      if (!killed && batch.length === 0 && taken.length === 0) break;
    }
    await killed;
    await child.kill();
  }
  history.drained([by]);
  const { violations, counted } = checkHistory(history.events);
  expect(violations).toEqual([]);
  expect(counted).toMatchObject({ acknowledged: IDS.length, read: IDS.length });
});
