/**
 * One line of JSON a request or event, for machines and for people alike.
 *
 * Nothing of a message's text, a token, a signature or a nonce is ever given to it; and what is given is
 * escaped, since a log is read on a terminal.
 */

import { escapeInvisible } from "../protocol/text.ts";

export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** Writes an event. */
export function logEvent(event: string, fields: LogFields): void {
  console.log(line(event, fields));
}

/** Writes a fault of ours, with its detail: it goes nowhere else. */
export function logFault(event: string, fault: unknown): void {
  const { message, stack } = fault instanceof Error ? fault : new Error(String(fault));
  console.error(line(event, { message, stack }));
}

function line(event: string, fields: LogFields): string {
  return escapeInvisible(JSON.stringify({ event, ...fields }));
}
