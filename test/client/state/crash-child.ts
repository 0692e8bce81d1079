/**
 * A client that can be killed between any two steps: one JSON command a line on stdin, one JSON answer a line on stdout.
 * Answers are written synchronously, so what the parent reads is what had happened.
 */

import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { Outbox } from "../../../src/client/session/outbox.ts";
import type { Arrival } from "../../../src/client/state/inbox.ts";
import { openState } from "../../../src/client/state/store.ts";
import { parseSessionId, type Route } from "../../../src/protocol/address.ts";
import { publicKeyOf, sign } from "../../../src/protocol/signing.ts";

export type Command =
  | { do: "receive"; arrivals: Arrival[]; dieBeforeCommit?: true }
  | { do: "take"; max: number; dieAfter?: true }
  | { do: "confirm" }
  | { do: "handed" }
  | { do: "enqueue"; to: Route; text: string; msg_id?: string; dieAfter?: true }
  | { do: "due" }
  | { do: "settleStored"; msg_id: string };

const [path, nowMs] = [process.argv[2]!, Number(process.argv[3])];
const say = (answer: unknown) => writeSync(1, `${JSON.stringify(answer)}\n`);
const die = () => process.kill(process.pid, "SIGKILL");

const opened = openState({ path, nowMs });
if ("refusal" in opened) {
  say(opened);
  process.exit(3);
}
const { state } = opened;
const seed = new Uint8Array(32).fill(7);
const author = {
  key: await publicKeyOf(seed),
  session: parseSessionId("me")!,
  sign: (bytes: Uint8Array) => sign(bytes, seed),
};
const outbox = new Outbox({ state, author, buses: () => ["main"], random: () => 0 });
say({ ready: true, setAside: opened.setAside });

async function run(command: Command): Promise<unknown> {
  switch (command.do) {
    case "receive":
      return state.transaction(() => {
        const receptions = state.receive(command.arrivals, nowMs);
        if (command.dieBeforeCommit) die();
        return receptions.map(({ verdict }) => verdict);
      });
    case "take": {
      const { messages } = state.inbox.takeUnread({ max: command.max, maxBytes: 1e9 }, nowMs);
      if (command.dieAfter) die();
      return messages.map(({ msg_id }) => msg_id);
    }
    case "confirm":
      return state.inbox.confirmHanded(state.inbox.handed().map(({ seq }) => seq)) ?? null;
    case "handed":
      return state.inbox.handed().map(({ msg_id }) => msg_id);
    case "enqueue": {
      const { to, text, msg_id, dieAfter } = command;
      const outgoing = await outbox.enqueue(msg_id === undefined ? { to, text } : { to, text, msg_id }, nowMs);
      if (dieAfter) die();
      return outgoing;
    }
    case "due":
      return outbox.due(nowMs).tries;
    case "settleStored":
      return outbox.settle(command.msg_id, "main", { outcome: "stored" }, nowMs) ?? null;
  }
}

for await (const line of createInterface({ input: process.stdin })) say(await run(JSON.parse(line) as Command));
state.close();
