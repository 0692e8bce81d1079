/** How each host of this machine stands with us, as its files say now. */

import { HOSTS } from "../hosts/all.ts";
import { readConfig } from "../hosts/config-file.ts";
import type { Host } from "../hosts/host.ts";
import type { Settings } from "./settings.ts";
import { placeOf, type Machine } from "./machine.ts";
import { entryOf, ownProgram } from "./own-program.ts";
import type { SetupRecord } from "./setup-record.ts";

export interface HostStanding {
  readonly host: Host;
  readonly path: string;
  /** `other`: there is an entry of ours, and it is not what setup would write now. */
  readonly state: "ready" | "other" | "none" | "unreadable";
}

/** Every host that is found here, or that setup has written for. */
export function hostStandings(machine: Machine, settings: Settings, record: SetupRecord): HostStanding[] {
  const place = placeOf(machine);
  const name = settings.name ?? record.name;
  const entry = entryOf(machine, ownProgram(machine, settings.data).script, name);
  const isOurs = (host: Host) => record.writes.some((written) => written.host === host.name);
  return HOSTS.filter((host) => isOurs(host) || host.isFound(place)).flatMap((host) =>
    host.writes(place, entry).map(({ path, edit }): HostStanding => {
      const config = readConfig(path);
      if ("trouble" in config) return { host, path, state: "unreadable" };
      if (config.text === undefined) return { host, path, state: "none" };
      if (edit.holds(config.text)) return { host, path, state: "ready" };
      const added = edit.add(config.text);
      const state = !("refused" in added) ? "none" : added.refused === "taken" ? "other" : "unreadable";
      return { host, path, state };
    }),
  );
}
