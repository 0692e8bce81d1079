/** PURE. Refusals of the rooms beneath in words for a person at a terminal: what is wrong, and the command that mends it. */

import type { BusesRefusal } from "../session/open-buses.ts";
import type { SessionRefusal } from "../session/session.ts";
import type { BusesFileRefusal } from "../trust/buses-file.ts";
import type { IdentityRefusal } from "../trust/identity-file.ts";
import type { LockRefusal } from "../trust/file-lock.ts";
import { fingerprint } from "../../protocol/address.ts";
import type { KeyChoice } from "../trust/key-choice.ts";
import type { PeerRefusal } from "../trust/peer-book.ts";
import type { PeersFileRefusal } from "../trust/peers.ts";
import type { FileRefusal } from "../trust/private-file.ts";
import { cutEscaped, escapeMarkup, quoted } from "../tools/escape.ts";
import type { RecordRefusal } from "./setup-record.ts";

const FILES: Readonly<Record<FileRefusal["refused"], string>> = {
  symlink: "is a symbolic link",
  wrong_kind: "is not the kind of file that it should be",
  foreign_owner: "belongs to another user",
  loose_mode: "may be read or changed by others",
  shared_directory: "is a folder that others write to, so nothing is kept there",
  too_large: "is far too large",
  not_text: "is not UTF-8 text",
};

/** A file of the identity or the peers. One sentence without its stop. */
export function wordsOfFile(refusal: IdentityRefusal | PeersFileRefusal | LockRefusal | RecordRefusal): string {
  const { refused, path } = refusal;
  if (refused === "locked") return `another process keeps ${path} locked; try again`;
  const mend = refusal.mend === "" ? "" : `; to mend it: ${refusal.mend}`;
  if (refused === "bad_key_file")
    return `${path} holds no key; a copy from a backup is better than a new identity, which no peer knows${mend}`;
  if (refused === "bad_setup_file") return `${path} is not what setup has written${mend}`;
  if (refused === "bad_peers_file") return `${path} is not a JSON object${mend}`;
  if (refused === "repeated_name") return `${path} has ${wordsOfPlace(refusal.at)} twice${mend}`;
  return `${path} ${FILES[refused]}${mend}`;
}

/** Nobody checked how long one is. */
const KEY_SHOWN_BYTES = 128;

/** A key within objects, the outermost first. */
function wordsOfPlace(at: readonly string[]): string {
  return at.map((key) => quoted(cutEscaped(key, KEY_SHOWN_BYTES))).join(" / ");
}

/** A change of the peers. */
export function wordsOfPeers(refusal: PeerRefusal | PeersFileRefusal | LockRefusal): string {
  if ("path" in refusal) return wordsOfFile(refusal);
  switch (refusal.refused) {
    case "bad_petname":
      return "a name is 1 to 64 bytes of visible text";
    case "reserved_petname":
      return "a peer may not be called `self`, nor as a key or a fingerprint";
    case "bad_key":
      return "that is no key: 43 characters of base64url";
    case "own_key":
      return "that is our own key";
    case "peers_full":
      return "there are as many peers as a bus takes";
    case "petname_taken":
      return refusal.key === undefined
        ? "an entry of the peers file has that name"
        : `that name is already that of ${fingerprint(refusal.key)}, and a name never moves to another key`;
    case "key_known":
      return `that key is a peer already: ${quoted(refusal.petname)}`;
    case "unknown_petname": {
      const near = refusal.near.map(quoted).join(", ");
      return `no peer has that name${near === "" ? "" : `; near: ${near}`}`;
    }
  }
}

/** A fingerprint that chooses nothing. @param what what there is none of */
export function wordsOfChoice({ refused, keys }: Extract<KeyChoice, { refused: string }>, what: string): string {
  if (refused === "ambiguous_key") return `that begins several: ${keys.map(fingerprint).join(", ")}`;
  if (refused === "bad_key_choice") return "give a fingerprint or a whole key";
  return `no ${what} has that fingerprint or key`;
}

/** Why there is no session. */
export function wordsOfSession(refusal: BusesRefusal): string {
  switch (refusal.refused) {
    case "buses_file":
      return wordsOfBuses(refusal.why);
    case "unknown_bus":
      return `INTERLINK_URL names ${quoted(refusal.name)}, which buses.json does not have`;
    case "identity":
      return wordsOfFile(refusal.why);
    case "state":
      return wordsOfState(refusal.why);
    case "bus_url":
      return `INTERLINK_URL names ${quoted(refusal.url)}, which is no bus (${refusal.why})`;
    case "bus_count":
      return `INTERLINK_URL names ${refusal.count} buses`;
    case "bad_name":
      return "INTERLINK_NAME is not 1 to 64 bytes of visible text";
    case "bad_session":
      return "INTERLINK_SESSION is not 1 to 64 characters of A-Z a-z 0-9 _ -";
  }
}

/** What each fault of the buses file is. */
const BUSES: Readonly<Record<string, string>> = {
  not_json: "is not JSON",
  not_an_object: "is not an object of objects",
  too_many: "names too many buses",
  bad_name: "has a name that is not 1 to 64 bytes of visible text, or that reads as an address",
  repeated_name: "has a name twice",
  repeated_field: "has a field twice",
  unknown_field: "has a field that is none of url, key and profile",
  bad_key_path: "has a key that is no path",
  bad_profile: "has a profile that is neither public nor private",
  bus_count: "has a bus of no address, or of too many",
};

/** The file in which the user names buses. */
function wordsOfBuses(refusal: BusesFileRefusal): string {
  if (refusal.refused !== "bad_buses_file") return wordsOfFile(refusal);
  const { path, why } = refusal;
  const at = [refusal.entry, refusal.field].filter((each) => each !== undefined);
  const where = at.length === 0 ? "" : ` (${wordsOfPlace(at)})`;
  return `${path} ${BUSES[why] ?? `has an address that is no bus's (${why})`}${where}`;
}

/** A file of a session, or of all of them. */
export function wordsOfState(why: Extract<SessionRefusal, { refused: "state" }>["why"]): string {
  switch (why.refusal) {
    case "in_use":
      return `another process runs this session (${why.path}.lock)`;
    case "newer_schema":
      return `${why.path} was written by a newer version of this client`;
    case "unsafe_path":
      return `${why.path} is not used (${why.why})`;
  }
}

/** A refusal as a terminal shows it. */
export function complaint(words: string): string {
  return `${escapeMarkup(words.charAt(0).toUpperCase() + words.slice(1))}.`;
}
