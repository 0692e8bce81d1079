/** Cursor: `~/.cursor/mcp.json`. */

import { join } from "node:path";
import { SERVER, under, WHAT, type Host } from "./host.ts";
import { jsonEntry } from "./json-entry.ts";

export const cursor: Host = {
  name: "cursor",
  title: "Cursor",
  isFound: ({ home, has }) => has(join(home, ".cursor")),
  writes: ({ home }, { command, args, env }) => [
    {
      path: join(home, ".cursor", "mcp.json"),
      what: WHAT,
      edit: jsonEntry(["mcpServers", SERVER], { type: "stdio", command, args, ...under("env", env) }),
    },
  ],
};
