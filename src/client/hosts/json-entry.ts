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
      const exact = exactly(text, found, undo);
      // The record may be damaged too, and then takes out more or less than was put in.
      const isOurs =
        exact !== undefined && "gone" in find(exact, at) && isDeepStrictEqual(othersIn(exact, at), othersIn(text, at));
      return { text: isOurs ? exact : takeOut(text, found, undo) };
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

/** The text without exactly what was put in, if that stands there. */
function exactly(text: string, { root, servers, entry }: Found, undo: Undo): string | undefined {
  if (undo.made !== "entry") {
    const rest = text.endsWith(undo.text) ? text.slice(0, text.length - undo.text.length) : undefined;
    return rest !== undefined && undo.made === "document" && parseJsonc(rest) === "blank" ? rest : undefined;
  }
  const [put, around] = isParentOurs(undo) ? [servers, root] : [entry, servers.node];
  const before = around.members![around.members!.indexOf(put) - 1];
  // Somebody may have put another behind ours: then the commas are no longer as they were.
  const isLast = put.comma === undefined || undo.text.endsWith(",");
  const cut = isLast ? cutBack(text, undo, put.start) : undefined;
  if (cut === undefined || !undo.comma) return cut;
  return before?.comma === undefined ? undefined : cut.slice(0, before.comma) + cut.slice(before.comma + 1);
}

const isParentOurs = ({ made, at }: Undo): boolean => made === "entry" && at.length === 1;

/** What a text says beside our entry. */
function othersIn(text: string, at: readonly [string, string]): unknown {
  const root = parseJsonc(text);
  if (root === "blank") return [{}, {}];
  if (!root?.members) return undefined;
  const [parent, name] = at;
  const { [parent]: servers, ...rest } = root.value as Record<string, unknown>;
  const { [name]: _ours, ...others } = (servers ?? {}) as Record<string, unknown>;
  return [rest, others];
}

/** The entry alone. */
function takeOut(text: string, { root, servers, entry }: Found, undo: Undo): string {
  // A parent that we made and that holds nothing else goes with it.
  const isAlone = isParentOurs(undo) && servers.node.members!.length === 1;
  return isAlone ? takeMember(text, root, servers) : takeMember(text, servers.node, entry);
}

function takeMember(text: string, { members = [] }: JsonNode, member: JsonMember): string {
  const before = members[members.indexOf(member) - 1];
  const end = member.comma === undefined ? member.node.end : member.comma + 1;
  const rest = text.slice(0, blankBefore(text, member.start, end)) + text.slice(end);
  // A comma before a closing brace is an error to some.
  if (member.comma !== undefined || before?.comma === undefined) return rest;
  return rest.slice(0, before.comma) + rest.slice(before.comma + 1);
}

const LINE_END = /[ \t]*(?:\/\/[^\r\n]*)?\r?\n/y;

/**
 * Where the spaces before a member begin, and the line end before them where none of its line is left: else what follows
 * would come behind the comment of another line. No pattern: one anchored at its end tries every space anew.
 */
function blankBefore(text: string, start: number, end: number): number {
  let at = start;
  while (text[at - 1] === " " || text[at - 1] === "\t") at--;
  LINE_END.lastIndex = end;
  if (text[at - 1] === "\n" && LINE_END.test(text)) at -= text[at - 2] === "\r" ? 2 : 1;
  return at;
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
