/**
 * Configuration of hosts, as people and programs leave it: any text at all.
 *
 * Our entry goes in and comes out again with every other byte as it was, or the text is refused with a word. Taken out of a
 * text that somebody has changed meanwhile, it goes alone: what the others say stays what it was.
 */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { readRecord } from "../../src/client/cli/setup-record.ts";
import type { Editor, Undo } from "../../src/client/hosts/edit.ts";
import { parseJsonc } from "../../src/client/hosts/jsonc.ts";
import { jsonEntry } from "../../src/client/hosts/json-entry.ts";
import { parseToml } from "../../src/client/hosts/toml.ts";
import { tomlEntry } from "../../src/client/hosts/toml-entry.ts";
import { changed, changes, fuzzed, near, promptly, SLOW } from "./inputs.ts";

const ENTRY = {
  command: "/opt/node",
  args: ["/opt/x \u007f.js", "mcp"],
  env: { INTERLINK_URL: "https://bus.example" },
};
const REFUSALS = ["unreadable", "other_shape", "repeated_key", "taken", "changed"];

const JSONS = [
  "{}",
  "",
  "// nothing yet\n",
  '{\n  "mcpServers": {\n    "a": { "command": "x" }, // one\n    "b": { "command": "y" },\n  },\n  "z": [1, 2,],\n}\n',
  '{"mcpServers":{"a":{"command":"x"}},"n":-1.5e3,"t":true,"u":null,"s":"\\u00e4 \\"q\\" \\\\"}',
  '\ufeff{\r\n\t"other": {},\r\n\t/* c */ "mcpServers": {}\r\n}',
];
const TOMLS = [
  "",
  "# nothing yet",
  'model = "x"\n\n[mcp_servers.a]\ncommand = "y" # one\nargs = [\n  "1", # two\n  \'2\',\n]\n\n[mcp_servers.a.env]\nK = "v"\n',
  '\ufeffa.b = 1979-05-27\r\n[ t."q.r" ]\r\nc = """\r\nmany [lines] \\"""\r\n"""\r\nd = \'\'\'\r\n#\r\n\'\'\'\r\n[[u]]\r\ne = { f = [ {} ] }\r\n',
];

const directory = mkdtempSync(join(tmpdir(), "interlink-fuzz-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

interface Format {
  readonly editor: Editor;
  readonly texts: readonly string[];
  /** What a text says beside our entry; undefined: nothing that can be read. */
  readonly others: (text: string) => unknown;
}

const json: Format = {
  editor: jsonEntry(["mcpServers", "interlink"], ENTRY),
  texts: JSONS,
  others(text) {
    const read = parseJsonc(text);
    if (read === undefined) return undefined;
    const said = read === "blank" ? {} : read.value;
    const { mcpServers, ...rest } = said as { mcpServers?: Record<string, unknown> };
    const { interlink: _ours, ...servers } = mcpServers ?? {};
    return { ...rest, servers };
  },
};
const toml: Format = {
  editor: tomlEntry(["mcp_servers", "interlink"], ENTRY),
  texts: TOMLS,
  others: (text) =>
    parseToml(text)
      ?.filter(({ path }) => path[0] !== "mcp_servers" || path[1] !== "interlink")
      .map(({ path, kind, start, end }) => [path, kind, kind === "value" ? text.slice(start, end) : ""]),
};

describe.each([
  { name: "a JSON file", format: json },
  { name: "a TOML file", format: toml },
])("$name", ({ format: { editor, texts, others } }) => {
  it("takes our entry and gives it back byte for byte, or is refused with a word", SLOW, () => {
    fc.assert(
      fc.property(near(...texts), (text) => {
        const added = promptly(() => editor.add(text));
        if ("refused" in added) return void expect(REFUSALS).toContain(added.refused);
        expect(editor.holds(added.text)).toBe(true);
        expect(others(added.text)).toEqual(others(text));
        // As the record has it.
        const undo = JSON.parse(JSON.stringify(added.undo)) as Undo;
        expect(promptly(() => editor.remove(added.text, undo))).toEqual({ text });
      }),
      fuzzed(5),
    );
  });

  it("loses our entry alone where it was changed meanwhile, or is refused with a word", SLOW, () => {
    fc.assert(
      fc.property(fc.constantFrom(undefined, ...texts), changes, (text, all) => {
        const added = editor.add(text);
        if ("refused" in added) throw new Error(added.refused);
        const meanwhile = changed(added.text, all);
        const removed = promptly(() => editor.remove(meanwhile, added.undo));
        if ("refused" in removed) return void expect(REFUSALS).toContain(removed.refused);
        if ("gone" in removed) return void expect(editor.holds(meanwhile)).toBe(false);
        if (removed.text === undefined) return void expect(meanwhile).toBe(added.text);
        expect(editor.holds(removed.text)).toBe(false);
        expect(others(removed.text)).toEqual(others(meanwhile));
      }),
      fuzzed(5),
    );
  });

  it("loses our entry alone, or nothing, where the record of what was put in is damaged", SLOW, () => {
    const path = join(directory, "setup.json");
    fc.assert(
      fc.property(fc.constantFrom(...texts), changes, (text, all) => {
        const added = editor.add(text);
        if ("refused" in added) throw new Error(added.refused);
        const written = { host: "h", path: "/p", what: "w", undo: added.undo, folders: ["/f"] };
        const whole = JSON.stringify({ name: "me", writes: [written] }, null, 2);
        writeFileSync(path, changed(whole, all), { mode: 0o600 });
        const record = promptly(() => readRecord(path));
        if ("refused" in record) return void expect(["bad_setup_file", "not_text"]).toContain(record.refused);
        for (const { undo } of record.writes) {
          const removed = promptly(() => editor.remove(added.text, undo));
          if ("refused" in removed) expect(REFUSALS).toContain(removed.refused);
          else if ("text" in removed && removed.text !== undefined) {
            expect(editor.holds(removed.text)).toBe(false);
            expect(others(removed.text)).toEqual(others(added.text));
          }
        }
      }),
      fuzzed(3),
    );
  });

  it("of any length is read without a fault", SLOW, () => {
    const long = (piece: string) => piece.repeat(Math.ceil(1_000_000 / piece.length));
    const pieces = [
      "\\n",
      "x",
      " ",
      "\n",
      '"',
      "[",
      "{",
      "a=1\n",
      '"""',
      "'",
      "''",
      "/*",
      "//\n",
      "/**/",
      "#\n",
      "\\\\",
      ".",
    ];
    for (const piece of pieces) {
      for (const [head, tail] of [
        ["", ""],
        ['{"a":"', '"}'],
        ['{"a":', "}"],
        ['a = "', '"\n'],
        ['a = """', '"""\n'],
        ["a = [", "]\n"],
        ['{"mcpServers":{"b":1,', '"interlink":{}}}'],
      ] as const) {
        const text = head + long(piece) + tail;
        const added = promptly(() => editor.add(text));
        if ("refused" in added) expect(REFUSALS).toContain(added.refused);
        else expect(promptly(() => editor.remove(added.text, added.undo))).toEqual({ text });
      }
    }
  });
});
