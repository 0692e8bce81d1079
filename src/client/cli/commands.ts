/** The commands of a person, apart from what a host starts: they load the key and the state, which takes as long as a whole start. */

import { fingerprint } from "../../protocol/address.ts";
import { liftBudget, showBudget } from "./budget.ts";
import { startBus } from "./bus-start.ts";
import type { Command } from "./command-line.ts";
import { openDesk, type Desk } from "./desk.ts";
import { showRoster, watch } from "./discover.ts";
import { examine } from "./doctor.ts";
import { exportAll } from "./export.ts";
import { forget } from "./forget.ts";
import { showInbox } from "./inbox.ts";
import { invite } from "./invite.ts";
import type { Machine } from "./machine.ts";
import { acceptKnock, listKnocks, rejectKnock } from "./pair.ts";
import { addPeer, listPeers, removePeer } from "./peers.ts";
import { publishContacts } from "./publish.ts";
import { send } from "./send.ts";
import type { Settings } from "./settings.ts";
import { setUp } from "./setup.ts";
import { showStatus } from "./status.ts";
import { refuse, report, type ExitCode, type Terminal } from "./terminal.ts";

export type OperatorCommand = Exclude<
  Command,
  { readonly run: "help" | "version" | "mcp" | "agent" | "wait" | "hook" }
>;

/** Runs one; what the system refuses, or a fault of ours, is told in a sentence and never as a stack. */
export async function operate(
  command: OperatorCommand,
  settings: Settings,
  terminal: Terminal,
  machine: Machine,
): Promise<ExitCode> {
  try {
    return await runCommand(command, settings, terminal, machine);
  } catch (fault) {
    const why = fault instanceof Error ? fault.message : String(fault);
    return refuse(terminal, `\`${command.run}\` failed half-way: ${why}`, "fault");
  }
}

async function runCommand(
  command: OperatorCommand,
  settings: Settings,
  terminal: Terminal,
  machine: Machine,
): Promise<ExitCode> {
  // A bus is nobody's, so no key is made for it.
  if (command.run === "bus start") return startBus(command, settings, machine, terminal);
  const isAnew = command.run === "setup" && command.target !== undefined;
  const desk = await openDesk(settings, terminal, machine, isAnew);
  if (typeof desk === "number") return desk;
  const { me } = desk;
  switch (command.run) {
    case "setup":
      return setUp(desk, command);
    case "invite":
      return invite(desk, command);
    case "status":
      return showStatus(desk);
    case "doctor":
      return examine(desk, machine.nodeVersion);
    case "discover":
      return showRoster(desk, command);
    case "watch":
      return watch(desk);
    case "send":
      return send(desk, command);
    case "inbox":
      return showInbox(desk, command);
    case "export":
      return exportAll(desk, command);
    case "forget":
      return forget(desk, command);
    case "key":
      report(terminal, { key: me, fingerprint: fingerprint(me) }, [`${me}  ${fingerprint(me)}`]);
      return 0;
    case "pair list":
      return listKnocks(desk);
    case "pair accept":
      return published(await acceptKnock(desk, command));
    case "pair reject":
      return rejectKnock(desk, command);
    case "peers list":
      return listPeers(desk);
    case "peers add":
      return published(await addPeer(desk, command));
    case "peers remove":
      return published(await removePeer(desk, command));
    case "budget":
      return showBudget(desk);
    case "budget lift":
      return liftBudget(desk, command);
  }
  async function published(exit: ExitCode): Promise<ExitCode> {
    if (exit === 0) await publishContacts(desk as Desk);
    return exit;
  }
}
