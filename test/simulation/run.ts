/** `npm run simulate`: see simulate.ts. Exit 0 if nothing was found, 1 if something was, 2 if it was not understood. */

import { parseArgs } from "node:util";
import "./hooks.ts";
import { VICTIMS, type Victim } from "./crashes.ts";
import { TROUBLES, type TroubleKind } from "./profile.ts";
import type { CrashOptions, SeedOptions } from "./seeds.ts";

const USAGE = `npm run simulate -- [options]
  --seed N      this seed, or from this one on; any if absent
  --seeds N     how many: 1 with --seed, else 10
  --minutes N   as many as go into N minutes
  --steps N     events of the troubles of a seed, at most
  --calm        no troubles
  --only A,B    of the troubles at most these: ${TROUBLES.join(", ")}
  --crashes     instead of seeds one short story, with a crash before each effect of each of its people, and of the bus
  --every N     of the crashes each Nth
  --victim W    only the crashes of one: ${VICTIMS.join(", ")}
  --at N        only the crash before this effect
  --trace       tell of every event and effect
  --json        a line of JSON for each seed
  --bail        end with the first that fails`;

type Wish =
  | { readonly what: "seeds"; readonly options: SeedOptions }
  | { readonly what: "crashes"; readonly options: CrashOptions };

function readOptions(): Wish | string {
  const number = { type: "string" } as const;
  const flag = { type: "boolean", default: false } as const;
  try {
    const { values } = parseArgs({
      options: {
        seed: number,
        seeds: number,
        minutes: number,
        steps: number,
        every: number,
        at: number,
        only: { type: "string" },
        victim: { type: "string" },
        calm: flag,
        crashes: flag,
        trace: flag,
        json: flag,
        bail: flag,
        help: flag,
      },
    });
    if (values.help) return USAGE;
    const numbers = new Map<string, number>();
    for (const name of ["seed", "seeds", "minutes", "steps", "every", "at"] as const) {
      if (values[name] === undefined) continue;
      if (!(Number(values[name]) >= 0)) return `--${name} takes a number.`;
      numbers.set(name, Number(values[name]));
    }
    const { trace, bail, calm, json, victim } = values;
    const kinds = values.only?.split(",") ?? TROUBLES;
    const unknown = kinds.find((kind) => !TROUBLES.includes(kind as TroubleKind));
    if (unknown !== undefined) return `--only: "${unknown}" is none of ${TROUBLES.join(", ")}.`;
    if (victim !== undefined && !VICTIMS.includes(victim as Victim))
      return `--victim takes one of ${VICTIMS.join(", ")}.`;
    if (values.crashes) {
      const options = { every: numbers.get("every") ?? 1, victim: victim as Victim | undefined, at: numbers.get("at") };
      return { what: "crashes", options: { ...options, trace, bail } };
    }
    const options = {
      first: numbers.get("seed") ?? Math.floor(Math.random() * 1e9),
      count: numbers.get("seeds") ?? (numbers.has("minutes") ? Infinity : numbers.has("seed") ? 1 : 10),
      minutes: numbers.get("minutes") ?? Infinity,
      steps: numbers.get("steps"),
      kinds: kinds as readonly TroubleKind[],
    };
    return { what: "seeds", options: { ...options, calm, trace, json, bail } };
  } catch (error) {
    return (error as Error).message;
  }
}

const wish = readOptions();
if (typeof wish === "string") {
  console.error(wish);
  process.exitCode = 2;
} else {
  // Behind the hooks.
  const { runCrashes, runSeeds } = await import("./seeds.ts");
  const isGood = await (wish.what === "crashes" ? runCrashes(wish.options) : runSeeds(wish.options));
  process.exitCode = isGood ? 0 : 1;
}
