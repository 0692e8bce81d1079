/** What a host is to `setup`: where its configuration lies, and what we put into it. */

import type { Editor } from "./edit.ts";

/** What a host's process is to start. */
export interface Entry {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** What tells where files lie on this machine. */
export interface Place {
  readonly platform: NodeJS.Platform;
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** True if a file or folder is there. */
  readonly has: (path: string) => boolean;
}

/** One change of one file. A host may want several: its MCP servers, and what wakes it. */
export interface Write {
  readonly path: string;
  /** What it is, in words, and unique for the file. */
  readonly what: string;
  readonly edit: Editor;
}

export interface Host {
  /** As it is typed after `--host`. */
  readonly name: string;
  readonly title: string;
  /** True if there is something of the host on this machine. */
  isFound(place: Place): boolean;
  writes(place: Place, entry: Entry): readonly Write[];
  /** What a person has yet to do for it, if anything. */
  readonly note?: string;
}

/** The name of our server in every host. */
export const SERVER = "interlink";
export const WHAT = `the MCP server \`${SERVER}\``;

/** What a host's process is given beside the command; nothing where there is nothing, which no host minds. */
export function under<Key extends string>(key: Key, env: Entry["env"]): { readonly [Each in Key]?: Entry["env"] } {
  return (Object.keys(env).length === 0 ? {} : { [key]: env }) as { readonly [Each in Key]?: Entry["env"] };
}

/** Where this system's custom keeps what programs are told. */
export function configFolder({ platform, home, env }: Place, join: (...parts: string[]) => string): string {
  if (platform === "win32") return env["APPDATA"] || join(home, "AppData", "Roaming");
  if (platform === "darwin") return join(home, "Library", "Application Support");
  return env["XDG_CONFIG_HOME"] || join(home, ".config");
}
