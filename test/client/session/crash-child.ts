/**
 * A session in a process of its own, to be killed at any moment: it takes its mail as a host would, and says each text
 * on a line once it has it; first, where a notice says that an answer may not have arrived, what was read before. Run by crash.test.ts with the session's
 * options as JSON, and `dies` for one that is killed over its first mail, taken and not said.
 */

import { writeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { isToolRefusal } from "../../../src/client/session/agent.ts";
import { isSessionRefusal, openSession, type SessionOptions } from "../../../src/client/session/session.ts";

const options = JSON.parse(process.argv[2]!) as SessionOptions;
const session = await openSession(options);
if (isSessionRefusal(session)) throw new Error(JSON.stringify(session));
// In one write, so that whoever kills us at the first line has had all of them.
const say = (how: "taken" | "read before", texts: readonly string[]) =>
  writeSync(1, texts.map((text) => `${JSON.stringify({ how, text })}\n`).join(""));
if (session.notices().some((notice) => notice.includes("conversation_history has them"))) {
  const talk = await session.history({ with: "ann", max: 500 });
  if (isToolRefusal(talk)) throw new Error(talk.code);
  const received = talk.entries.filter(({ direction }) => direction === "in");
  say(
    "read before",
    received.map(({ body }) => body),
  );
}
session.begin();
for (;;) {
  const { messages } = await session.checkMessages({ max: 5, maxBytes: 100_000 });
  const bodies = messages.map(({ body }) => body);
  if (bodies.length > 0 && process.argv[3] === "dies") process.kill(process.pid, "SIGKILL");
  if (bodies.length > 0) say("taken", bodies);
  await delay(1);
}
