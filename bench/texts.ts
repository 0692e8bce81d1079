/** The text that every system carries: 300 bytes, with its own number in front. */

const TEXT_BYTES = 300;
const DIGITS = 10;
const FILLER = ":".padEnd(TEXT_BYTES - DIGITS, "the quick brown fox jumps over the lazy dog, ");

/** The text of message `n`; ASCII, so its length is its bytes. */
export function textOf(n: number): string {
  return String(n).padStart(DIGITS, "0") + FILLER;
}

/** The inverse of {@link textOf}. */
export function numberOf(text: string): number {
  const n = Number(text.slice(0, DIGITS));
  if (text.length !== TEXT_BYTES || !Number.isSafeInteger(n)) throw new Error(`received a text that nobody sent`);
  return n;
}
