/** Invariant 1 and 3 over a whole session: what is killed loses nothing, and has nothing twice. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { killNow } from "../../../scripts/local-bus.ts";
import { checkHistory } from "../../history/checker.ts";
import { History } from "../../history/history.ts";
import { begin, ok, optionsOf, ownBus, pairOf, until } from "./support.ts";

it("a session that is killed again and again while mail comes has each message once, in order", async () => {
  const MESSAGES = 150;
  const own = await ownBus({ RATE_PER_S: "100000" });
  const { ann, bob, homes } = await pairOf(own.url);
  ok(await bob.send({ to: "ann", text: "write to me" }));
  const [from, by] = [(await ann.whoami()).key, `${(await bob.whoami()).key}#bob-1`];
  await bob.close(400);

  const history = new History();
  /** What the model has had, in any life. */
  const taken = new Set<string>();
  const hear = (line: string) => {
    const { how, text } = JSON.parse(line) as { how: "taken" | "read before"; text: string };
    if (how === "read before" && taken.has(text)) return;
    taken.add(text);
    history.read(by, { from, msg_id: text });
  };
  const start = (how: "lives" | "dies") => {
    const options = JSON.stringify(optionsOf(homes[1], own.url));
    const child = spawn(process.execPath, [join(import.meta.dirname, "crash-child.ts"), options, how], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, NODE_NO_WARNINGS: "1" },
    });
    onTestFinished(() => killNow(child));
    let rest = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop()!;
      lines.forEach(hear);
    });
    return child;
  };
  let child = start("lives");
  const writing = (async () => {
    await until(async () => ok(await ann.discover("bob")).identities[0]!.sessions.length > 0, "bob is back");
    for (let n = 0; n < MESSAGES; n++) {
      const text = `m${n}`;
      const call = history.invoke({ op: "send", from, to: by, msg_id: text });
      ok(await ann.send({ to: "bob", text, session: "bob-1" }));
      call.ok();
      await delay(n % 3);
    }
  })();
  // Killed when it has just been heard of: between receipt and ack, ack and reading, or anywhere else.
  for (let kills = 0; kills < 6; kills++) {
    const heard = taken.size;
    await until(() => taken.size > heard + 3 || taken.size === MESSAGES, "mail");
    child.kill("SIGKILL");
    await once(child, "close");
    if (kills === 0) await once(start("dies"), "close");
    child = start("lives");
  }
  await writing;
  await until(async () => {
    const { entries } = ok(await ann.history({ with: "bob", max: 200 }));
    const mine = entries.filter((entry) => entry.direction === "out");
    const lives = await Promise.all(mine.slice(-3).map(({ msg_id }) => ann.messageStatus(msg_id)));
    return mine.length >= MESSAGES && lives.every((answer) => "life" in answer && answer.life.state === "acked");
  }, "all acked");
  await until(() => taken.has(`m${MESSAGES - 1}`), "the last one");
  child.kill("SIGKILL");
  await once(child, "close");

  history.drained([by]);
  const { violations, counted } = checkHistory(history.events);
  expect(violations).toEqual([]);
  expect(counted).toMatchObject({ sent: MESSAGES, acknowledged: MESSAGES, read: MESSAGES });
  const again = await begin(homes[1], own.url);
  const { entries } = ok(await again.history({ with: "ann", max: 500 }));
  const expected = Array.from({ length: MESSAGES }, (_, n) => `m${n}`);
  expect(entries.filter(({ direction }) => direction === "in").map(({ body }) => body)).toEqual(expected);
  expect(await again.checkMessages({ max: 1, maxBytes: 1_000 })).toEqual({ messages: [], left: 0 });
}, 60_000);
