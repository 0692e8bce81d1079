/** PURE. An entry of a host's JSON file, beneath one parent object: `{"mcpServers": {"interlink": …}}`. */

import { isDeepStrictEqual } from "node:util";
import { cutBack, eolOf, type Added, type Editor, type EditRefusal, type Undo } from "./edit.ts";
import { memberOf, parseJsonc, type JsonMember, type JsonNode } from "./jsonc.ts";

const UNIT = "  ";

/** @param at parent and name of the entry */
export function jsonEntry(at: readonly [parent: string, name: string], entry: object): Editor {
  const [parent, name] = at;
  return {
    shown: print(parent, { [name]: entry }, "", "\n", UNIT),
    add(text) {
      const whole = (eol: string) => `{${eol}${UNIT}${print(parent, { [name]: entry }, UNIT, eol, UNIT)}${eol}}${eol}`;
      if (text === undefined) return { text: whole("\n"), undo: undoOf("file", whole("\n")) };
      const root = parseJsonc(text);
      if (root === "blank") {
        const put = (text === "" || text === "\ufeff" || text.endsWith("\n") ? "" : eolOf(text)) + whole(eolOf(text));
        return { text: text + put, undo: undoOf("document", put) };
      }
      if (!root) return { refused: "unreadable" };
      if (!root.members) return { refused: "other_shape" };
      const servers = memberOf(root, parent);
      if (servers === "repeated") return { refused: "repeated_key" };
      if (!servers) return insert(text, root, root, [parent], { [name]: entry }, entry);
      if (!servers.node.members) return { refused: "other_shape" };
      return memberOf(servers.node, name) === undefined
        ? insert(text, root, servers.node, [parent, name], entry, entry)
        : { refused: "taken" };
    },
    remove(text, undo) {
      if (undo.made === "file" && text === undo.text) return { text: undefined };
      const found = find(text, at);
      if ("refused" in found || "gone" in found) return found;
      if (!isDeepStrictEqual(found.entry.node.value, undo.entry)) return { refused: "changed" };
      if (undo.made === "document" && text.endsWith(undo.text)) {
        const rest = text.slice(0, -undo.text.length);
        if (parseJsonc(rest) === "blank") return { text: rest };
      }
      return { text: takeOut(text, found, undo) };
    },
    holds(text) {
      const found = find(text, at);
      return "entry" in found && isDeepStrictEqual(found.entry.node.value, entry);
    },
  };

  function undoOf(made: "file" | "document", put: string): Undo {
    return { made, text: put, lead: 0, at: [parent], entry };
  }
}

interface Found {
  readonly root: JsonNode;
  readonly servers: JsonMember;
  readonly entry: JsonMember;
}

function find(text: string, [parent, name]: readonly [string, string]): Found | EditRefusal | { readonly gone: true } {
  const root = parseJsonc(text);
  if (root === "blank") return { gone: true };
  if (!root) return { refused: "unreadable" };
  const servers = memberOf(root, parent);
  if (servers === "repeated") return { refused: "repeated_key" };
  const entry = servers && memberOf(servers.node, name);
  if (entry === "repeated") return { refused: "repeated_key" };
  return servers && entry ? { root, servers, entry } : { gone: true };
}

/** Behind the last member, and behind what is said of that one on its line. */
function insert(
  text: string,
  root: JsonNode,
  into: JsonNode,
  at: readonly string[],
  value: object,
  entry: object,
): Added {
  const eol = eolOf(text);
  const unit = unitOf(text, root);
  const last = into.members!.at(-1);
  const key = at.at(-1)!;
  const undo = (put: string, lead: number, comma = false): Undo => ({
    made: "entry",
    text: put,
    lead,
    ...(comma && { comma }),
    at,
    entry,
  });
  if (!last) {
    const indent = indentOf(text, into.start);
    const lead = eol + indent + unit;
    const inner = text.slice(into.start + 1, into.end - 1);
    const put = lead + print(key, value, indent + unit, eol, unit) + (/\n/.test(inner) ? "" : eol + indent);
    return { text: splice(text, into.start + 1, put), undo: undo(put, lead.length) };
  }
  const behind = last.comma === undefined ? last.node.end : last.comma + 1;
  const comma = last.comma === undefined;
  const end =
    behind + /^[ \t]*(?:\/\*[^\r\n]*?\*\/[ \t]*)*(?:\/\/[^\r\n]*)?/.exec(text.slice(behind))![0].trimEnd().length;
  const isLine = startsLine(text, last.start) || text.slice(behind, end).includes("//");
  const indent = startsLine(text, last.start) ? indentOf(text, last.start) : indentOf(text, into.start) + unit;
  const lead = isLine ? eol + indent : / /.test(text.slice(into.start, last.start)) ? " " : "";
  const printed = isLine ? print(key, value, indent, eol, unit) : `${JSON.stringify(key)}: ${JSON.stringify(value)}`;
  const put = lead + printed + (comma ? "" : ",");
  const withEntry = splice(text, isLine ? end : behind, put);
  return {
    text: comma ? splice(withEntry, last.node.end, ",") : withEntry,
    undo: undo(put, lead.length, comma),
  };
}

/** Exactly what was put in, if it stands there; else the entry alone. */
function takeOut(text: string, { root, servers, entry }: Found, undo: Undo): string {
  const isParentOurs = undo.made === "entry" && undo.at.length === 1;
  const [put, around] = isParentOurs ? [servers, root] : [entry, servers.node];
  const before = around.members![around.members!.indexOf(put) - 1];
  if (undo.made === "entry") {
    // Somebody may have put another behind ours: then the commas are no longer as they were.
    const isLast = put.comma === undefined || undo.text.endsWith(",");
    const cut = isLast ? cutBack(text, undo, put.start) : undefined;
    if (cut !== undefined && !undo.comma) return cut;
    if (cut !== undefined && before?.comma !== undefined)
      return cut.slice(0, before.comma) + cut.slice(before.comma + 1);
  }
  // A parent that we made and that holds nothing else goes with it.
  const isAlone = isParentOurs && servers.node.members!.length === 1;
  return isAlone ? takeMember(text, root, servers) : takeMember(text, servers.node, entry);
}

function takeMember(text: string, { members = [] }: JsonNode, member: JsonMember): string {
  const before = members[members.indexOf(member) - 1];
  const end = member.comma === undefined ? member.node.end : member.comma + 1;
  const blank = /(?:\r?\n)?[ \t]*$/.exec(text.slice(0, member.start))![0].length;
  const rest = text.slice(0, member.start - blank) + text.slice(end);
  // A comma before a closing brace is an error to some.
  if (member.comma !== undefined || before?.comma === undefined) return rest;
  return rest.slice(0, before.comma) + rest.slice(before.comma + 1);
}

function splice(text: string, at: number, put: string): string {
  return text.slice(0, at) + put + text.slice(at);
}

function print(key: string, value: object, indent: string, eol: string, unit: string): string {
  return `${JSON.stringify(key)}: ${JSON.stringify(value, null, unit)}`.replaceAll("\n", eol + indent);
}

/** How far the file indents a level: by its first member. */
function unitOf(text: string, { members: [first] = [], start }: JsonNode): string {
  if (!first || !startsLine(text, first.start)) return UNIT;
  const indent = indentOf(text, first.start);
  const outer = indentOf(text, start);
  return indent.length > outer.length && indent.startsWith(outer) ? indent.slice(outer.length) : UNIT;
}

function startsLine(text: string, at: number): boolean {
  return /(?:^|\n)[ \t]*$/.test(text.slice(Math.max(0, text.lastIndexOf("\n", at - 1)), at));
}

function indentOf(text: string, at: number): string {
  const lineStart = text.lastIndexOf("\n", at - 1) + 1;
  return /^[ \t]*/.exec(text.slice(lineStart, at))![0];
}
