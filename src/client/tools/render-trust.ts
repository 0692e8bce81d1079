/**
 * PURE. What the operator decides, in words: for the human, who sees what a stranger claims, and for the model, who does
 * not.
 */

import type { PairRequestShown, PeerRef } from "../session/agent.ts";
import { ageOf } from "./ages.ts";
import { isoOf, quoted } from "./escape.ts";
import { counted, nameOf } from "./render.ts";

/** The commands by which an operator decides, exactly as they are typed. */
export const commandOf = {
  accept: (fingerprint: string, petname: string) =>
    `interlink-edge pair accept ${fingerprint} --as${petname.startsWith("-") ? "=" : " "}${shellWord(petname)}`,
  reject: (fingerprint: string) => `interlink-edge pair reject ${fingerprint}`,
  add: (petname: string, key: string) =>
    `interlink-edge peers add ${petname.startsWith("-") ? "-- " : ""}${shellWord(petname)} ${key}`,
  remove: (petname: string) =>
    `interlink-edge peers remove ${petname.startsWith("-") ? "-- " : ""}${shellWord(petname)}`,
  list: () => "interlink-edge pair list",
  lift: (petname: string) => `interlink-edge budget lift ${petname.startsWith("-") ? "-- " : ""}${shellWord(petname)}`,
} as const;

/**
 * One word of a shell. What is not plain is written with escapes (`$'…'`, as bash and zsh read them), so that it holds
 * neither what a shell acts on nor what a host takes for markup.
 */
export function shellWord(text: string): string {
  if (/^[\p{L}\p{N}._-]+$/u.test(text)) return text;
  let word = "";
  for (const sign of text) {
    const code = sign.codePointAt(0)!;
    const hex = code.toString(16);
    const isPlain = /^[\p{L}\p{N} ._:/@+-]$/u.test(sign);
    word += isPlain ? sign : code > 0xffff ? `\\U${hex.padStart(8, "0")}` : `\\u${hex.padStart(4, "0")}`;
  }
  return `$'${word}'`;
}

/** What a model sees of those who knock: how many, which keys, and what the operator can type. Never a name. */
export function pairRequestsText(requests: readonly PairRequestShown[], nowMs: number): string {
  if (requests.length === 0) return "No pairing request waits.";
  const lines = requests.map(
    ({ fingerprint, what, at_ms }) =>
      `${fingerprint} ${asksOf(what)}, ${ageOf(nowMs - at_ms)}: ${acceptTemplate(fingerprint)}`,
  );
  return [
    `${counted(requests.length, "pairing request")} for your operator to decide. ${commandOf.list()} shows them the names.`,
    ...lines,
  ].join("\n");
}

/** What a key wants of us, after its name or fingerprint. */
export function asksOf(what: PairRequestShown["what"]): string {
  return what === "knock" ? "asks to pair" : "said yes to your agent's request to pair";
}

/** The command for a request, the name still to be chosen. */
export function acceptTemplate(fingerprint: string): string {
  return `interlink-edge pair accept ${fingerprint} --as PETNAME`;
}

/** What a model is told of a change of trust that was made. */
export const trustSentence = {
  accepted: (peer: PeerRef) => `The operator accepted: ${nameOf(peer)} is a peer now.`,
  rejected: (fingerprint: string) => `The operator rejected the request of ${fingerprint}; nothing was added.`,
  added: (peer: PeerRef) => `The operator added ${nameOf(peer)} as a peer.`,
  removed: (peer: PeerRef) => `The operator removed ${nameOf(peer)}; its messages no longer come in.`,
} as const;

/** What the human is asked. The claimed name is in quotes: it is the stranger's own word, and proves nothing. */
export const questionFor = {
  accept: ({ what, fingerprint, claimed_name, invited_at_ms }: PairRequestShown, petname: string) =>
    [
      `Accept this peer, who ${asksOf(what)}? Its messages would reach your agent from then on.`,
      `Fingerprint: ${fingerprint} (compare it with them by another way)`,
      `They call themselves: ${quoted(claimed_name)} (their own claim)`,
      `You would call them: ${quoted(petname)}`,
      ...(invited_at_ms === undefined ? [] : [`They came by an invite that you made at ${isoOf(invited_at_ms)}.`]),
    ].join("\n"),
  reject: ({ what, fingerprint, claimed_name }: PairRequestShown) =>
    [
      `Reject this one, who ${asksOf(what)}? Nothing is added, and they are not told.`,
      `Fingerprint: ${fingerprint}`,
      `They call themselves: ${quoted(claimed_name)} (their own claim)`,
    ].join("\n"),
  add: (petname: string, fingerprint: string) =>
    [
      "Add this peer? Its messages would reach your agent from then on.",
      `Fingerprint: ${fingerprint} (compare it with them by another way)`,
      `You would call them: ${quoted(petname)}`,
    ].join("\n"),
  remove: ({ petname, fingerprint }: PeerRef) =>
    ["Remove this peer? Its messages no longer come in.", `${quoted(petname)}`, `Fingerprint: ${fingerprint}`].join(
      "\n",
    ),
  lift: ({ petname, fingerprint }: PeerRef) =>
    [
      "Let your agent go on writing to this peer by itself? Its budget of automatic replies is used up.",
      "Yes fills it again, and sends the message that waits. No, if they only answer each other.",
      quoted(petname),
      `Fingerprint: ${fingerprint}`,
    ].join("\n"),
} as const;
