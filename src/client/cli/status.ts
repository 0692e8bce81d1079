/** `interlink-edge status`: who we are and how we stand, as far as it can be seen without becoming a session. */

import { fingerprint, type Key } from "../../protocol/address.ts";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import { classifyPresence } from "../../protocol/presence.ts";
import { isOk } from "../bus/outcome.ts";
import { leftOf, spentOn } from "../session/loop-guard.ts";
import { openBudget } from "../state/budget-file.ts";
import { openPairing } from "../state/open-pairing.ts";
import { isRunning, lookInto, sessionFilesHere, type SessionFile } from "../state/session-files.ts";
import { ageOf } from "../tools/ages.ts";
import { quoted } from "../tools/escape.ts";
import { counted } from "../tools/render.ts";
import { wordsOfOutcome } from "./asker.ts";
import { askerOf, type Desk } from "./desk.ts";
import { hostStandings, type HostStanding } from "./host-standing.ts";
import { furtherBus, leftOut, linesOfLeftOut, wordsOfPassedOver } from "./left-out.ts";
import { NO_RECORD, readRecord, recordPath } from "./setup-record.ts";
import { report, table, type ExitCode } from "./terminal.ts";
import { wakesOf, wordsOfWakes } from "./wakes-here.ts";

const HOST_WORDS: Readonly<Record<HostStanding["state"], string>> = {
  ready: "set up",
  other: "has another entry of ours: interlink-edge setup",
  none: "not set up: interlink-edge setup",
  unreadable: "its file cannot be read",
};

export async function showStatus(desk: Desk): Promise<ExitCode> {
  const { terminal, me, settings, machine, keyPath, peers } = desk;
  const asker = askerOf(desk);
  if (typeof asker === "number") return asker;
  const [bus, wakes] = await Promise.all([busOf(desk, asker), wakesOf(desk)]);
  const here = sessionFilesHere(desk.stateDirectory, me);
  const sessions = here.ours.flatMap((file) => localSession(file) ?? []);
  const apart = leftOut(desk, here);
  const found = readRecord(recordPath(keyPath));
  const record = "refused" in found ? NO_RECORD : found;
  const hosts = hostStandings(machine, settings, record).map(({ host, path, state }) => ({
    host: host.name,
    title: host.title,
    path,
    state,
  }));
  const name = settings.name ?? record.name ?? fingerprint(me);
  const book = peers.current();
  const count = "refused" in book ? 0 : book.petnames.size;
  const { knocks, spent } = countsOf(desk);
  const unread = sessions.reduce((sum, each) => sum + each.unread, 0);
  const pending = sessions.reduce((sum, each) => sum + each.pending, 0);

  const said = {
    name,
    key: me,
    fingerprint: fingerprint(me),
    bus,
    peers: count,
    knocks,
    unread,
    pending,
    budget_spent_on: spent,
    sessions,
    left_out: { ...apart, unreadable: here.ours.length - sessions.length },
    wake: wakes,
    hosts,
  };
  const seen =
    bus.sessions?.map(({ session, presence, age_ms }) => `${session} ${presence}, seen ${ageOf(age_ms)}`) ?? [];
  const lines = table(terminal, [
    ["you", `${quoted(name)} ${fingerprint(me)}`],
    ["bus", `${bus.origin}${bus.problem === undefined ? "" : `: ${bus.problem}`}`],
    ["agents", bus.problem === undefined ? seen.join("; ") || "none on the bus" : "not known"],
    ["wake", wordsOfWakes(wakes)],
    ["peers", `${count}${knocks === 0 ? "" : `, and ${knocks} waiting to pair: interlink-edge pair list`}`],
    ["unread", unread === 0 ? "nothing" : `${counted(unread, "message")}: interlink-edge inbox`],
    ["unsent", pending === 0 ? "nothing" : `${counted(pending, "message")}, tried again by the agents themselves`],
    ["budget", spent === 0 ? "full" : `partly spent on ${counted(spent, "peer")}: interlink-edge budget`],
    ...hosts.map(({ title, state }) => [title, HOST_WORDS[state]]),
  ]);
  report(terminal, said, lines);
  if (said.left_out.unreadable > 0) terminal.err(wordsOfPassedOver(said.left_out.unreadable));
  for (const line of linesOfLeftOut(apart, "status")) terminal.err(line);
  return 0;
}

async function busOf({ me }: Desk, { http, url }: Exclude<ReturnType<typeof askerOf>, number>) {
  const { origin } = url;
  const view = await http.rosterOf(me);
  if (!isOk(view)) return { origin, problem: wordsOfOutcome(view, url).words };
  const sessions = view.ok.roster.flatMap(({ session, age_ms, connected }) => {
    const presence = classifyPresence(age_ms, DEFAULT_LIMITS);
    return presence === "gone" ? [] : [{ session: session.session_id, presence, age_ms, connected }];
  });
  return { origin, sessions };
}

function localSession(file: SessionFile) {
  const counts = lookInto(file, ({ inbox, outbox }) => ({
    unread: inbox.unreadCount(),
    pending: outbox.pendingCount(),
  }));
  return counts && { session: file.session, ...furtherBus(file), is_running: isRunning(file), ...counts };
}

function countsOf({ stateDirectory, me, nowMs }: Desk): { readonly knocks: number; readonly spent: number } {
  const paired = openPairing({ directory: stateDirectory, me, nowMs });
  let knocks = 0;
  if (!("refusal" in paired)) {
    knocks = paired.pairing.read().pending.length;
    paired.pairing.close();
  }
  const opened = openBudget(stateDirectory, me, nowMs);
  if ("refusal" in opened) return { knocks, spent: 0 };
  const state = opened.budget.read();
  opened.budget.close();
  const isSpent = (peer: Key) => {
    const { left, of } = leftOf(state, "reply", peer, nowMs);
    return left < of;
  };
  return { knocks, spent: (spentOn(state) as Key[]).filter(isSpent).length };
}
