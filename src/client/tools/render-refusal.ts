/**
 * PURE. Every "no" as `code: sentence. next step`. The code is stable, for programs; a model can act on the rest.
 */

import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import type { ToolRefusal } from "../session/agent.ts";
import { ageOf } from "./ages.ts";
import { escapeMarkup, isoOf, quoted, shown } from "./escape.ts";
import { nameOf, reasonOf } from "./render.ts";
import { commandOf } from "./render-trust.ts";

/** Refusals of the tools themselves. */
export type OwnCode =
  /** The operator said no. */
  | "declined"
  /** The operator was asked and answered neither way. */
  | "dismissed"
  /** What the operator was shown is no longer what would be changed. */
  | "changed"
  /** There is no session: its files or its settings stand in the way. */
  | "not_started"
  /** A fault of ours. */
  | "internal";

export interface Failure {
  readonly code: ToolRefusal["code"] | OwnCode;
  /** Begins with the code. */
  readonly message: string;
  /** The arguments that were wrong. */
  readonly fields?: readonly string[];
}

type Words = readonly [sentence: string, next: string];

const WORDS: Readonly<Record<ToolRefusal["code"] | OwnCode, Words>> = {
  unknown_peer: ["No peer has that name, fingerprint or key", "Call list_peers"],
  ambiguous: ["That is the beginning of several, so nothing was done", "Give more of it, or the whole"],
  unknown_session: ["The peer has no such session, so nothing was stored", "Call discover with the peer's name"],
  several_live: ["Several of the peer's sessions are live and none was talked with", "Pass session"],
  several_away: ["Several of the peer's sessions are away and none was talked with", "Pass session"],
  oneself: ["That is this very session, or our own identity", "Name another; discover lists the sessions"],
  unknown_message: ["No message has that id here", "Take the msg_id from the answer that named it"],
  unknown_task: ["There is no open task of that id with this peer", "Call list_pending"],
  unknown_request: ["No pairing request with that fingerprint waits", "Call list_pair_requests"],
  needs_operator: ["Only your operator may change who is trusted, so nothing was changed", "Ask them to do it"],
  petname_taken: [
    "That name, or that key, is a peer's already; a name never moves to another key",
    "Choose another name",
  ],
  bad_name: ["A name is 1 to 64 bytes of visible text, and not `self`, a key or a fingerprint", "Choose another name"],
  bad_key: ["That is no fingerprint or key of anybody known here", "Take it from discover, or ask for the whole key"],
  bad_text: ["The text is empty, too long for the bus, or not whole Unicode", "Change or split the text"],
  bad_field: ["A value has the wrong form", "See the tool's description"],
  not_connected: ["The bus that this needs is not connected now", "Try again later; whoami says how it stands"],
  superseded: [
    "Another connect or disconnect came first, or another process is this session; what was active stays so",
    "Call list_buses to see what is so now",
  ],
  not_admitted: [
    "The bus refuses this key for good, so it is not tried again; what was active stays so",
    "Ask your operator: the bus must admit the key first",
  ],
  client_too_old: [
    "The bus no longer speaks this version of the client",
    "Ask your operator to install a newer one, then call reconnect",
  ],
  unknown_bus: ["No bus has that name", "Call list_buses"],
  unlisted_bus: [
    "Your operator has not named this bus, so nothing was done",
    "Ask them to add it to that file under a name of their choice, then connect by the name",
  ],
  bad_bus_url: ["That is no address of a bus", "Give a name from list_buses, or https://HOST without a path"],
  bus_refused: ["The bus refused", "Change what it names, or tell your operator"],
  budget_spent: [
    "The budget of automatic replies is used up, so nothing was stored",
    "Stop answering and tell your user; they alone may lift it",
  ],
  files_locked: ["Another process is changing the peers file", "Try again in a moment"],
  bad_file: ["A file of the identity or of the peers cannot be used", "Tell your operator which one"],
  declined: ["The operator said no; nothing was changed", "Do not ask again unless they want it"],
  dismissed: ["The operator did not decide; nothing was changed", "Ask them in words before you try again"],
  changed: ["What the operator was shown is no longer what would be changed; nothing was changed", "Call it again"],
  not_started: ["This session could not be opened", "Tell your operator"],
  internal: [
    "A fault of this client; what the call did is not known",
    "Look with message_status or list_pending before you do it again",
  ],
};

/** What a call of connect_bus mends. */
const BY_CONNECTING: ReadonlySet<ToolRefusal["code"]> = new Set(["not_connected", "superseded", "unknown_message"]);

/** A refusal in words. */
export function refusalOf(refusal: ToolRefusal): Failure {
  const { code, candidates = [], sessions = [], detail, connect, budget } = refusal;
  if (budget) return budgetSpent(budget);
  const [sentence, next] = WORDS[code];
  const parts = [detail === undefined ? sentence : `${sentence} (${detailOf(code, detail)})`];
  if (candidates.length > 0) {
    const list = candidates.map(quoted).join(", ");
    parts.push(code === "ambiguous" ? `It may be ${list}` : `Near: ${list}`);
  }
  if (sessions.length > 0) {
    const list = sessions.map(({ session, presence, age_ms }) => `${session} (${presence}, seen ${ageOf(age_ms)})`);
    parts.push(`Sessions: ${list.join(", ")}`);
  }
  // The one call that mends it comes before the general advice.
  const call =
    connect === undefined || !BY_CONNECTING.has(code) ? next : `Call connect_bus with bus=${quoted(connect)}`;
  return failure(code, parts.join(". "), call);
}

/** A refusal of the tools themselves. */
export function ownRefusal(code: OwnCode): Failure {
  return failure(code, ...WORDS[code]);
}

/** There is no session, and why. @param why one sentence without its stop; paths in it are ours, and shown */
export function notStarted(why: string): Failure {
  const [sentence, next] = WORDS.not_started;
  return failure("not_started", `${sentence}: ${escapeMarkup(why)}`, next);
}

/** Trust is the human's: the command that does it. */
export function operatorNeeded(command: string): Failure {
  const [sentence, next] = WORDS.needs_operator;
  return failure("needs_operator", sentence, `${next}, in a terminal: ${command}`, "");
}

/** Two agents that answer each other end here: whose budget it is, until when, and the command that lifts it. */
function budgetSpent({ peer, over, refills_at_ms }: NonNullable<ToolRefusal["budget"]>): Failure {
  const [sentence, next] = WORDS.budget_spent;
  const whose = over === "peer" ? `with ${nameOf(peer)}` : "over all peers";
  const until = refills_at_ms === undefined ? "" : `; one more at ${isoOf(refills_at_ms)}`;
  return failure(
    "budget_spent",
    `${sentence} (${whose}${until})`,
    `${next}, in a terminal: ${commandOf.lift(peer.petname)}`,
    "",
  );
}

function failure(code: Failure["code"], sentence: string, next: string, stop = "."): Failure {
  return { code, message: `${code}: ${sentence}. ${next}${stop}` };
}

function detailOf(code: ToolRefusal["code"], detail: string): string {
  if (code === "bad_text") return TEXT_FAULTS[detail] ?? shown(detail);
  return code === "bus_refused" ? reasonOf(detail).replace(/\.$/, "") : shown(detail);
}

/** What is wrong with a text, by the detail of its refusal. */
const TEXT_FAULTS: Readonly<Record<string, string>> = {
  empty: "it is empty",
  too_long: `it has more than ${DEFAULT_LIMITS.TEXT_MAX_BYTES} bytes of UTF-8`,
  not_unicode: "it holds half of a surrogate pair",
  too_large:
    "line breaks, quotes, backslashes and control characters take two to six bytes each on their way, and so written it has more " +
    `than the ${DEFAULT_LIMITS.BODY_MAX_BYTES} bytes that a bus takes`,
};
