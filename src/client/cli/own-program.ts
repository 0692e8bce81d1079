/**
 * What a host is to start: the Node that runs us and this very file, both by their whole path. Hosts start servers with a
 * PATH of their own, or none: a window system's knows no nvm, Codex hands on four variables. `npx` would have to be found
 * there too, and asks the network before it answers, where a host waits three seconds.
 *
 * What npx itself has fetched lies in a cache that may be cleared, so of that a copy is kept.
 */

import { cpSync, existsSync, realpathSync, renameSync, rmSync } from "node:fs";
import { basename, join, resolve, sep } from "node:path";
import type { Entry } from "../hosts/host.ts";
import { VERSION } from "../version.ts";
import type { Machine } from "./machine.ts";

/** Without these an agent would look for its key and its state where the person's own commands do not. */
const HANDED_ON = ["INTERLINK_KEY", "INTERLINK_PEERS", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"] as const;

const PACKAGE = "interlink-edge";
/** Of the bus alone, and a hundred megabytes. */
const NOT_COPIED = /^(?:workerd|\.bin|@cloudflare)$/;

export interface OwnProgram {
  readonly script: string;
  /** Copies the program to where `script` says, if it is to be a copy. */
  readonly copy?: { readonly from: string; readonly to: string };
}

/** @param data folder of what programs keep */
export function ownProgram({ script }: Pick<Machine, "script">, data: string): OwnProgram {
  const real = realpathSync(script);
  const cache = `${sep}_npx${sep}`;
  const modules = `${sep}node_modules${sep}`;
  const at = real.lastIndexOf(`${modules}${PACKAGE}${sep}`);
  if (!real.includes(cache) || at < 0) return { script: real };
  const to = join(data, "program", VERSION);
  return { script: join(to, real.slice(at + 1)), copy: { from: real.slice(0, at + modules.length - 1), to } };
}

/** Nothing, where it is there. */
export function copyProgram({ copy, script }: OwnProgram): void {
  if (!copy || existsSync(script)) return;
  const making = `${copy.to}.making`;
  rmSync(making, { recursive: true, force: true });
  const filter = (path: string) => !NOT_COPIED.test(basename(path));
  cpSync(copy.from, join(making, "node_modules"), { recursive: true, filter });
  rmSync(copy.to, { recursive: true, force: true });
  renameSync(making, copy.to);
}

export function entryOf({ node, flags, env }: Machine, script: string, name: string | undefined): Entry {
  const handedOn = HANDED_ON.flatMap((variable) => {
    const value = env[variable];
    return value ? [[variable, resolve(value)] as const] : [];
  });
  return {
    command: node,
    args: [...flags, script, "mcp"],
    env: { ...Object.fromEntries(handedOn), ...(name !== undefined && { INTERLINK_NAME: name }) },
  };
}

/** Nothing starts them any more. */
export function removeProgram(copy: string): void {
  rmSync(copy, { recursive: true, force: true });
}
