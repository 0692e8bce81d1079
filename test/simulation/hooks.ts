/**
 * What production code imports is what it always imports, but for the platform under it: these modules are the
 * simulation's for all that lies in `src/`. Loaded before anything of `src/`.
 *
 * With `SIMULATE_WITHOUT=NAME` a guard of scripts/mutate/guards.ts is taken out as the file is loaded.
 */

import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import { GUARDS } from "../../scripts/mutate/guards.ts";
import { withoutGuard } from "../../scripts/mutate.ts";

const SOURCES = new URL("../../src/", import.meta.url).href;
const STAND_INS: Readonly<Record<string, string>> = {
  "cloudflare:workers": "workers",
  "node:crypto": "crypto",
  "node:http": "http",
  "node:https": "http",
  "node:sqlite": "sqlite",
  "node:timers/promises": "sleep",
  ws: "ws",
};

const name = process.env["SIMULATE_WITHOUT"];
const taken = name === undefined ? undefined : GUARDS.find((guard) => guard.name === name);
if (name !== undefined && !taken) throw new Error(`no guard is named "${name}"`);

registerHooks({
  resolve(specifier, context, next) {
    const standIn = context.parentURL?.startsWith(SOURCES) === true ? STAND_INS[specifier] : undefined;
    return standIn === undefined
      ? next(specifier, context)
      : { url: new URL(`stand-ins/${standIn}.ts`, import.meta.url).href, shortCircuit: true };
  },
  load(url, context, next) {
    if (!taken || url !== `${SOURCES}${taken.file}`) return next(url, context);
    const source = withoutGuard(readFileSync(fileURLToPath(url), "utf8"), taken);
    return { format: "module-typescript", source, shortCircuit: true };
  },
});
