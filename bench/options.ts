/** The command line. */

import { parseArgs } from "node:util";

export interface Options {
  readonly isQuick: boolean;
  /** Names of adapters; all if absent. */
  readonly only: readonly string[] | undefined;
  /** Names of measures; all if absent. */
  readonly measures: readonly string[] | undefined;
  readonly runs: number | undefined;
  /** File for every single reading. */
  readonly json: string | undefined;
}

export const USAGE = `npm run bench -- [options]
  --quick          one short run of everything; shows that it works, measures nothing
  --only A,B       these systems (names below)
  --measure M,N    these measures (names below)
  --runs N         rounds; 3 if absent
  --json FILE      writes every reading to a file`;

/** @throws with a sentence for the user, if an option or a name is not one */
export function readOptions(
  args: readonly string[],
  adapters: readonly string[],
  measures: readonly string[],
): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: "boolean", default: false },
      only: { type: "string" },
      measure: { type: "string" },
      runs: { type: "string" },
      json: { type: "string" },
    },
  });
  const runs = values.runs === undefined ? undefined : Number(values.runs);
  if (runs !== undefined && (!Number.isInteger(runs) || runs < 1))
    throw new Error("--runs takes a whole number above 0.");
  return {
    isQuick: values.quick,
    only: readNames("--only", values.only, adapters),
    measures: readNames("--measure", values.measure, measures),
    runs,
    json: values.json,
  };
}

function readNames(option: string, list: string | undefined, known: readonly string[]): readonly string[] | undefined {
  const names = list?.split(",").filter((name) => name !== "");
  const stranger = names?.find((name) => !known.includes(name));
  if (stranger !== undefined) throw new Error(`${option} has "${stranger}", but takes ${known.join(", ")}.`);
  return names;
}
