/** `interlink-edge discover` and `watch`: who is there, and who comes and goes. */

import { setTimeout as sleep } from "node:timers/promises";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import { isToolRefusal, type Discovered } from "../session/agent.ts";
import { discover } from "../session/discovery.ts";
import { openPairing } from "../state/open-pairing.ts";
import { lookInto, sessionFiles } from "../state/session-files.ts";
import { isoOf } from "../tools/escape.ts";
import type { Asker } from "./asker.ts";
import type { CommandRun } from "./command-line.ts";
import { askerOf, type Desk } from "./desk.ts";
import { furtherBus } from "./left-out.ts";
import { rosterLines, whoIs } from "./roster-lines.ts";
import { refuse, report, type ExitCode } from "./terminal.ts";
import { wordsOfTool } from "./tool-words.ts";

/** Each look costs the bus a request a peer. */
const LOOK_EVERY_MS = 3_000;

export async function showRoster(desk: Desk, { peer }: CommandRun<"discover">): Promise<ExitCode> {
  const { terminal } = desk;
  const asker = askerOf(desk);
  if (typeof asker === "number") return asker;
  const seen = await look(desk, asker, peer);
  if (isToolRefusal(seen)) return refuse(terminal, wordsOfTool(seen), seen.code);
  const { stale_because } = seen;
  if (stale_because !== undefined) {
    const words = wordsOfTool({ code: "not_connected", detail: stale_because });
    return refuse(terminal, words, stale_because, 4);
  }
  report(terminal, seen, rosterLines(terminal, seen));
  if (seen.partial) terminal.err("The bus lists more than was read: those who are no peers may be missing.");
  if (seen.identities.every(({ sessions }) => sessions.length === 0)) terminal.err("Nobody shows a session.");
  return 0;
}

function look({ me, peers }: Desk, { addressing, rosters }: Asker, name?: string) {
  return discover({ me, peers, addressing, rosters, limits: DEFAULT_LIMITS }, name);
}

/** What is so at one moment, each thing by a name of its own. */
type Scene = ReadonlyMap<string, { readonly event: object; readonly line: string }>;

/** Shows what there is, then what changes, until it is asked to end. */
export async function watch(desk: Desk): Promise<ExitCode> {
  const { machine } = desk;
  const asker = askerOf(desk);
  if (typeof asker === "number") return asker;
  let isOver = false;
  const over = machine.untilAsked().then(() => (isOver = true));
  let before: Scene = new Map();
  let wasHeard: boolean | undefined;
  while (!isOver) {
    const seen = await look(desk, asker);
    const isHeard = !isToolRefusal(seen) && seen.stale_because === undefined;
    if (isHeard !== wasHeard) {
      const event = { event: isHeard ? "bus_answers" : "bus_silent", bus: asker.url.origin };
      tell(
        desk,
        event,
        isHeard ? `the bus at ${asker.url.origin} answers` : `the bus at ${asker.url.origin} does not answer`,
      );
      wasHeard = isHeard;
    }
    // Without an answer, or with a part of one, nobody is known to have left.
    const isWhole = isHeard && seen.partial !== true;
    const now: Scene = new Map([
      ...(isWhole ? [] : [...before].filter(([id]) => id.startsWith("#"))),
      ...(isHeard ? peopleOf(seen) : []),
      ...mailOf(desk),
    ]);
    for (const [id, { event, line }] of now) {
      if (before.get(id)?.line !== line) tell(desk, event, line);
    }
    for (const [id, { event, line }] of before) {
      if (!now.has(id) && id.startsWith("#"))
        tell(desk, { ...event, presence: "gone" }, `${line.replace(/ is \w+$/, "")} is gone`);
    }
    before = now;
    await Promise.race([sleep(LOOK_EVERY_MS, undefined, { ref: true }), over]);
  }
  return 0;

  function tell({ terminal: to }: Desk, event: object, line: string): void {
    const at = isoOf(Date.now());
    report(to, { at, ...event }, [`${at.slice(11, 19)}  ${line}`]);
  }
}

function peopleOf({ identities }: Discovered): [string, { event: object; line: string }][] {
  return identities.flatMap((identity) =>
    identity.sessions.map(({ session, presence }) => [
      `#${identity.key}#${session}`,
      {
        event: { event: "presence", key: identity.key, peer: identity.peer?.petname, session, presence },
        line: `${whoIs(identity)} session ${session} is ${presence}`,
      },
    ]),
  );
}

/** What waits here, by number alone. */
function mailOf({ stateDirectory, me }: Desk): [string, { event: object; line: string }][] {
  const unread = sessionFiles(stateDirectory, me).flatMap((file): [string, { event: object; line: string }][] => {
    const count = lookInto(file, ({ inbox }) => inbox.unreadCount()) ?? 0;
    const { session } = file;
    const there = furtherBus(file);
    const on = there.bus === undefined ? "" : ` on ${there.bus}`;
    const event = { event: "unread", session, ...there, count };
    return count === 0
      ? []
      : [[`unread ${session}${on}`, { event, line: `session ${session} has ${count} unread${on}` }]];
  });
  const opened = openPairing({ directory: stateDirectory, me, nowMs: Date.now() });
  if ("refusal" in opened) return unread;
  const { length } = opened.pairing.read().pending;
  opened.pairing.close();
  const knocks = {
    event: { event: "pair_requests", count: length },
    line: `${length} waiting to pair: interlink-edge pair list`,
  };
  return length === 0 ? unread : [...unread, ["knocks", knocks]];
}
