/** `interlink-edge budget`: how often the agents of this machine may still act by themselves, and the human's word that they may go on. */

import { fingerprint, type Key } from "../../protocol/address.ts";
import { leftOf, lift, spentOn, type GuardState, type Left } from "../session/loop-guard.ts";
import { openBudget, type BudgetFile } from "../state/budget-file.ts";
import { durationOf } from "../tools/ages.ts";
import { quoted } from "../tools/escape.ts";
import { chooseKey } from "../trust/key-choice.ts";
import { unknownPetname } from "../trust/peer-book.ts";
import type { PeersFile } from "../trust/peers.ts";
import { SELF } from "../trust/petname.ts";
import { attest, refuse, report, type ExitCode, type Terminal } from "./terminal.ts";
import { wordsOfPeers, wordsOfState } from "./words.ts";

export interface BudgetDesk {
  readonly terminal: Terminal;
  readonly peers: PeersFile;
  readonly me: Key;
  readonly stateDirectory: string;
  readonly nowMs: number;
}

export function showBudget(desk: BudgetDesk): Promise<ExitCode> {
  return withBudget(desk, (budget) => {
    const { terminal, nowMs } = desk;
    const state = budget.read();
    const peers = spentOn(state) as Key[];
    const lines = peers.map((peer) => `${nameOf(desk, peer)}  ${leftLine(state, peer, nowMs)}`);
    const all = `all peers together  ${leftLine(state, undefined, nowMs)}`;
    const left = (peer?: Key) => ({
      replies: leftOf(state, "reply", peer, nowMs),
      wakes: leftOf(state, "wake", peer, nowMs),
    });
    const said = { all: left(), peers: peers.map((key) => ({ key, ...left(key) })) };
    report(terminal, said, peers.length === 0 ? [] : [...lines, all]);
    if (peers.length === 0) terminal.err("Nothing was spent: every budget is full.");
    return 0;
  });
}

/** Full budgets again, of one peer and of all together, or of everyone; also while sessions run. */
export async function liftBudget(
  desk: BudgetDesk,
  { peer: typed, yes }: { readonly peer?: string; readonly yes: boolean },
): Promise<ExitCode> {
  const { terminal, me, nowMs } = desk;
  const found = typed === undefined ? undefined : find(desk, typed);
  if (typeof found === "object") return refuse(terminal, found.wrong);
  const whose = found === undefined ? "every peer" : nameOf(desk, found);
  return withBudget(desk, async (budget) => {
    const left = leftLine(budget.read(), found, nowMs);
    const shown = [
      `Let your agents go on by themselves with ${whose}? Read first what they wrote to each other.`,
      `Left ${found === undefined ? "over all peers" : "with that peer"}: ${left}`,
    ];
    if (!(await attest(terminal, { key: found ?? me, shown, yes }))) return 1;
    budget.change((state) => [lift(state, found), undefined]);
    report(terminal, { lifted: found ?? "all" }, [`The budgets of ${whose} are full again.`]);
    terminal.err("Mail that came unannounced is not announced now: the next message does that, or check_messages.");
    return 0;
  });
}

async function withBudget(
  { terminal, stateDirectory, me, nowMs }: BudgetDesk,
  act: (budget: BudgetFile) => ExitCode | Promise<ExitCode>,
): Promise<ExitCode> {
  const opened = openBudget(stateDirectory, me, nowMs);
  if ("refusal" in opened) return refuse(terminal, wordsOfState(opened));
  try {
    return await act(opened.budget);
  } finally {
    opened.budget.close();
  }
}

function find({ peers, me }: BudgetDesk, typed: string): Key | { readonly wrong: string } {
  if (typed === SELF) return me;
  const book = peers.current();
  if ("refused" in book) return { wrong: wordsOfPeers(book) };
  const choice = chooseKey(typed, book.petnames.keys(), [me]);
  const key = book.keys.get(typed) ?? ("key" in choice ? choice.key : undefined);
  return key ?? { wrong: wordsOfPeers(unknownPetname(book, typed)) };
}

function nameOf({ peers, me }: BudgetDesk, key: Key): string {
  const book = peers.current();
  const petname = key === me ? SELF : "refused" in book ? undefined : book.petnames.get(key);
  return petname === undefined ? fingerprint(key) : `${quoted(petname)} (${fingerprint(key)})`;
}

function leftLine(state: GuardState, peer: Key | undefined, nowMs: number): string {
  return `replies ${leftWords(leftOf(state, "reply", peer, nowMs), nowMs)}, wakes ${leftWords(leftOf(state, "wake", peer, nowMs), nowMs)}`;
}

function leftWords({ left, of, refills_at_ms }: Left, nowMs: number): string {
  if (left > 0) return `${left} of ${of}`;
  const when =
    refills_at_ms === undefined ? "none before you lift it" : `one more in ${durationOf(refills_at_ms - nowMs)}`;
  return `0 of ${of} (${when})`;
}
