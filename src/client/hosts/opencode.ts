/** opencode: `opencode.jsonc` or `opencode.json` in its folder of XDG_CONFIG_HOME, on every system. */

import { join } from "node:path";
import { SERVER, under, WHAT, type Host, type Place } from "./host.ts";
import { jsonEntry } from "./json-entry.ts";

const folderOf = ({ home, env }: Place): string => join(env["XDG_CONFIG_HOME"] || join(home, ".config"), "opencode");

/** It reads both; the one that is there is the user's. */
function fileOf(place: Place): string {
  const withComments = join(folderOf(place), "opencode.jsonc");
  return place.has(withComments) ? withComments : join(folderOf(place), "opencode.json");
}

export const opencode: Host = {
  name: "opencode",
  title: "opencode",
  isFound: (place) => place.has(folderOf(place)),
  writes: (place, { command, args, env }) => {
    const entry = { type: "local", command: [command, ...args], ...under("environment", env), enabled: true };
    return [{ path: fileOf(place), what: WHAT, edit: jsonEntry(["mcp", SERVER], entry) }];
  },
};
