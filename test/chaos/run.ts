/** `npm run chaos`: see chaos.ts. Exit 0 if nothing was found, 1 if something was, 2 if it was not understood. */

import { parseArgs } from "node:util";
import { buildBundle } from "../../scripts/local-bus.ts";
import { linesOf, runChaos } from "./chaos.ts";
import { KINDS, kindsNamed, type Kind } from "./plan.ts";

const USAGE = `npm run chaos -- [options]
  --seconds N   how long there is trouble; 120 if absent
  --seed N      the same trouble again; another each time if absent
  --only A,B    these kinds, or all that begin so: ${KINDS.join(", ")}
  --quiet       does not tell of each thing that is done`;

function readOptions(): { seconds: number; seed: number; kinds: readonly Kind[]; isQuiet: boolean } | string {
  try {
    const { values } = parseArgs({
      options: {
        seconds: { type: "string", default: "120" },
        seed: { type: "string", default: String(Math.floor(Math.random() * 1e9)) },
        only: { type: "string" },
        quiet: { type: "boolean", default: false },
      },
    });
    const [seconds, seed] = [Number(values.seconds), Number(values.seed)];
    if (!(seconds > 0)) return "--seconds takes a number above 0.";
    if (!Number.isSafeInteger(seed)) return "--seed takes a whole number.";
    const kinds = values.only === undefined ? KINDS : kindsNamed(values.only.split(","));
    return { seconds, seed, kinds, isQuiet: values.quiet };
  } catch (error) {
    return (error as Error).message;
  }
}

const options = readOptions();
if (typeof options === "string") {
  console.error(`${options}\n\n${USAGE}`);
  process.exitCode = 2;
} else {
  for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => process.exit(130));
  const { isQuiet, ...rest } = options;
  console.log(`seed ${rest.seed}, ${rest.seconds} s`);
  const say = isQuiet ? () => {} : (line: string) => console.log(line);
  const report = await runChaos({ ...rest, bundle: await buildBundle(), say });
  console.log(linesOf(report).join("\n"));
  process.exit(report.findings.length === 0 ? 0 : 1);
}
