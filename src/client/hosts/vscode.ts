/** VS Code: `mcp.json` of the user's default profile. */

import { join } from "node:path";
import { configFolder, SERVER, under, WHAT, type Host, type Place } from "./host.ts";
import { jsonEntry } from "./json-entry.ts";

const folderOf = (place: Place): string => join(configFolder(place, join), "Code", "User");

export const vscode: Host = {
  name: "vscode",
  title: "VS Code",
  isFound: (place) => place.has(folderOf(place)),
  writes: (place, { command, args, env }) => [
    {
      path: join(folderOf(place), "mcp.json"),
      what: WHAT,
      edit: jsonEntry(["servers", SERVER], { type: "stdio", command, args, ...under("env", env) }),
    },
  ],
};
