/** What the environment says: whose names are the original's, so that a user of it changes nothing. */

import { join } from "node:path";
import envPaths from "env-paths";
import { trustPaths, type TrustPaths, type TrustVariables } from "../trust/config-directory.ts";

export interface Variables extends TrustVariables {
  readonly INTERLINK_URL?: string | undefined;
  readonly INTERLINK_NAME?: string | undefined;
  readonly INTERLINK_SESSION?: string | undefined;
  readonly CLAUDE_CODE_SESSION_ID?: string | undefined;
}

export interface Settings {
  readonly trust: TrustPaths;
  /** Folder of the sessions' files. */
  readonly stateDirectory: string;
  /** Buses, separated by commas. */
  readonly bus: string;
  /** Absent: the fingerprint. */
  readonly name?: string;
  /** Absent: a random one, which finds no inbox again. */
  readonly session?: string;
}

/** Where the original's bus listens. */
export const BUS_DEFAULT = "http://127.0.0.1:9440";

/** The ids by which hosts know their own sessions; the first that is set counts. */
const HOST_SESSIONS = ["CLAUDE_CODE_SESSION_ID"] as const;

export function readSettings(env: Variables, platform: NodeJS.Platform): Settings {
  const name = said(env.INTERLINK_NAME);
  const session = said(env.INTERLINK_SESSION) ?? HOST_SESSIONS.map((each) => said(env[each])).find(Boolean);
  return {
    trust: trustPaths(env),
    stateDirectory: join(stateFolder(platform), "sessions"),
    bus: said(env.INTERLINK_URL) ?? BUS_DEFAULT,
    ...(name !== undefined && { name }),
    ...(session !== undefined && { session }),
  };
}

/** Where this system keeps what a program remembers. On Linux env-paths calls the state folder that of logs. */
function stateFolder(platform: NodeJS.Platform): string {
  const { data, log } = envPaths("interlink", { suffix: "" });
  return platform === "darwin" || platform === "win32" ? data : log;
}

/** A variable that is set to nothing is not set. */
function said(value: string | undefined): string | undefined {
  const text = value?.trim();
  return text === "" ? undefined : text;
}
