/** `setup` on a machine with every host, each with a file that its user wrote: what goes in, what stays, and the way back. */

import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { copyProgram, ownProgram } from "../../../src/client/cli/own-program.ts";
import { formatInvite, INVITE_PREFIX, parseInvite } from "../../../src/client/trust/invite-text.ts";
import { parseBusUrl, type BusUrl } from "../../../src/client/bus/bus-url.ts";
import { fakeKey } from "../../support/fake-agent.ts";
import { Person } from "./person.ts";

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { ADMISSION: "open", LOG: "faults" } });
  return () => bus.stop();
});

/** What people have in these files, comments and all. */
const FILES = {
  ".claude.json": `{\n  "numStartups": 7,\n  "mcpServers": {\n    "notes": { "command": "notes", "env": { "TOKEN": "s" } }\n  },\n  "projects": {}\n}`,
  ".codex/config.toml": `# mine\nmodel = "gpt" # the model\r\n\n[mcp_servers.notes]\ncommand = 'notes' # "quoted"\n\n[features]\na = true`,
  ".config/opencode/opencode.jsonc": `// mine\n{\n\t"$schema": "https://opencode.ai/config.json", // for the editor\n\t/* servers */\n\t"mcp": {\n\t\t"notes": { "type": "local", "command": ["notes"] }, // old\n\t},\n}\n`,
  ".gemini/settings.json": `{}\n`,
  ".config/Code/User/mcp.json": `{\r\n    "servers": {},\r\n    // asked for once\r\n    "inputs": []\r\n}\r\n`,
  ".cursor/mcp.json": `{"mcpServers":{"notes":{"command":"notes"}}}`,
} as const;

function everyHost(): Person {
  const person = new Person();
  for (const [path, text] of Object.entries(FILES)) person.write(path, text);
  return person;
}

const contentsOf = (person: Person) => Object.fromEntries(Object.keys(FILES).map((path) => [path, person.read(path)]));
const setup = (person: Person, ...args: string[]) => person.type("setup", ...args);

describe("every host", { timeout: 60_000 }, () => {
  it("gets its entry and keeps the rest; a second time nothing changes; and --remove leaves each file as it was", async () => {
    const person = everyHost();
    chmodSync(person.path(".cursor/mcp.json"), 0o640);
    const first = await setup(person, bus.url, "--yes", "--name", "me");
    expect(first, first.err).toMatchObject({ code: 0 });
    for (const path of Object.keys(FILES)) expect(first.out).toContain(`${person.path(path)} was written.`);
    // What will be written where is shown before.
    expect(first.err).toContain(`"INTERLINK_NAME": "me"`);
    expect(first.err).toContain("[mcp_servers.interlink]");
    const after = contentsOf(person);
    for (const [path, text] of Object.entries(FILES)) {
      // In their order, all the parts of what was there.
      for (const part of text.split(/[\n,{}]+/)) expect(after[path], path).toContain(part.trim());
      expect(after[path]).toContain("bin.ts");
    }
    expect(statSync(person.path(".cursor/mcp.json")).mode & 0o777).toBe(0o640);

    const second = await setup(person, bus.url);
    expect(second, second.err).toMatchObject({ code: 0 });
    expect(second.out).not.toContain("was written");
    expect(contentsOf(person)).toEqual(after);

    const removed = await setup(person, "--remove", "--yes");
    expect(removed, removed.err).toMatchObject({ code: 0 });
    expect(contentsOf(person)).toEqual(FILES);
    expect(await setup(person, "--remove", "--yes")).toMatchObject({
      code: 0,
      out: "Setup has written nothing that is still there.\n",
    });
  });

  it("is asked about first, and nothing happens without a word", async () => {
    const person = everyHost();
    const typed = await setup(person, bus.url);
    expect(typed).toMatchObject({ code: 1, out: "" });
    expect(typed.err).toContain("Nothing was changed: there is no terminal to ask at.");
    expect(contentsOf(person)).toEqual(FILES);
    expect(person.read(".config/interlink/buses.json")).toBeUndefined();
  });

  it("is chosen by --host, also where nothing of it was found; what was made is deleted again", async () => {
    const person = new Person();
    const made = await setup(person, bus.url, "--yes", "--host", "gemini-cli", "--host", "codex");
    expect(made, made.err).toMatchObject({ code: 0 });
    expect(readdirSync(person.home).sort()).toEqual([".codex", ".config", ".gemini"]);
    await setup(person, "--remove", "--yes", "--host", "codex");
    expect(readdirSync(person.home).sort()).toEqual([".config", ".gemini"]);
    await setup(person, "--remove", "--yes");
    expect(readdirSync(person.home).sort()).toEqual([".config"]);
    expect(await setup(person, bus.url, "--host", "emacs")).toMatchObject({
      code: 2,
      err: expect.stringContaining("claude-code"),
    });
  });

  it("has its own faults told, and the others are set up all the same", async () => {
    const person = everyHost();
    person.write(".cursor/mcp.json", `{"mcpServers": {`);
    person.write(".gemini/settings.json", `{"mcpServers": {"interlink": {"command": "theirs"}}}`);
    const typed = await setup(person, bus.url, "--yes");
    expect(typed.code).toBe(1);
    expect(typed.err).toContain("mcp.json has a mistake in it");
    expect(typed.err).toContain("settings.json has a server `interlink` that is not by us");
    expect(person.read(".claude.json")).toContain("bin.ts");
    expect(person.read(".cursor/mcp.json")).toBe(`{"mcpServers": {`);
  });

  it("that somebody has changed since keeps that; one that the host has written anew loses ours alone", async () => {
    const person = everyHost();
    await setup(person, bus.url, "--yes");
    person.write(
      ".codex/config.toml",
      person
        .read(".codex/config.toml")!
        .replace("[mcp_servers.interlink]\n", "[mcp_servers.interlink]\nstartup_timeout_sec = 5\n"),
    );
    const anew = JSON.parse(person.read(".claude.json")!);
    person.write(".claude.json", JSON.stringify({ ...anew, numStartups: 8 }));
    const removed = await setup(person, "--remove", "--yes");
    expect(removed).toMatchObject({
      code: 1,
      err: expect.stringContaining("config.toml has our entry, but somebody has changed it"),
    });
    expect(person.read(".codex/config.toml")).toContain("startup_timeout_sec");
    expect(JSON.parse(person.read(".claude.json")!)).toEqual({ ...JSON.parse(FILES[".claude.json"]), numStartups: 8 });
    // The record of what is left stays, so that it can be taken back once it is as it was.
    person.write(".codex/config.toml", person.read(".codex/config.toml")!.replace("startup_timeout_sec = 5\n", ""));
    expect(await setup(person, "--remove", "--yes")).toMatchObject({ code: 0 });
    expect(person.read(".codex/config.toml")).toBe(FILES[".codex/config.toml"]);
  });

  it("behind a link is changed where the file is", async () => {
    const person = new Person();
    mkdirSync(person.path("dotfiles"));
    mkdirSync(person.path(".gemini"));
    writeFileSync(person.path("dotfiles/gemini.json"), "{}");
    symlinkSync(person.path("dotfiles/gemini.json"), person.path(".gemini/settings.json"));
    await setup(person, bus.url, "--yes");
    expect(lstatSync(person.path(".gemini/settings.json")).isSymbolicLink()).toBe(true);
    expect(person.read("dotfiles/gemini.json")).toContain("bin.ts");
    await setup(person, "--remove", "--yes");
    expect(person.read("dotfiles/gemini.json")).toBe("{}");
  });

  it("is given another name, and gets back what was there before the first", async () => {
    const person = everyHost();
    await setup(person, bus.url, "--yes", "--name", "one");
    await setup(person, bus.url, "--yes", "--name", "two");
    expect(person.read(".codex/config.toml")).toContain(`INTERLINK_NAME = "two"`);
    // The name is remembered.
    await setup(person, bus.url, "--yes");
    expect(person.read(".codex/config.toml")).toContain(`INTERLINK_NAME = "two"`);
    await setup(person, "--remove", "--yes");
    expect(contentsOf(person)).toEqual(FILES);
  });
});

describe("the bus", { timeout: 30_000 }, () => {
  it("comes first in buses.json, and what else is named stays", async () => {
    const person = new Person();
    person.write(".config/interlink/buses.json", `{"work": {"url": "https://bus.example"}}`);
    chmodSync(person.path(".config/interlink"), 0o700);
    chmodSync(person.path(".config/interlink/buses.json"), 0o600);
    await setup(person, bus.url, "--yes");
    expect(Object.entries(JSON.parse(person.read(".config/interlink/buses.json")!))).toEqual([
      [`127.0.0.1:${bus.port}`, { url: bus.url }],
      ["work", { url: "https://bus.example" }],
    ]);
    expect(await person.json("status")).toMatchObject({ bus: { origin: bus.url } });
  });

  it.each([
    { target: "http://127.0.0.1:9", code: 4, says: "did not answer" },
    { target: "http://10.0.0.1", code: 1, says: "https only" },
    { target: "https://10.0.0.1", code: 1, says: "private network" },
    { target: "https://u:p@bus.example", code: 1, says: "name or password" },
    { target: "https://bus.example/x", code: 1, says: "path" },
    { target: "bus", code: 1, says: "neither an invite nor an address" },
    { target: "interlink:AAAA", code: 1, says: "damaged" },
    { target: "interlink:", code: 1, says: "no invite" },
  ])("$target is refused, and leaves nothing behind", async ({ target, code, says }) => {
    const person = everyHost();
    const typed = await setup(person, target, "--yes");
    expect(typed).toMatchObject({ code, out: "" });
    expect(typed.err).toContain(says);
    expect(typed.err).not.toMatch(/\bat .+:\d+:\d+/);
    expect(contentsOf(person)).toEqual(FILES);
    expect(person.read(".config/interlink/buses.json")).toBeUndefined();
  });

  it("that admits only who was invited says so", async () => {
    const closed = await startBus({ bundle: inject("bundle"), vars: { ADMISSION: "join", LOG: "faults" } });
    try {
      const person = new Person();
      expect(await setup(person, closed.url, "--yes")).toMatchObject({
        code: 1,
        err: expect.stringContaining("admits only who was invited"),
      });
      const env = { INTERLINK_URL: closed.url };
      expect(await person.typeWith(env, "invite")).toMatchObject({
        code: 1,
        err: expect.stringContaining("our key may not invite"),
      });
    } finally {
      await closed.stop();
    }
  });
});

describe("an invite", { timeout: 60_000 }, () => {
  const url = parseBusUrl("https://bus.example") as BusUrl;
  const said = { bus: url, key: fakeKey(3), name: "ann", secret: "A".repeat(22) };

  it("says again what was put in, also where a mail has broken its line", () => {
    const text = formatInvite({ ...said, token: "B".repeat(42) + "A" });
    expect(parseInvite(text)).toEqual({ ...said, token: "B".repeat(42) + "A" });
    expect(parseInvite(` ${text.slice(0, 40)}\r\n${text.slice(40)}\n`)).toEqual({
      ...said,
      token: "B".repeat(42) + "A",
    });
  });

  it("of any bytes is refused, and never throws", () => {
    const text = formatInvite(said);
    const noises = [
      "",
      "interlink",
      INVITE_PREFIX,
      `${INVITE_PREFIX}%`,
      `${INVITE_PREFIX}${"A".repeat(5_000)}`,
      text.slice(0, -1),
      text.toUpperCase(),
      `${text}A`,
      "\u0000".repeat(100),
    ];
    for (const noise of noises) expect(parseInvite(noise), noise.slice(0, 50)).toHaveProperty("refused");
    for (let at = INVITE_PREFIX.length; at < text.length; at++) {
      const changed = text.slice(0, at) + (text[at] === "A" ? "B" : "A") + text.slice(at + 1);
      expect(parseInvite(changed)).toHaveProperty("refused");
    }
  });

  it.each([
    { what: { name: "\u202eevil" }, refused: "bad_content" },
    { what: { key: "A".repeat(43) as never }, refused: "bad_content" },
    { what: { secret: "short" }, refused: "bad_content" },
    { what: { bus: { ...url, origin: "http://192.168.0.1" } }, refused: "bad_bus" },
    { what: { bus: { ...url, origin: "https://169.254.169.254" } }, refused: "bad_bus" },
  ])("that says $what is $refused", ({ what, refused }) => {
    expect(parseInvite(formatInvite({ ...said, ...what }))).toMatchObject({ refused });
  });

  it("is used once: the second who takes it is a stranger like any other, and one's own is for others", async () => {
    const me = new Person();
    const { key } = await me.json("key");
    const mine = await startBus({
      bundle: inject("bundle"),
      vars: { ADMISSION: "join", ADMIN_KEYS: key, LOG: "faults" },
    });
    try {
      expect(await setup(me, mine.url, "--yes", "--name", "ann")).toMatchObject({ code: 0 });
      const { invite } = await me.json("invite");
      expect(await setup(me, invite, "--yes")).toMatchObject({
        code: 1,
        err: expect.stringContaining("our own invite"),
      });
      const [first, second] = [new Person(), new Person()];
      const taken = await setup(first, invite, "--yes");
      expect(taken, taken.err).toMatchObject({ code: 0 });
      expect(taken.err).toContain('You were invited by "ann"');
      // Again is no harm.
      expect(await setup(first, invite, "--yes")).toMatchObject({ code: 0 });
      expect(await first.json("peers", "list")).toMatchObject({ peers: [{ petname: "ann", key }] });
      expect(await setup(second, invite, "--yes")).toMatchObject({
        code: 1,
        err: expect.stringContaining("join_denied"),
      });
      expect(await second.json("peers", "list")).toEqual({ peers: [] });
    } finally {
      await mine.stop();
    }
  });

  it("whose name is taken already asks for another", async () => {
    const [me, you] = [new Person(), new Person()];
    await setup(me, bus.url, "--yes", "--name", "ann");
    const { invite } = await me.json("invite");
    await you.type("peers", "add", "ann", fakeKey(9), "--yes");
    expect(await setup(you, invite, "--yes")).toMatchObject({ code: 1, err: expect.stringContaining("--as PETNAME") });
    expect(await setup(you, invite, "--yes", "--as", "ann of work")).toMatchObject({ code: 0 });
  });
});

it("what npx has fetched is started from a copy that stays", () => {
  const person = new Person();
  const cache = ".npm/_npx/0123/node_modules";
  person.write(`${cache}/interlink-edge/dist/client/cli/launch.js`, "launch");
  person.write(`${cache}/ws/index.js`, "ws");
  person.write(`${cache}/workerd/bin/workerd`, "large");
  const program = ownProgram(
    { script: person.path(cache, "interlink-edge/dist/client/cli/launch.js") },
    person.path("data"),
  );
  expect(program.script).toMatch(/data\/program\/[\d.]+\/node_modules\/interlink-edge\/dist\/client\/cli\/launch\.js$/);
  copyProgram(program);
  expect(readFileSync(program.script, "utf8")).toBe("launch");
  const modules = join(program.script.split("/node_modules/")[0]!, "node_modules");
  expect(readdirSync(modules).sort()).toEqual(["interlink-edge", "ws"]);
});
