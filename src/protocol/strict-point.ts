/**
 * Which byte strings may be an Ed25519 key or the R of a signature.
 *
 * The runtimes disagree: workerd and Node 20 accept keys of small order, under which anyone can sign
 * anything; Node 24 does not. This check, before the runtime's verifier, makes them agree.
 */

/** Little-endian y of the eight points of small order, sign bit cleared: 0, 1, p-1 and the two of order 8. */
const SMALL_ORDER_Y: readonly Uint8Array[] = [
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
].map(fromHex);

/** L, the order of the base point, little-endian. */
const ORDER = fromHex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");

function fromHex(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g)!, (pair) => Number.parseInt(pair, 16));
}

/** True if 32 bytes are a y below p (one encoding a point) and not a point of small order. */
export function isStrictPoint(bytes: Uint8Array, offset = 0): boolean {
  return isBelowP(bytes, offset) && !SMALL_ORDER_Y.some((y) => hasY(bytes, offset, y));
}

/** True if the 64 bytes of a signature are a strict R and an S below L, so that a signature has one spelling. */
export function isStrictSignature(bytes: Uint8Array): boolean {
  return bytes.length === 64 && isBelowOrder(bytes, 32) && isStrictPoint(bytes, 0);
}

/** p = 2^255 - 19 is ed ff … ff 7f: only a tail of all ones can reach it. */
function isBelowP(bytes: Uint8Array, offset: number): boolean {
  if ((bytes[offset + 31]! & 0x7f) !== 0x7f) return true;
  for (let i = 30; i >= 1; i--) if (bytes[offset + i] !== 0xff) return true;
  return bytes[offset]! < 0xed;
}

function hasY(bytes: Uint8Array, offset: number, y: Uint8Array): boolean {
  for (let i = 0; i < 31; i++) if (bytes[offset + i] !== y[i]) return false;
  return (bytes[offset + 31]! & 0x7f) === y[31];
}

function isBelowOrder(bytes: Uint8Array, offset: number): boolean {
  for (let i = 31; i >= 0; i--) {
    const difference = bytes[offset + i]! - ORDER[i]!;
    if (difference !== 0) return difference < 0;
  }
  return false;
}
