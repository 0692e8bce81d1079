/** What a name, a summary and an id may be made of. Text of a message may hold anything that is whole Unicode. */

const encoder = new TextEncoder();

/**
 * Characters that a person cannot see or that change how the rest is shown: controls, line breaks,
 * bidi, zero-width, variation selectors and tags (reference: Unicode Default_Ignorable and bidi classes).
 * Written as escapes because a source file with them would be unreadable.
 */
const INVISIBLE =
  // oxlint-disable-next-line no-control-regex no-misleading-character-class -- matching them is the purpose
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{13430}-\u{1345f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/u;

/** UTF-8 length of a string. */
export function byteLength(text: string): number {
  return encoder.encode(text).length;
}

/** True if the text is whole code points: no lone surrogate, which would encode like U+FFFD. */
export function isWholeUnicode(text: string): boolean {
  return text.isWellFormed();
}

/** True if every character is one that a reader sees. */
export function isVisible(text: string): boolean {
  return isWholeUnicode(text) && !INVISIBLE.test(text);
}

/**
 * The same text with each invisible character as `\uXXXX`, for JSON, a terminal or a log: one line, nothing
 * hidden. Inside JSON it parses back to the same value.
 */
export function escapeInvisible(text: string): string {
  return text.toWellFormed().replace(new RegExp(INVISIBLE.source, "gu"), (character) => {
    let escaped = "";
    for (let i = 0; i < character.length; i++) {
      escaped += `\\u${character.charCodeAt(i).toString(16).padStart(4, "0")}`;
    }
    return escaped;
  });
}
