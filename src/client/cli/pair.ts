/** `interlink-edge pair …`: the operator's answer to those who knock. Here alone the names that they claim are shown. */

import process from "node:process";
import { fingerprint, type Key } from "../../protocol/address.ts";
import { acceptRequest, rejectRequest, settle, type Decision, type Trust } from "../session/pair-decision.ts";
import { shownOf } from "../session/pairing-desk.ts";
import { openPairing } from "../state/open-pairing.ts";
import { ageOf } from "../tools/ages.ts";
import { isoOf, quoted } from "../tools/escape.ts";
import { asksOf, questionFor } from "../tools/render-trust.ts";
import { chooseKey } from "../trust/key-choice.ts";
import { choosePending, type PairingRefusal } from "../trust/pairing.ts";
import type { PendingPair } from "../trust/pairing-state.ts";
import type { PeersFile } from "../trust/peers.ts";
import { warningOf } from "./peers.ts";
import { attest, refuse, report, type ExitCode, type Terminal } from "./terminal.ts";
import { complaint, wordsOfChoice, wordsOfPeers, wordsOfState } from "./words.ts";

export interface PairDesk {
  readonly terminal: Terminal;
  readonly peers: PeersFile;
  readonly me: Key;
  readonly stateDirectory: string;
  readonly nowMs: number;
}

export function listKnocks(desk: PairDesk): Promise<ExitCode> {
  const { terminal, nowMs } = desk;
  return withPairing(desk, (trust) => {
    const { pending } = settle(trust, nowMs);
    const shown = pending.map((request) => {
      const { request_id: _request_id, ...said } = shownOf(request, trust.pairing, nowMs);
      const { fingerprint, claimed_name, what, at_ms, invited_at_ms } = said;
      const invited = invited_at_ms === undefined ? "" : `, you invited this one at ${isoOf(invited_at_ms)}`;
      return {
        said,
        line: `${fingerprint}  ${quoted(claimed_name)}  ${asksOf(what)}, ${ageOf(nowMs - at_ms)}${invited}`,
      };
    });
    const requests = shown.map(({ said }) => said);
    report(
      terminal,
      { requests },
      shown.map(({ line }) => line),
    );
    if (pending.length === 0) terminal.err("No pairing request waits.");
    else terminal.err("The names are their own claims: compare the fingerprints with them by another way.");
    return 0;
  });
}

export function acceptKnock(
  desk: PairDesk,
  { request: typed, petname, yes }: { readonly request: string; readonly petname: string; readonly yes: boolean },
): Promise<ExitCode> {
  const { terminal } = desk;
  return withPairing(desk, async (trust) => {
    const seen = find(trust, typed, desk.nowMs);
    if (typeof seen === "string") return refuse(terminal, seen);
    const { key } = seen;
    const shown = questionFor.accept(shownOf(seen, trust.pairing, desk.nowMs), petname).split("\n");
    const operator = await attest(terminal, { key, shown, yes });
    if (!operator) return 1;
    // A person took their time: the clock of now, not of when they were asked.
    const made = await acceptRequest(trust, { seen, petname, operator }, Date.now);
    if (made.outcome !== "made") return refuse(terminal, wordsOf(made));
    report(terminal, { added: { petname: made.petname, key } }, [
      `${quoted(made.petname)} (${fingerprint(key)}) is a peer now.`,
    ]);
    terminal.err("They are told by a session of yours that runs, or by the next one that begins.");
    warningOf(made.warning).forEach((line) => terminal.err(line));
    return 0;
  });
}

export function rejectKnock(
  desk: PairDesk,
  { request: typed, yes }: { readonly request: string; readonly yes: boolean },
): Promise<ExitCode> {
  const { terminal } = desk;
  return withPairing(desk, async (trust) => {
    const seen = find(trust, typed, desk.nowMs);
    if (typeof seen === "string") return refuse(terminal, seen);
    const { key } = seen;
    const operator = await attest(terminal, {
      key,
      shown: questionFor.reject(shownOf(seen, trust.pairing, desk.nowMs)).split("\n"),
      yes,
    });
    if (!operator) return 1;
    const made = rejectRequest(trust, { seen, operator }, Date.now());
    if (made.outcome !== "made") return refuse(terminal, wordsOf(made));
    report(terminal, { rejected: { key } }, [`The request of ${fingerprint(key)} was rejected.`]);
    return 0;
  });
}

async function withPairing(
  { terminal, peers, me, stateDirectory: directory, nowMs }: PairDesk,
  act: (trust: Trust) => ExitCode | Promise<ExitCode>,
): Promise<ExitCode> {
  const opened = openPairing({ directory, me, nowMs, uid: process.geteuid?.() });
  if ("refusal" in opened) return refuse(terminal, wordsOfState(opened));
  const { pairing, setAside } = opened;
  if (setAside !== undefined) terminal.err(complaint(`what waited could not be read, and was moved to ${setAside}`));
  try {
    return await act({ pairing, peers });
  } finally {
    pairing.close();
  }
}

/** The request that was typed; or why there is none. */
function find(trust: Trust, typed: string, nowMs: number): PendingPair | string {
  const book = trust.peers.current();
  if ("refused" in book) return wordsOfPeers(book);
  const choice = choosePending(settle(trust, nowMs), typed, book.petnames.keys(), nowMs);
  if (!("refused" in choice)) return choice.request;
  const known = chooseKey(typed, book.petnames.keys());
  return "key" in known
    ? wordsOfPeers({ refused: "key_known", petname: book.petnames.get(known.key)! })
    : wordsOfChoice(choice, "pairing request");
}

function wordsOf(decision: Exclude<Decision<object>, { outcome: "made" }>): string {
  return decision.outcome === "not_added" ? wordsOfPeers(decision.why) : UNDECIDED[decision.why.refused];
}

const UNDECIDED: Readonly<Record<PairingRefusal["refused"], string>> = {
  no_such_request: "the request was decided meanwhile, or has expired; look again",
  request_changed: "the request has changed meanwhile; look again",
  being_accepted: "the request is being accepted elsewhere at this moment; look again",
  too_many_requests: "too many knocks of ours wait for an answer",
};
