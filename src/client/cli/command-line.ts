/** PURE. What was typed, as a command, or why it is none. */

import { parseArgs } from "node:util";

export type Command =
  | { readonly run: "help" }
  | { readonly run: "version" }
  | { readonly run: "mcp" }
  | { readonly run: "key" }
  | { readonly run: "pair list" }
  | { readonly run: "pair accept"; readonly request: string; readonly petname: string; readonly yes: boolean }
  | { readonly run: "pair reject"; readonly request: string; readonly yes: boolean }
  | { readonly run: "peers list" }
  | { readonly run: "peers add"; readonly petname: string; readonly key: string; readonly yes: boolean }
  | { readonly run: "peers remove"; readonly peer: string; readonly yes: boolean };

export const USAGE = `interlink-edge mcp                                          serves the tools over stdio, for an MCP host
interlink-edge pair list                                    who knocks, with the names that they claim
interlink-edge pair accept FINGERPRINT --as PETNAME [--yes] makes one who knocked a peer
interlink-edge pair reject FINGERPRINT [--yes]              turns one away
interlink-edge peers list                                   who is trusted
interlink-edge peers add PETNAME KEY [--yes]                trusts a key that you were given
interlink-edge peers remove PETNAME [--yes]                 ends the trust in a peer
interlink-edge key                                          our key and its fingerprint
interlink-edge --version | --help

What changes trust asks first; without a terminal it needs --yes.

INTERLINK_URL      the bus, or several separated by commas (http://127.0.0.1:9440)
INTERLINK_NAME     what we call ourselves on the roster (the key's fingerprint)
INTERLINK_SESSION  id of this session (the host's own, else a random one)
INTERLINK_KEY      path of the key, instead of the usual one
INTERLINK_PEERS    path of the peers file, instead of the usual one
`;

/** Reads the arguments that follow the program's name. */
export function readCommand(args: readonly string[]): Command | { readonly wrong: string } {
  let parsed;
  try {
    parsed = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        as: { type: "string" },
        yes: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
        version: { type: "boolean", short: "V", default: false },
      },
    });
  } catch (fault) {
    // Node says in its first sentence what is wrong.
    return { wrong: fault instanceof Error ? fault.message : String(fault) };
  }
  const { values, positionals } = parsed;
  const { as, yes, help, version } = values;
  if (help) return { run: "help" };
  if (version) return { run: "version" };
  const [group = "", verb = "", ...rest] = positionals;
  if (verb === "" && (group === "mcp" || group === "key")) return { run: group };
  const [first, second, ...more] = rest;
  const isOver = more.length > 0;
  switch (`${group} ${verb}`) {
    case "pair list":
      if (first === undefined) return { run: "pair list" };
      break;
    case "peers list":
      if (first === undefined) return { run: "peers list" };
      break;
    case "pair accept":
      if (first === undefined || second !== undefined) break;
      return as === undefined
        ? { wrong: "Say what to call them: --as PETNAME." }
        : { run: "pair accept", request: first, petname: as, yes };
    case "pair reject":
      if (first !== undefined && second === undefined) return { run: "pair reject", request: first, yes };
      break;
    case "peers add":
      if (first !== undefined && second !== undefined && !isOver)
        return { run: "peers add", petname: first, key: second, yes };
      break;
    case "peers remove":
      if (first !== undefined && second === undefined) return { run: "peers remove", peer: first, yes };
      break;
  }
  return { wrong: positionals.length === 0 ? "Which command?" : "There is no such command, or its words are wrong." };
}
