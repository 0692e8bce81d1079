/** The package: what is in it, and that it works where a user installs it, on each Node that it claims. */

import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { installPackage, packPackage } from "../../scripts/install-package.ts";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";
import * as face from "../../src/client/index.ts";
import { Installed, run } from "./installed.ts";
import { pinnedNode } from "./pinned-node.ts";

/** The first that `engines` allows, and the project's own. */
const NODE_FLOOR = "22.13.0";
const NODE_OWN = process.versions.node;
const NODE_TOO_OLD = "20.20.2";

const folder = mkdtempSync(join(tmpdir(), "interlink-packed-"));
let tarball: string;
beforeAll(async () => {
  tarball = await packPackage(join(mkdir("first")));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function mkdir(name: string): string {
  mkdirSync(join(folder, name));
  return join(folder, name);
}

const nodeFolder = (version: string) => (version === NODE_OWN ? dirname(process.execPath) : pinnedNode(version));

/** One package of the lock file; those with a binary are there for each system. */
interface Locked {
  readonly dev?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
}

/** Paths of files beneath a folder, with `/`. */
function filesIn(root: string): string[] {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return entries.map(({ parentPath, name }) => join(parentPath, name).slice(root.length + 1)).sort();
}

const readJson = (path: string) => JSON.parse(readFileSync(path, "utf8")) as Record<string, any>;

describe.each([NODE_FLOOR, NODE_OWN])("installed on Node %s", (version) => {
  const home = join(folder, `node-${version}`);
  let installed: Installed;
  beforeAll(async () => {
    const node = await nodeFolder(version);
    await installPackage(tarball, home, node);
    installed = new Installed(home, node);
  });

  it("brings what it needs to run and no more", () => {
    const lock = readJson(join(PROJECT_DIR, "package-lock.json"))["packages"] as Record<string, Locked>;
    const isHere = ({ os, cpu }: Locked) =>
      (os === undefined || os.includes(process.platform)) && (cpu === undefined || cpu.includes(process.arch));
    const runtime = Object.entries(lock).filter(
      ([path, locked]) => path.startsWith("node_modules/") && locked.dev !== true && isHere(locked),
    );
    const found = readJson(join(home, "node_modules", ".package-lock.json"))["packages"] as object;
    const wanted = ["node_modules/interlink-edge", ...runtime.map(([path]) => path)];
    expect(Object.keys(found).sort()).toEqual(wanted.sort());
  });

  it("runs on the Node that it was installed with", async () => {
    const { out } = await installed.program("console.log(process.versions.node)");
    expect(out.trim()).toBe(version);
  });

  it("answers what is typed, and Node adds no word", async () => {
    const env = installed.home();
    expect(await installed.type(env, "--version")).toEqual({ code: 0, out: `${face.VERSION}\n`, err: "" });
    expect(await installed.type(env, "--help")).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^interlink-edge setup/),
    });
    const first = await installed.type(env, "key");
    expect(first).toMatchObject({ code: 0, err: expect.stringMatching(/^A new key was made: [^\n]+\n$/) });
    expect(first.out).toMatch(/^[\w-]{43} {2}[A-Z2-7-]+\n$/);
    expect(await installed.type(env, "key")).toEqual({ code: 0, out: first.out, err: "" });
    expect(await installed.type(env, "nothing")).toMatchObject({ code: 2, out: "" });
  });

  it.each(["legacy", "auto"] as const)("serves a host: %s", async (mode) => {
    const env = installed.home();
    const [key, fingerprint] = (await installed.type(env, "key")).out.trim().split("  ");
    const { client, log, faults } = await installed.connect(env, mode);
    expect(client.getServerVersion()).toMatchObject({ version: face.VERSION });
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(["send_message", "check_messages", "whoami"]));
    const me = await client.callTool({ name: "whoami", arguments: {} });
    expect(me).toMatchObject({ structuredContent: { public_key: key, key: fingerprint } });
    await client.close();
    expect(faults).toEqual([]);
    expect(log()).not.toMatch(/warning/i);
  });

  it("runs a bus, to which a person sets up", async () => {
    const env = installed.home();
    const port = 32_000 + Math.floor(Math.random() * 700);
    const bus = installed.start(env, "bus", "start", "--port", String(port));
    await bus.says(`The bus is at http://127.0.0.1:${port}\n`);
    const set = await installed.type(env, "setup", `http://127.0.0.1:${port}`, "--yes", "--host", "cursor");
    expect(set, set.err).toMatchObject({ code: 0 });
    const { mcpServers } = readJson(join(env["HOME"]!, ".cursor/mcp.json"));
    expect(mcpServers.interlink.args.at(-2)).toBe(join(home, "node_modules/interlink-edge/dist/client/cli/launch.js"));
    expect(await bus.stop()).toBe(0);
  });

  it("is a library by its name, and by no path within", async () => {
    const names = await installed.program(
      `import * as face from "interlink-edge"; console.log(JSON.stringify(Object.keys(face)));`,
    );
    expect(JSON.parse(names.out)).toEqual(Object.keys(face).sort());
    const within = await installed.program(`await import("interlink-edge/dist/client/cli/bin.js");`);
    expect(within.err).toContain("ERR_PACKAGE_PATH_NOT_EXPORTED");
  });

  it.each(["nodenext", "bundler"])("is typed for a strict program: %s", async (resolution) => {
    const program = [
      `import { openSession, VERSION, type Session, type SessionRefusal } from "interlink-edge";`,
      `export const opening: (...args: Parameters<typeof openSession>) => Promise<Session | SessionRefusal> = openSession;`,
      `// @ts-expect-error -- a string, so that these are types and no \`any\``,
      `export const version: number = VERSION;`,
    ];
    writeFileSync(join(home, "program.mts"), program.join("\n"));
    const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");
    const module = resolution === "bundler" ? "preserve" : resolution;
    const options = ["--strict", "--target", "es2024", "--module", module, "--moduleResolution", resolution];
    const types = ["--types", "node", "--typeRoots", join(PROJECT_DIR, "node_modules", "@types")];
    // Also what our own declarations say is checked: there is no --skipLibCheck.
    const args = [tsc, "--noEmit", ...options, ...types, "program.mts"];
    expect(await run(process.execPath, args, { env: {}, cwd: home })).toEqual({ code: 0, out: "", err: "" });
  });
});

describe("the tarball", () => {
  const root = join(folder, `node-${NODE_OWN}`, "node_modules", "interlink-edge");
  const launcher = join(root, "dist", "client", "cli", "launch.js");

  it("holds each file of the client and the protocol as JavaScript and types, their data, the plugin, and nothing else", () => {
    const sources = ["client", "protocol"].flatMap((room) =>
      filesIn(join(PROJECT_DIR, "src", room)).map((path) => join("dist", room, path)),
    );
    const built = sources
      .filter((path) => !/\.d\.ts$|\/tsconfig[^/]*\.json$/.test(path))
      .flatMap((path) =>
        path.endsWith(".ts") ? [path.replace(/\.ts$/, ".js"), path.replace(/\.ts$/, ".d.ts")] : [path],
      );
    const bus = ["dist/bus/bus.capnp", "dist/bus/index.js"];
    const plugin = [".claude-plugin", "plugin"].flatMap((room) =>
      filesIn(join(PROJECT_DIR, room)).map((path) => join(room, path)),
    );
    expect(filesIn(root)).toEqual(["LICENSE", "README.md", "package.json", ...bus, ...plugin, ...built].sort());
  });

  it("depends on what its files import, at the versions that are tested here", () => {
    const imported = new Set<string>();
    // The bus's bundle imports what workerd itself has.
    for (const path of filesIn(root).filter((name) => name.endsWith(".js") && !name.startsWith("dist/bus/"))) {
      const text = readFileSync(join(root, path), "utf8");
      // As the compiler writes them: at the start of a line, in double quotes.
      for (const [, specifier] of text.matchAll(/^(?:import|export)\b(?:[^"';]*\bfrom)? "([^"]+)"/gm))
        if (!/^(?:\.|node:)/.test(specifier!)) imported.add(/^(?:@[^/]+\/)?[^/]+/.exec(specifier!)![0]);
    }
    const { dependencies } = readJson(join(root, "package.json"));
    expect(Object.keys(dependencies).sort()).toEqual([...imported].sort());
    // The one that is looked for when it is needed: a machine without a bus of its own can do without.
    const { workerd } = readJson(join(PROJECT_DIR, "node_modules/wrangler/package.json"))["dependencies"];
    expect(readJson(join(root, "package.json"))["optionalDependencies"]).toEqual({ workerd });
    for (const version of Object.values(dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
  });

  it("names nothing of the machine that built it", () => {
    for (const path of filesIn(root)) {
      const text = readFileSync(join(root, path), "utf8");
      for (const place of [PROJECT_DIR, `${homedir()}/`]) expect(text.includes(place), `${path}: ${place}`).toBe(false);
    }
  });

  it("comes out the same again", async () => {
    const again = await packPackage(mkdir("second"));
    const digest = (path: string) => createHash("sha256").update(readFileSync(path)).digest("hex");
    expect(digest(again)).toBe(digest(tarball));
  });

  it.each([
    { version: "22.12.0", isEnough: false, why: "node:sqlite behind a flag" },
    { version: "22.13.0", isEnough: true, why: "the first without" },
    { version: "23.3.0", isEnough: false, why: "behind a flag again" },
    { version: "23.4.0", isEnough: true, why: "without" },
    { version: "24.0.0", isEnough: true, why: "all later ones" },
    { version: "100.0.0", isEnough: true, why: "by number, not by letter" },
  ])("starts on Node $version as its `engines` say: $why", async ({ version, isEnough }) => {
    expect(readJson(join(root, "package.json"))["engines"]).toEqual({ node: "^22.13.0 || >=23.4.0" });
    const disguise = `Object.defineProperty(process, "versions", { value: { node: "${version}" } });`;
    const args = ["--import", `data:text/javascript,${encodeURIComponent(disguise)}`, launcher, "--version"];
    const { code, out } = await run(process.execPath, args, { env: {}, cwd: folder });
    expect({ code, out }).toEqual(isEnough ? { code: 0, out: `${face.VERSION}\n` } : { code: 3, out: "" });
  });
});

it("on a Node that is too old it says what it needs, and ends with 3", async () => {
  const old = new Installed(join(folder, `node-${NODE_OWN}`), await pinnedNode(NODE_TOO_OLD));
  for (const args of [["mcp"], ["--version"], []])
    expect(await old.type(old.home(), ...args)).toEqual({
      code: 3,
      out: "",
      err: `interlink-edge needs Node 22.13, 23.4 or later; this is ${NODE_TOO_OLD}.\n`,
    });
});
