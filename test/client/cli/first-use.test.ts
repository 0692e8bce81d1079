/** From nothing to the first message, by the commands of docs/CLI.md and no others; agents as hosts start them, from what `setup` wrote. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ownBus, until } from "../session/support.ts";
import { Person, somePort } from "./person.ts";

const DOC = readFileSync(join(import.meta.dirname, "../../../docs/CLI.md"), "utf8");

interface Line {
  readonly who: "me" | "you";
  readonly args: readonly string[];
}

/** The commands beneath a heading. */
function commandsOf(heading: string): Line[] {
  const [, section = ""] = DOC.split(`### ${heading}\n`);
  const [own = ""] = section.split(/^##/m);
  return [...own.matchAll(/^(me|you)\$ npx interlink-edge (.+)$/gm)].map(([, who, words]) => ({
    who: who as "me" | "you",
    args: Array.from(words!.matchAll(/"([^"]*)"|(\S+)/g), ([, quoted, bare]) => quoted ?? bare!),
  }));
}

/** Types them one by one; what a person reads on one screen they type at another. */
async function follow(lines: readonly Line[], me: Person, you: Person, bus: string): Promise<void> {
  const people = { me, you };
  let invite = "";
  let agents:
    | { readonly mine: Awaited<ReturnType<Person["claude"]>>; readonly yours: Awaited<ReturnType<Person["claude"]>> }
    | undefined;
  for (const { who, args } of lines) {
    const person = people[who];
    const filled = args.map((arg) => (arg === "INVITE" ? invite : arg === "https://bus.example" ? bus : arg));
    if (args[0] === "bus") {
      await me.startBus(Number(new URL(bus).port));
      continue;
    }
    if (args[0] === "setup" && args[1]?.startsWith("--") && bus !== "http://127.0.0.1:9440") filled.splice(1, 0, bus);
    if (args[0] === "pair") {
      // The hosts of both are started: that is no command of ours.
      agents = { mine: await me.claude(), yours: await you.claude() };
      const [request] = await until(async () => {
        const { requests } = await me.json("pair", "list");
        return requests.length > 0 ? requests : undefined;
      }, "the knock of who was invited");
      expect(request).toMatchObject({ claimed_name: "you", what: "knock", invited_at_ms: expect.any(Number) });
      expect(request.fingerprint).toBe((await you.json("key")).fingerprint);
      filled[filled.indexOf("FINGERPRINT")] = request.fingerprint;
    }
    const asks = args[0] === "setup" || args[0] === "pair";
    const typed = await person.type(...filled, ...(asks ? ["--yes"] : []));
    expect(typed, args.join(" ")).toMatchObject({ code: 0 });
    if (args[0] === "invite") invite = typed.out.trim();
  }
  const { yours, mine } = agents!;
  const messages: string[] = [];
  await until(async () => {
    messages.push(...((await yours.ok("check_messages"))["messages"] as string[]));
    return messages.length > 0;
  }, "the first message");
  // By the name that came with the invite.
  expect(messages.map((line) => JSON.parse(line))).toMatchObject([{ from: "me", body: "the tests are red" }]);
  // And back, to an agent, with nothing typed.
  expect(await yours.ok("send_message", { to: "me", text: "I look" })).toMatchObject({ state: "stored" });
  await until(async () => ((await mine.ok("check_messages"))["messages"] as string[]).length > 0, "the answer");
}

it("two machines: five commands, four of them at the one who invites", { timeout: 60_000 }, async () => {
  const lines = commandsOf("Two machines");
  expect(lines.map(({ who }) => who)).toEqual(["me", "me", "you", "me", "me"]);
  const [me, you] = [new Person(), new Person()];
  me.write(".claude/.keep", "");
  you.write(".claude/.keep", "");
  // Who runs the bus has admitted the first: here by naming their key.
  const { key } = await me.json("key");
  const bus = await ownBus({ ADMISSION: "join", ADMIN_KEYS: key });
  await follow(lines, me, you, bus.url);
});

it("two identities on one machine: six, and the bus is one of them", { timeout: 90_000 }, async () => {
  const lines = commandsOf("Two identities on one machine");
  expect(lines).toHaveLength(6);
  const [me, you] = [new Person(), new Person()];
  me.write(".claude/.keep", "");
  you.write(".claude/.keep", "");
  await follow(lines, me, you, `http://127.0.0.1:${somePort()}`);
});
