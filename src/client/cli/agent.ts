/**
 * `interlink-edge agent`: the tools over stdio, on a session that is opened when it is needed, until the pipe is closed. The
 * supervisor runs it beneath itself, and leaves it what the process before knew.
 */

import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Readable, Writable } from "node:stream";
import { systemTimers } from "../bus/timers.ts";
import type { BusAgent } from "../session/buses.ts";
import { isRefused, openBuses, type BusesOptions } from "../session/open-buses.ts";
import { notStarted, type Failure } from "../tools/render-refusal.ts";
import { serveTools } from "../tools/server.ts";
import type { Log } from "../tools/tool.ts";
import { EXIT_HANDOFF } from "../supervisor/child-life.ts";
import { takeHandoff, type Handoff } from "../supervisor/handoff.ts";
import { VERSION } from "../version.ts";
import { hookPlace, type HookPlace } from "../wake/hook-address.ts";
import { ThreadBook } from "../wake/thread-book.ts";
import { Threads } from "../wake/threads.ts";
import { WakeDesk } from "../wake/wake-desk.ts";
import { watchInstalled } from "./installed-version.ts";
import type { Settings } from "./settings.ts";
import { wordsOfSession } from "./words.ts";

const PACKAGE = join(import.meta.dirname, "../../../package.json");
/** The first of the hosts to kill does so 500 ms after it asked us to end. */
const GOODBYE_MAX_MS = 300;
/** A host's probe of the same session may still be ending. */
const IN_USE_WAIT_MS = 2_000;
const IN_USE_RETRY_MS = 100;
const STATE_KEY_BYTES = 32;
const SESSION_BYTES = 16;

export interface AgentRun {
  readonly settings: Settings;
  readonly cwd: string;
  readonly input: Readable;
  readonly output: Writable;
  readonly log: Log;
  /** Settles when the process was asked to end. */
  readonly ended: Promise<unknown>;
}

/** Serves until the pipe is closed or somebody asks us to end, and has said goodbye when it returns. */
export async function runAgent({ settings, cwd, input, output, log, ended }: AgentRun): Promise<0 | 75> {
  const handoff = settings.handoff === undefined ? undefined : readHandoff(settings.handoff, log);
  // Whoever reads us may be killed.
  output.on("error", () => {});
  const replaced = Promise.withResolvers<"too_old" | "upgraded">();
  const onTooOld = () => {
    // Only a supervisor starts another; and one that is as old would be told the same at once.
    if (handoff === undefined || handoff.reason === `exit ${EXIT_HANDOFF}`) return;
    log("client_too_old", { version: VERSION });
    replaced.resolve("too_old");
  };
  const host = settings.isWithinSession ? {} : settings.host;
  const book = new ThreadBook({
    thread: host.thread ?? handoff?.threads[0],
    threads: new Threads(settings.threads),
    run: handoff?.session,
    isPinned: settings.session !== undefined,
    log,
  });
  const wake = new WakeDesk({
    wish: settings.wake,
    host,
    codex: settings.codex,
    codexThread: handoff?.threads.at(-1),
    book,
    place: placeOf(settings, log),
    timers: systemTimers,
    log,
  });
  const server = serveTools({
    open: () => open({ settings, handoff, book, cwd, log, onTooOld }),
    wake,
    hasChannel: settings.wake === "channel",
    version: VERSION,
    // Without a supervisor an answer to a question of an earlier process is asked for anew.
    stateKey: handoff ? Buffer.from(handoff.state_key, "base64url") : randomBytes(STATE_KEY_BYTES),
    timers: systemTimers,
    log,
    input,
    output,
  });
  // A hook that waits goes on to wait for the next process.
  void replaced.promise.then(() => (wake.isReplaced = true));
  if (handoff?.rejoin) server.rejoin();
  const onReplaced = async (version: string) => {
    log("upgraded_on_disk", { from: VERSION, to: version });
    await server.idle();
    replaced.resolve("upgraded");
  };
  // Only a supervisor starts another.
  const stop =
    handoff && watchInstalled({ path: PACKAGE, timers: systemTimers, onReplaced: (to) => void onReplaced(to) });
  const why = await Promise.race([server.closed, ended, replaced.promise]);
  stop?.();
  // The session goes on in the next process: a goodbye would tell its peers otherwise.
  if (why === "upgraded") return EXIT_HANDOFF;
  await server.close(GOODBYE_MAX_MS);
  return why === "too_old" ? EXIT_HANDOFF : 0;
}

/** Where hooks find us; without it this session is woken by what needs none. */
function placeOf({ hooks, platform }: Settings, log: Log): HookPlace | undefined {
  try {
    const place = hookPlace(hooks, platform, true);
    if (!place) log("no_hooks", { path: hooks });
    return place;
  } catch (fault) {
    log("no_hooks", { path: hooks, error: String(fault) });
    return undefined;
  }
}

/** What the process before left; without it this one is a session of its own. */
function readHandoff(path: string, log: Log): Handoff | undefined {
  const handoff = takeHandoff(path);
  if (handoff === undefined || "refused" in handoff) {
    log("no_handoff", handoff && { refused: handoff.refused });
    return undefined;
  }
  const { generation, reason, threads } = handoff;
  if (reason !== undefined) log("started_again", { generation, reason, threads: threads.length });
  return handoff;
}

interface Opening extends Pick<AgentRun, "settings" | "cwd" | "log"> {
  readonly handoff: Handoff | undefined;
  readonly book: ThreadBook;
  readonly onTooOld: () => void;
}

async function open(opening: Opening): Promise<BusAgent | Failure> {
  const untilMs = performance.now() + IN_USE_WAIT_MS;
  const { settings, handoff, book } = opening;
  const id = settings.session ?? book.toOpen() ?? handoff?.session ?? randomBytes(SESSION_BYTES).toString("hex");
  for (;;) {
    const session = await openBuses(optionsOf(opening, id));
    if (!isRefused(session)) {
      book.opened(id);
      return session;
    }
    const isInUse = session.refused === "state" && session.why.refusal === "in_use";
    if (isInUse && performance.now() < untilMs) {
      await sleep(IN_USE_RETRY_MS);
      continue;
    }
    const words = wordsOfSession(session);
    opening.log("not_started", { why: words });
    return notStarted(words);
  }
}

function optionsOf({ settings, handoff, cwd, onTooOld }: Opening, session: string): BusesOptions {
  const { trust, stateDirectory, bus, isBusSet, buses, name } = settings;
  const git_root = gitRootOf(cwd);
  return {
    ...trust,
    stateDirectory,
    buses,
    ...(isBusSet && { bus }),
    cwd,
    // Without a name the fingerprint is shown: always something, and it tells strangers nothing of this machine.
    ...(name !== undefined && { name }),
    session,
    ...(git_root !== undefined && { git_root }),
    ...(handoff !== undefined && { goesOn: handoff.generation > 1 }),
    // The id is the supervisor's own, whatever session is opened.
    ...(handoff !== undefined && { witness: { keeper: handoff.session, arrived: handoff.arrived } }),
    onTooOld,
  };
}

/** The name of the repository's folder, by which people know it; not its path. */
function gitRootOf(cwd: string): string | undefined {
  for (let folder = cwd; ; folder = dirname(folder)) {
    if (existsSync(join(folder, ".git"))) return basename(folder);
    if (dirname(folder) === folder) return undefined;
  }
}
