/** `npm run soak`: see soak.ts. Exit 0 if nothing was found, 1 if something was, 2 if it was not understood. Linux only. */

import { parseArgs } from "node:util";
import { buildBundle } from "../../scripts/local-bus.ts";
import { runSoak } from "./soak.ts";

const USAGE = `npm run soak -- [options]
  --minutes N    30 if absent
  --sessions N   200 if absent`;

function readOptions(): { minutes: number; sessions: number } | string {
  try {
    const { values } = parseArgs({
      options: { minutes: { type: "string", default: "30" }, sessions: { type: "string", default: "200" } },
    });
    const [minutes, sessions] = [Number(values.minutes), Number(values.sessions)];
    if (!(minutes > 0)) return "--minutes takes a number above 0.";
    if (!Number.isInteger(sessions) || sessions < 1) return "--sessions takes a whole number above 0.";
    return { minutes, sessions };
  } catch (error) {
    return (error as Error).message;
  }
}

const options = readOptions();
if (typeof options === "string") {
  console.error(`${options}\n\n${USAGE}`);
  process.exitCode = 2;
} else if (process.platform !== "linux") {
  console.error("Memory and descriptors are read from /proc, which only Linux has.");
  process.exitCode = 2;
} else {
  for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => process.exit(130));
  const findings = await runSoak({ ...options, bundle: await buildBundle(), say: (line) => console.log(line) });
  console.log(findings.length === 0 ? "found nothing" : findings.map((finding) => `FOUND ${finding}`).join("\n"));
  process.exit(findings.length === 0 ? 0 : 1);
}
