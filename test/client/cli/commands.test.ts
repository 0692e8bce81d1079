/** What a person looks at and says: real processes, each in a home of its own, at one real bus. */

import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { COMMANDS, usageOf } from "../../../src/client/cli/command-table.ts";
import { readCommand } from "../../../src/client/cli/command-line.ts";
import { lookInto, sessionFiles } from "../../../src/client/state/session-files.ts";
import { parseKey } from "../../../src/protocol/address.ts";
import { fakeKey } from "../../support/fake-agent.ts";
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

  it("a peers file by hand: a name twice is refused and named, two that look alike are told", async () => {
    const person = new Person();
    const { key } = await person.json("key");
    const [one, two] = [fakeKey(1), fakeKey(2)];
    const peers = person.write(".config/interlink/peers.json", `{"al":{"key":"${one}"},"al":{"key":"${two}"}}`);
    const typed = await person.type("peers", "list");
    expect(typed).toMatchObject({
      code: 1,
      out: "",
      err: expect.stringContaining('peers.json has "al" twice; to mend it:'),
    });
    expect(await person.type("peers", "add", "bob", key, "--yes")).toMatchObject({ code: 1 });
    expect(person.read(".config/interlink/peers.json")).toBe(peers);
    person.write(".config/interlink/peers.json", `{"al":{"key":"${one}"},"AL":{"key":"${two}"}}`);
    expect(await person.type("peers", "list")).toMatchObject({
      code: 0,
      err: 'These names look alike: "al", "AL".\n',
    });
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

describe("on several buses", { timeout: 120_000 }, () => {
  /** Another bus, by the name `lab`, behind the one that `setup` put first. */
  async function lab(person: Person, more: object = {}): Promise<LocalBus> {
    const other = await startBus({ bundle: inject("bundle"), vars: { ADMISSION: "open", LOG: "faults" } });
    onTestFinished(() => other.stop());
    const named = JSON.parse(person.read(".config/interlink/buses.json")!);
    person.write(".config/interlink/buses.json", JSON.stringify({ ...named, lab: { url: `${other.url}`, ...more } }));
    return other;
  }
  const sessionsIn = (person: Person) =>
    readdirSync(person.path(".local/state/interlink/sessions")).filter((name) => /^[^.]+\.db$/.test(name));
  const linesOf = ({ out }: { out: string }): Record<string, any>[] =>
    out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));

  it("what came on each is shown and exported, and forget ends us on all of them", async () => {
    const [ann, bob] = await pairOf();
    const other = await lab(bob);
    bob.write(".claude/.keep", "");
    await bob.type("setup", bus.url, "--yes", "--name", "bob");
    const agent = await bob.claude();
    const { session } = await agent.ok("whoami");
    await agent.ok("connect_bus", { bus: "lab" });
    const there = { INTERLINK_URL: other.url };
    await until(async () => (await ann.typeWith(there, "send", "bob", "in the lab")).code === 0, "he has admitted her");
    await ann.type("send", "bob", "at home");
    await until(async () => (await bob.json("status")).unread >= 2, "both are here");

    const { sessions, left_out } = await bob.json("status");
    expect(sessions).toMatchObject([
      { session, is_running: true },
      { session, is_running: true },
    ]);
    expect(sessions.map((each: any) => each.bus).sort()).toEqual([other.url, undefined]);
    expect(left_out).toEqual({ keys: [], others: [], unknown: [], unreadable: 0 });
    const { messages } = await bob.json("inbox");
    expect(messages.map(({ text, bus }: any) => [text, bus])).toEqual(
      expect.arrayContaining([
        ["in the lab", other.url],
        ["at home", undefined],
      ]),
    );
    expect((await bob.type("inbox")).out).toContain(`for session ${session} on ${other.url}:`);
    expect(await bob.type("forget", "--yes")).toMatchObject({ code: 1 });
    await bob.type("setup", "--remove", "--yes");
    expect(await bob.type("forget", "--yes")).toMatchObject({
      code: 1,
      err: expect.stringContaining("gents of ours run"),
    });
    await agent.close();

    const received = linesOf(await bob.type("export")).filter(({ kind }) => kind === "received");
    expect(received.map(({ text, bus }) => [text, bus])).toEqual(
      expect.arrayContaining([
        ["in the lab", other.url],
        ["at home", bus.url],
      ]),
    );
    const secret = bob.read(".config/interlink/id.key")!;
    bob.write(".config/interlink/.id.key.0123456789abcdef.tmp", secret);
    bob.write(".local/state/interlink/threads/00", `${session}\n`);
    bob.write(".local/state/interlink/threads/11", "of-somebody-else\n");
    bob.write(`.local/state/interlink/sessions/${sessionsIn(bob)[0]}.broken-1`, "at home");
    const { key } = await bob.json("key");
    expect((await bob.type("export")).err).toContain("was set aside: ");
    const forgotten = await bob.json("forget", "--yes");
    expect(forgotten).toMatchObject({
      forgotten: key,
      buses: [
        { bus: bus.url, forgotten: true },
        { bus: other.url, forgotten: true },
      ],
      kept: [{ path: bob.path(".config/interlink/buses.json"), why: "names_buses" }],
    });
    // Nothing of the key, by name or by content.
    const all = readdirSync(bob.home, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const paths = all.map(({ parentPath, name }) => join(parentPath, name));
    const says = (text: string) => paths.filter((path) => readFileSync(path).includes(text));
    expect([...says(key), ...says(secret.trim()), ...says("in the lab"), ...says("at home"), ...says(session)]).toEqual(
      [],
    );
    expect(readdirSync(bob.path(".local/state/interlink/sessions"))).toEqual([]);
    expect(readdirSync(bob.path(".local/state/interlink/threads"))).toEqual(["11"]);
    for (const env of [{}, there])
      expect(JSON.parse((await ann.typeWith(env, "send", "bob", "gone?", "--json")).out)).toMatchObject({
        error: "not_paired",
      });
  });

  it("forget removes nothing while a bus does not answer, unless it is asked to", async () => {
    const [, bob] = await pairOf();
    const other = await lab(bob);
    await other.stop();
    const key = bob.read(".config/interlink/id.key");
    const refused = await bob.type("forget", "--yes");
    expect(refused).toMatchObject({ code: 4, out: "", err: expect.stringContaining("forget --anyway") });
    expect(refused.err).toContain(other.url);
    expect(bob.read(".config/interlink/id.key")).toBe(key);
    // Which keys there are beside it is not known then, and so not what they share.
    const named = bob.read(".config/interlink/buses.json")!;
    bob.write(".config/interlink/buses.json", "{");
    const unread = await bob.typeWith({ INTERLINK_URL: bus.url }, "forget", "--yes", "--anyway");
    expect(unread).toMatchObject({ code: 1, err: expect.stringContaining("buses.json is not JSON") });
    expect(bob.read(".config/interlink/id.key")).toBe(key);
    bob.write(".config/interlink/buses.json", named);
    const done = await bob.type("forget", "--yes", "--anyway");
    expect(done).toMatchObject({ code: 0, out: expect.stringContaining(`Not forgotten by ${other.url}`) });
    expect(bob.read(".config/interlink/id.key")).toBeUndefined();
  });

  it("what another key has is left out by name, with the command that shows it, and forget leaves it", async () => {
    const [ann, bob] = await pairOf();
    const other = await lab(bob, { key: "lab.key" });
    const at = { INTERLINK_URL: "lab" };
    const { key } = JSON.parse((await bob.typeWith(at, "key", "--json")).out);
    await ann.type("peers", "add", "bob in the lab", key, "--yes");
    await bob.typeWith(at, "discover"); // publishes nothing: a person's look
    await bob.typeWith(at, "inbox", "--take");
    expect(sessionsIn(bob)).toEqual([expect.stringMatching(/^cli-/)]);

    const keyPath = bob.path(".config/interlink/lab.key");
    const hint = (command: string) =>
      `What is kept for the key ${keyPath} is apart: INTERLINK_URL='lab' interlink-edge ${command}`;
    expect((await bob.json("status")).left_out).toEqual({
      keys: [{ path: keyPath, bus: "lab" }],
      others: [],
      unknown: [],
      unreadable: 0,
    });
    for (const command of ["status", "inbox", "export"]) expect((await bob.type(command)).err).toContain(hint(command));
    // The named command shows it, and the first one is what is left out then.
    const shown = await bob.typeWith(at, "export");
    expect(linesOf(shown)[0]).toMatchObject({ kind: "identity", key });
    expect(shown.err).toContain("INTERLINK_URL='127.0.0.1:");
    // Without a file that names it, it is told by its fingerprint.
    rmSync(bob.path(".config/interlink/buses.json"));
    const env = { INTERLINK_URL: bus.url };
    expect((await bob.typeWith(env, "export")).err).toContain("1 file of ");
    bob.write(
      ".config/interlink/buses.json",
      JSON.stringify({ home: { url: bus.url }, lab: { url: other.url, key: "lab.key" } }),
    );

    const peers = bob.read(".config/interlink/peers.json");
    const { kept } = await bob.json("forget", "--yes");
    expect(kept.map(({ why }: any) => why).sort()).toEqual(["another_key", "another_key", "names_buses"]);
    expect(bob.read(".config/interlink/id.key")).toBeUndefined();
    expect(bob.read(".config/interlink/peers.json")).toBe(peers);
    expect(existsSync(keyPath)).toBe(true);
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
