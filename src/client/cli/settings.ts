/** What the environment says: whose names are the original's, so that a user of it changes nothing. */

import { join } from "node:path";
import envPaths from "env-paths";
import type { WakeWish } from "../wake/chooser.ts";
import type { HostFacts } from "../wake/wake-desk.ts";
import { busesFile, trustPaths, type TrustPaths, type TrustVariables } from "../trust/config-directory.ts";

export interface Variables extends TrustVariables {
  readonly INTERLINK_URL?: string | undefined;
  readonly INTERLINK_NAME?: string | undefined;
  readonly INTERLINK_SESSION?: string | undefined;
  readonly INTERLINK_WAKE?: string | undefined;
  readonly INTERLINK_CODEX?: string | undefined;
  readonly CLAUDE_CODE_SESSION_ID?: string | undefined;
  readonly CLAUDE_CODE_MESSAGING_SOCKET?: string | undefined;
  readonly CLAUDE_CODE_MESSAGING_TOKEN?: string | undefined;
  /** Of hooks and of what a model runs, not of servers. */
  readonly CLAUDE_CODE_CHILD_SESSION?: string | undefined;
  /** Of hooks only: `0` where no person sits at the session. */
  readonly CLAUDE_CODE_SESSION_ATTENDED?: string | undefined;
  /** Of hooks only: the process of the host. */
  readonly CLAUDE_PID?: string | undefined;
  /** Set by the supervisor for its own child, and by nobody else: the process that started it. */
  readonly INTERLINK_HOST_PID?: string | undefined;
  /** Set by the supervisor for its own child, and by nobody else. */
  readonly INTERLINK_HANDOFF?: string | undefined;
}

export interface Settings {
  readonly trust: TrustPaths;
  /** Folder of the sessions' files. */
  readonly stateDirectory: string;
  /** Origins of the first bus, separated by commas, or its name in {@link buses}. */
  readonly bus: string;
  /** It was said; else the first of {@link buses} comes before it. */
  readonly isBusSet: boolean;
  /** Path of the file in which the user names buses. */
  readonly buses: string;
  /** Folder of what is neither a setting nor a session's: a bus of this machine, a copy of this program. */
  readonly data: string;
  /** Absent: the fingerprint. */
  readonly name?: string;
  /** Absent: that of the host's thread, else a random one, which finds no inbox again. */
  readonly session?: string;
  /** Which paths may wake the host. */
  readonly wake: WakeWish;
  /** What the host says of itself. */
  readonly host: HostFacts;
  /** True in what a session runs: to a server, the host's variables are then those of a session around its own. */
  readonly isWithinSession: boolean;
  /** False: nobody sits at the session, so nothing waits for its mail. */
  readonly isAttended: boolean;
  /** Path or name of Codex. */
  readonly codex: string;
  readonly platform: NodeJS.Platform;
  /** Folder of the sockets on which hooks find a running agent. */
  readonly hooks: string;
  /** Folder of the hosts' threads, each with its session. */
  readonly threads: string;
  /** Path of the answers that are given before a process has been asked. */
  readonly answers: string;
  /** Path of what the process before left. */
  readonly handoff?: string;
}

/** Where the original's bus listens. */
export const BUS_DEFAULT = "http://127.0.0.1:9440";

const WISHES: readonly WakeWish[] = ["auto", "off", "channel"];

export function readSettings(env: Variables, platform: NodeJS.Platform): Settings {
  const name = said(env.INTERLINK_NAME);
  const handoff = said(env.INTERLINK_HANDOFF);
  const session = said(env.INTERLINK_SESSION);
  const wish = said(env.INTERLINK_WAKE) ?? "auto";
  return {
    trust: trustPaths(env),
    stateDirectory: join(stateFolder(platform), "sessions"),
    answers: join(stateFolder(platform), "answers.json"),
    bus: said(env.INTERLINK_URL) ?? BUS_DEFAULT,
    isBusSet: said(env.INTERLINK_URL) !== undefined,
    buses: busesFile(env),
    data: envPaths("interlink", { suffix: "" }).data,
    // A word that we do not know is no leave to begin turns.
    wake: WISHES.find((each) => each === wish) ?? "off",
    host: {
      socket: said(env.CLAUDE_CODE_MESSAGING_SOCKET),
      token: said(env.CLAUDE_CODE_MESSAGING_TOKEN),
      thread: said(env.CLAUDE_CODE_SESSION_ID),
      pid: said(env.CLAUDE_PID) ?? said(env.INTERLINK_HOST_PID),
    },
    isWithinSession: said(env.CLAUDE_CODE_CHILD_SESSION) !== undefined,
    isAttended: said(env.CLAUDE_CODE_SESSION_ATTENDED) !== "0",
    codex: said(env.INTERLINK_CODEX) ?? "codex",
    platform,
    hooks: join(stateFolder(platform), "hooks"),
    threads: join(stateFolder(platform), "threads"),
    ...(name !== undefined && { name }),
    ...(session !== undefined && { session }),
    ...(handoff !== undefined && { handoff }),
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
