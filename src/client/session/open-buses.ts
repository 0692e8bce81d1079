/** Opens a session with all its buses: where it begins, what the user has named, and where the process before was. */

import { randomBytes } from "node:crypto";
import { parseSessionId } from "../../protocol/address.ts";
import { systemTimers } from "../bus/timers.ts";
import { dropBindings, readBindings, writeBindings } from "../state/bus-bindings.ts";
import { busesPath } from "../state/paths.ts";
import { activeOf, type Standing, type Target } from "./activation.ts";
import { isToolRefusal, type Agent, type ToolRefusal } from "./agent.ts";
import { BusesAgent } from "./bus-agent.ts";
import { BusDirectory, type BusDirectoryRefusal } from "./bus-directory.ts";
import type { BusTarget } from "./bus-target.ts";
import type { BusAgent } from "./buses.ts";
import { OnBus } from "./on-bus.ts";
import { Recoveries } from "./recoveries.ts";
import { isSessionRefusal, openSession, type Session, type SessionOptions, type SessionRefusal } from "./session.ts";
import { Switchboard } from "./switchboard.ts";
import { within } from "./within.ts";

export interface BusesOptions extends Omit<SessionOptions, "bus" | "filesOf" | "onTooOld"> {
  /** Path of `buses.json`. */
  readonly buses: string;
  /** Where the session begins: origins, or a name of the file. Absent: the file's first, else the original's bus. */
  readonly bus?: string;
  /**
   * True: the process before was this session, so it goes where that one was. False: it is the first of several, and
   * leaves to the next where it was. Absent: it is the only one.
   */
  readonly goesOn?: boolean;
  /** The active bus no longer speaks this version: another is to take over. */
  readonly onTooOld?: () => void;
}

export type BusesRefusal = SessionRefusal | BusDirectoryRefusal;

/** True if there is no session. */
export function isRefused(value: BusAgent | BusesRefusal): value is BusesRefusal {
  return "refused" in value;
}

/** How long a goodbye may take on a bus that is left while the session goes on. */
const LEAVE_MS = 1_000;
/** To close the files, behind the goodbyes. */
const CLOSING_MS = 50;

/** Opens it. It is not announced anywhere before `begin()`. Throws where the disk refuses. */
export async function openBuses(options: BusesOptions): Promise<BusAgent | BusesRefusal> {
  const { timers = systemTimers, random = Math.random, stateDirectory, key } = options;
  const session = parseSessionId(options.session ?? randomBytes(16).toString("hex"));
  if (session === undefined) return { refused: "bad_session" };
  const found = BusDirectory.open(options);
  if ("refused" in found) return found;
  const directory: BusDirectory = found;
  const { home } = directory;
  const first = await openAt(home);
  if (isSessionRefusal(first)) return first;

  const listeners: Parameters<Agent["onMail"]>[] = [];
  const bindings = busesPath(stateDirectory, key, session);
  const before = options.goesOn === true ? readBindings(bindings) : undefined;
  let hasBegun = false;
  let isClosed = false;

  const held = (opened: Session, target: BusTarget): OnBus => {
    for (const listener of listeners) opened.onMail(...listener);
    return new OnBus(opened, () => directory.of(target.id).name, LEAVE_MS);
  };
  const board: Switchboard<OnBus, ToolRefusal> = new Switchboard<OnBus, ToolRefusal>(
    {
      async open(id) {
        const target = directory.of(id);
        const opened = await openAt(target);
        return isSessionRefusal(opened) ? { why: ofOpening(opened) } : held(opened, target);
      },
      onChange: (standing) => {
        for (const target of heldIn(standing)) recoveries.arrived(target);
        // What the close leaves behind is for the next process, if there is to be one.
        if (!isClosed && options.goesOn !== undefined) remember(standing);
      },
      onRecoveryFailed: (target, why) => recoveries.failed(target, why),
      onFault: () => ({ code: "not_connected", detail: "fault" }),
      leaveMs: LEAVE_MS,
    },
    { target: home.id, session: held(first, home) },
  );
  const recoveries = new Recoveries({ recover: (target, into) => board.recover(target, into), timers, random });

  function openAt(target: BusTarget): Promise<Session | SessionRefusal> {
    const isHome = target.id === home.id;
    const { audience, ...shared } = options;
    return openSession({
      ...shared,
      ...(isHome && audience !== undefined && { audience }),
      session: session!,
      bus: target.bus,
      key: target.key,
      allowPrivate: options.allowPrivate === true || target.profile === "private",
      ...(!isHome && { filesOf: target.origins }),
      onTooOld: () => {
        if (activeOf(board.standing.slot) === target.id) options.onTooOld?.();
      },
    });
  }

  function remember({ slot, parked }: Standing): void {
    // What is on its way counts as there: this process may end before it is.
    const active = activeOf(slot) ?? recoveries.wanted("slot")[0];
    const beside = [...new Set([...recoveries.wanted("parked"), ...parked])].filter((target) => target !== active);
    const nameOf = (target: Target) => directory.of(target).name;
    try {
      // Most sessions have one bus, and need no file to say so.
      if (active === home.id && beside.length === 0) return dropBindings(bindings);
      const where = active === undefined ? {} : { active: nameOf(active) };
      writeBindings(bindings, { home: home.id, ...where, parked: beside.map(nameOf) });
    } catch {
      // The next process then begins where its settings say; that is no reason to end this one.
    }
  }

  /** Where the session was, as far as it can be found again; else at home. */
  function begin(): void {
    if (hasBegun || isClosed) return;
    hasBegun = true;
    if (before?.home !== home.id) return recoveries.begin(home.id, "slot");
    const find = (word: string): string[] => {
      const target = directory.find(word);
      if (isToolRefusal(target)) return [];
      directory.allow(target);
      return [target.id];
    };
    for (const target of before.active === undefined ? [] : find(before.active)) recoveries.begin(target, "slot");
    for (const target of before.parked.flatMap(find)) recoveries.begin(target, "parked");
  }

  async function close(withinMs: number): Promise<void> {
    isClosed = true;
    recoveries.close();
    // What is still being opened is nobody's, and is not waited for.
    await within(board.close(withinMs), withinMs + CLOSING_MS, undefined, timers);
  }

  const onWord = (target: Target): void => recoveries.overruled(target);
  return new BusesAgent({ board, directory, begin, isOn: () => hasBegun, close, listeners, onWord });
}

function heldIn({ slot, parked }: Standing): readonly Target[] {
  const active = activeOf(slot);
  return active === undefined ? parked : [...parked, active];
}

/** A bus's session that cannot be opened. */
function ofOpening(refusal: SessionRefusal): ToolRefusal {
  switch (refusal.refused) {
    case "identity":
      return { code: "bad_file", detail: `${refusal.why.path} (${refusal.why.refused})` };
    case "state":
      return { code: "not_connected", detail: refusal.why.refusal };
    case "bus_url":
      return { code: "bad_bus_url", detail: refusal.why };
    default:
      return { code: "bad_bus_url", detail: refusal.refused };
  }
}
