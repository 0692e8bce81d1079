/** A person at a terminal, as the commands see one; only bin.ts knows of the process. */

import type { Key } from "../../protocol/address.ts";
import { Operator } from "../trust/operator.ts";

export interface Terminal {
  /** True if a person both reads and types here. */
  readonly isPerson: boolean;
  /** One line of what was asked for. */
  out(line: string): void;
  /** One line beside it. */
  err(line: string): void;
  /** Asks, and gives what was typed. */
  ask(question: string): Promise<string>;
}

/** What a command ends with, as the process does. */
export type ExitCode = 0 | 1 | 2;

/**
 * The person's word for a change of trust: asked for at a terminal, or given with --yes.
 * @param shown what they decide on
 */
export async function attest(
  terminal: Terminal,
  { key, shown, yes }: { readonly key: Key; readonly shown: readonly string[]; readonly yes: boolean },
): Promise<Operator | undefined> {
  for (const line of shown) terminal.err(line);
  if (yes) return Operator.attest(key, "cli");
  if (!terminal.isPerson) {
    terminal.err("Nothing was changed: there is no terminal to ask at. A person may pass --yes.");
    return undefined;
  }
  const answer = (await terminal.ask("Yes or no? ")).trim().toLowerCase();
  if (answer === "y" || answer === "yes") return Operator.attest(key, "cli");
  terminal.err("Nothing was changed.");
  return undefined;
}
