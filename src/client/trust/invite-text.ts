/**
 * PURE. An invite as one string: where the bus is, the way in, who invites, and a secret by which they know the knock again.
 *
 * `interlink:` and base64url of JSON and a checksum. It comes by mail or chat from somebody, or from somebody else: all
 * that it says is judged as typed by a stranger, and a person is shown it before anything is done.
 */

import { createHash } from "node:crypto";
import * as z from "zod/mini";
import type { Key } from "../../protocol/address.ts";
import { decodeBase64url } from "../../protocol/base64url.ts";
import { keyField, nameField, text } from "../../protocol/schema.ts";
import { parseBusUrl, type BusUrl, type BusUrlRefusalCode } from "../bus/bus-url.ts";

export interface InviteText {
  readonly bus: BusUrl;
  /** Where the bus admits only who was invited; good for one key. */
  readonly token?: string;
  /** Who invites, and what they call themselves. */
  readonly key: Key;
  readonly name: string;
  /** 16 bytes, base64url. */
  readonly secret: string;
}

export type InviteRefusal =
  | {
      readonly refused:
        | "not_an_invite"
        /** Its checksum is another's: cut off, or mistyped. */
        | "damaged"
        /** A later version made it. */
        | "newer_version"
        | "bad_content";
    }
  | { readonly refused: "bad_bus"; readonly why: BusUrlRefusalCode };

export const INVITE_PREFIX = "interlink:";
export const SECRET_BYTES = 16;
const VERSION = 1;
/** Far above what one takes. */
const TEXT_MAX_CHARS = 2_048;
const CHECK_BYTES = 4;

const versionSchema = z.object({ v: z.number().check(z.int(), z.minimum(1)) });
const schema = z.strictObject({
  v: z.literal(VERSION),
  bus: z.string(),
  token: z.optional(text("bad_join_token", (value) => decodeBase64url(value, 32) !== undefined)),
  key: keyField,
  name: nameField,
  secret: text("bad_field", (value) => decodeBase64url(value, SECRET_BYTES) !== undefined),
});

export function formatInvite({ bus, token, key, name, secret }: InviteText): string {
  const said = { v: VERSION, bus: bus.origin, ...(token !== undefined && { token }), key, name, secret };
  const bytes = Buffer.from(JSON.stringify(said));
  return INVITE_PREFIX + Buffer.concat([bytes, checkOf(bytes)]).toString("base64url");
}

/** Reads an invite, whatever it is that was pasted. Never throws. */
export function parseInvite(pasted: string): InviteText | InviteRefusal {
  if (pasted.length > 2 * TEXT_MAX_CHARS) return { refused: "not_an_invite" };
  // A mail breaks long lines.
  const typed = pasted.replace(/\s+/g, "");
  const coded = typed.slice(INVITE_PREFIX.length);
  const isOne = typed.startsWith(INVITE_PREFIX) && typed.length <= TEXT_MAX_CHARS && /^[A-Za-z0-9_-]+$/.test(coded);
  if (!isOne) return { refused: "not_an_invite" };
  const whole = Buffer.from(coded, "base64url");
  const [bytes, check] = [whole.subarray(0, -CHECK_BYTES), whole.subarray(-CHECK_BYTES)];
  // One spelling alone, or a stray character at the end would pass.
  if (whole.toString("base64url") !== coded || whole.length <= CHECK_BYTES || !checkOf(bytes).equals(check))
    return { refused: "damaged" };
  let said: unknown;
  try {
    said = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return { refused: "bad_content" };
  }
  const version = z.safeParse(versionSchema, said).data?.v;
  if (version !== undefined && version > VERSION) return { refused: "newer_version" };
  const read = z.safeParse(schema, said).data;
  if (!read) return { refused: "bad_content" };
  const bus = parseBusUrl(read.bus);
  if ("refusal" in bus) return { refused: "bad_bus", why: bus.refusal };
  const { token, key, name, secret } = read;
  return { bus, key, name, secret, ...(token !== undefined && { token }) };
}

/**
 * The id of a knock that an invite lets its holder make, by which the inviter knows it again. The wire has no word for it,
 * and needs none: an id is free to choose.
 * @param turn a knock lies on the bus for a day; the next one is another
 */
export function invitedKnockId(secret: string, key: Key, turn: number): string {
  return createHash("sha256").update(`interlink-invite-v1\0${secret}\0${key}\0${turn}`).digest("hex").slice(0, 32);
}

function checkOf(bytes: Uint8Array): Buffer {
  return createHash("sha256").update("interlink-invite-v1\0").update(bytes).digest().subarray(0, CHECK_BYTES);
}
