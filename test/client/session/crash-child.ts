/**
 * A session in a process of its own, to be killed at any moment: it takes its mail as a host would, and says each text
 * on a line once it has it. Run by crash.test.ts with the session's options as JSON.
 */

import { writeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { isSessionRefusal, openSession, type SessionOptions } from "../../../src/client/session/session.ts";

const options = JSON.parse(process.argv[2]!) as SessionOptions;
const session = await openSession(options);
if (isSessionRefusal(session)) throw new Error(JSON.stringify(session));
session.begin();
for (;;) {
  const { messages } = await session.checkMessages({ max: 5, maxBytes: 100_000 });
  for (const { body } of messages) writeSync(1, `${body}\n`);
  await delay(1);
}
