/**
 * Strict base64url without padding: one spelling for one value, so that a key is a name.
 *
 * The decoders of the runtimes take padding, spaces, the other alphabet and non-zero trailing bits:
 * 4 spellings of a key, 16 of a signature. Here all but the canonical one are refused.
 */

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VALUES = new Int8Array(128).fill(-1);
for (let i = 0; i < ALPHABET.length; i++) VALUES[ALPHABET.charCodeAt(i)] = i;

/** Encodes bytes; the result decodes to the same bytes and nothing else does. */
export function encodeBase64url(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i;
    const bits = (bytes[i]! << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    text += ALPHABET[bits >> 18]! + ALPHABET[(bits >> 12) & 63]!;
    if (left > 1) text += ALPHABET[(bits >> 6) & 63]!;
    if (left > 2) text += ALPHABET[bits & 63]!;
  }
  return text;
}

/**
 * Decodes exactly `length` bytes.
 * @returns undefined if `text` is anything but their canonical spelling; never throws.
 */
export function decodeBase64url(text: string, length: number): Uint8Array<ArrayBuffer> | undefined {
  if (text.length !== Math.ceil((length * 8) / 6)) return undefined;
  const bytes = new Uint8Array(length);
  let bits = 0;
  let pending = 0;
  let at = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    const value = code < 128 ? VALUES[code]! : -1;
    if (value < 0) return undefined;
    bits = ((bits << 6) | value) & 0xffff;
    pending += 6;
    if (pending >= 8) {
      pending -= 8;
      bytes[at++] = (bits >> pending) & 0xff;
    }
  }
  const unusedBits = bits & ((1 << pending) - 1);
  return unusedBits === 0 ? bytes : undefined;
}
