/** A person at a terminal, as the commands see one; only bin.ts knows of the process. */

import type { Key } from "../../protocol/address.ts";
import { jsonLine } from "../tools/escape.ts";
import { Operator } from "../trust/operator.ts";
import { complaint } from "./words.ts";

export interface Terminal {
  /** True if a person both reads and types here. */
  readonly isPerson: boolean;
  /** True if what was asked for goes to a terminal that shows colours. */
  readonly hasColour?: boolean;
  /** A program reads what was asked for. */
  readonly isJson?: boolean;
  /** One line of what was asked for. */
  out(line: string): void;
  /** One line beside it. */
  err(line: string): void;
  /** Asks, and gives what was typed. */
  ask(question: string): Promise<string>;
}

/** What a command ends with, as the process does; docs/CLI.md says what each means. 3 is the launcher's. */
export type ExitCode = 0 | 1 | 2 | 4 | 5;

/** What was asked for: as one line of JSON, or as lines for a person. */
export function report(terminal: Terminal, value: object, lines: readonly string[]): void {
  if (terminal.isJson) terminal.out(jsonLine(value));
  else for (const line of lines) terminal.out(line);
}

/** It was not done. @param words one sentence without its stop @param code stable, for programs */
export function refuse(terminal: Terminal, words: string, code = "refused", exit: ExitCode = 1): ExitCode {
  const sentence = complaint(words);
  if (terminal.isJson) terminal.out(jsonLine({ error: code, message: sentence }));
  else terminal.err(sentence);
  return exit;
}

const COLOURS = { red: 31, green: 32, yellow: 33, dim: 2 } as const;

export function paint(terminal: Terminal, colour: keyof typeof COLOURS, text: string): string {
  return terminal.hasColour && !terminal.isJson ? `\u001b[${COLOURS[colour]}m${text}\u001b[0m` : text;
}

/** Columns for a person; for another program the same without padding. */
export function table(terminal: Terminal, rows: readonly (readonly string[])[]): string[] {
  const widths = rows.reduce<number[]>((so, row) => row.map((cell, at) => Math.max(so[at] ?? 0, cell.length)), []);
  const isAligned = terminal.hasColour === true;
  return rows.map((row) =>
    row.map((cell, at) => (isAligned && at < row.length - 1 ? cell.padEnd(widths[at]!) : cell)).join("  "),
  );
}

/** A person's yes: typed, or given with --yes. @param shown what they decide on */
export async function agrees(
  terminal: Terminal,
  { shown, yes }: { readonly shown: readonly string[]; readonly yes: boolean },
): Promise<boolean> {
  for (const line of shown) terminal.err(line);
  if (yes) return true;
  if (!terminal.isPerson) {
    terminal.err("Nothing was changed: there is no terminal to ask at. A person may pass --yes.");
    return false;
  }
  const answer = (await terminal.ask("Yes or no? ")).trim().toLowerCase();
  if (answer === "y" || answer === "yes") return true;
  terminal.err("Nothing was changed.");
  return false;
}

/** The person's word for a change of trust. */
export async function attest(
  terminal: Terminal,
  { key, ...asked }: { readonly key: Key; readonly shown: readonly string[]; readonly yes: boolean },
): Promise<Operator | undefined> {
  return (await agrees(terminal, asked)) ? Operator.attest(key, "cli") : undefined;
}
