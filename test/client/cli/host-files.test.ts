/** Our entry in files that people wrote: it goes in, it comes out, and no other byte moves. */

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Editor, Undo } from "../../../src/client/hosts/edit.ts";
import { parseJsonc } from "../../../src/client/hosts/jsonc.ts";
import { jsonEntry } from "../../../src/client/hosts/json-entry.ts";
import { parseToml } from "../../../src/client/hosts/toml.ts";
import { tomlEntry } from "../../../src/client/hosts/toml-entry.ts";

const ENTRY = {
  command: "/opt/node",
  args: ["/opt/x \u007f.js", "mcp"],
  env: { INTERLINK_URL: "https://bus.example" },
};
const json = jsonEntry(["mcpServers", "interlink"], ENTRY);
const toml = tomlEntry(["mcp_servers", "interlink"], ENTRY);

function add(editor: Editor, text: string | undefined) {
  const added = editor.add(text);
  if ("refused" in added) throw new Error(added.refused);
  return added;
}

function remove(editor: Editor, text: string, undo: Undo): string | undefined {
  const removed = editor.remove(text, undo);
  if (!("text" in removed)) throw new Error(JSON.stringify(removed));
  return removed.text;
}

describe("a JSON file", () => {
  it.each([
    { why: "none", before: undefined, after: `{\n  "mcpServers": {\n    "interlink": E\n  }\n}\n` },
    { why: "an empty one", before: "", after: `{\n  "mcpServers": {\n    "interlink": E\n  }\n}\n` },
    { why: "only a comment", before: "// mine", after: `// mine\n{\n  "mcpServers": {\n    "interlink": E\n  }\n}\n` },
    { why: "an empty object", before: "{}\n", after: `{\n  "mcpServers": {\n    "interlink": E\n  }\n}\n` },
    {
      why: "other settings, four blanks",
      before: `{\n    "theme": "dark"\n}`,
      after: `{\n    "theme": "dark",\n    "mcpServers": {\n        "interlink": E\n    }\n}`,
    },
    {
      why: "other servers, with what is said of them",
      before: `{\n  "mcpServers": {\n    // the notes\n    "notes": {"command": "n"} // old\n    /* end */\n  }\n}`,
      after: `{\n  "mcpServers": {\n    // the notes\n    "notes": {"command": "n"}, // old\n    "interlink": E\n    /* end */\n  }\n}`,
    },
    {
      why: "a comma at the end",
      before: `{\n\t"mcpServers": {\n\t\t"notes": {},\n\t},\n}`,
      after: `{\n\t"mcpServers": {\n\t\t"notes": {},\n\t\t"interlink": E,\n\t},\n}`,
    },
    { why: "all on one line", before: `{"mcpServers":{"n":{}}}`, after: `{"mcpServers":{"n":{},"interlink": E}}` },
    {
      why: "line ends of Windows, and a mark",
      before: `\ufeff{\r\n  "a": 1\r\n}\r\n`,
      after: `\ufeff{\r\n  "a": 1,\r\n  "mcpServers": {\r\n    "interlink": E\r\n  }\r\n}\r\n`,
    },
  ])("$why", ({ before, after }) => {
    const { text, undo } = add(json, before);
    const shape = text.replace(/(?<="interlink": )\{[^]*?\}[^]*?\}/, "E");
    expect(shape).toBe(after);
    expect(remove(json, text, undo)).toBe(before);
  });

  it.each([
    { text: `{"a" 1}`, refused: "unreadable" },
    { text: `{"a": 01}`, refused: "unreadable" },
    { text: `{"a": "\u0001"}`, refused: "unreadable" },
    { text: `${"[".repeat(5_000)}${"]".repeat(5_000)}`, refused: "unreadable" },
    { text: `[]`, refused: "other_shape" },
    { text: `{"mcpServers": []}`, refused: "other_shape" },
    { text: `{"mcpServers": null}`, refused: "other_shape" },
    { text: `{"mcpServers": {}, "mcpServers": {}}`, refused: "repeated_key" },
    { text: `{"mcpServers": {"interlink": {}}}`, refused: "taken" },
    { text: `{"mcpServers": {"inter\\u006cink": {}}}`, refused: "taken" },
  ])("$text is $refused", ({ text, refused }) => expect(json.add(text)).toEqual({ refused }));

  it("that the host has written anew loses the entry alone", () => {
    const before = `{ "theme": "dark", "mcpServers": {} }`;
    const { text, undo } = add(json, before);
    const anew = JSON.stringify({ first: 1, ...(JSON.parse(text) as object), last: 2 }, null, 4);
    const after = remove(json, anew, undo)!;
    expect(JSON.parse(after)).toEqual({ first: 1, theme: "dark", mcpServers: {}, last: 2 });
  });

  it.each([`{\n}`, `{ }`, `{\n  "a": 1,\n}`, `{"a": 1}`])(
    "of %j takes another behind ours, and ours out from before it",
    (before) => {
      const first = add(json, before);
      const second = add(jsonEntry(["mcpServers", "other"], { command: "o" }), first.text);
      const after = remove(json, second.text, first.undo)!;
      expect(parseJsonc(after)).toMatchObject({ value: { mcpServers: { other: { command: "o" } } } });
      expect(after.replaceAll(/,(?=\s*\})/g, "").match(/,/g)?.length ?? 0).toBe(before.includes("1") ? 1 : 0);
    },
  );

  it("loses nothing to the comment of the line before, where ours shares its line with another", () => {
    const { text, undo } = add(json, `{ "mcpServers": {} }`);
    const entry = JSON.stringify(ENTRY);
    const shared = `{ "mcpServers": { "a": 1, // one\n "interlink": ${entry}, "b": 2 } }`;
    expect(text).not.toBe(shared);
    expect(parseJsonc(remove(json, shared, undo)!)).toMatchObject({ value: { mcpServers: { a: 1, b: 2 } } });
    const last = `{ "mcpServers": { "a": 1, // one\n "interlink": ${entry} } }`;
    expect(parseJsonc(remove(json, last, undo)!)).toMatchObject({ value: { mcpServers: { a: 1 } } });
  });

  it("of which a damaged record knows too little or too much loses the entry alone", () => {
    const { text, undo } = add(json, `{\n  "a": 1\n}\n`);
    for (const damaged of [
      { text: undo.text.slice(0, -1) },
      { text: "" },
      { text: "", made: "document" as const },
      { lead: 0 },
    ]) {
      expect(parseJsonc(remove(json, text, { ...undo, ...damaged })!)).toMatchObject({ value: { a: 1 } });
      expect(json.holds(remove(json, text, { ...undo, ...damaged })!)).toBe(false);
    }
    const { text: table, undo: put } = add(toml, "a = 1\n");
    for (const damaged of [{ text: put.text.slice(0, -9) }, { text: "" }, { lead: 0 }]) {
      const after = remove(toml, table, { ...put, ...damaged })!;
      expect(parseToml(after)?.map(({ path }) => path)).toEqual([["a"]]);
    }
  });

  it("of millions of comments is read", { timeout: 20_000 }, () => {
    expect(parseJsonc(`${"//\n".repeat(6_000_000)}{}`)).toMatchObject({ value: {} });
    expect(parseToml(`${"#\n".repeat(6_000_000)}a = 1\n`)).toHaveLength(1);
  });

  it("with a million spaces gives it back at once", () => {
    const { text, undo } = add(json, `{ "a": 1 }`);
    const spaces = " ".repeat(1_000_000);
    const beganMs = performance.now();
    const after = remove(
      json,
      text.replace("{", `{ "s": "${spaces}",`).replace('"command"', `${spaces}"command"`),
      undo,
    )!;
    expect(performance.now() - beganMs).toBeLessThan(2_000);
    expect(parseJsonc(after)).toMatchObject({ value: { s: spaces, a: 1 } });
  });

  it("whose entry somebody has changed is left to them", () => {
    const { text, undo } = add(json, "{}");
    expect(json.remove(text.replace("/opt/node", "/opt/other"), undo)).toEqual({ refused: "changed" });
    expect(json.remove(`{"mcpServers": {}}`, undo)).toEqual({ gone: true });
  });

  it("of any content comes back byte for byte, and means the same in between", () => {
    fc.assert(
      fc.property(jsonc, ({ text, value }) => {
        expect(valueOf(text)).toEqual(value);
        const added = json.add(text);
        if ("refused" in added) {
          const servers = (value as { mcpServers?: unknown }).mcpServers;
          expect(servers === undefined || isObject(servers)).toBe(false);
          return;
        }
        const { value: after } = parseJsonc(added.text) as { value: { mcpServers: object } };
        expect(after).toEqual({
          ...value,
          mcpServers: { ...(value as { mcpServers?: object }).mcpServers, interlink: ENTRY },
        });
        expect(remove(json, added.text, added.undo)).toBe(text);
      }),
      { numRuns: 2_000 },
    );
  });

  it("is read as JSON.parse reads it", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(valueOf(text)).toEqual(JSON.parse(text));
      }),
    );
    const broken = fc.tuple(fc.json(), fc.nat(), fc.constantFrom("{", "}", '"', ",", "\\", "x", "\n"));
    fc.assert(
      fc.property(broken, ([text, at, sign]) => {
        const changed = text.slice(0, at % (text.length + 1)) + sign + text.slice(at % (text.length + 1));
        let strict: unknown;
        try {
          strict = JSON.parse(changed);
        } catch {
          return; // commas and comments make ours take more
        }
        expect(valueOf(changed)).toEqual(strict);
      }),
    );
  });
});

function valueOf(text: string): unknown {
  const read = parseJsonc(text);
  if (!read || read === "blank") throw new Error(String(read));
  return read.value;
}

const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Objects as people write them: any spacing, comments, commas at the end. */
const jsonc = fc
  .record({
    entries: fc.uniqueArray(fc.tuple(fc.constantFrom("mcpServers", "a", "b", "\u00fc", 'q"c'), fc.boolean()), {
      selector: ([key]) => key,
    }),
    values: fc.array(
      fc.oneof(fc.jsonValue({ maxDepth: 1 }), fc.constant({}), fc.dictionary(fc.constantFrom("x", "y"), fc.nat())),
      {
        minLength: 5,
        maxLength: 5,
      },
    ),
    gaps: fc.array(
      fc.constantFrom("", " ", "\n", "\n  ", "\n\t", " // c\n  ", "/* d */", "\r\n", " /* e */ // f, {\n"),
      {
        minLength: 8,
        maxLength: 8,
      },
    ),
    endsInComma: fc.boolean(),
  })
  .map(({ entries, values, gaps, endsInComma }) => {
    let turn = 0;
    const gap = () => gaps[turn++ % gaps.length]!;
    const print = (value: unknown): string => {
      if (!isObject(value)) return JSON.stringify(value);
      const members = Object.entries(value as object).map(
        ([key, each]) => `${JSON.stringify(key)}${gap()}:${gap()}${print(each)}${gap()}`,
      );
      return `{${gap()}${members.join(`,${gap()}`)}${members.length > 0 && endsInComma ? `,${gap()}` : ""}}`;
    };
    const value = JSON.parse(
      JSON.stringify(Object.fromEntries(entries.map(([key], index) => [key, values[index]]))),
    ) as object;
    return { text: gap() + print(value) + gap(), value };
  });

describe("a TOML file", () => {
  const TABLE = `[mcp_servers.interlink]\ncommand = "/opt/node"\nargs = ["/opt/x \\u007f.js", "mcp"]\n\n[mcp_servers.interlink.env]\nINTERLINK_URL = "https://bus.example"\n`;

  it.each([
    { why: "none", before: undefined, after: TABLE },
    { why: "an empty one", before: "", after: TABLE },
    { why: "no line end", before: `model = "x" # mine`, after: `model = "x" # mine\n\n${TABLE}` },
    {
      why: "other servers",
      before: `[mcp_servers.notes]\ncommand = 'n'\n`,
      after: `[mcp_servers.notes]\ncommand = 'n'\n\n${TABLE}`,
    },
    {
      why: "dotted keys",
      before: `mcp_servers.notes.command = "n"\n`,
      after: `mcp_servers.notes.command = "n"\n\n${TABLE}`,
    },
    {
      why: "ours in a string",
      before: `a = """\n[mcp_servers.interlink]\n"""\n`,
      after: `a = """\n[mcp_servers.interlink]\n"""\n\n${TABLE}`,
    },
    {
      why: "ours in a comment",
      before: `#[mcp_servers.interlink]\r\n`,
      after: `#[mcp_servers.interlink]\r\n\r\n${TABLE.replaceAll("\n", "\r\n")}`,
    },
  ])("$why", ({ before, after }) => {
    const { text, undo } = add(toml, before);
    expect(text).toBe(after);
    expect(remove(toml, text, undo)).toBe(before);
  });

  it.each([
    { text: `a = `, refused: "unreadable" },
    { text: `a = [1\nb = 2`, refused: "unreadable" },
    { text: `a = """x`, refused: "unreadable" },
    { text: `a 1`, refused: "unreadable" },
    { text: `[a`, refused: "unreadable" },
    { text: `mcp_servers = { notes = { command = "n" } }`, refused: "other_shape" },
    { text: `[[mcp_servers]]`, refused: "other_shape" },
    { text: `[mcp_servers.interlink]`, refused: "taken" },
    { text: `[ "mcp_servers" . 'interlink' ]`, refused: "taken" },
    { text: `[mcp_servers]\ninterlink.command = "x"`, refused: "taken" },
    { text: `mcp_servers.interlink = {}`, refused: "taken" },
  ])("$text is $refused", ({ text, refused }) => expect(toml.add(text)).toEqual({ refused }));

  it("that has grown behind ours loses ours alone", () => {
    const { text, undo } = add(toml, "a = 1\n");
    const grown = text.replaceAll("= ", "=   ") + "\n[mcp_servers.b]\ncommand = 'b'\n";
    const left = remove(toml, grown, undo)!;
    expect(parseToml(left)!.map(({ path }) => path.join("."))).toEqual(["a", "mcp_servers.b", "mcp_servers.b.command"]);
  });

  it("whose entry somebody has changed is left to them", () => {
    const { text, undo } = add(toml, "a = 1\n");
    expect(toml.remove(text.replace("/opt/node", "/n"), undo)).toEqual({ refused: "changed" });
    expect(toml.remove(`${text}startup_timeout_sec = 30\n`, undo)).toEqual({ refused: "changed" });
    expect(toml.remove("a = 1\n", undo)).toEqual({ gone: true });
  });

  it("of any content comes back byte for byte", () => {
    fc.assert(
      fc.property(tomlText, (text) => {
        const { text: after, undo } = add(toml, text);
        const [before, now] = [parseToml(text)!, parseToml(after)!];
        expect(now.slice(0, before.length)).toEqual(before);
        expect(now.slice(before.length).map(({ path }) => path.join("."))).toEqual([
          "mcp_servers.interlink",
          "mcp_servers.interlink.command",
          "mcp_servers.interlink.args",
          "mcp_servers.interlink.env",
          "mcp_servers.interlink.env.INTERLINK_URL",
        ]);
        expect(remove(toml, after, undo)).toBe(text);
      }),
      { numRuns: 1_000 },
    );
  });
});

const tomlText = fc
  .record({
    lines: fc.array(
      fc.constantFrom(
        "",
        "# a comment ] = '",
        'a = "x # no comment" # one',
        "b = 'C:\\path'",
        'c = """\nmany [lines]\n# in "quotes" \\""""',
        "d = '''\n[x]\n'''",
        "e = [1, # one\n  [2, '3'],\n]",
        "f = { g = 1, h = [ {} ] }",
        "i = 1979-05-27T07:32:00Z",
        "[t]",
        '[ t."q.r" ]',
        "[[u]]",
        "[mcp_servers.notes]",
        "j.k = true",
      ),
    ),
    eol: fc.constantFrom("\n", "\r\n"),
    isEnded: fc.boolean(),
  })
  .map(({ lines, eol, isEnded }) => lines.join("\n").replaceAll("\n", eol) + (isEnded ? eol : ""));
