/**
 * `interlink-edge forget`: every trace of us, first on the buses, then on this machine. In this order, since without the key no
 * bus takes a word.
 */

import { existsSync, rmSync } from "node:fs";
import { fingerprint, parseSessionId } from "../../protocol/address.ts";
import { parseBusUrl, type BusUrl } from "../bus/bus-url.ts";
import { BusClock } from "../bus/clock.ts";
import { BusHttp } from "../bus/http.ts";
import { isOk, type Outcome } from "../bus/outcome.ts";
import { identityFiles } from "../state/identity-files.ts";
import { SESSION_SHOWN_CHARS } from "../state/paths.ts";
import { isRunning, sessionFilesHere, type SessionFile, type SessionFilesHere } from "../state/session-files.ts";
import { counted } from "../tools/render.ts";
import { readBuses, readBusUrls, type NamedBus } from "../trust/buses-file.ts";
import { temporariesOf } from "../trust/private-file.ts";
import { Threads } from "../wake/threads.ts";
import { refuseOutcome } from "./asker.ts";
import type { CommandRun } from "./command-line.ts";
import { askerOf, type Desk } from "./desk.ts";
import { otherKeys } from "./left-out.ts";
import { NO_RECORD, readRecord, recordPath } from "./setup-record.ts";
import { agrees, refuse, report, type ExitCode } from "./terminal.ts";
import { wordsOfSession } from "./words.ts";

/** What stays, and why. */
interface Kept {
  readonly path: string;
  readonly why: "names_buses" | "another_key" | "unknown_owner";
}

const WHY: Readonly<Record<Kept["why"], string>> = {
  names_buses: "in which you name buses, and which says nothing of us",
  another_key: "another key of yours needs it",
  unknown_owner: "nobody can say whose it is",
};

export async function forget(desk: Desk, { yes, anyway }: CommandRun<"forget">): Promise<ExitCode> {
  const { terminal, me, keyPath, settings, stateDirectory } = desk;
  const record = readRecord(recordPath(keyPath));
  if (("refused" in record ? NO_RECORD : record).writes.length > 0)
    return refuse(
      terminal,
      "hosts of this machine would make a new identity at once; run `interlink-edge setup --remove` first",
      "hosts_set_up",
    );
  const buses = readBuses(settings.buses);
  // It says which keys there are beside this one.
  if ("refused" in buses) return refuse(terminal, wordsOfSession({ refused: "buses_file", why: buses }), buses.refused);
  const here = sessionFilesHere(stateDirectory, me);
  const running = [...new Set(here.ours.filter(isRunning).map(({ session }) => session))];
  if (running.length > 0)
    return refuse(terminal, `agents of ours run: ${running.join(", ")}; end them first`, "in_use");
  const asker = askerOf(desk);
  if (typeof asker === "number") return asker;
  const urls = busesOf(desk, [...buses.values()], here.ours);
  const shown = [
    `Forget ${fingerprint(me)}? Its mail, its presence and its admission are removed from ${named(urls)};`,
    "its key, its peers and all messages from this machine. There is no way back: peers have to pair anew.",
  ];
  if (!(await agrees(terminal, { shown, yes }))) return 1;

  const asked = await Promise.all(urls.map(async (url) => ({ url, outcome: await forgetAt(desk, url) })));
  const silent = asked.filter(({ outcome }) => !isGone(outcome));
  const [first] = silent;
  if (first && !anyway) {
    const exit = refuseOutcome(terminal, first.outcome, first.url);
    terminal.err(`Nothing was removed from this machine. \`interlink-edge forget --anyway\` removes it, and leaves what
${named(silent.map(({ url }) => url))} ${silent.length === 1 ? "has" : "have"} of us.`);
    return exit;
  }

  const removed = filesOf(desk, here).filter((path) => existsSync(path));
  // The key comes last: whoever is stopped half-way can do it again.
  for (const path of removed) rmSync(path);
  const kept = keptOf(desk, here);
  const answers = asked.map(({ url, outcome }) => ({ bus: url.origin, forgotten: isGone(outcome) }));
  report(terminal, { forgotten: me, bus: asker.url.origin, buses: answers, removed, kept }, [
    `${fingerprint(me)} is forgotten. ${counted(removed.length, "file")} of it ${removed.length === 1 ? "was" : "were"} removed.`,
    ...silent.map(({ url }) => `Not forgotten by ${url.origin}, which did not take the word.`),
    ...kept.map(({ path, why }) => `Kept: ${path}, ${WHY[why]}.`),
  ]);
  return 0;
}

/** Where our agents begin, what the user's file names for this key, and every bus that has known one of its sessions. */
function busesOf(
  { home, settings, keyPath }: Desk,
  listed: readonly NamedBus[],
  files: readonly SessionFile[],
): BusUrl[] {
  const ofKey = listed.filter(({ key = settings.trust.key }) => key === keyPath).flatMap(({ urls }) => urls);
  const begun = "refused" in home ? { urls: [] } : readBusUrls(home.bus, home.profile);
  const known = files
    .flatMap((file) => file.buses)
    .flatMap((origin) => {
      // It was dialled before, so it was allowed.
      const url = parseBusUrl(origin, { allowPrivate: true });
      return "refusal" in url ? [] : [url];
    });
  const all = [...("urls" in begun ? begun.urls : []), ...ofKey, ...known];
  return [...new Map(all.map((url) => [url.origin, url])).values()];
}

function forgetAt({ identity }: Desk, url: BusUrl): Promise<Outcome<{ forgotten: true }>> {
  return new BusHttp({ url, signer: identity, clock: new BusClock() }).forget();
}

/** Who was never admitted, or was forgotten before, has nothing there. */
function isGone(forgotten: Outcome<{ forgotten: true }>): boolean {
  return isOk(forgotten) || ("refused" in forgotten && forgotten.refused === "not_admitted");
}

/** Of this key, the key itself last. */
function filesOf(desk: Desk, here: SessionFilesHere): string[] {
  const { me, keyPath, settings, stateDirectory } = desk;
  const { paths, setAside, bindings } = identityFiles(stateDirectory, me, keyPath);
  const others = new Set(here.others.map(({ owner }) => owner.session as string));
  const sessions = here.ours.map(({ owner, session }) => owner?.session ?? wholeSession(session));
  const ours = new Set(sessions.filter((session) => session !== undefined && !others.has(session)) as string[]);
  const threads = new Threads(settings.threads).pathsOf(ours);
  const shared = sharedOf(desk).flatMap((path) => [...temporariesOf(path), `${path}.lock`, path]);
  const own = otherKeys(desk).length > 0 ? [] : shared;
  return [...paths, ...setAside, ...bindings, ...threads, ...own, ...temporariesOf(keyPath), keyPath];
}

function keptOf(desk: Desk, { others, unknown }: SessionFilesHere): Kept[] {
  const isShared = otherKeys(desk).length > 0;
  const all: Kept[] = [
    { path: desk.settings.buses, why: "names_buses" },
    ...(isShared ? sharedOf(desk) : []).map((path) => ({ path, why: "another_key" }) as const),
    ...others.map(({ path }) => ({ path, why: "another_key" }) as const),
    ...unknown.map(({ path }) => ({ path, why: "unknown_owner" }) as const),
  ];
  return all.filter(({ path }) => existsSync(path));
}

/** What all keys of the user have together. */
function sharedOf({ settings, keyPath }: Desk): string[] {
  return [settings.trust.peers, recordPath(keyPath)];
}

/** As it stands in a file's name, where there was room for it. */
function wholeSession(shown: string): string | undefined {
  return shown.length < SESSION_SHOWN_CHARS ? parseSessionId(shown) : undefined;
}

function named(urls: readonly BusUrl[]): string {
  return urls.map(({ origin }) => origin).join(", ");
}
