/** PURE. An entry of Codex's TOML file: a table `[mcp_servers.interlink]` and its own, at the end of the file. */

import { isDeepStrictEqual } from "node:util";
import { cutBack, eolOf, type Editor, type EditRefusal, type Undo } from "./edit.ts";
import { parseToml, type Statement } from "./toml.ts";

export type TomlValue = string | readonly string[] | Readonly<Record<string, string>>;

/** @param at the table's keys, each of which needs no quotes */
export function tomlEntry(at: readonly [string, string], values: Readonly<Partial<Record<string, TomlValue>>>): Editor {
  const block = (eol: string) => print(at, values).replaceAll("\n", eol);
  return {
    shown: block("\n").trimEnd(),
    add(text) {
      if (text === undefined) return { text: block("\n"), undo: undoOf("file", block("\n"), 0) };
      const statements = parseToml(text);
      if (!statements) return { refused: "unreadable" };
      const refusal = stands(statements, at);
      if (refusal) return refusal;
      const eol = eolOf(text);
      const isBegun = text !== "" && text !== "\ufeff";
      const lead = (isBegun && !text.endsWith("\n") ? eol : "") + (isBegun ? eol : "");
      const put = lead + block(eol);
      return { text: text + put, undo: undoOf("entry", put, lead.length) };
    },
    remove(text, undo) {
      if (undo.made === "file" && text === undo.text) return { text: undefined };
      const statements = parseToml(text);
      if (!statements) return { refused: "unreadable" };
      const ours = statements.filter(({ path }) => isWithin(path, at));
      if (ours.length === 0) return { gone: true };
      if (!isDeepStrictEqual(factsOf(text, ours), undo.entry)) return { refused: "changed" };
      const cut = undo.made === "entry" ? cutBack(text, undo, ours[0]!.start) : undefined;
      const others = statements.filter((each) => !ours.includes(each));
      // The record may be damaged too, and then takes out more or less than was put in.
      const isOurs = cut !== undefined && isDeepStrictEqual(saidIn(cut), factsOf(text, others));
      return { text: isOurs ? cut : takeLines(text, ours) };
    },
    holds(text) {
      const ours = (parseToml(text) ?? []).filter(({ path }) => isWithin(path, at));
      return isDeepStrictEqual(factsOf(text, ours), undoOf("entry", "", 0).entry);
    },
  };

  function undoOf(made: Undo["made"], put: string, lead: number): Undo {
    const text = block("\n");
    return { made, text: put, lead, at, entry: factsOf(text, parseToml(text)!) };
  }
}

function stands(statements: readonly Statement[], at: readonly [string, string]): EditRefusal | undefined {
  if (statements.some(({ path }) => isWithin(path, at))) return { refused: "taken" };
  // `mcp_servers = {…}` and `[[mcp_servers]]` are closed to a table from elsewhere.
  const isClosed = statements.some(({ path, kind }) => path.length === 1 && path[0] === at[0] && kind !== "table");
  return isClosed ? { refused: "other_shape" } : undefined;
}

const isWithin = (path: readonly string[], at: readonly string[]) => at.every((part, index) => path[index] === part);

/** What the statements say, whatever stands around them. */
function factsOf(text: string, statements: readonly Statement[]): unknown {
  return statements.map(({ kind, path, start, end }) => {
    const said = text.slice(start, end);
    return kind === "value" ? [path.join("."), said.slice(said.indexOf("=") + 1).trim()] : [path.join("."), kind];
  });
}

function saidIn(text: string): unknown {
  const statements = parseToml(text);
  return statements && factsOf(text, statements);
}

/** Each with its line. */
function takeLines(text: string, statements: readonly Statement[]): string {
  let rest = text;
  for (const { start, end } of statements.toReversed()) {
    const from = rest.lastIndexOf("\n", start - 1) + 1;
    const behind = rest.indexOf("\n", end);
    rest = rest.slice(0, from) + (behind < 0 ? "" : rest.slice(behind + 1));
  }
  return rest;
}

function print(at: readonly string[], values: Readonly<Partial<Record<string, TomlValue>>>): string {
  const table = at.join(".");
  const own: string[] = [];
  const beneath: string[] = [];
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined) continue;
    if (typeof value === "string") own.push(`${key} = ${quote(value)}`);
    else if (isList(value)) own.push(`${key} = [${value.map(quote).join(", ")}]`);
    else
      beneath.push("", `[${table}.${key}]`, ...Object.entries(value).map(([name, each]) => `${name} = ${quote(each)}`));
  }
  return [`[${table}]`, ...own, ...beneath, ""].join("\n");
}

function isList(value: Exclude<TomlValue, string>): value is readonly string[] {
  return Array.isArray(value);
}

/** A basic string: JSON's escapes are TOML's, which wants one more. */
function quote(text: string): string {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}
