/**
 * Where the identity and the peers of this user are kept.
 *
 * The original keeps both in `~/.config/interlink` on every system and knows nothing of XDG, so where that
 * folder is, it is ours as well. It also brings together processes that see different surroundings: a host
 * may start us without the XDG variables that the user's shell has.
 */

import { statSync } from "node:fs";
import { join } from "node:path";
import envPaths from "env-paths";

/** The variables that are read here; the names are the original's. */
export interface TrustVariables {
  readonly HOME?: string | undefined;
  readonly USERPROFILE?: string | undefined;
  /** Path of the key file, instead of the usual one. */
  readonly INTERLINK_KEY?: string | undefined;
  /** Path of the peers file, instead of the usual one. */
  readonly INTERLINK_PEERS?: string | undefined;
}

export interface TrustPaths {
  readonly key: string;
  readonly peers: string;
}

/** `id.key` and `peers.json`, each where its variable says, else in {@link configDirectory}. */
export function trustPaths(env: TrustVariables): TrustPaths {
  const directory = configDirectory(env);
  return {
    key: env.INTERLINK_KEY || join(directory, "id.key"),
    peers: env.INTERLINK_PEERS || join(directory, "peers.json"),
  };
}

/** Where the user names buses. It stays in the folder wherever the key is: it may name several keys. */
export function busesFile(env: TrustVariables): string {
  return join(configDirectory(env), "buses.json");
}

/** The folder of the original if it is there, else the one that this system's custom asks for. */
export function configDirectory(env: TrustVariables): string {
  // HOME first, on Windows too: so does the original, and a shell there may set both.
  const home = env.HOME || env.USERPROFILE;
  const original = home === undefined ? undefined : join(home, ".config", "interlink");
  if (original !== undefined && statSync(original, { throwIfNoEntry: false })?.isDirectory()) return original;
  return envPaths("interlink", { suffix: "" }).config;
}
