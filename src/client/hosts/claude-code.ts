/** Claude Code: servers of the user in `~/.claude.json`, or in the folder that CLAUDE_CONFIG_DIR names. */

import { join } from "node:path";
import { SERVER, under, WHAT, type Host, type Place } from "./host.ts";
import { jsonEntry } from "./json-entry.ts";

const fileOf = ({ home, env }: Place): string => join(env["CLAUDE_CONFIG_DIR"] || home, ".claude.json");

export const claudeCode: Host = {
  name: "claude-code",
  title: "Claude Code",
  isFound: (place) =>
    place.has(fileOf(place)) || place.has(place.env["CLAUDE_CONFIG_DIR"] || join(place.home, ".claude")),
  writes: (place, { command, args, env }) => [
    {
      path: fileOf(place),
      what: WHAT,
      edit: jsonEntry(["mcpServers", SERVER], { type: "stdio", command, args, ...under("env", env) }),
    },
  ],
};
