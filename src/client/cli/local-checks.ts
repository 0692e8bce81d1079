/** What doctor sees without a network: files and their rights, and hosts. */

import { statSync } from "node:fs";
import process from "node:process";
import { quote } from "../trust/private-file.ts";
import { readBuses } from "../trust/buses-file.ts";
import { counted } from "../tools/render.ts";
import type { Desk } from "./desk.ts";
import type { Check } from "./check.ts";
import { hostStandings, type HostStanding } from "./host-standing.ts";
import { readRecord, recordPath } from "./setup-record.ts";
import { wordsOfFile, wordsOfPeers, wordsOfSession } from "./words.ts";

export function checkState({ peers, settings, stateDirectory }: Desk): Check[] {
  const book = peers.current();
  const ofPeers: Check =
    "refused" in book
      ? { name: "peers", state: "error", says: wordsOfPeers(book), ...mendOf(book) }
      : book.petnames.size === 0
        ? { name: "peers", state: "warning", says: "nobody is trusted yet", mend: "interlink-edge invite" }
        : { name: "peers", state: "ok", says: counted(book.petnames.size, "peer") };
  const buses = readBuses(settings.buses);
  const ofBuses: Check =
    "refused" in buses
      ? { name: "buses", state: "error", says: wordsOfSession({ refused: "buses_file", why: buses }), ...mendOf(buses) }
      : { name: "buses", state: "ok", says: buses.size === 0 ? "none is named" : [...buses.keys()].join(", ") };
  return [ofPeers, ofBuses, checkFolder(stateDirectory)];
}

function checkFolder(path: string): Check {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) return { name: "state", state: "ok", says: `no session has been here; ${path} is made by the first` };
  if (!found.isDirectory())
    return { name: "state", state: "error", says: `${path} is no folder`, mend: `ls -ld ${quote(path)}` };
  const isOpen = process.platform !== "win32" && (found.mode & 0o077) !== 0;
  return isOpen
    ? { name: "state", state: "warning", says: `others may look into ${path}`, mend: `chmod 700 ${quote(path)}` }
    : { name: "state", state: "ok", says: path };
}

const HOST_CHECKS: Readonly<Record<HostStanding["state"], Pick<Check, "state"> & { readonly says: string }>> = {
  ready: { state: "ok", says: "starts this program" },
  other: { state: "warning", says: "starts another version of this program, or with another name" },
  none: { state: "warning", says: "does not start it" },
  unreadable: { state: "error", says: "has a mistake, so the host does not read it either" },
};

export function checkHosts({ machine, settings, keyPath }: Desk): Check[] {
  const record = readRecord(recordPath(keyPath));
  if ("refused" in record) return [{ name: "hosts", state: "error", says: wordsOfFile(record), mend: record.mend }];
  const standings = hostStandings(machine, settings, record);
  if (standings.length === 0)
    return [
      {
        name: "hosts",
        state: "warning",
        says: "none was found on this machine",
        mend: "interlink-edge setup --host NAME",
      },
    ];
  return standings.map(({ host, path, state }) => {
    const { says, state: as } = HOST_CHECKS[state];
    const mend = as === "ok" ? {} : { mend: state === "unreadable" ? `cat ${quote(path)}` : "interlink-edge setup" };
    return { name: host.name, state: as, says: `${path} ${says}`, ...mend };
  });
}

function mendOf(refusal: object): { readonly mend?: string } {
  return "mend" in refusal && typeof refusal.mend === "string" && refusal.mend !== "" ? { mend: refusal.mend } : {};
}
