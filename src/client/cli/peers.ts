/** `interlink-edge peers …`: who is trusted, as the operator says. */

import { fingerprint, parseKey } from "../../protocol/address.ts";
import { quoted } from "../tools/escape.ts";
import { questionFor } from "../tools/render-trust.ts";
import { chooseKey } from "../trust/key-choice.ts";
import { unknownPetname } from "../trust/peer-book.ts";
import type { PeersFile } from "../trust/peers.ts";
import { skeletonOf, type PetnameWarning } from "../trust/petname.ts";
import { attest, refuse, report, type ExitCode, type Terminal } from "./terminal.ts";
import { complaint, wordsOfPeers } from "./words.ts";

export interface PeersDesk {
  readonly terminal: Terminal;
  readonly peers: PeersFile;
}

export function listPeers({ terminal, peers }: PeersDesk): ExitCode {
  const book = peers.current();
  if ("refused" in book) return refuse(terminal, wordsOfPeers(book));
  const peersShown = [...book.keys].map(([petname, key]) => ({ petname, fingerprint: fingerprint(key), key }));
  const lines = peersShown.map(({ petname, fingerprint, key }) => `${quoted(petname)}  ${fingerprint}  ${key}`);
  report(terminal, { peers: peersShown }, lines);
  for (const { name, why } of book.skipped)
    terminal.err(complaint(`the entry ${quoted(name)} of the peers file admits nobody (${why})`));
  // Whoever adds one by a command is told then; whoever writes the file is told here.
  for (const alike of Map.groupBy(book.keys.keys(), skeletonOf).values())
    if (alike.length > 1) terminal.err(`These names look alike: ${alike.map(quoted).join(", ")}.`);
  if (book.keys.size === 0) terminal.err("No peers.");
  return 0;
}

export async function addPeer(
  { terminal, peers }: PeersDesk,
  { petname, key: typed, yes }: { readonly petname: string; readonly key: string; readonly yes: boolean },
): Promise<ExitCode> {
  const key = parseKey(typed);
  if (!key) return refuse(terminal, wordsOfPeers({ refused: "bad_key" }));
  const operator = await attest(terminal, {
    key,
    shown: questionFor.add(petname, fingerprint(key)).split("\n"),
    yes,
  });
  if (!operator) return 1;
  const added = await peers.add(petname, key, operator);
  if ("refused" in added) return refuse(terminal, wordsOfPeers(added));
  report(terminal, { added: { petname, key } }, [`${quoted(petname)} (${fingerprint(key)}) is a peer now.`]);
  warningOf(added.warning).forEach((line) => terminal.err(line));
  return 0;
}

export async function removePeer(
  { terminal, peers }: PeersDesk,
  { peer: typed, yes }: { readonly peer: string; readonly yes: boolean },
): Promise<ExitCode> {
  const book = peers.current();
  if ("refused" in book) return refuse(terminal, wordsOfPeers(book));
  const choice = chooseKey(typed, book.petnames.keys());
  const key = book.keys.get(typed) ?? ("key" in choice ? choice.key : undefined);
  if (key === undefined) return refuse(terminal, wordsOfPeers(unknownPetname(book, typed)));
  const petname = book.petnames.get(key)!;
  const question = questionFor.remove({ petname, key, fingerprint: fingerprint(key) });
  const operator = await attest(terminal, { key, shown: question.split("\n"), yes });
  if (!operator) return 1;
  const removed = await peers.remove(petname, key, operator);
  if ("refused" in removed) return refuse(terminal, wordsOfPeers(removed));
  report(terminal, { removed: { petname, key } }, [`${quoted(petname)} (${fingerprint(key)}) is no peer any more.`]);
  return 0;
}

/** What a person should know of a name that they took. */
export function warningOf(warning: PetnameWarning | undefined): string[] {
  if (!warning) return [];
  const { looks_like, is_mixed } = warning;
  const lines = looks_like.length === 0 ? [] : [`That name looks like ${looks_like.map(quoted).join(", ")}.`];
  return is_mixed ? [...lines, "That name mixes letters of several scripts that look alike."] : lines;
}
