/** PURE. What the rooms beneath refuse, in the few codes that a tool answers with. */

import { fingerprint } from "../../protocol/address.ts";
import type { Refusal } from "../../protocol/refusal.ts";
import type { RoutingRefusal } from "../../protocol/routing.ts";
import { isWholeUnicode } from "../../protocol/text.ts";
import type { KeyChoice } from "../trust/key-choice.ts";
import type { LockRefusal } from "../trust/file-lock.ts";
import type { PairingRefusal } from "../trust/pairing.ts";
import type { PeerRefusal } from "../trust/peer-book.ts";
import type { PeersFileRefusal } from "../trust/peers.ts";
import type { ToolRefusal } from "./agent.ts";

/** A change or a look at the peers file that was refused. */
export function ofPeers(refusal: PeerRefusal | PeersFileRefusal | LockRefusal): ToolRefusal {
  if ("path" in refusal) {
    return { code: refusal.refused === "locked" ? "files_locked" : "bad_file", detail: refusal.path };
  }
  switch (refusal.refused) {
    case "bad_petname":
    case "reserved_petname":
      return { code: "bad_name" };
    case "bad_key":
      return { code: "bad_key" };
    case "own_key":
      return { code: "oneself" };
    case "peers_full":
      return { code: "bad_field", detail: "peers_full" };
    case "petname_taken":
      return { code: "petname_taken" };
    case "key_known":
      return { code: "petname_taken", candidates: [refusal.petname], detail: "key_known" };
    case "unknown_petname":
      return { code: "unknown_peer", candidates: refusal.near };
  }
}

/** A message of our own that has a fault. @param text what it says, where that may be the fault */
export function ofMessage({ refused }: Refusal, text?: string): ToolRefusal {
  switch (refused) {
    case "bad_name":
      return { code: refused };
    case "bad_text":
      if (text === undefined) return { code: refused };
      return { code: refused, detail: text === "" ? "empty" : isWholeUnicode(text) ? "too_long" : "not_unicode" };
    case "too_large":
      return { code: "bad_text", detail: refused };
    default:
      return { code: "bad_field", detail: refused };
  }
}

/** A session that must be named, or otherwise. */
export function ofRouting({ refusal, sessions }: RoutingRefusal): ToolRefusal {
  return { code: refusal, sessions };
}

/** A key that nobody, or more than one, has. @param unknown what there is none of */
export function ofChoice(choice: KeyChoice, unknown: "unknown_peer" | "unknown_request"): ToolRefusal {
  if ("key" in choice || choice.refused !== "ambiguous_key") return { code: unknown };
  return { code: "ambiguous", candidates: choice.keys.map(fingerprint) };
}

/** A request that is not there (any more), or is not to be decided now. */
export function ofPairing({ refused }: PairingRefusal): ToolRefusal {
  return refused === "too_many_requests"
    ? { code: "bad_field", detail: refused }
    : { code: "unknown_request", detail: refused };
}
