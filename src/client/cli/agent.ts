/** `interlink-edge mcp`: the tools over stdio, on a session that is opened when it is needed, until the host leaves. */

import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Readable, Writable } from "node:stream";
import { fingerprint } from "../../protocol/address.ts";
import { systemTimers } from "../bus/timers.ts";
import type { Agent } from "../session/agent.ts";
import { isSessionRefusal, openSession, type Session, type SessionRefusal } from "../session/session.ts";
import { notStarted, type Failure } from "../tools/render-refusal.ts";
import { serveTools } from "../tools/server.ts";
import type { Log } from "../tools/tool.ts";
import { openIdentity } from "../trust/identity-file.ts";
import { VERSION } from "../version.ts";
import type { Settings } from "./settings.ts";
import { wordsOfSession } from "./words.ts";

/** The first of the hosts to kill does so 500 ms after it asked us to end. */
const GOODBYE_MAX_MS = 300;
/** A host's probe of the same session may still be ending. */
const IN_USE_WAIT_MS = 2_000;
const IN_USE_RETRY_MS = 100;
const STATE_KEY_BYTES = 32;

export interface McpRun {
  readonly settings: Settings;
  readonly cwd: string;
  readonly input: Readable;
  readonly output: Writable;
  readonly log: Log;
  /** Settles when the process was asked to end. */
  readonly ended: Promise<unknown>;
}

/** Serves until the host closes the pipe or asks us to end, and has said goodbye when it returns. */
export async function runMcp({ settings, cwd, input, output, log, ended }: McpRun): Promise<void> {
  const server = serveTools({
    open: () => open(settings, cwd, log),
    version: VERSION,
    // An answer to a question of an earlier process is asked for anew.
    stateKey: randomBytes(STATE_KEY_BYTES),
    timers: systemTimers,
    log,
    input,
    output,
  });
  await Promise.race([server.closed, ended]);
  await server.close(GOODBYE_MAX_MS);
}

async function open(settings: Settings, cwd: string, log: Log): Promise<Agent | Failure> {
  const untilMs = Date.now() + IN_USE_WAIT_MS;
  for (;;) {
    const session = await openOnce(settings, cwd, log);
    if (!isSessionRefusal(session)) return session;
    const isInUse = session.refused === "state" && session.why.refusal === "in_use";
    if (isInUse && Date.now() < untilMs) {
      await sleep(IN_USE_RETRY_MS);
      continue;
    }
    const words = wordsOfSession(session);
    log("not_started", { why: words });
    return notStarted(words);
  }
}

async function openOnce(
  { trust, stateDirectory, bus, name, session }: Settings,
  cwd: string,
  log: Log,
): Promise<Session | SessionRefusal> {
  const git_root = gitRootOf(cwd);
  const options = {
    ...trust,
    stateDirectory,
    bus,
    cwd,
    ...(session !== undefined && { session }),
    ...(git_root !== undefined && { git_root }),
  };
  if (name !== undefined) return openSession({ ...options, name });
  // The fingerprint is always something to show, and tells strangers nothing of this machine.
  const opened = await openIdentity(trust.key);
  if ("refused" in opened) return { refused: "identity", why: opened };
  if (opened.created) log("new_key", { path: trust.key });
  return openSession({ ...options, name: fingerprint(opened.identity.key) });
}

/** The name of the repository's folder, by which people know it; not its path. */
function gitRootOf(cwd: string): string | undefined {
  for (let folder = cwd; ; folder = dirname(folder)) {
    if (existsSync(join(folder, ".git"))) return basename(folder);
    if (dirname(folder) === folder) return undefined;
  }
}
