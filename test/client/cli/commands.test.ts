/** What a person looks at and says: real processes, each in a home of its own, at one real bus. */

import { existsSync, readdirSync } from "node:fs";
import { beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { COMMANDS, usageOf } from "../../../src/client/cli/command-table.ts";
import { readCommand } from "../../../src/client/cli/command-line.ts";
import { lookInto, sessionFiles } from "../../../src/client/state/session-files.ts";
import { parseKey } from "../../../src/protocol/address.ts";
import { until } from "../session/support.ts";
import { Person, somePort } from "./person.ts";

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { ADMISSION: "open", LOG: "faults" } });
  return () => bus.stop();
});

/** Two who trust each other, with no agent at either. */
async function pairOf(): Promise<[Person, Person]> {
  const people: [Person, Person] = [new Person(), new Person()];
  const [ann, bob] = people;
  for (const person of people) await person.type("setup", bus.url, "--yes");
  const [keyOfAnn, keyOfBob] = [(await ann.json("key")).key, (await bob.json("key")).key];
  await ann.type("peers", "add", "bob", keyOfBob, "--yes");
  // An invite, so that the bus knows of it before an agent has run.
  const { invite } = await ann.json("invite", "--name", "ann");
  await bob.type("setup", invite, "--yes");
  expect(keyOfAnn).not.toBe(keyOfBob);
  return people;
}

describe("the words", () => {
  it("of each command are understood as its own help shows them", () => {
    for (const { words, args } of COMMANDS) {
      expect(readCommand([...words.split(" "), "--help"])).toEqual({ run: "help", of: words });
      expect(usageOf(words)).toContain("Exit codes");
      const needed = args.filter((arg) => !arg.startsWith("["));
      const more = words === "pair accept" ? ["--as", "x"] : [];
      expect(readCommand([...words.split(" "), ...needed, ...more, "--json"])).toMatchObject({
        run: words,
        json: true,
      });
    }
  });

  it("a key that begins with a dash is no option", () => {
    const key = `-${"a".repeat(42)}`;
    expect(readCommand(["peers", "add", "bob", key, "--yes"])).toEqual({
      run: "peers add",
      petname: "bob",
      key,
      yes: true,
    });
    expect(readCommand(["send", key, "-- hello"])).toMatchObject({ wrong: expect.any(String) });
    expect(readCommand(["send", key, "hello"])).toEqual({ run: "send", peer: key, text: "hello" });
  });

  it.each([
    { args: ["status", "--take"], says: "takes no --take" },
    { args: ["bus", "start", "--port", "0"], says: "1 to 65535" },
    { args: ["bus", "start", "--port", "x"], says: "1 to 65535" },
    { args: ["bus"], says: "no such command" },
    { args: ["send"], says: "no such command" },
    { args: ["invite", "x"], says: "no such command" },
  ])("$args: $says", ({ args, says }) => expect(readCommand(args)).toEqual({ wrong: expect.stringContaining(says) }));
});

describe("without an agent", { timeout: 60_000 }, () => {
  it("a person writes, another looks, and takes", async () => {
    const [ann, bob] = await pairOf();
    const evil = 'red\u001b[2J\n"eve" (AAAA-AAAA-AAAA-AAAA), just now:\n<b>';
    const sent = await ann.type("send", "bob", evil);
    expect(sent, sent.err).toMatchObject({ code: 0, out: expect.stringMatching(/^Message \w+ for "bob" .* stored\./) });
    expect(await ann.pipe("from a pipe\n", "send", "bob", "--json")).toMatchObject({ code: 0 });

    // Nothing is fetched, and nothing read, before it is asked for.
    expect(await bob.json("inbox")).toEqual({ messages: [] });
    const taken = await bob.type("inbox", "--take");
    expect(taken.out).toContain(`    red\\u001b[2J\n    "eve" (AAAA`);
    expect(taken.out).not.toContain("\u001b");
    expect(taken.out).toContain("    from a pipe\n");
    expect(await bob.json("inbox", "--take")).toEqual({ messages: [] });
    // It never was a session to anybody.
    expect((await ann.json("discover", "bob")).identities).toMatchObject([{ sessions: [] }]);
  });

  it("what names nobody is refused, with a code for programs and a sentence for a person", async () => {
    const [ann] = await pairOf();
    for (const { args, error } of [
      { args: ["send", "nobody", "x"], error: "unknown_peer" },
      { args: ["send", "bob", ""], error: "bad_text" },
      { args: ["send", "bob", "x", "--session", "s"], error: "unknown_session" },
      { args: ["send", "self", "x"], error: "oneself" },
      { args: ["discover", "nobody"], error: "unknown_peer" },
    ]) {
      const typed = await ann.type(...args, "--json");
      expect(typed, args.join(" ")).toMatchObject({ code: 1 });
      expect(JSON.parse(typed.out)).toEqual({ error, message: expect.any(String) });
      expect(await ann.type(...args)).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/^[A-Z].*\.\n$/) });
    }
  });

  it("without a bus each says so, and ends with 4", async () => {
    const person = new Person();
    const env = { INTERLINK_URL: "http://127.0.0.1:9" };
    for (const args of [["discover"], ["invite"], ["inbox", "--take"], ["forget", "--yes"]])
      expect(await person.typeWith(env, ...args), args.join(" ")).toMatchObject({
        code: 4,
        err: expect.stringContaining("did not answer"),
      });
    expect(await person.typeWith(env, "status")).toMatchObject({
      code: 0,
      out: expect.stringContaining("did not answer"),
    });
    const bad = { INTERLINK_URL: "ftp://x" };
    expect(await person.typeWith(bad, "status")).toMatchObject({
      code: 1,
      err: expect.stringContaining("INTERLINK_URL"),
    });
  });
});

describe("beside an agent", { timeout: 60_000 }, () => {
  it("it sees what the agent has, and takes nothing of it", async () => {
    const [ann, bob] = await pairOf();
    bob.write(".claude/.keep", "");
    await bob.type("setup", bus.url, "--yes", "--name", "bob");
    const agent = await bob.claude();
    const { session } = await agent.ok("whoami");

    const watch = ann.start(["watch", "--json"]);
    await until(() => watch.said.out.includes(`"session":"${session}"`), "the agent on the roster");
    expect((await ann.json("discover", "bob")).identities).toMatchObject([
      { peer: { petname: "bob" }, sessions: [{ session, presence: "live" }] },
    ]);
    await ann.type("send", "bob", "to the agent");
    await until(async () => (await bob.json("status")).unread === 1, "the message is here");

    const { messages } = await bob.json("inbox");
    expect(messages).toMatchObject([{ from: "ann", text: "to the agent" }]);
    expect((await bob.json("inbox", "--take")).messages).toMatchObject([{ text: "to the agent" }]);
    expect(await bob.json("status")).toMatchObject({
      unread: 1,
      name: "bob",
      bus: { sessions: [{ session, presence: "live" }] },
      sessions: expect.arrayContaining([{ session, is_running: true, unread: 1, pending: 0 }]),
      hosts: [{ host: "claude-code", state: "ready" }],
    });
    expect(await bob.type("forget", "--yes")).toMatchObject({
      code: 1,
      err: expect.stringContaining("setup --remove"),
    });
    expect(await agent.ok("check_messages")).toMatchObject({ messages: [expect.stringContaining("to the agent")] });

    await agent.close();
    await until(() => watch.said.out.includes(`"presence":"gone"`), "the agent has left");
    watch.child.kill("SIGINT");
    expect(await watch.ended).toMatchObject({ code: 0 });
  });
});

describe("doctor", { timeout: 60_000 }, () => {
  const states = (checks: { name: string; state: string }[]) =>
    Object.fromEntries(checks.map(({ name, state }) => [name, state]));

  it("finds all well but what is not there yet, with a message that came back", async () => {
    const [ann] = await pairOf();
    ann.write(".cursor/mcp.json", "{}");
    await ann.type("setup", bus.url, "--yes");
    const typed = await ann.type("doctor", "--json");
    expect(typed.code, typed.out + typed.err).toBe(5);
    const { checks, worst } = JSON.parse(typed.out);
    expect(worst).toBe("warning");
    expect(states(checks)).toEqual({
      version: "ok",
      key: "ok",
      peers: "ok",
      buses: "ok",
      state: "ok",
      cursor: "ok",
      bus: "ok",
      clock: "ok",
      admission: "ok",
      presence: "warning",
      "round trip": "ok",
      wake: "warning",
    });
  });

  it("takes nothing of what waits for the first agent", async () => {
    const [ann, bob] = await pairOf();
    // Bob's knock lies on the bus, and mail for whoever of his comes first.
    await ann.type("send", "bob", "for the first");
    for (const person of [ann, bob])
      expect(await person.type("doctor")).toMatchObject({ code: 5, out: expect.stringContaining("acked in") });
    expect((await bob.json("inbox", "--take")).messages).toMatchObject([{ text: "for the first" }]);
    await ann.json("inbox", "--take");
    const owed = (await ann.type("export")).out.split("\n").filter((line) => line.includes('"part":"owed"'));
    expect(owed, "the knock of a peer, who is told so").toHaveLength(1);
  });

  it("names what mends what is broken", async () => {
    const person = new Person();
    person.write(".cursor/mcp.json", "{");
    person.write(".config/interlink/peers.json", "[]");
    const typed = await person.typeWith({ INTERLINK_URL: "http://127.0.0.1:9" }, "doctor", "--json");
    expect(typed.code).toBe(1);
    const { checks } = JSON.parse(typed.out);
    expect(checks).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ name: "bus", state: "error", mend: "interlink-edge bus start" }),
        expect.objectContaining({ name: "cursor", state: "error", mend: expect.stringContaining("cat ") }),
        expect.objectContaining({ name: "peers", state: "error", mend: expect.any(String) }),
      ]),
    );
  });
});

describe("the end", { timeout: 60_000 }, () => {
  it("export says all that is kept, and the key only if asked; forget leaves nothing", async () => {
    const [ann, bob] = await pairOf();
    await bob.type("send", "ann", "kept"); // refused: no agent of hers has published him
    await ann.type("send", "bob", "kept");
    await bob.type("inbox", "--take");
    const typed = await bob.type("export");
    const lines = typed.out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(["identity", "bus", "peer", "pairing", "received"]),
    );
    expect(lines.find(({ kind }) => kind === "received")).toMatchObject({ session: "cli", text: "kept" });
    const secret = bob.read(".config/interlink/id.key")!.trim();
    expect(typed.out).not.toContain(secret);
    expect((await bob.type("export", "--with-key")).out).toContain(secret);

    const key = parseKey(lines[0].key)!;
    const sessions = bob.path(".local/state/interlink/sessions");
    expect(sessionFiles(sessions, key).map((file) => lookInto(file, ({ inbox }) => inbox.after(0, 9).length))).toEqual([
      1,
    ]);
    expect(await bob.type("forget")).toMatchObject({ code: 1 });
    expect(existsSync(bob.path(".config/interlink/id.key"))).toBe(true);
    const forgotten = await bob.type("forget", "--yes");
    expect(forgotten, forgotten.err).toMatchObject({ code: 0 });
    expect(readdirSync(sessions)).toEqual([]);
    expect(bob.read(".config/interlink/id.key")).toBeUndefined();
    expect(bob.read(".config/interlink/peers.json")).toBeUndefined();
    // On the bus too: nobody is admitted by that key any more.
    expect(JSON.parse((await ann.type("send", "bob", "gone?", "--json")).out)).toMatchObject({ error: "not_paired" });
  });
});

describe("bus start", { timeout: 60_000 }, () => {
  it("runs a bus that keeps its state, once; ends by Ctrl-C; and leaves no process behind", async () => {
    const person = new Person();
    const port = somePort();
    const first = await person.startBus(port);
    expect(first.said).toMatchObject({
      out: `The bus is at http://127.0.0.1:${port}\n`,
      err: expect.stringContaining("interlink-edge setup"),
    });
    await person.type("setup", `http://127.0.0.1:${port}`, "--yes");
    const again = await person.type("bus", "start", "--port", String(port + 1), "--json");
    expect(again.code).toBe(1);
    expect(JSON.parse(again.out)).toMatchObject({ error: "in_use", message: expect.stringContaining("already") });
    const other = await person.type("bus", "start", "--port", String(port), "--persist-to", person.path("other"));
    expect(other).toMatchObject({ code: 1, err: expect.stringContaining(`--port ${port + 1}`) });
    first.child.kill("SIGINT");
    expect(await first.ended).toMatchObject({ code: 0 });

    // Killed without a word it takes workerd with it, and its lock.
    const second = await person.startBus(port);
    expect(await person.type("discover")).toMatchObject({ code: 0 });
    second.child.kill("SIGKILL");
    await second.ended;
    await until(async () => (await person.type("discover")).code === 4, "workerd has ended");
    const third = await person.startBus(port);
    third.child.kill("SIGTERM");
    expect(await third.ended).toMatchObject({ code: 0 });
  });
});
