/** `interlink-edge doctor`: everything that must hold, each as a line with the command that mends it. */

import { fingerprint } from "../../protocol/address.ts";
import { quoted } from "../tools/escape.ts";
import { VERSION } from "../version.ts";
import { askerAt } from "./asker.ts";
import { checkBus } from "./bus-checks.ts";
import type { Check } from "./check.ts";
import type { Desk } from "./desk.ts";
import { checkHosts, checkState } from "./local-checks.ts";
import { checkWake, wakesOf } from "./wakes-here.ts";
import { paint, report, type ExitCode } from "./terminal.ts";
import { wordsOfSession } from "./words.ts";

const COLOURS = { ok: "green", warning: "yellow", error: "red" } as const;
const NAME_WIDTH = 11;

export async function examine(desk: Desk, nodeVersion: string): Promise<ExitCode> {
  const { terminal, me, home, identity, peers } = desk;
  const checks: Check[] = [
    { name: "version", state: "ok", says: `interlink-edge ${VERSION} on Node ${nodeVersion}` },
    // A key that is not ours alone was refused before we came here.
    { name: "key", state: "ok", says: `${fingerprint(me)} in ${desk.keyPath}` },
    ...checkState(desk),
    ...checkHosts(desk),
    ...("refused" in home
      ? [{ name: "bus", state: "error", says: wordsOfSession(home), mend: `cat ${desk.settings.buses}` } as const]
      : await checkBus(desk, askerAt(home.bus, home.profile, identity, peers))),
    ...checkWake(await wakesOf(desk)),
  ];
  const worst = (["error", "warning"] as const).find((state) => checks.some((check) => check.state === state)) ?? "ok";
  report(
    terminal,
    { worst, checks },
    checks.map(({ name, state, says, mend }) => {
      const line = `${paint(terminal, COLOURS[state], state.padEnd(7))}  ${name.padEnd(NAME_WIDTH)}  ${quoted(says).slice(1, -1).replaceAll('\\"', '"')}`;
      return mend === undefined ? line : `${line}  (to mend it: ${mend})`;
    }),
  );
  return worst === "error" ? 1 : worst === "warning" ? 5 : 0;
}
