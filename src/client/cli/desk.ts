/** What the commands of a person work with: who we are, whom we trust, and the bus that our agents begin at. */

import { fingerprint, type Key } from "../../protocol/address.ts";
import { BusDirectory, type BusDirectoryRefusal } from "../session/bus-directory.ts";
import { openIdentity, type Identity } from "../trust/identity-file.ts";
import { PeersFile } from "../trust/peers.ts";
import { askerAt, type Asker } from "./asker.ts";
import type { Machine } from "./machine.ts";
import type { Settings } from "./settings.ts";
import { refuse, type ExitCode, type Terminal } from "./terminal.ts";
import { wordsOfFile, wordsOfSession } from "./words.ts";

export interface Desk {
  readonly terminal: Terminal;
  readonly settings: Settings;
  readonly machine: Machine;
  readonly identity: Identity;
  readonly me: Key;
  /** Path of our key. */
  readonly keyPath: string;
  readonly peers: PeersFile;
  readonly stateDirectory: string;
  /** Where agents begin; or why that cannot be said. */
  readonly home: BusDirectory["home"] | BusDirectoryRefusal;
  readonly nowMs: number;
}

/**
 * Opens the identity that our agents begin with, and makes its key where there is none.
 * @param isAnew for another bus than theirs: as who has the usual key
 */
export async function openDesk(
  settings: Settings,
  terminal: Terminal,
  machine: Machine,
  isAnew = false,
): Promise<Desk | ExitCode> {
  const { trust, stateDirectory, bus, isBusSet, buses } = settings;
  const directory = BusDirectory.open({ buses, key: trust.key, ...(isBusSet && { bus }) });
  const home = "refused" in directory ? directory : directory.home;
  const keyPath = isAnew || "refused" in home ? trust.key : home.key;
  const opened = await openIdentity(keyPath);
  if ("refused" in opened) return refuse(terminal, wordsOfFile(opened), opened.refused);
  const { identity, created } = opened;
  const me = identity.key;
  if (created) terminal.err(`A new key was made: ${keyPath} (${fingerprint(me)})`);
  const peers = new PeersFile({ path: trust.peers, me });
  return { terminal, settings, machine, identity, me, keyPath, peers, stateDirectory, home, nowMs: Date.now() };
}

/** At the bus that our agents begin at; or why not, which was said. */
export function askerOf({ terminal, home, identity, peers }: Desk): Asker | ExitCode {
  if ("refused" in home) return refuse(terminal, wordsOfSession(home), home.refused);
  return askerAt(home.bus, home.profile, identity, peers);
}
