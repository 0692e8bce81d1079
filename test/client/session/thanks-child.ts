/**
 * A session in a process of its own, to be killed at any moment: once it has read mail it thanks for it again and again,
 * until that is refused, and says on a line what became of each. Run by loops.test.ts with the session's options as JSON.
 */

import { writeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { isToolRefusal } from "../../../src/client/session/agent.ts";
import { isSessionRefusal, openSession, type SessionOptions } from "../../../src/client/session/session.ts";

const options = JSON.parse(process.argv[2]!) as SessionOptions;
const session = await openSession(options);
if (isSessionRefusal(session)) throw new Error(JSON.stringify(session));
session.begin();
for (let hasRead = false; ;) {
  if (!hasRead) {
    hasRead = (await session.checkMessages({ max: 1, maxBytes: 1_000 })).messages.length > 0;
    await delay(1);
    continue;
  }
  const sent = await session.send({ to: "ann", text: "thanks" });
  writeSync(1, `${isToolRefusal(sent) ? sent.code : "sent"}\n`);
  await delay(1);
}
