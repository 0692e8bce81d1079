/**
 * PURE. A TOML file as the statements it consists of, each with its whole key and its place; values are passed over and
 * not read. Enough to say whether a table is there, and to put one at the end, where TOML always takes one.
 */

/** `[a.b]`, `[[a.b]]` or `a.b = …` with the keys of the table around it. */
export interface Statement {
  readonly kind: "table" | "array" | "value";
  readonly path: readonly string[];
  /** Of its first character and behind its last; indentation, comment and line end are outside. */
  readonly start: number;
  readonly end: number;
}

/** One at a time: a pattern that repeats this by itself runs out of stack in a text of millions of lines. */
const BLANK = /[ \t\r\n]+|#[^\r\n]*/y;
const REST = /[ \t]*(?:#[^\r\n]*)?(?:\r?\n|$)/y;
const PART = /[ \t]*(?:([A-Za-z0-9_-]+)|("(?:[^"\\\r\n]|\\.)*")|'([^'\r\n]*)')[ \t]*/y;
/** What is one token of a value: strings as wholes, so that nothing in them counts. */
const TOKEN =
  /"""(?:[^"\\]|\\[^]|"(?!""))*"{3,5}|'''(?:[^']|'(?!''))*'{3,5}|"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*'|#[^\r\n]*|\r?\n|[[\]{}]|[^"'#\r\n[\]{}]+/y;

/** The statements in their order, or undefined if it is no TOML. */
export function parseToml(text: string): Statement[] | undefined {
  const statements: Statement[] = [];
  let table: readonly string[] = [];
  let at = text.startsWith("\ufeff") ? 1 : 0;
  for (;;) {
    at = behindBlanks(text, at);
    if (at === text.length) return statements;
    const start = at;
    const brackets = text.startsWith("[[", at) ? 2 : text[at] === "[" ? 1 : 0;
    const key = readKey(text, at + brackets);
    if (!key) return undefined;
    at = key.end;
    if (brackets > 0) {
      if (!text.startsWith("]".repeat(brackets), at)) return undefined;
      at += brackets;
      table = key.path;
      statements.push({ kind: brackets === 1 ? "table" : "array", path: table, start, end: at });
    } else {
      const end = text[at] === "=" ? endOfValue(text, at + 1) : undefined;
      if (end === undefined) return undefined;
      at = end;
      statements.push({ kind: "value", path: [...table, ...key.path], start, end: at });
    }
    const next = behind(REST, text, at);
    if (next === undefined) return undefined;
    at = next;
  }
}

function readKey(text: string, from: number): { path: string[]; end: number } | undefined {
  const path: string[] = [];
  for (let at = from; ; at++) {
    PART.lastIndex = at;
    const found = PART.exec(text);
    if (!found) return undefined;
    const [whole, bare, basic, literal] = found;
    const part = bare ?? literal ?? unescape(basic!);
    if (part === undefined) return undefined;
    path.push(part);
    at += whole.length;
    if (text[at] !== ".") return { path, end: at };
  }
}

/** JSON has all escapes but two of TOML's; a key with one of those is nobody's, and the file is left alone. */
function unescape(basic: string): string | undefined {
  try {
    return JSON.parse(basic) as string;
  } catch {
    return undefined;
  }
}

function endOfValue(text: string, from: number): number | undefined {
  let depth = 0;
  let at = from;
  for (let isEmpty = true; ;) {
    TOKEN.lastIndex = at;
    const [token] = TOKEN.exec(text) ?? [];
    const isOver = token === undefined || (depth === 0 && /^(?:#|\r?\n)/.test(token));
    if (isOver) {
      const end = from + text.slice(from, at).trimEnd().length;
      return isEmpty || depth > 0 || (token === undefined && at < text.length) ? undefined : end;
    }
    if (token === "[" || token === "{") depth++;
    if ((token === "]" || token === "}") && --depth < 0) return undefined;
    if (token.trim() !== "") isEmpty = false;
    at += token.length;
  }
}

function behindBlanks(text: string, from: number): number {
  for (let at = from; ;) {
    const next = behind(BLANK, text, at);
    if (next === undefined) return at;
    at = next;
  }
}

function behind(pattern: RegExp, text: string, at: number): number | undefined {
  pattern.lastIndex = at;
  const [found] = pattern.exec(text) ?? [];
  return found === undefined ? undefined : at + found.length;
}
