// All that this room may take from a runtime, the same in workerd and in Node. A clock, randomness,
// a socket or storage is not declared here, so using one in src/protocol does not compile.

declare class TextEncoder {
  encode(text: string): Uint8Array<ArrayBuffer>;
}
declare class TextDecoder {
  constructor(label: "utf-8", options: { fatal: boolean; ignoreBOM: boolean });
  decode(bytes: Uint8Array): string;
}
type CryptoKey = object;
declare const crypto: {
  readonly subtle: {
    digest(algorithm: "SHA-256", bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer>;
    importKey(
      format: "raw",
      bytes: Uint8Array<ArrayBuffer>,
      algorithm: "Ed25519",
      extractable: boolean,
      usages: ["verify"],
    ): Promise<CryptoKey>;
    verify(
      algorithm: "Ed25519",
      key: CryptoKey,
      signature: Uint8Array<ArrayBuffer>,
      bytes: Uint8Array<ArrayBuffer>,
    ): Promise<boolean>;
  };
};
