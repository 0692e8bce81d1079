/** `interlink-edge forget`: every trace of us, first on the bus, then on this machine. In this order, since without the key the bus takes no word. */

import { existsSync, rmSync } from "node:fs";
import { fingerprint } from "../../protocol/address.ts";
import { isOk } from "../bus/outcome.ts";
import { budgetPath, pairingPath, sessionStatePath } from "../state/paths.ts";
import { isRunning, sessionFiles } from "../state/session-files.ts";
import { refuseOutcome } from "./asker.ts";
import type { CommandRun } from "./command-line.ts";
import { askerOf, type Desk } from "./desk.ts";
import { CLI_SESSION } from "./fetch-mail.ts";
import { NO_RECORD, readRecord, recordPath } from "./setup-record.ts";
import { agrees, refuse, report, type ExitCode } from "./terminal.ts";

/** Beside each SQLite file of ours. */
const SUFFIXES = ["", "-wal", "-shm", "-journal", ".lock", ".lock-journal"];

export async function forget(desk: Desk, { yes }: CommandRun<"forget">): Promise<ExitCode> {
  const { terminal, me, keyPath, settings, stateDirectory: directory } = desk;
  const record = readRecord(recordPath(keyPath));
  if (("refused" in record ? NO_RECORD : record).writes.length > 0)
    return refuse(
      terminal,
      "hosts of this machine would make a new identity at once; run `interlink-edge setup --remove` first",
      "hosts_set_up",
    );
  const files = sessionFiles(directory, me);
  const running = files.filter(isRunning).map(({ session }) => session);
  if (running.length > 0)
    return refuse(terminal, `agents of ours run: ${running.join(", ")}; end them first`, "in_use");
  const asker = askerOf(desk);
  if (typeof asker === "number") return asker;
  const shown = [
    `Forget ${fingerprint(me)}? Its mail, its presence and its admission are removed from the bus at ${asker.url.origin};`,
    "its key, its peers and all messages from this machine. There is no way back: peers have to pair anew.",
  ];
  if (!(await agrees(terminal, { shown, yes }))) return 1;
  const forgotten = await asker.http.forget();
  // Who was never admitted, or was forgotten before, has nothing there.
  const isGone = isOk(forgotten) || ("refused" in forgotten && forgotten.refused === "not_admitted");
  if (!isGone) return refuseOutcome(terminal, forgotten, asker.url);

  const state = [
    ...files.map(({ path }) => path),
    sessionStatePath(directory, me, CLI_SESSION),
    pairingPath(directory, me),
    budgetPath(directory, me),
  ];
  const own = [settings.trust.peers, recordPath(keyPath), keyPath];
  const all = new Set([...state.flatMap((path) => SUFFIXES.map((suffix) => path + suffix)), ...own]);
  const paths = [...all].filter((path) => existsSync(path));
  for (const path of paths) rmSync(path);
  report(terminal, { forgotten: me, bus: asker.url.origin, removed: paths }, [`${fingerprint(me)} is forgotten.`]);
  return 0;
}
