/** Invariant 1 and 3 over a whole session: what is killed loses nothing, and has nothing twice. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { killNow } from "../../../scripts/local-bus.ts";
import { begin, ok, optionsOf, ownBus, pairOf, until } from "./support.ts";

it("a session that is killed again and again while mail comes has each message once, in order", async () => {
  const MESSAGES = 150;
  const own = await ownBus({ RATE_PER_S: "100000" });
  const { ann, bob, homes } = await pairOf(own.url);
  ok(await bob.send({ to: "ann", text: "write to me" }));
  await bob.close(400);

  const taken: string[] = [];
  const start = () => {
    const options = JSON.stringify(optionsOf(homes[1], own.url));
    const child = spawn(process.execPath, [join(import.meta.dirname, "crash-child.ts"), options], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, NODE_NO_WARNINGS: "1" },
    });
    onTestFinished(() => killNow(child));
    let rest = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop()!;
      taken.push(...lines);
    });
    return child;
  };
  let child = start();
  let written = 0;
  const writing = (async () => {
    const [sessionId] = ["bob-1"];
    await until(async () => ok(await ann.discover("bob")).identities[0]!.sessions.length > 0, "bob is back");
    for (; written < MESSAGES; written++) {
      ok(await ann.send({ to: "bob", text: `m${written}`, session: sessionId }));
      await delay(written % 3);
    }
  })();
  // Killed when it has just been heard of: between receipt and ack, ack and reading, or anywhere else.
  for (let kills = 0; kills < 6; kills++) {
    const heard = taken.length;
    await until(() => taken.length > heard + 3 || written === MESSAGES, "mail");
    child.kill("SIGKILL");
    await once(child, "close");
    child = start();
  }
  await writing;
  await until(async () => {
    const { entries } = ok(await ann.history({ with: "bob", max: 200 }));
    const mine = entries.filter((entry) => entry.direction === "out");
    const lives = await Promise.all(mine.slice(-3).map(({ msg_id }) => ann.messageStatus(msg_id)));
    return mine.length >= MESSAGES && lives.every((answer) => "life" in answer && answer.life.state === "acked");
  }, "all acked");
  await until(() => taken.includes(`m${MESSAGES - 1}`), "the last one");
  child.kill("SIGKILL");
  await once(child, "close");

  const expected = Array.from({ length: MESSAGES }, (_, n) => `m${n}`);
  const again = await begin(homes[1], own.url);
  const got = taken.filter((text) => text.startsWith("m"));
  expect(new Set(got).size).toBe(got.length); // never twice
  expect(got).toEqual(expected.filter((text) => got.includes(text))); // in order
  // What a killed call had taken and not yet said is read; the history has it.
  const { entries } = ok(await again.history({ with: "ann", max: 500 }));
  expect(entries.filter(({ direction }) => direction === "in").map(({ body }) => body)).toEqual(expected);
  expect(await again.checkMessages({ max: 1, maxBytes: 1_000 })).toEqual({ messages: [], left: 0 });
}, 60_000);
