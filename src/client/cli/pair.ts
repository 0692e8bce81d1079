/** `interlink-edge pair …`: the operator's answer to those who knock. Here alone the names that they claim are shown. */

import { fingerprint, type Key } from "../../protocol/address.ts";
import { ageOf } from "../tools/ages.ts";
import { quoted } from "../tools/escape.ts";
import { questionFor } from "../tools/render-trust.ts";
import { chooseKey } from "../trust/key-choice.ts";
import type { PeersFile } from "../trust/peers.ts";
import { readKnocks, rejectOnDisk, type KnockOnDisk } from "./knocks-on-disk.ts";
import { warningOf } from "./peers.ts";
import { attest, type ExitCode, type Terminal } from "./terminal.ts";
import { complaint, wordsOfChoice, wordsOfPeers } from "./words.ts";

export interface PairDesk {
  readonly terminal: Terminal;
  readonly peers: PeersFile;
  readonly me: Key;
  readonly stateDirectory: string;
  readonly nowMs: number;
}

export function listKnocks({ terminal, stateDirectory, me, nowMs }: PairDesk): ExitCode {
  const knocks = readKnocks(stateDirectory, me, nowMs);
  for (const { request } of byKey(knocks)) {
    const { key, claimed_name, what, at_ms } = request;
    const asks = what === "knock" ? "asks to pair" : "said yes to our agent's request";
    terminal.out(`${fingerprint(key)}  ${quoted(claimed_name)}  ${asks}, ${ageOf(nowMs - at_ms)}`);
  }
  if (knocks.length === 0) terminal.err("No pairing request waits.");
  else terminal.err("The names are their own claims: compare the fingerprints with them by another way.");
  return 0;
}

export async function acceptKnock(
  desk: PairDesk,
  { request: typed, petname, yes }: { readonly request: string; readonly petname: string; readonly yes: boolean },
): Promise<ExitCode> {
  const { terminal, peers } = desk;
  const found = find(desk, typed);
  if (typeof found === "string") return refuse(terminal, found);
  const [{ request }] = found;
  const { key } = request;
  const operator = await attest(terminal, {
    key,
    shown: questionFor.accept(shownOf(request), petname).split("\n"),
    yes,
  });
  if (!operator) return 1;
  const added = await peers.add(petname, key, operator);
  if ("refused" in added) return refuse(terminal, wordsOfPeers(added));
  terminal.out(`${quoted(petname)} (${fingerprint(key)}) is a peer now.`);
  terminal.err("They are told by the session that they knocked at: at once if it runs, else when it does.");
  warningOf(added.warning).forEach((line) => terminal.err(line));
  return 0;
}

export async function rejectKnock(
  desk: PairDesk,
  { request: typed, yes }: { readonly request: string; readonly yes: boolean },
): Promise<ExitCode> {
  const { terminal, nowMs } = desk;
  const found = find(desk, typed);
  if (typeof found === "string") return refuse(terminal, found);
  const [{ request }] = found;
  const operator = await attest(terminal, {
    key: request.key,
    shown: questionFor.reject(shownOf(request)).split("\n"),
    yes,
  });
  if (!operator) return 1;
  if (rejectOnDisk(found, operator, nowMs) === 0)
    return refuse(terminal, "the request has changed meanwhile; look again");
  terminal.out(`The request of ${fingerprint(request.key)} was rejected.`);
  return 0;
}

/** All requests of the key that was typed; or why there is none. */
function find({ peers, stateDirectory, me, nowMs }: PairDesk, typed: string): [KnockOnDisk, ...KnockOnDisk[]] | string {
  const knocks = readKnocks(stateDirectory, me, nowMs);
  const book = peers.current();
  if ("refused" in book) return wordsOfPeers(book);
  const choice = chooseKey(
    typed,
    knocks.map(({ request }) => request.key),
    book.petnames.keys(),
  );
  if ("refused" in choice) return wordsOfChoice(choice, "pairing request");
  return knocks.filter(({ request }) => request.key === choice.key) as [KnockOnDisk, ...KnockOnDisk[]];
}

/** One request of each key, the latest, since that one tells the name that it claims now. */
function byKey(knocks: readonly KnockOnDisk[]): KnockOnDisk[] {
  return [...new Map(knocks.map((knock) => [knock.request.key, knock])).values()];
}

function shownOf({ key, claimed_name, at_ms }: KnockOnDisk["request"]) {
  return { request_id: fingerprint(key), key, fingerprint: fingerprint(key), claimed_name, at_ms };
}

function refuse(terminal: Terminal, words: string): ExitCode {
  terminal.err(complaint(words));
  return 1;
}
