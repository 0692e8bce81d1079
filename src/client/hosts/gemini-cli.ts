/** Gemini CLI: `~/.gemini/settings.json`. */

import { join } from "node:path";
import { SERVER, under, WHAT, type Host } from "./host.ts";
import { jsonEntry } from "./json-entry.ts";

export const geminiCli: Host = {
  name: "gemini-cli",
  title: "Gemini CLI",
  isFound: ({ home, has }) => has(join(home, ".gemini")),
  writes: ({ home }, { command, args, env }) => [
    {
      path: join(home, ".gemini", "settings.json"),
      what: WHAT,
      edit: jsonEntry(["mcpServers", SERVER], { command, args, ...under("env", env) }),
    },
  ],
};
