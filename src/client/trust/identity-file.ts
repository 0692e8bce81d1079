/**
 * Who we are: the Ed25519 key of `id.key`, in the original's format, which is the 32-byte seed as base64url and
 * a line feed. The seed leaves this file only as signatures.
 */

import { createPrivateKey, createPublicKey, randomBytes, sign as signNatively, type KeyObject } from "node:crypto";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseKey, type Key } from "../../protocol/address.ts";
import { decodeBase64url, encodeBase64url } from "../../protocol/base64url.ts";
import {
  createPrivateFile,
  ensurePrivateDirectory,
  OTHERS_MAY_NOT,
  quote,
  readPrivateFile,
  type FileRefusal,
} from "./private-file.ts";

/** A key that can sign. Shown or serialized, it is its public key alone. */
export interface Identity {
  readonly key: Key;
  /** Signs bytes as they are; 86 characters of base64url, always the same for the same bytes. */
  sign(bytes: Uint8Array): string;
}

export type IdentityRefusal =
  | FileRefusal
  /**
   * The file holds no seed. `mend` moves it aside, after which a *new* identity is made that no peer knows: a
   * copy from a backup is better, and who shows the command must say so.
   */
  | { readonly refused: "bad_key_file"; readonly path: string; readonly mend: string };

export interface OpenedIdentity {
  readonly identity: Identity;
  /** True if this call made it: no peer knows it yet. */
  readonly created: boolean;
}

const SEED_BYTES = 32;
/** Far above the 44 bytes of a key file. */
const KEY_FILE_MAX_BYTES = 4_096;
/** How PKCS #8 begins for an Ed25519 seed: node:crypto takes no bare one. */
const PKCS8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");

/** Where a file system has no hard links, another process's new file is empty for a moment; then it is read again. */
const EMPTY_READS_MAX = 20;
const EMPTY_READ_WAIT_MS = 25;

/**
 * Loads the identity, or makes one if there is no file. Processes that come at once end with one key: the first to
 * create the file has made it, the others load it.
 */
export async function openIdentity(path: string): Promise<OpenedIdentity | IdentityRefusal> {
  const refusal = ensurePrivateDirectory(dirname(path));
  if (refusal) return refusal;
  for (let reads = 1; ; reads++) {
    const loaded = loadIdentity(path);
    if (loaded === undefined) {
      const seed = randomBytes(SEED_BYTES);
      const identity = identityOf(seed);
      if (createPrivateFile(path, `${encodeBase64url(seed)}\n`)) return { identity, created: true };
    } else if ("sign" in loaded) return { identity: loaded, created: false };
    else if (!isEmpty(path, loaded) || reads >= EMPTY_READS_MAX) return loaded;
    await sleep(EMPTY_READ_WAIT_MS);
  }
}

/** Loads the identity; undefined if there is no file. For whoever must not make one. */
export function loadIdentity(path: string): Identity | IdentityRefusal | undefined {
  const contents = readKeyFile(path);
  const isText = contents !== undefined && "text" in contents;
  if (!isText && contents?.refused !== "not_text") return contents;
  // The original trims too: an editor ends its files with a line feed.
  const seed = isText ? decodeBase64url(contents.text.trim(), SEED_BYTES) : undefined;
  const mend = `mv -i ${quote(path)} ${quote(`${path}.broken`)}`;
  return seed ? identityOf(seed) : { refused: "bad_key_file", path, mend };
}

/** A key that is kept nowhere: to ask as somebody whom nobody knows. */
export function throwawayIdentity(): Identity {
  return identityOf(randomBytes(SEED_BYTES));
}

function readKeyFile(path: string) {
  return readPrivateFile(path, { forbiddenMode: OTHERS_MAY_NOT.read, maxBytes: KEY_FILE_MAX_BYTES });
}

function isEmpty(path: string, refusal: IdentityRefusal): boolean {
  if (refusal.refused !== "bad_key_file") return false;
  const contents = readKeyFile(path);
  return contents !== undefined && "text" in contents && contents.text === "";
}

/** The key object is made once, since making it costs as much as a signature. Overwrites the seed. */
function identityOf(seed: Uint8Array): Identity {
  const der = Buffer.concat([PKCS8_PREFIX, seed]);
  const privateKey: KeyObject = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  der.fill(0);
  const key = parseKey(createPublicKey(privateKey).export({ format: "jwk" }).x ?? "");
  if (!key) throw new Error("a seed gave a public key that is none");
  return Object.freeze({ key, sign: (bytes: Uint8Array) => encodeBase64url(signNatively(null, bytes, privateKey)) });
}
