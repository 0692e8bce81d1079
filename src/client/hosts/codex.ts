/** Codex: `config.toml` in `~/.codex`, or in the folder that CODEX_HOME names. It hands on no variable that is not declared. */

import { join } from "node:path";
import { SERVER, under, WHAT, type Host, type Place } from "./host.ts";
import { tomlEntry } from "./toml-entry.ts";

const folderOf = ({ home, env }: Place): string => env["CODEX_HOME"] || join(home, ".codex");

export const codex: Host = {
  name: "codex",
  title: "Codex",
  isFound: (place) => place.has(folderOf(place)),
  writes: (place, { command, args, env }) => [
    {
      path: join(folderOf(place), "config.toml"),
      what: WHAT,
      edit: tomlEntry(["mcp_servers", SERVER], { command, args, ...under("env", env) }),
    },
  ],
  note: 'With approval_policy = "never" Codex refuses tools that write; `default_tools_approval_mode` of the server changes that.',
};
