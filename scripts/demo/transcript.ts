/** What the demo prints: the scenes, who asks for what, what the answer is, and whether it shows what was expected. */

import { isDeepStrictEqual, styleText } from "node:util";

const COLUMNS = 100;
/** Before who acts, and before what they get. */
const MARGIN = "   ";
const WHO_COLUMNS = 15;
const LINES_MAX = 6;

/** Left out of a line of JSON, for it is long and says nothing here. */
const OMITTED = new Set([
  "interlink",
  "kind",
  "key",
  "public_key",
  "age_ms",
  "cwd",
  "git_root",
  "sent",
  "received",
  "clock_ok",
  "truncated",
]);
/** Keys and ids of messages: only begun. */
const LONG_IDS = /\b[\w-]{43}\b|\b[0-9a-f]{32}\b/g;
const ID_SHOWN_CHARS = 6;

/** What happened, told as it happens; and which of the expected facts did not hold. */
export class Transcript {
  readonly differences: string[] = [];
  facts = 0;
  #scenes = 0;

  /** A scene begins. @param about what is to be seen, in a line */
  scene(title: string, about: string): void {
    console.log(`\n${styleText("bold", `${++this.#scenes}. ${title}`)}`);
    for (const line of wrap(about, COLUMNS - MARGIN.length)) console.log(MARGIN + line);
    console.log();
  }

  /** What somebody did, and what they got. */
  told(who: string, did: string, got = ""): void {
    const width = COLUMNS - MARGIN.length - WHO_COLUMNS;
    const [first = "", ...more] = wrap(shortIds(did), width);
    console.log(MARGIN + styleText("cyan", who.padEnd(WHO_COLUMNS)) + first);
    const indent = " ".repeat(MARGIN.length + WHO_COLUMNS);
    for (const line of more) console.log(indent + line);
    const lines = got
      .split("\n")
      .filter(Boolean)
      .flatMap((line) => cut(wrap(shortIds(shortLine(line)), width)));
    for (const line of lines) console.log(indent + styleText("dim", line));
  }

  /** What the answers show, if it is as expected. */
  shows(sentence: string, actual: unknown, expected: unknown): void {
    this.facts++;
    if (isDeepStrictEqual(actual, expected)) {
      console.log(styleText("green", `${MARGIN}✓ ${sentence}`));
      return;
    }
    const difference = `${sentence}\n     expected ${JSON.stringify(expected)}\n     but got  ${JSON.stringify(actual)}`;
    this.differences.push(difference);
    console.log(styleText("red", `${MARGIN}✗ ${difference}`));
  }
}

/** A line of JSON without what is omitted; any other as it is. */
function shortLine(line: string): string {
  if (!line.startsWith("{")) return line;
  return JSON.stringify(JSON.parse(line), (name, value: unknown) => (OMITTED.has(name) ? undefined : value));
}

function shortIds(text: string): string {
  return text.replace(LONG_IDS, (id) => `${id.slice(0, ID_SHOWN_CHARS)}…`);
}

function cut(lines: string[]): string[] {
  return lines.length <= LINES_MAX ? lines : [...lines.slice(0, LINES_MAX), "…"];
}

/** Lines of at most so many columns, broken behind a space or a comma where there is one. */
function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let rest = text;
  while (rest.length > width) {
    const at = Math.max(rest.lastIndexOf(" ", width - 1), rest.lastIndexOf(",", width - 1)) + 1 || width;
    lines.push(rest.slice(0, at).trimEnd());
    rest = rest.slice(at);
  }
  return [...lines, rest];
}
