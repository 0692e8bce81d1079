/**
 * PURE. JSON as hosts' configuration has it, with comments and commas before a closing brace: read with the place of
 * each member, so that one can be put in or taken out and every other byte stays, and a key that stands twice is seen.
 *
 * Our own, because an editor that formats what it touches can not put back what was there; from a library nothing but
 * the places would be used.
 */

/** A value and where it stands; `members` of an object, in order, with repeated keys; `items` of a list. */
export interface JsonNode {
  readonly start: number;
  readonly end: number;
  readonly value: unknown;
  readonly members?: readonly JsonMember[];
  readonly items?: readonly JsonNode[];
}

export interface JsonMember {
  readonly key: string;
  readonly start: number;
  readonly node: JsonNode;
  /** Where the comma behind it stands, if there is one. */
  readonly comma?: number;
}

/** What no configuration comes near; beyond it a text is meant to exhaust us. */
const DEPTH_MAX = 100;

/** One at a time: a pattern that repeats this by itself runs out of stack in a text of millions of lines. */
const TRIVIUM = /[ \t\r\n]+|\/\/[^\r\n]*|\/\*[^]*?\*\//y;
// oxlint-disable-next-line no-control-regex -- what JSON wants escaped
const STRING = /"[^"\\\u0000-\u001f]*(?:\\.[^"\\\u0000-\u001f]*)*"/y;
const SCALAR = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.])/y;

/** The document; "blank" if there is nothing but comments; undefined if it is no JSON. */
export function parseJsonc(text: string): JsonNode | "blank" | undefined {
  const reader = new Reader(text);
  try {
    return reader.document();
  } catch (fault) {
    if (fault === NOT_JSON) return undefined;
    throw fault;
  }
}

/** The member of a key; "repeated" if there are several, of which hosts take different ones. */
export function memberOf({ members = [] }: JsonNode, key: string): JsonMember | "repeated" | undefined {
  const [first, second] = members.filter((member) => member.key === key);
  return second ? "repeated" : first;
}

/**
 * The way to a key that one object of a text has twice, the outermost first: `JSON.parse` takes the last in silence, and
 * whoever wrote the first believes in that one. Undefined also where the text is no JSON.
 */
export function repeatedKey(text: string): readonly string[] | undefined {
  const root = parseJsonc(text);
  return root === undefined || root === "blank" ? undefined : repeatedIn(root);
}

function repeatedIn({ members = [], items = [] }: JsonNode): readonly string[] | undefined {
  const seen = new Set<string>();
  for (const { key } of members) {
    if (seen.has(key)) return [key];
    seen.add(key);
  }
  const inside = [...members.map(({ key, node }) => ({ at: key, node })), ...items.map((node, at) => ({ at, node }))];
  for (const { at, node } of inside) {
    const found = repeatedIn(node);
    if (found) return [String(at), ...found];
  }
  return undefined;
}

const NOT_JSON = new Error("no JSON");

class Reader {
  readonly #text: string;
  #at: number;

  constructor(text: string) {
    this.#text = text;
    this.#at = text.startsWith("\ufeff") ? 1 : 0;
  }

  document(): JsonNode | "blank" {
    this.#skip();
    if (this.#at === this.#text.length) return "blank";
    const node = this.#value(0);
    this.#skip();
    if (this.#at !== this.#text.length) throw NOT_JSON;
    return node;
  }

  #value(depth: number): JsonNode {
    if (depth > DEPTH_MAX) throw NOT_JSON;
    const start = this.#at;
    const sign = this.#text[start];
    if (sign === "{") return this.#object(depth);
    if (sign === "[") return this.#array(depth);
    const value = sign === '"' ? this.#string() : (JSON.parse(this.#take(SCALAR)) as unknown);
    return { start, end: this.#at, value };
  }

  #object(depth: number): JsonNode {
    const start = this.#at++;
    const members: JsonMember[] = [];
    for (;;) {
      this.#skip();
      if (this.#takes("}")) break;
      const before = members.at(-1);
      if (before && before.comma === undefined) throw NOT_JSON;
      const keyStart = this.#at;
      const key = this.#string();
      this.#skip();
      if (!this.#takes(":")) throw NOT_JSON;
      this.#skip();
      const node = this.#value(depth + 1);
      this.#skip();
      const comma = this.#at;
      members.push({ key, start: keyStart, node, ...(this.#takes(",") && { comma }) });
    }
    const value = Object.fromEntries(members.map(({ key, node }) => [key, node.value]));
    return { start, end: this.#at, value, members };
  }

  #array(depth: number): JsonNode {
    const start = this.#at++;
    const items: JsonNode[] = [];
    for (let isNext = true; ;) {
      this.#skip();
      if (this.#takes("]")) return { start, end: this.#at, value: items.map(({ value }) => value), items };
      if (!isNext) throw NOT_JSON;
      items.push(this.#value(depth + 1));
      this.#skip();
      isNext = this.#takes(",");
    }
  }

  #string(): string {
    try {
      return JSON.parse(this.#take(STRING)) as string;
    } catch {
      throw NOT_JSON; // an escape that JSON does not have
    }
  }

  #skip(): void {
    for (;;) {
      TRIVIUM.lastIndex = this.#at;
      const found = TRIVIUM.exec(this.#text);
      if (!found) return;
      this.#at += found[0].length;
    }
  }

  #takes(sign: string): boolean {
    const isThere = this.#text[this.#at] === sign;
    if (isThere) this.#at++;
    return isThere;
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found] = pattern.exec(this.#text) ?? [];
    if (found === undefined) throw NOT_JSON;
    this.#at += found.length;
    return found;
  }
}
