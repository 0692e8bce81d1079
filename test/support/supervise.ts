/**
 * A supervisor over whatever script a test names, with the test's numbers: `SUPERVISE` is JSON of `script`, `answers`
 * and `limits`. As `interlink-edge mcp` otherwise.
 */

import { stderrLog } from "../../src/client/cli/log.ts";
import { RESTART_LIMITS, type RestartLimits } from "../../src/client/supervisor/restart-budget.ts";
import { supervise } from "../../src/client/supervisor/supervisor.ts";

const told = JSON.parse(process.env["SUPERVISE"]!) as {
  readonly script: string;
  readonly answers: string;
  readonly limits?: Partial<RestartLimits>;
};
const ended = new Promise((resolve) => {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, resolve);
});
const { execPath: node, execArgv: flags, env, stdin: input, stdout: output } = process;
await supervise({
  program: { node, flags, script: told.script, env },
  answers: told.answers,
  limits: { ...RESTART_LIMITS, ...told.limits },
  input,
  output,
  log: stderrLog((line) => process.stderr.write(line)),
  ended,
});
process.exit();
