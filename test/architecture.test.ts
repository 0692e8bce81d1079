/**
 * The house's rules, read from the sources: which room may import what, what a pure file never calls,
 * and how long a file may be. The rules are tables; the checker itself is tested below on sources that
 * break them, so that it cannot pass by seeing nothing.
 */

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path/posix";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

/** Path under `src/` → text. */
type Sources = ReadonlyMap<string, string>;

interface Room {
  /** Rooms it may import from; its own is one of them. */
  readonly rooms: readonly string[];
  /** Packages that any of its files may import; `node:*` stands for all of Node. */
  readonly packages: readonly string[];
  /** Packages that only one of its files may import. */
  readonly only?: Readonly<Record<string, readonly string[]>>;
}

/** The arrows: protocol ← durable ← worker, and protocol ← client. */
const ROOMS: Readonly<Record<string, Room>> = {
  protocol: { rooms: ["protocol"], packages: ["zod/mini"], only: { "protocol/signing.ts": ["@noble/ed25519"] } },
  durable: { rooms: ["protocol", "durable"], packages: ["cloudflare:workers"] },
  worker: { rooms: ["protocol", "durable", "worker"], packages: ["zod/mini", "itty-router", "cloudflare:workers"] },
  client: {
    rooms: ["protocol", "client"],
    packages: [
      "zod/mini",
      "zod/v4",
      "node:*",
      "ws",
      "env-paths",
      "@modelcontextprotocol/server",
      "@modelcontextprotocol/server/stdio",
    ],
  },
};

/** The bus never holds a private key, so nothing that it bundles may reach the file that uses one. */
const SIGNING = "protocol/signing.ts";
const MAY_SIGN = "client";

/** What a file must know nothing of, neither by path nor by name. */
const STRANGERS: readonly { readonly file: RegExp; readonly unknown: RegExp; readonly what: string }[] = [
  { file: /^durable\/roster-store\.ts$/, unknown: /message|inbox|envelope|knock|receipt/i, what: "messages" },
  { file: /^durable\/inbox-store\.ts$/, unknown: /announce|roster|unregister/i, what: "announcements" },
];

/**
 * Trust is a person's to give, so their word is made only where they are asked. A message reaches the rest of the client,
 * which can only take such a word and look at whose it is.
 */
const MAY_ATTEST = /^client\/(cli\/[^/]+|tools\/ask-operator|trust\/operator)\.ts$/;
const ATTESTS = [/\battest\b/, /\bnew\s+Operator\b/, /\bOperator\s*\[/];

/** Files that take the clock as an argument and do nothing but compute. */
const PURE = new RegExp(
  [
    "^protocol/",
    "^durable/(inbox-policy|expiry|token-bucket|ack-handle|poll-answer|directory-shards)\\.ts$",
    "^client/bus/(bus-url|backoff|connection-state|bus-frame|outcome|answers)\\.ts$",
    "^client/session/(outbox-policy|refusal-treatment|loop-guard|automatic-reply|activation|readiness|drop|bus-target)\\.ts$",
    "^client/state/(task-progress|paths)\\.ts$",
    "^client/trust/(gate|pairing|pairing-state|owed-answers|peer-book|petname|key-choice)\\.ts$",
    "^client/supervisor/(restart-budget|child-life|era|frame|retry|banner|answers|greeting)\\.ts$",
    "^client/tools/(render|render-lifecycle|render-wake)\\.ts$",
    "^client/trust/invite-text\\.ts$",
    "^client/hosts/(jsonc|json-entry|toml|toml-entry)\\.ts$",
    "^client/cli/(command-line|command-table|tool-words|roster-lines)\\.ts$",
    "^client/wake/(chooser|proof|lease|rebinding|reminder|hook-line|hooks|standing)\\.ts$",
  ].join("|"),
);
const IMPURE = [
  /\bDate\.now\b/,
  /\bnew Date\b/,
  /\bperformance\b/,
  /\bMath\.random\b/,
  /\bgetRandomValues\b/,
  /\brandomUUID\b/,
  /\bfetch\(/,
  /\bset(Timeout|Interval)\b/,
  /\bconsole\./,
];

/** Lint rules that say the same in the editor; to disable one is to break it here. */
const GUARDED = ["no-restricted-imports", "no-restricted-globals", "no-console", "no-cycle", "max-lines"];

const LINES_MAX = 300;

/** Comments, strings and regular expressions, whichever begins first, so that none is taken for another. */
const TOKENS = new RegExp(
  [
    /\/\*[^]*?\*\/|\/\/[^\n]*/,
    /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[^]|[^`\\])*`/,
    /(?<=(?:[=(,:[!&|?{};>]|\breturn)\s*)\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\//,
  ]
    .map(({ source }) => source)
    .join("|"),
  "g",
);

const isComment = (token: string) => token.startsWith("//") || token.startsWith("/*");
const withoutComments = (source: string) => source.replace(TOKENS, (token) => (isComment(token) ? " " : token));
const commentsOf = (source: string) => (source.match(TOKENS) ?? []).filter(isComment);

/** `statement` is the whole import, with the names it takes. */
interface Import {
  readonly specifier: string;
  readonly statement: string;
}

/** Every import, re-export and literal `import()` of a file, of types too: a type's arrow points the same way. */
function importsOf(source: string): Import[] {
  const code = withoutComments(source);
  const found = [
    ...code.matchAll(/\b(?:import|export)\b(?:[^"'`;]*?\bfrom)?\s*(["'])(.+?)\1/g),
    ...code.matchAll(/\bimport\s*\(\s*(["'])(.+?)\1/g),
  ];
  return found.map(([statement, , specifier]) => ({ statement, specifier: specifier! }));
}

const roomOf = (path: string) => path.split("/", 1)[0]!;
const resolve = (path: string, specifier: string) => normalize(join(dirname(path), specifier));
const isRelative = (specifier: string) => specifier.startsWith(".");

/** What one file breaks, each fault as `path: what`. */
function checkFile(path: string, source: string, exists: (path: string) => boolean): string[] {
  const faults: string[] = [];
  const code = withoutComments(source);
  const room = path.includes("/") ? ROOMS[roomOf(path)] : undefined;
  if (!room) return [`${path}: stands in no room`];

  for (const { specifier, statement } of importsOf(source)) {
    const target = isRelative(specifier) ? resolve(path, specifier) : undefined;
    if (target === undefined) {
      const listed = [...room.packages, ...(room.only?.[path] ?? [])];
      const isListed = listed.some(
        (name) => name === specifier || (name === "node:*" && specifier.startsWith("node:")),
      );
      if (!isListed) faults.push(`imports the unlisted package ${specifier}`);
    } else if (!exists(target)) faults.push(`imports ${target}, which is not there`);
    else if (!room.rooms.includes(roomOf(target))) faults.push(`imports against the arrow: ${target}`);
    else if (target === SIGNING && roomOf(path) !== MAY_SIGN) faults.push(`imports ${SIGNING}`);
    for (const { file, unknown, what } of STRANGERS) {
      if (file.test(path) && unknown.test(statement)) faults.push(`knows of ${what}: ${specifier}`);
    }
  }
  if (room === ROOMS["client"] && !MAY_ATTEST.test(path)) {
    for (const made of ATTESTS) if (made.test(code)) faults.push(`attests for the operator: ${made.source}`);
  }
  if (/\brequire\s*\(|\bimport\s*\(\s*[^"'\s]/.test(code)) faults.push("imports what cannot be read here");
  if (PURE.test(path)) for (const call of IMPURE) if (call.test(code)) faults.push(`is pure and has ${call.source}`);
  for (const comment of commentsOf(source)) {
    const [, rules] = /(?:ox|es)lint-disable(?:-next-line|-line)?([^]*?)(?:--|\*\/|$)/.exec(comment) ?? [];
    if (rules === undefined) continue;
    // Disabling by no name disables all.
    const broken = rules.trim() === "" ? ["every rule"] : GUARDED.filter((rule) => rules.includes(rule));
    for (const rule of broken) faults.push(`disables ${rule}`);
  }
  const lines = source.trimEnd().split("\n").length;
  if (lines > LINES_MAX) faults.push(`has ${lines} lines`);
  return faults.map((fault) => `${path}: ${fault}`);
}

/** The cycles among files, each as the way round it. */
function findCycles(sources: Sources): string[] {
  const cycles: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, way: readonly string[]): void => {
    const at = way.indexOf(path);
    if (at >= 0) cycles.push(`cycle: ${[...way.slice(at), path].join(" → ")}`);
    if (at >= 0 || done.has(path)) return;
    const targets = importsOf(sources.get(path) ?? "").filter(({ specifier }) => isRelative(specifier));
    for (const { specifier } of targets) visit(resolve(path, specifier), [...way, path]);
    done.add(path);
  };
  for (const path of sources.keys()) visit(path, []);
  return cycles;
}

function check(sources: Sources): string[] {
  const files = [...sources].flatMap(([path, source]) => checkFile(path, source, (target) => sources.has(target)));
  return [...files, ...findCycles(sources)];
}

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../src");

function readSources(): Sources {
  const paths = readdirSync(ROOT, { recursive: true, encoding: "utf8" }).map((path) => path.replaceAll("\\", "/"));
  const wanted = paths.filter((path) => /\.[cm]?[jt]sx?$/.test(path)).sort();
  return new Map(wanted.map((path) => [path, readFileSync(join(ROOT, path), "utf8")]));
}

describe("the sources", () => {
  const sources = readSources();

  it("are found in every room there is, with the imports that they are known to have", () => {
    const rooms = readdirSync(ROOT, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(rooms.map(({ name }) => name)).toEqual(expect.arrayContaining(["protocol", "durable", "worker"]));
    const found = Object.groupBy(sources.keys(), roomOf);
    for (const { name } of rooms) expect(found[name]?.length ?? 0, `files in ${name}`).toBeGreaterThan(0);
    const ofSigning = importsOf(sources.get(SIGNING)!).map(({ specifier }) => specifier);
    expect(ofSigning).toEqual(["@noble/ed25519", "./address.ts", "./base64url.ts"]);
    for (const { file } of STRANGERS) expect([...sources.keys()].filter((path) => file.test(path))).toHaveLength(1);
  });

  it("keep the rules of the house", () => {
    expect(check(sources)).toEqual([]);
  });
});

describe("the checker", () => {
  /** A house in order, which each row changes in one file. */
  const HOUSE = {
    "protocol/a.ts": `import * as z from "zod/mini";\nimport type { B } from "./b.ts";\n`,
    "protocol/b.ts": `export const b = 1;\n`,
    "protocol/message.ts": `export type Message = string;\n`,
    "protocol/announcement.ts": `export type Announcement = string;\n`,
    "protocol/signing.ts": `import { signAsync } from "@noble/ed25519";\n`,
    "durable/roster-store.ts": `import type { Announcement } from "../protocol/announcement.ts";\n`,
    "durable/inbox-store.ts": `import type { Message } from "../protocol/message.ts";\n`,
    "durable/expiry.ts": `export const due = (nowMs: number) => nowMs;\n`,
    "durable/clock.ts": `export const now = () => Date.now();\n`,
    "worker/index.ts": `import { Router } from "itty-router";\nexport { now } from "../durable/clock.ts";\n`,
    "client/session/session.ts": `import fs from "node:fs";\nimport { sign } from "../../protocol/signing.ts";\n`,
    "client/trust/operator.ts": `export class Operator { static attest() { return new Operator(); } }\n`,
    "client/cli/pair.ts": `import { Operator } from "../trust/operator.ts";\nOperator.attest(key, "cli");\n`,
    "client/tools/ask-operator.ts": `import { Operator } from "../trust/operator.ts";\nOperator.attest(key, "x");\n`,
  };
  const checkWith = (changes: Readonly<Record<string, string>>) =>
    check(new Map(Object.entries({ ...HOUSE, ...changes })));

  it("finds nothing in a house in order", () => {
    expect(checkWith({})).toEqual([]);
  });

  it.each([
    { path: "protocol/b.ts", source: `import "../durable/clock.ts";`, fault: "against the arrow", why: "upward" },
    { path: "durable/clock.ts", source: `import "../worker/index.ts";`, fault: "against the arrow", why: "upward" },
    { path: "worker/index.ts", source: `import "../client/session/session.ts";`, fault: "arrow", why: "sideways" },
    { path: "client/x.ts", source: `import "../durable/clock.ts";`, fault: "arrow", why: "the bus from the client" },
    { path: "durable/x.ts", source: `import type { R } from "../worker/index.ts";`, fault: "arrow", why: "by type" },
    { path: "durable/x.ts", source: `export * from "../worker/index.ts";`, fault: "arrow", why: "by re-export" },
    { path: "durable/x.ts", source: `type R = import("../worker/index.ts").R;`, fault: "arrow", why: "inline" },
    {
      path: "durable/x.ts",
      source: `import {\n  a,\n  b,\n} from "../worker/index.ts";`,
      fault: "arrow",
      why: "lines",
    },
    { path: "durable/x.ts", source: `import { a }\n  from '../worker/index.ts'`, fault: "arrow", why: "other quotes" },
    { path: "durable/x.ts", source: `const x = await import(name);`, fault: "cannot be read", why: "computed" },
    { path: "durable/x.ts", source: `const x = require("y");`, fault: "cannot be read", why: "the old way" },
    { path: "durable/x.ts", source: `import "./none.ts";`, fault: "not there", why: "nothing" },
    { path: "protocol/b.ts", source: `import "zod";`, fault: "unlisted package zod", why: "the large zod" },
    { path: "protocol/b.ts", source: `import "@noble/ed25519";`, fault: "unlisted", why: "a private key's package" },
    { path: "durable/x.ts", source: `import "itty-router";`, fault: "unlisted", why: "routes in an object" },
    { path: "worker/x.ts", source: `import "node:fs";`, fault: "unlisted", why: "Node on the bus" },
    { path: "client/x.ts", source: `import "cloudflare:workers";`, fault: "unlisted", why: "bindings in the client" },
    { path: "durable/x.ts", source: `import "../protocol/signing.ts";`, fault: "signing", why: "an object that signs" },
    { path: "worker/x.ts", source: `import "../protocol/signing.ts";`, fault: "signing", why: "a door that signs" },
    { path: "protocol/b.ts", source: `import "./signing.ts";`, fault: "signing", why: "a way round to it" },
    {
      path: "protocol/b.ts",
      source: `import "./a.ts";`,
      fault: "cycle: protocol/a.ts → protocol/b.ts",
      why: "a cycle",
    },
    { path: "durable/x.ts", source: `import "./x.ts";`, fault: "cycle: durable/x.ts → durable/x.ts", why: "itself" },
    { path: "client/trust/x.ts", source: `Operator.attest(key, "cli");`, fault: "attests", why: "trust for itself" },
    { path: "client/session/x.ts", source: `const { attest } = Operator;`, fault: "attests", why: "by another name" },
    { path: "client/tools/x.ts", source: `new Operator(key);`, fault: "attests", why: "a tool without asking" },
    { path: "client/session/x.ts", source: `Operator[how](key);`, fault: "attests", why: "by a computed name" },
    { path: "client/cli/deep/x.ts", source: `Operator.attest(key);`, fault: "attests", why: "beside the commands" },
    { path: "durable/x.ts", source: "x;\n".repeat(301), fault: "has 301 lines", why: "too long" },
    { path: "x.ts", source: "", fault: "in no room", why: "a file beside the rooms" },
    { path: "attic/x.ts", source: "", fault: "in no room", why: "a room that no table lists" },
    ...[
      "const t = Date.now();",
      "const t = new Date();",
      "const t = new Date;",
      "const now = Date.now;",
      "const r = Math.random();",
      "crypto.getRandomValues(bytes);",
      "await fetch(url);",
      "setTimeout(f, 1);",
      "console.log(1);",
      "const u = `at ${Date.now()}`;",
      "const a = /['\"`]/; const t = Date.now(); const b = /['\"`]/;",
      'const a = "//"; const t = Date.now();',
    ].map((source) => ({ path: "durable/expiry.ts", source, fault: "is pure", why: source })),
    { path: "durable/roster-store.ts", source: `import "../protocol/message.ts";`, fault: "messages", why: "mail" },
    {
      path: "durable/roster-store.ts",
      source: `import { isMessageId } from "../protocol/b.ts";`,
      fault: "knows of messages",
      why: "mail by another door",
    },
    {
      path: "durable/inbox-store.ts",
      source: `import type { Announcement } from "../protocol/announcement.ts";`,
      fault: "knows of announcements",
      why: "presence",
    },
    {
      path: "durable/x.ts",
      source: "// oxlint-disable-next-line no-console",
      fault: "disables no-console",
      why: "lint",
    },
    { path: "durable/x.ts", source: "/* eslint-disable import/no-cycle */", fault: "no-cycle", why: "by block" },
    { path: "durable/x.ts", source: "// oxlint-disable-line", fault: "every rule", why: "lint whole" },
    {
      path: "durable/x.ts",
      source: "/* oxlint-disable -- hurry */",
      fault: "every rule",
      why: "lint whole, with reason",
    },
  ])("finds in $path: $why", ({ path, source, fault }) => {
    expect(checkWith({ [path]: source })).toContainEqual(expect.stringContaining(fault));
  });

  it.each([
    { source: `// import "../worker/index.ts"; Date.now()`, why: "an import and a clock in a comment" },
    { source: `/** Never \`fetch(\`.\n * import "zod";\n */`, why: "the same in a block" },
    {
      source: "// oxlint-disable-next-line no-control-regex -- the purpose",
      why: "a lint rule that guards nothing here",
    },
    { source: `const from = "zod"; export const importer = "x";`, why: "words that look like an import" },
    { source: `const validateDate = prefetch(newDate);`, why: "names that hold a forbidden word" },
    { source: "x;\n".repeat(300), why: "a file of exactly the limit" },
  ])("lets pass $why", ({ source }) => {
    expect(checkWith({ "durable/expiry.ts": source })).toEqual([]);
  });
});
